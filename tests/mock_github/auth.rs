//! Callers and their permissions.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value;

use crate::reply::Refused;
use crate::wire::TokenKind;
use crate::world::{Repo, State, Token, World};

/// The sender of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    /// The token, if one was sent.
    pub(crate) token: Option<Token>,
    /// The App, if a JWT was sent.
    pub(crate) app: Option<u64>,
}

impl Caller {
    /// A name for the records.
    pub(crate) fn login(&self) -> String {
        match (&self.token, self.app) {
            (Some(token), _) => token.login.clone(),
            (None, Some(app)) => format!("app {app}"),
            (None, None) => String::new(),
        }
    }
}

/// Reads the `Authorization` header of an API request.
pub(crate) fn caller(world: &World, headers: &HeaderMap) -> Result<Caller, Refused> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok(Caller::default());
    };
    let text = value.to_str().unwrap_or_default();
    let Some((scheme, credentials)) = text.split_once(' ') else {
        return Err(Refused::new(401, "Bad credentials"));
    };
    let known = match scheme.to_ascii_lowercase().as_str() {
        "bearer" if credentials.split('.').count() == 3 => {
            return app(&world.lock(), credentials).map(|app| Caller { token: None, app: Some(app) });
        }
        "bearer" | "token" => token(world, credentials),
        "basic" => basic(credentials).and_then(|(_, password)| token(world, &password)),
        _ => None,
    };
    match known {
        Some(token) => Ok(Caller { token: Some(token), app: None }),
        None => Err(Refused::new(401, "Bad credentials")),
    }
}

/// A currently valid token.
pub(crate) fn token(world: &World, text: &str) -> Option<Token> {
    let token = world.lock().tokens.get(text).cloned()?;
    token.expires_at.is_none_or(|end| crate::world::now() < end).then_some(token)
}

/// User and password.
pub(crate) fn basic(credentials: &str) -> Option<(String, String)> {
    let bytes = STANDARD.decode(credentials.trim()).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    text.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()))
}

/// Checks an App's JWT as GitHub does: RS256, the issuer, and at most ten minutes.
fn app(state: &State, jwt: &str) -> Result<u64, Refused> {
    let refused = |why: &str| Refused::new(401, why);
    let payload = jwt.split('.').nth(1).unwrap_or_default();
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).unwrap_or_default();
    let claims: Value = serde_json::from_slice(&claims).unwrap_or_default();
    let issuer = claims["iss"].as_u64().or_else(|| claims["iss"].as_str()?.parse().ok());
    let (id, app) = issuer
        .and_then(|id| state.apps.get(&id).map(|app| (id, app)))
        .ok_or_else(|| refused("Integration not found"))?;
    let mut validation = Validation::new(Algorithm::RS256);
    validation.leeway = 0;
    validation.set_required_spec_claims(&["exp"]);
    let key = DecodingKey::from_rsa_pem(app.public_key_pem.as_bytes())
        .map_err(|error| Refused::new(500, error.to_string()))?;
    jsonwebtoken::decode::<Value>(jwt, &key, &validation)
        .map_err(|_| refused("A JSON web token could not be decoded"))?;
    let now = crate::world::now().as_second();
    let (issued, expires) = (claims["iat"].as_i64(), claims["exp"].as_i64().unwrap_or(0));
    if expires - now > 600 {
        return Err(refused("'Expiration time' claim ('exp') is too far in the future"));
    }
    if issued.is_none_or(|issued| issued > now) {
        return Err(refused(
            "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
        ));
    }
    Ok(id)
}

/// The repository, if the caller has this permission there.
pub(crate) fn allow(
    world: &World,
    caller: &Caller,
    owner: &str,
    name: &str,
    permission: &str,
    access: &str,
) -> Result<Repo, Refused> {
    let full_name = format!("{owner}/{name}").to_lowercase();
    let repo = world.repo(&full_name).ok_or_else(Refused::not_found)?;
    let Some(token) = &caller.token else {
        return match (repo.private, access) {
            (true, _) => Err(Refused::not_found()),
            (false, "read") => Ok(repo),
            (false, _) => Err(Refused::new(401, "Requires authentication")),
        };
    };
    let grants = token.grants_in(&full_name);
    if grants.is_none() && repo.private {
        return Err(Refused::not_found());
    }
    let has = grants.and_then(|grants| grants.get(permission)).map_or("none", String::as_str);
    let is_classic = token.kind == TokenKind::Classic && grants.is_some();
    let is_readable = access == "read" && (!repo.private || permission == "metadata");
    if is_classic || is_readable || has == "write" || has == access {
        if repo.archived && access == "write" {
            return Err(Refused::new(403, "Repository was archived so is read-only."));
        }
        return Ok(repo);
    }
    Err(not_accessible(token).accepting(permission, access))
}

/// A fine-grained token without the permission.
pub(crate) fn not_accessible(token: &Token) -> Refused {
    let by = match token.kind {
        TokenKind::Personal | TokenKind::Classic => "personal access token",
        TokenKind::Installation | TokenKind::Job => "integration",
    };
    Refused::new(403, format!("Resource not accessible by {by}"))
}

/// The repository, if the caller may change its settings.
pub(crate) fn allow_admin(world: &World, caller: &Caller, owner: &str, name: &str) -> Result<Repo, Refused> {
    let repo = allow(world, caller, owner, name, "administration", "write")?;
    match &caller.token {
        Some(token) if token.role == "admin" => Ok(repo),
        _ => Err(Refused::new(403, "Must have admin rights to Repository.")),
    }
}
