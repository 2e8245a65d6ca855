//! The identity token of a GitHub Actions job.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use reqwest::{Client, Method, Request, Url};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{TIMEOUT, not_billed, retry};
use crate::model::{ErrorKind, Federation, Secret};
use crate::providers::{Refusal, Retry, http};
use crate::util::minted;

/// How long a token is taken to live if it does not say.
const USUAL_LIFETIME: Duration = Duration::from_mins(10);

/// A token, and what it says about the job.
#[derive(Debug)]
pub(super) struct JobToken {
    pub(super) jwt: Secret,
    pub(super) claims: Claims,
}

/// The claims that vendors bind rules to. None is secret.
#[derive(Debug, Clone, Default)]
pub(super) struct Claims {
    pub(super) sub: String,
    pub(super) environment: Option<String>,
    pub(super) repository_id: Option<String>,
    pub(super) job_workflow_ref: Option<String>,
    aud: Value,
    exp: Option<i64>,
    iat: Option<i64>,
}

impl Claims {
    /// Reads the claims of a token without verifying it, which is the vendor's task. A claim of another type is ignored.
    fn read(jwt: &str) -> Option<Self> {
        let payload = URL_SAFE_NO_PAD.decode(jwt.split('.').nth(1)?).ok()?;
        let claims: Map<String, Value> = serde_json::from_slice(&payload).ok()?;
        let text = |name| claims.get(name).and_then(Value::as_str).map(str::to_owned);
        let moment = |name| claims.get(name).and_then(Value::as_i64);
        Some(Self {
            sub: text("sub").unwrap_or_default(),
            environment: text("environment"),
            repository_id: text("repository_id"),
            job_workflow_ref: text("job_workflow_ref"),
            aud: claims.get("aud").cloned().unwrap_or_default(),
            exp: moment("exp"),
            iat: moment("iat"),
        })
    }

    /// Whether the token is for this audience, and for no other.
    fn is_for(&self, audience: &str) -> bool {
        match &self.aud {
            Value::Array(all) => !all.is_empty() && all.iter().all(|one| one == audience),
            one => one == audience,
        }
    }

    /// The token's lifetime, by GitHub's clock alone.
    pub(super) fn lifetime(&self) -> Option<Duration> {
        let seconds = self.exp?.checked_sub(self.iat?)?;
        u64::try_from(seconds).ok().map(Duration::from_secs)
    }
}

#[derive(Deserialize)]
struct Minted {
    value: String,
}

/// Requests a new token from GitHub. Every exchange needs its own: some vendors accept each only once.
pub(super) async fn mint(client: &Client, federation: &Federation) -> Result<JobToken, Refusal> {
    let answer = http::send(client, request(federation)?, &http::JOB_TOKEN).await.map_err(not_billed)?;
    if answer.status != 200 {
        let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let said = said["message"].as_str().unwrap_or_default();
        let message = format!("GitHub issued no identity token: it returned {} {said}", answer.status);
        let refusal = match retry(answer.status, &answer.headers) {
            Retry::No => {
                Refusal::new(ErrorKind::Auth, Retry::No, message.trim_end().to_owned() + NO_PERMISSION)
            }
            retry @ Retry::After(_) => Refusal::new(ErrorKind::Server, retry, message),
        };
        return Err(Refusal { status: Some(answer.status), ..refusal });
    }
    let unusable =
        |message: &str| not_billed(Refusal::new(ErrorKind::BadResponse, Retry::After(None), message));
    let Minted { value } = serde_json::from_slice(&answer.body)
        .map_err(|_| unusable("GitHub's answer to the request for an identity token has no `value`"))?;
    let jwt = Secret::new(&value);
    let claims = Claims::read(jwt.expose());
    let lifetime = claims.as_ref().and_then(Claims::lifetime);
    minted::announce(&jwt, lifetime.unwrap_or(USUAL_LIFETIME));
    let claims = claims.ok_or_else(|| unusable("GitHub's identity token is not a JWT"))?;
    // Its receiver could use a token for another audience there.
    if !claims.is_for(&federation.audience) {
        let message = format!(
            "GitHub issued an identity token for the audience {}, and not for `{}`; it is sent nowhere",
            claims.aud, federation.audience
        );
        return Err(not_billed(Refusal::new(ErrorKind::Auth, Retry::No, message)));
    }
    Ok(JobToken { jwt, claims })
}

const NO_PERMISSION: &str =
    "; the job needs `id-token: write` among its `permissions`, and may request tokens for about 6 hours";

fn request(federation: &Federation) -> Result<Request, Refusal> {
    let broken = |what: &str| {
        Refusal::new(ErrorKind::Auth, Retry::No, format!("invalid {what} in the job's environment"))
    };
    let job = &federation.job;
    let mut url = Url::parse(&job.request_url).map_err(|_| broken("`ACTIONS_ID_TOKEN_REQUEST_URL`"))?;
    url.query_pairs_mut().append_pair("audience", &federation.audience);
    let mut bearer = HeaderValue::from_str(&format!("bearer {}", job.request_token.expose()))
        .map_err(|_| broken("`ACTIONS_ID_TOKEN_REQUEST_TOKEN`"))?;
    bearer.set_sensitive(true);
    let mut request = Request::new(Method::GET, url);
    *request.timeout_mut() = Some(TIMEOUT);
    request.headers_mut().insert(AUTHORIZATION, bearer);
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    Ok(request)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_are_read_without_verification() {
        let payload = URL_SAFE_NO_PAD.encode(
            r#"{"sub":"repo:o/r:environment:e","environment":"e","repository_id":7,"iat":100,"exp":400}"#,
        );
        let claims = Claims::read(&format!("x.{payload}.y")).unwrap();
        assert_eq!(
            (claims.sub.as_str(), claims.environment.as_deref()),
            ("repo:o/r:environment:e", Some("e"))
        );
        assert_eq!(claims.lifetime(), Some(Duration::from_mins(5)));
        for broken in ["", "no token", "x.%.y", "x..y", "x.e30"] {
            assert!(Claims::read(broken).is_none_or(|claims| !claims.is_for("a")), "{broken}");
        }
    }

    #[test]
    fn a_token_is_for_one_audience() {
        for (aud, is_for) in [
            (json!("a"), true),
            (json!(["a"]), true),
            (json!("A"), false),
            (json!(["a", "b"]), false),
            (json!([]), false),
            (json!(null), false),
            (json!(7), false),
        ] {
            assert_eq!(Claims { aud: aud.clone(), ..Claims::default() }.is_for("a"), is_for, "{aud}");
        }
    }
}
