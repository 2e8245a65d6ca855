//! Exchanges a job's token for credentials: one request and response per vendor.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, Url};
use serde_json::{Value, json};

use super::job_token::JobToken;
use super::refusal::{self, Complaint};
use super::{TIMEOUT, not_billed};
use crate::model::{AwsKeys, ErrorKind, Exchange, Federation, Secret};
use crate::providers::wire::WireResponse;
use crate::providers::{Refusal, Retry, http};
use crate::util::{minted, percent};

const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const ANTHROPIC_BETA: &str = "oauth-2025-04-20,oidc-federation-2026-04-01";
const CLOUD_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";
/// The lifetime of an impersonated Google token.
const IMPERSONATED: &str = "3600s";
/// The assumed lifetime of a token if neither the vendor nor GitHub states it.
const USUAL_LIFETIME: Duration = Duration::from_mins(5);
/// Credentials are taken to live no longer, whatever the vendor says: a sum with the present time must not overflow.
const LONGEST_LIFE: Duration = Duration::from_hours(24);

/// Credentials that a vendor issued.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) credentials: Issue,
    pub(super) lifetime: Duration,
}

#[derive(Debug, Clone)]
pub(super) enum Issue {
    Bearer(Secret),
    Aws(AwsKeys),
}

impl Issue {
    /// The secrets, among them the access key ID: it identifies the credentials, and is part of every signature.
    fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let (token, keys) = match self {
            Self::Bearer(token) => (Some(token), None),
            Self::Aws(keys) => {
                (keys.session_token.as_ref(), Some([&keys.access_key_id, &keys.secret_access_key]))
            }
        };
        token.into_iter().chain(keys.into_iter().flatten())
    }
}

/// Exchanges a job's token.
pub(super) async fn exchange(
    client: &Client,
    federation: &Federation,
    job: &JobToken,
) -> Result<Issued, Refusal> {
    let issued = ask(client, federation, job, request(federation, job.jwt.expose())?).await?;
    let impersonation = match (&federation.exchange, &issued.credentials) {
        (Exchange::Gcp { impersonation_url: Some(url), .. }, Issue::Bearer(token)) => Some((url, token)),
        _ => None,
    };
    match impersonation {
        Some((url, token)) => ask(client, federation, job, impersonate(url, token)?).await,
        None => Ok(issued),
    }
}

async fn ask(
    client: &Client,
    federation: &Federation,
    job: &JobToken,
    request: Request,
) -> Result<Issued, Refusal> {
    let answer = http::send(client, request, &http::TOKEN).await.map_err(|refusal| {
        let message = format!("the token exchange failed: {}", refusal.message);
        not_billed(Refusal { message, ..refusal })
    })?;
    if !(200..300).contains(&answer.status) {
        return Err(refusal::of(
            federation,
            job,
            answer.status,
            &answer.headers,
            &Complaint::read(&answer.body),
        ));
    }
    let now = server_time(&answer.headers);
    let issued = decode(&federation.exchange, &answer, now, job.claims.lifetime()).map_err(|what| {
        let vendor = refusal::vendor(&federation.exchange);
        let message = format!("the answer of {vendor} to the token exchange has {what}");
        not_billed(Refusal::new(ErrorKind::BadResponse, Retry::After(None), message))
    })?;
    for secret in issued.credentials.secrets() {
        minted::announce(secret, issued.lifetime);
    }
    Ok(issued)
}

/// The vendor's request to exchange a token.
fn request(federation: &Federation, jwt: &str) -> Result<Request, Refusal> {
    let (body, content_type) = match &federation.exchange {
        Exchange::OpenAi { identity_provider_id, service_account_id } => as_json(&json!({
            "grant_type": TOKEN_EXCHANGE,
            "subject_token_type": JWT,
            "subject_token": jwt,
            "identity_provider_id": identity_provider_id,
            "service_account_id": service_account_id,
        })),
        Exchange::Anthropic { federation_rule_id, organization_id, service_account_id, workspace_id } => {
            let mut body = json!({
                "grant_type": JWT_BEARER,
                "assertion": jwt,
                "federation_rule_id": federation_rule_id,
                "organization_id": organization_id,
                "service_account_id": service_account_id,
            });
            if let Some(workspace_id) = workspace_id {
                body["workspace_id"] = workspace_id.as_str().into();
            }
            as_json(&body)
        }
        Exchange::Azure { client_id, scope } => as_form(&[
            ("client_id", client_id),
            ("scope", scope),
            ("grant_type", "client_credentials"),
            ("client_assertion_type", CLIENT_ASSERTION),
            ("client_assertion", jwt),
        ]),
        Exchange::Aws { role_arn, session_name, duration_seconds } => as_form(&[
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleArn", role_arn),
            ("RoleSessionName", session_name),
            ("WebIdentityToken", jwt),
            ("DurationSeconds", &duration_seconds.to_string()),
        ]),
        Exchange::Gcp { provider, .. } => as_json(&json!({
            "audience": format!("//iam.googleapis.com/{provider}"),
            "grantType": TOKEN_EXCHANGE,
            "requestedTokenType": ACCESS_TOKEN,
            "scope": CLOUD_PLATFORM,
            "subjectTokenType": JWT,
            "subjectToken": jwt,
        })),
    };
    let mut request = post(&federation.token_url, body, content_type)?;
    if matches!(federation.exchange, Exchange::Anthropic { .. }) {
        let beta = HeaderName::from_static("anthropic-beta");
        request.headers_mut().insert(beta, HeaderValue::from_static(ANTHROPIC_BETA));
    }
    Ok(request)
}

/// The request for a token of a Google service account.
fn impersonate(url: &str, token: &Secret) -> Result<Request, Refusal> {
    let (body, content_type) = as_json(&json!({ "scope": [CLOUD_PLATFORM], "lifetime": IMPERSONATED }));
    let mut request = post(url, body, content_type)?;
    request.headers_mut().insert(AUTHORIZATION, super::bearer(token)?);
    Ok(request)
}

fn post(url: &str, body: String, content_type: &'static str) -> Result<Request, Refusal> {
    let url = Url::parse(url).map_err(|error| {
        Refusal::new(ErrorKind::Auth, Retry::No, format!("`token_url` is not a URL: {error}"))
    })?;
    let mut request = Request::new(Method::POST, url);
    *request.timeout_mut() = Some(TIMEOUT);
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    *request.body_mut() = Some(body.into());
    Ok(request)
}

fn as_json(body: &Value) -> (String, &'static str) {
    (body.to_string(), "application/json")
}

fn as_form(fields: &[(&str, &str)]) -> (String, &'static str) {
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}={}", percent::encode(value))).collect();
    (pairs.join("&"), "application/x-www-form-urlencoded")
}

/// What a good answer lacks.
const NO_TOKEN: &str = "no token";
const NO_HEADER: &str = "a token with characters that no header may have";
const NO_LIFE: &str = "a token that has already expired, or an expiry that is not one";

/// The credentials in a good answer, or what is wrong with them.
fn decode(
    exchange: &Exchange,
    answer: &WireResponse,
    now: Timestamp,
    job: Option<Duration>,
) -> Result<Issued, &'static str> {
    let until = |moment: &str| {
        let seconds = moment.parse::<Timestamp>().ok()?.as_second().checked_sub(now.as_second())?;
        u64::try_from(seconds).ok().map(Duration::from_secs)
    };
    let (credentials, lifetime) = if let Exchange::Aws { .. } = exchange {
        let text = std::str::from_utf8(&answer.body).map_err(|_| NO_TOKEN)?;
        let field = |name| refusal::xml_text(text, name).filter(|value| !value.is_empty());
        let secret = |name| field(name).map(|value| Secret::new(&value)).ok_or(NO_TOKEN);
        let keys = AwsKeys {
            access_key_id: secret("AccessKeyId")?,
            secret_access_key: secret("SecretAccessKey")?,
            session_token: Some(secret("SessionToken")?),
        };
        (Issue::Aws(keys), field("Expiration").and_then(|moment| until(&moment)))
    } else {
        let body: Value = serde_json::from_slice(&answer.body).map_err(|_| NO_TOKEN)?;
        let token = ["access_token", "accessToken"].iter().find_map(|name| body[*name].as_str());
        let lifetime = match (&body["expires_in"], &body["expireTime"]) {
            (Value::Null, Value::Null) => Some(job.unwrap_or(USUAL_LIFETIME)),
            (Value::Null, moment) => moment.as_str().and_then(until),
            (seconds, _) => {
                let whole = seconds.as_u64().or_else(|| seconds.as_str()?.parse().ok());
                let most = LONGEST_LIFE.as_secs_f64();
                whole
                    .map(Duration::from_secs)
                    .or_else(|| Duration::try_from_secs_f64(seconds.as_f64()?.min(most)).ok())
            }
        };
        (Issue::Bearer(Secret::new(token.ok_or(NO_TOKEN)?)), lifetime)
    };
    let is_header = |secret: &Secret| {
        !secret.expose().is_empty() && secret.expose().bytes().all(|byte| byte.is_ascii_graphic())
    };
    if !credentials.secrets().all(is_header) {
        return Err(NO_HEADER);
    }
    let lifetime = lifetime.filter(|lifetime| !lifetime.is_zero()).ok_or(NO_LIFE)?;
    Ok(Issued { credentials, lifetime: lifetime.min(LONGEST_LIFE) })
}

/// The server's clock, to which its expiry times refer.
fn server_time(headers: &HeaderMap) -> Timestamp {
    let date = headers.get(DATE).and_then(|value| value.to_str().ok());
    date.and_then(crate::providers::headers::parse_http_date).unwrap_or_else(Timestamp::now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWS: Exchange =
        Exchange::Aws { role_arn: String::new(), session_name: String::new(), duration_seconds: 0 };

    fn decoded(exchange: &Exchange, body: &str) -> Result<(Issue, u64), &'static str> {
        let answer = WireResponse { status: 200, headers: HeaderMap::new(), body: body.as_bytes().to_vec() };
        let now = "2026-11-16T12:00:00Z".parse().unwrap();
        decode(exchange, &answer, now, Some(Duration::from_mins(4)))
            .map(|issued| (issued.credentials, issued.lifetime.as_secs()))
    }

    #[test]
    fn lifetimes_are_read_in_every_form() {
        let gcp = Exchange::Gcp { provider: String::new(), impersonation_url: None };
        for (body, seconds) in [
            (r#"{"access_token":"t-12345678","expires_in":300}"#, 300),
            (r#"{"access_token":"t-12345678","expires_in":"299"}"#, 299),
            (r#"{"access_token":"t-12345678","expires_in":299.0}"#, 299),
            (r#"{"access_token":"t-12345678","expires_in":1e300}"#, 24 * 3600),
            (r#"{"access_token":"t-12345678"}"#, 240),
            (r#"{"accessToken":"t-12345678","expireTime":"2026-11-16T12:59:59Z"}"#, 3599),
            (r#"{"access_token":"t-12345678","expires_in":18446744073709551615}"#, 24 * 3600),
            (r#"{"accessToken":"t-12345678","expireTime":"9999-12-30T22:00:00Z"}"#, 24 * 3600),
        ] {
            assert_eq!(decoded(&gcp, body).unwrap().1, seconds, "{body}");
        }
        for (body, what) in [
            (r#"{"access_token":"t","expires_in":0}"#, NO_LIFE),
            (r#"{"access_token":"t","expires_in":-1}"#, NO_LIFE),
            (r#"{"access_token":"t","expires_in":-0.5}"#, NO_LIFE),
            (r#"{"access_token":"t","expires_in":"soon"}"#, NO_LIFE),
            (r#"{"access_token":"t","expires_in":"NaN"}"#, NO_LIFE),
            (r#"{"access_token":"t","expires_in":[300]}"#, NO_LIFE),
            (r#"{"accessToken":"t","expireTime":"2020-01-01T00:00:00Z"}"#, NO_LIFE),
            (r#"{"accessToken":"t","expireTime":1}"#, NO_LIFE),
            ("{}", NO_TOKEN),
            ("<html>", NO_TOKEN),
            (r#"{"access_token":null,"expires_in":300}"#, NO_TOKEN),
            (r#"{"access_token":"","expires_in":300}"#, NO_HEADER),
            (r#"{"access_token":"t\r\n::error::x","expires_in":300}"#, NO_HEADER),
            (r#"{"access_token":"t 1","expires_in":300}"#, NO_HEADER),
            (r#"{"access_token":"t\u00e4","expires_in":300}"#, NO_HEADER),
            (r#"{"access_token":"t","access_token":"t\nx","expires_in":300}"#, NO_HEADER),
        ] {
            assert_eq!(decoded(&gcp, body).unwrap_err(), what, "{body}");
        }
    }

    #[test]
    fn aws_credentials_are_read_from_xml() {
        let xml = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><SessionToken>a&amp;b==</SessionToken>\
            <SecretAccessKey>s/+</SecretAccessKey><Expiration>2026-11-16T13:00:00Z</Expiration><AccessKeyId>ASIA1</AccessKeyId>\
            </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
        let (Issue::Aws(keys), seconds) = decoded(&AWS, xml).unwrap() else { panic!("a bearer token") };
        assert_eq!((keys.access_key_id.expose(), keys.secret_access_key.expose()), ("ASIA1", "s/+"));
        assert_eq!((keys.session_token.unwrap().expose(), seconds), ("a&b==", 3600));
        let broken = xml.replace("s/+", "s\n::error::x");
        for (xml, what) in [
            ("<Credentials><AccessKeyId>A</AccessKeyId>", NO_TOKEN),
            (broken.as_str(), NO_HEADER),
            (&xml.replace("T13", "T11"), NO_LIFE),
            (&xml.replace("Expiration", "Expires"), NO_LIFE),
        ] {
            assert_eq!(decoded(&AWS, xml).unwrap_err(), what, "{xml}");
        }
    }
}
