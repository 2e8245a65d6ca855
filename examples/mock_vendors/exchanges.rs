//! The vendors' token endpoints. Each accepts exactly the documented form.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use crate::identity::{Rule, Wrong};
use crate::state::{World, error, header_text, json_response, random};

/// A refusal on the heap: it is larger than what it replaces.
type Refused = Box<Response>;

const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";
const PROVIDER: &str =
    "iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/github/providers/runner";
const CLOUD_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Seconds that a session of the role may last.
const LONGEST_SESSION: u64 = 3600;

/// Bytes that Google's rule maps of a subject.
const LONGEST_SUBJECT: usize = 127;

type Fields = BTreeMap<String, String>;

#[expect(clippy::unnecessary_box_returns, reason = "every caller returns it as an error")]
fn refuse(status: StatusCode, code: &str, description: &str) -> Refused {
    Box::new(error(status, code, description))
}

/// Counts an exchange, lets it fail if it should, and reads its fields.
async fn received(world: &World, headers: &HeaderMap, body: &str, is_form: bool) -> Result<Fields, Refused> {
    let number = {
        let mut known = world.lock();
        known.counts.exchanges += 1;
        known.exchanging += 1;
        known.counts.exchanges
    };
    tokio::time::sleep(Duration::from_millis(world.options.exchange_delay_ms)).await;
    world.lock().exchanging -= 1;
    if let Some(answer) = &world.options.exchange_answer {
        let json = [(header::CONTENT_TYPE, "application/json")];
        return Err((StatusCode::OK, json, answer.clone()).into_response().into());
    }
    if let Some(fault) = world.fault(world.options.exchange_fault.as_ref(), number).await {
        return Err(fault.into());
    }
    let bad = |what: &str| Err(refuse(StatusCode::BAD_REQUEST, "invalid_request", what));
    if headers.contains_key("authorization") || headers.contains_key("x-api-key") {
        return bad("an exchange takes no other credentials");
    }
    let (expected, fields) = if is_form {
        let pairs = body.split('&').map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let value = percent_encoding::percent_decode_str(&value.replace('+', " "))
                .decode_utf8()
                .ok()?
                .into_owned();
            Some((name.to_owned(), value))
        });
        let pairs = pairs.collect::<Option<Vec<_>>>();
        let fields = pairs.map(|pairs| (pairs.len(), pairs.into_iter().collect::<Fields>()));
        let fields = fields.filter(|(count, fields)| *count == fields.len()).map(|(_, fields)| fields);
        ("application/x-www-form-urlencoded", fields)
    } else {
        ("application/json", serde_json::from_str(body).ok())
    };
    match fields {
        Some(fields) if header_text(headers, "content-type") == expected => Ok(fields),
        _ => bad("the body has the wrong form"),
    }
}

/// Checks that the fields are exactly these, and takes the token out.
fn exactly(mut fields: Fields, token: &str, expected: &[(&str, &str)]) -> Result<String, Refused> {
    let jwt = fields.remove(token).unwrap_or_default();
    let expected: Fields =
        expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    if fields == expected {
        return Ok(jwt);
    }
    let names: Vec<&String> = fields.keys().collect();
    Err(refuse(StatusCode::BAD_REQUEST, "invalid_request", &format!("wrong fields: {names:?}")))
}

/// What a refusal says; some vendors repeat the token in it.
fn said(world: &World, wrong: &Wrong, jwt: &str) -> String {
    if world.options.echo_secrets { format!("{wrong:?}: {jwt}") } else { format!("{wrong:?}") }
}

/// A token that lives as long as it may, and no longer than this.
fn token(world: &World, vendor: &'static str, prefix: &str, most: u64) -> Response {
    let life = world.options.token_life.min(most);
    let body = json!({
        "access_token": world.issue(vendor, prefix, life),
        "token_type": "Bearer",
        "expires_in": life,
    });
    json_response(StatusCode::OK, &body)
}

pub(crate) async fn openai(State(world): State<Arc<World>>, headers: HeaderMap, body: String) -> Response {
    let answer = async {
        let fields = received(&world, &headers, &body, false).await?;
        let jwt = exactly(
            fields,
            "subject_token",
            &[
                ("grant_type", TOKEN_EXCHANGE),
                ("subject_token_type", JWT),
                ("identity_provider_id", "idp_mock"),
                ("service_account_id", "sa_mock"),
            ],
        )?;
        let rule = Rule { audience: "https://api.openai.com/v1", has_claims: true, is_single_use: false };
        let most = world
            .verify(&jwt, &rule)
            .map_err(|wrong| refuse(StatusCode::FORBIDDEN, "access_denied", &said(&world, &wrong, &jwt)))?;
        Ok(token(&world, "openai", "oai-wif-", most))
    };
    answer.await.unwrap_or_else(|refusal: Refused| *refusal)
}

pub(crate) async fn anthropic(State(world): State<Arc<World>>, headers: HeaderMap, body: String) -> Response {
    let refused = |message: &str| {
        let error =
            json!({ "type": "error", "error": { "type": "authentication_error", "message": message } });
        Box::new(json_response(StatusCode::UNAUTHORIZED, &error))
    };
    let answer = async {
        let fields = received(&world, &headers, &body, false).await?;
        if header_text(&headers, "anthropic-beta") != "oauth-2025-04-20,oidc-federation-2026-04-01" {
            return Err(refused("the beta header is missing"));
        }
        let jwt = exactly(
            fields,
            "assertion",
            &[
                ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                ("federation_rule_id", "fdrl_mock"),
                ("organization_id", "00000000-0000-0000-0000-000000000001"),
                ("service_account_id", "svac_mock"),
                ("workspace_id", "default"),
            ],
        )?;
        let rule = Rule { audience: "https://api.anthropic.com", has_claims: true, is_single_use: true };
        let most = world.verify(&jwt, &rule).map_err(|wrong| match wrong {
            Wrong::Reused => refused("jti_reused"),
            wrong => refused(&said(&world, &wrong, &jwt)),
        })?;
        Ok(token(&world, "anthropic", "sk-ant-oat01-", most))
    };
    answer.await.unwrap_or_else(|refusal: Refused| *refusal)
}

pub(crate) async fn azure(
    State(world): State<Arc<World>>,
    Path(tenant): Path<String>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let refused = |code: &str| refuse(StatusCode::BAD_REQUEST, "invalid_client", code);
    let answer = async {
        let fields = received(&world, &headers, &body, true).await?;
        if tenant != "tenant-mock" {
            return Err(refused("AADSTS90002: Tenant not found."));
        }
        if fields.get("scope").map(String::as_str) != Some("https://cognitiveservices.azure.com/.default") {
            return Err(refused("AADSTS70011: The scope is not valid."));
        }
        let jwt = exactly(
            fields,
            "client_assertion",
            &[
                ("client_id", "client-mock"),
                ("scope", "https://cognitiveservices.azure.com/.default"),
                ("grant_type", "client_credentials"),
                ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ],
        )?;
        let rule = Rule { audience: "api://AzureADTokenExchange", has_claims: false, is_single_use: false };
        world.verify(&jwt, &rule).map_err(|wrong| match wrong {
            Wrong::Expired => refused("AADSTS700024: Client assertion is not within its valid time range."),
            wrong => refused(&format!(
                "AADSTS700213: No matching federated identity record found. {}",
                said(&world, &wrong, &jwt)
            )),
        })?;
        Ok(token(&world, "azure", "eyJ0eXAi-mock-", u64::MAX))
    };
    answer.await.unwrap_or_else(|refusal: Refused| *refusal)
}

pub(crate) async fn aws(State(world): State<Arc<World>>, headers: HeaderMap, body: String) -> Response {
    let refused = |status: StatusCode, code: &str, message: &str| {
        let xml = format!(
            "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
        );
        Box::new((status, [(header::CONTENT_TYPE, "text/xml")], xml).into_response())
    };
    let answer = async {
        let mut fields = received(&world, &headers, &body, true).await?;
        let invalid = |what: &str| refused(StatusCode::BAD_REQUEST, "ValidationError", what);
        let session = fields.remove("RoleSessionName").unwrap_or_default();
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_=,.@-".contains(&byte);
        if !session.starts_with("run-evals") || session.len() > 64 || !session.bytes().all(is_legal) {
            return Err(invalid("no session name"));
        }
        let duration = fields.remove("DurationSeconds").and_then(|seconds| seconds.parse().ok());
        let life = match duration {
            Some(seconds @ 900..=LONGEST_SESSION) => world.options.token_life.min(seconds),
            _ => {
                return Err(invalid(
                    "The requested DurationSeconds exceeds the MaxSessionDuration set for this role.",
                ));
            }
        };
        let jwt = exactly(
            fields,
            "WebIdentityToken",
            &[
                ("Action", "AssumeRoleWithWebIdentity"),
                ("Version", "2011-06-15"),
                ("RoleArn", "arn:aws:iam::123456789012:role/run-evals"),
            ],
        )?;
        let rule = Rule { audience: "sts.amazonaws.com", has_claims: true, is_single_use: false };
        world.verify(&jwt, &rule).map_err(|wrong| match wrong {
            Wrong::Expired => refused(StatusCode::BAD_REQUEST, "ExpiredTokenException", "Token expired"),
            Wrong::Subject | Wrong::Claim => refused(
                StatusCode::FORBIDDEN,
                "AccessDenied",
                &format!(
                    "Not authorized to perform sts:AssumeRoleWithWebIdentity {}",
                    said(&world, &wrong, &jwt)
                ),
            ),
            wrong => refused(StatusCode::BAD_REQUEST, "InvalidIdentityToken", &said(&world, &wrong, &jwt)),
        })?;
        let session_token = world.issue("bedrock", "IQoJb3JpZ2luX2VjE-mock//+", life);
        let (id, secret) = (format!("ASIA{}", random()[..16].to_uppercase()), random());
        let life = i64::try_from(life).unwrap_or(i64::MAX);
        let expiration = jiff::Timestamp::from_second(world.now() + life).unwrap_or_default();
        let mut known = world.lock();
        known.aws.insert(id.clone(), (secret.clone(), session_token.clone()));
        known.secrets.extend([id.clone(), secret.clone()]);
        let xml = format!(
            "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult><Credentials>\
             <AccessKeyId>{id}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{session_token}</SessionToken>\
             <Expiration>{expiration}</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        );
        Ok(([(header::CONTENT_TYPE, "text/xml")], xml).into_response())
    };
    answer.await.unwrap_or_else(|refusal: Refused| *refusal)
}

pub(crate) async fn gcp(State(world): State<Arc<World>>, headers: HeaderMap, body: String) -> Response {
    let answer = async {
        let fields = received(&world, &headers, &body, false).await?;
        let jwt = exactly(
            fields,
            "subjectToken",
            &[
                ("audience", &format!("//{PROVIDER}")),
                ("grantType", TOKEN_EXCHANGE),
                ("requestedTokenType", "urn:ietf:params:oauth:token-type:access_token"),
                ("scope", CLOUD_PLATFORM),
                ("subjectTokenType", JWT),
            ],
        )?;
        let audience = format!("https://{PROVIDER}");
        let rule = Rule { audience: &audience, has_claims: true, is_single_use: false };
        let most = world.verify(&jwt, &rule).map_err(|wrong| {
            let code = match wrong {
                Wrong::Subject | Wrong::Claim => (StatusCode::UNAUTHORIZED, "unauthorized_client"),
                _ => (StatusCode::BAD_REQUEST, "invalid_grant"),
            };
            let what = match wrong {
                Wrong::Audience => "The audience in ID Token does not match the expected audience. ",
                Wrong::Expired => "ID Token is stale to sign-in. ",
                _ => "",
            };
            refuse(code.0, code.1, &format!("{what}{}", said(&world, &wrong, &jwt)))
        })?;
        if world.options.subject.len() > LONGEST_SUBJECT {
            let what = "The size of mapped attribute google.subject exceeds the 127 bytes limit.";
            return Err(refuse(StatusCode::BAD_REQUEST, "invalid_request", what));
        }
        Ok(token(&world, "gcp-federated", "ya29.d.mock-", most))
    };
    answer.await.unwrap_or_else(|refusal: Refused| *refusal)
}

pub(crate) async fn impersonate(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let bearer = header_text(&headers, "authorization").strip_prefix("Bearer ").unwrap_or_default();
    let asked: Value = serde_json::from_str(&body).unwrap_or_default();
    let life = world.options.token_life.min(3600);
    if header_text(&headers, "content-type") != "application/json"
        || !world.accepts("gcp-federated", bearer)
        || asked != json!({ "scope": [CLOUD_PLATFORM], "lifetime": "3600s" })
    {
        let denied = json!({ "error": { "code": 403, "message": "denied", "status": "PERMISSION_DENIED" } });
        return json_response(StatusCode::FORBIDDEN, &denied);
    }
    let expires = world.now() + i64::try_from(life).unwrap_or(i64::MAX);
    let expires = jiff::Timestamp::from_second(expires).unwrap_or_default();
    let token = world.issue("vertex", "ya29.c.mock-", life);
    let body = json!({ "accessToken": token, "expireTime": expires.to_string() });
    json_response(StatusCode::OK, &body)
}
