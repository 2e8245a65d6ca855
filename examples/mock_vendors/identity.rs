//! GitHub's identity provider: RS256-signed tokens with GitHub's claims.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::state::{World, error, header_text, json_response, random};

const ISSUER: &str = "https://token.actions.githubusercontent.com";
/// What the vendors' rules are bound to.
const REPOSITORY_ID: &str = "2002";
const ENVIRONMENT: &str = "run-evals";
const WORKFLOW: &str = "myorg/eval-runner/.github/workflows/run-evals.yml@refs/heads/main";
/// Seconds that a token of a job lives.
const LIFE: i64 = 300;

/// The key of the identity provider.
pub(crate) struct Signer(RsaKeyPair);

impl Signer {
    pub(crate) fn new() -> Self {
        Self(RsaKeyPair::generate(KeySize::Rsa2048).unwrap_or_else(|_| panic!("no RSA key")))
    }

    fn sign(&self, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = part(&head_of_tokens());
        let message = format!("{head}.{}", part(claims));
        let mut signature = vec![0; self.0.public_modulus_len()];
        let signed = self.0.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature);
        assert!(signed.is_ok(), "the token cannot be signed");
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The claims of a token, if its signature is valid.
    fn verify(&self, jwt: &str) -> Option<Value> {
        let (message, signature) = jwt.rsplit_once('.')?;
        let (head, claims) = message.split_once('.')?;
        let part = |text: &str| -> Option<Value> {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
        };
        if part(head)? != head_of_tokens() {
            return None;
        }
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, self.0.public_key().as_ref());
        key.verify(message.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        part(claims)
    }
}

fn head_of_tokens() -> Value {
    json!({ "typ": "JWT", "alg": "RS256", "kid": "mock-1" })
}

/// What a vendor finds wrong with a token of a job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Signature,
    Expired,
    Audience,
    Subject,
    Claim,
    Reused,
}

/// What a vendor's rule demands.
pub(crate) struct Rule<'r> {
    pub(crate) audience: &'r str,
    /// Whether it is bound to the repository, the environment and the workflow besides the subject.
    pub(crate) has_claims: bool,
    pub(crate) is_single_use: bool,
}

impl World {
    /// Verifies a token as a vendor does, and returns how many seconds it lives; a token that is valid once is used up.
    pub(crate) fn verify(&self, jwt: &str, rule: &Rule<'_>) -> Result<u64, Wrong> {
        let claims =
            self.signer.verify(jwt).filter(|claims| claims["iss"] == ISSUER).ok_or(Wrong::Signature)?;
        let now = self.now() - self.options.clock_ahead;
        let moment = |name: &str| claims[name].as_i64().ok_or(Wrong::Signature);
        let (expires, issued, begins) = (moment("exp")?, moment("iat")?, moment("nbf")?);
        if expires <= now || issued > now || begins > now {
            return Err(Wrong::Expired);
        }
        if claims["aud"] != rule.audience {
            return Err(Wrong::Audience);
        }
        if claims["sub"] != self.options.accepted_subject.as_str() {
            return Err(Wrong::Subject);
        }
        let bound =
            [("repository_id", REPOSITORY_ID), ("environment", ENVIRONMENT), ("job_workflow_ref", WORKFLOW)];
        if rule.has_claims && bound.iter().any(|(name, value)| claims[*name] != *value) {
            return Err(Wrong::Claim);
        }
        let jti = claims["jti"].as_str().filter(|jti| !jti.is_empty()).ok_or(Wrong::Signature)?;
        let is_new = self.lock().used.insert(jti.to_owned());
        if is_new || !rule.is_single_use {
            Ok(u64::try_from(expires - now).unwrap_or(0))
        } else {
            Err(Wrong::Reused)
        }
    }
}

/// `GET $ACTIONS_ID_TOKEN_REQUEST_URL&audience=…`.
pub(crate) async fn mint(
    State(world): State<Arc<World>>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    let number = {
        let mut known = world.lock();
        known.counts.minted += 1;
        known.counts.minted
    };
    if let Some(fault) = world.fault(world.options.mint_fault.as_ref(), number).await {
        return fault;
    }
    let expected = format!("bearer {}", world.options.request_token);
    if header_text(&headers, "authorization") != expected
        || query.get("api-version").map(String::as_str) != Some("2.0")
    {
        return error(StatusCode::UNAUTHORIZED, "unauthorized", "this is not a job");
    }
    let Some(audience) = query.get("audience") else {
        return error(StatusCode::BAD_REQUEST, "bad_request", "`audience` is missing");
    };
    let earlier = world.lock().jwt.clone().filter(|_| world.options.same_jwt);
    let is_stale = number <= world.options.stale;
    let jwt = earlier.unwrap_or_else(|| world.signer.sign(&claims(&world, audience, is_stale)));
    let mut known = world.lock();
    known.jwt = Some(jwt.clone());
    known.secrets.push(jwt.clone());
    drop(known);
    json_response(StatusCode::OK, &json!({ "count": number, "value": jwt }))
}

/// The claims of a token, which a vendor gets after it has expired if it is stale.
fn claims(world: &World, audience: &str, is_stale: bool) -> Value {
    let now = world.now() - world.options.clock_ahead - if is_stale { 2 * LIFE } else { 0 };
    let mut claims = json!({
        "iss": ISSUER,
        "sub": world.options.subject,
        "aud": audience,
        "jti": random(),
        "iat": now,
        "nbf": now - 300,
        "exp": now + LIFE,
        "repository": "myorg/eval-runner",
        "repository_id": REPOSITORY_ID,
        "repository_owner": "myorg",
        "repository_owner_id": "1001",
        "environment": ENVIRONMENT,
        "ref": "refs/heads/main",
        "event_name": "workflow_dispatch",
        "job_workflow_ref": WORKFLOW,
        "runner_environment": "github-hosted",
        "run_id": "1",
        "run_attempt": "1",
    });
    for (name, value) in &world.options.claims {
        claims[name.as_str()] = value.as_str().into();
    }
    claims
}
