//! The vendors' models: they echo the last message, for credentials that their exchange issued.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::Response;
use serde_json::{Value, json};

use crate::sigv4::{Signature, Signed};
use crate::state::{World, header_text, json_response};

/// The region of Bedrock.
const REGION: &str = "us-east-1";
/// Seconds by which a signature may differ from AWS's clock.
const MOST_SKEW: i64 = 300;

/// Counts a call. The first ones may have to wait for each other, and for the end of their token.
async fn arrived(world: &World) {
    let waits = {
        let mut known = world.lock();
        known.counts.calls += 1;
        known.counts.calls_during_exchange += u64::from(known.exchanging > 0);
        known.waited += 1;
        let first = world.options.revoke_from + 1;
        (first..first + world.options.revoke_at).contains(&known.waited)
    };
    if let Some(barrier) = world.barrier.as_ref().filter(|_| waits)
        && barrier.wait().await.is_leader()
    {
        world.revoke_all();
    }
    if let Some(barrier) = world.barrier.as_ref().filter(|_| waits) {
        // All of them are answered after the tokens are revoked.
        barrier.wait().await;
    }
    tokio::time::sleep(Duration::from_millis(world.options.latency_ms)).await;
}

/// Whether a call has a valid token, and nothing but it.
fn is_authorized(world: &World, vendor: &str, headers: &HeaderMap) -> bool {
    let is_alone = ["x-api-key", "api-key", "x-goog-api-key"].iter().all(|name| !headers.contains_key(*name))
        && headers.get_all("authorization").iter().count() == 1
        && header_text(headers, "content-type") == "application/json";
    let token = header_text(headers, "authorization").strip_prefix("Bearer ");
    is_alone && token.is_some_and(|token| world.accepts(vendor, token))
}

/// The text of the last message, in any vendor's form.
fn last_message(body: &Value) -> Option<String> {
    let list = ["messages", "contents"].iter().find_map(|name| body[*name].as_array())?;
    let last = list.last()?;
    let content = if last["content"].is_null() { &last["parts"] } else { &last["content"] };
    let text = content.as_str().or_else(|| content[0]["text"].as_str())?;
    Some(text.to_owned())
}

/// Answers with the last message, in this form.
fn answer(world: &World, headers: &HeaderMap, body: &[u8], form: impl FnOnce(&str) -> Value) -> Response {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(mut text) = last_message(&body) else {
        return rejected(world, StatusCode::BAD_REQUEST, json!({ "error": { "message": "no message" } }));
    };
    let mut known = world.lock();
    known.counts.ok += 1;
    *known.served.entry(text.clone()).or_default() += 1;
    drop(known);
    if world.options.echo_secrets {
        let authorization = header_text(headers, "authorization");
        let token = header_text(headers, "x-amz-security-token");
        // A signature in plain text alone.
        let secrets = authorization.split(", SignedHeaders").next().unwrap_or_default();
        let secrets = hex::encode(format!("{secrets} {token}"));
        text = format!("{text} {authorization} {token} {secrets}");
    }
    json_response(StatusCode::OK, &form(&text))
}

#[expect(clippy::needless_pass_by_value, reason = "callers make it for this call")]
fn rejected(world: &World, status: StatusCode, body: Value) -> Response {
    world.lock().counts.rejected += 1;
    json_response(status, &body)
}

fn chat(text: &str) -> Value {
    json!({
        "choices": [{ "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 5, "completion_tokens": 5 },
    })
}

fn messages(text: &str) -> Value {
    json!({
        "type": "message",
        "content": [{ "type": "text", "text": text }],
        "stop_reason": "end_turn",
        "usage": { "input_tokens": 5, "output_tokens": 5 },
    })
}

pub(crate) async fn openai_models(State(world): State<Arc<World>>, headers: HeaderMap) -> Response {
    let token = header_text(&headers, "authorization").strip_prefix("Bearer ");
    if token.is_some_and(|token| world.accepts("openai", token)) {
        json_response(
            StatusCode::OK,
            &json!({ "object": "list", "data": [{ "id": "m", "object": "model" }] }),
        )
    } else {
        json_response(
            StatusCode::UNAUTHORIZED,
            &json!({ "error": { "message": "Incorrect API key provided" } }),
        )
    }
}

pub(crate) async fn openai(State(world): State<Arc<World>>, headers: HeaderMap, body: Bytes) -> Response {
    arrived(&world).await;
    if !is_authorized(&world, "openai", &headers) {
        let message = format!("Incorrect API key provided: {}", header_text(&headers, "authorization"));
        return rejected(
            &world,
            StatusCode::UNAUTHORIZED,
            json!({ "error": { "message": message, "code": "invalid_api_key" } }),
        );
    }
    if world.options.no_role {
        let message = "You have insufficient permissions for this operation. Missing scopes: model.request";
        return rejected(&world, StatusCode::FORBIDDEN, json!({ "error": { "message": message } }));
    }
    answer(&world, &headers, &body, chat)
}

pub(crate) async fn azure(State(world): State<Arc<World>>, headers: HeaderMap, body: Bytes) -> Response {
    arrived(&world).await;
    if !is_authorized(&world, "azure", &headers) || world.options.no_role {
        let message = "The principal lacks the required data action";
        let body = json!({ "error": { "code": "PermissionDenied", "message": message } });
        return rejected(&world, StatusCode::UNAUTHORIZED, body);
    }
    answer(&world, &headers, &body, chat)
}

pub(crate) async fn anthropic(State(world): State<Arc<World>>, headers: HeaderMap, body: Bytes) -> Response {
    arrived(&world).await;
    let has_headers = header_text(&headers, "anthropic-beta") == "oauth-2025-04-20"
        && headers.contains_key("anthropic-version");
    if !is_authorized(&world, "anthropic", &headers) || !has_headers {
        let error = json!({ "type": "error", "error": { "type": "authentication_error", "message": "invalid bearer token" } });
        return rejected(&world, StatusCode::UNAUTHORIZED, error);
    }
    if world.options.no_role {
        let error = json!({ "type": "permission_error", "message": "no access to this workspace" });
        return rejected(&world, StatusCode::FORBIDDEN, json!({ "type": "error", "error": error }));
    }
    answer(&world, &headers, &body, messages)
}

pub(crate) async fn vertex(
    State(world): State<Arc<World>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    arrived(&world).await;
    let is_valid = ["vertex", "gcp-federated"].iter().any(|vendor| is_authorized(&world, vendor, &headers));
    if !is_valid || world.options.no_role {
        let (status, word) = if is_valid { (403, "PERMISSION_DENIED") } else { (401, "UNAUTHENTICATED") };
        let body = json!({ "error": { "code": status, "message": "denied", "status": word } });
        return rejected(&world, StatusCode::from_u16(status).unwrap_or_default(), body);
    }
    let base = "/vertex/v1/projects/p-mock/locations/us-east5/publishers";
    let json: Value = serde_json::from_slice(&body).unwrap_or_default();
    match uri.path().strip_prefix(base) {
        Some("/google/models/gemini-mock:generateContent") => answer(
            &world,
            &headers,
            &body,
            |text| json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": text }] }, "finishReason": "STOP" }] }),
        ),
        Some("/anthropic/models/claude-mock@1:rawPredict")
            if json["anthropic_version"] == "vertex-2023-10-16" && json["model"].is_null() =>
        {
            answer(&world, &headers, &body, messages)
        }
        _ => rejected(
            &world,
            StatusCode::NOT_FOUND,
            json!({ "error": { "code": 404, "status": "NOT_FOUND", "message": uri.path() } }),
        ),
    }
}

/// Bedrock, whose calls are signed.
pub(crate) async fn bedrock(
    State(world): State<Arc<World>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    arrived(&world).await;
    let echoed = if world.options.echo_secrets {
        let headers = ["authorization", "x-amz-security-token"].map(|name| header_text(&headers, name));
        world.lock().signatures.extend(headers[0].rsplit_once("Signature=").map(|(_, it)| it.to_owned()));
        format!(" The canonical request was {headers:?} {}", hex::encode(headers.join("\n")))
    } else {
        String::new()
    };
    let refused = |kind: &str, message: &str| {
        let message = format!("{message}{echoed}");
        let mut response = rejected(&world, StatusCode::FORBIDDEN, json!({ "message": message }));
        let date = jiff::Timestamp::from_second(world.now()).unwrap_or_default();
        let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        for (name, value) in [("x-amzn-errortype", kind), ("date", &date)] {
            let value = header::HeaderValue::from_str(value).unwrap_or_else(|_| panic!("no header: {value}"));
            response.headers_mut().insert(name, value);
        }
        response
    };
    // A Bedrock API key, which needs no signature.
    if header_text(&headers, "authorization") == "Bearer static-bedrock-api-key" {
        return converse(&world, &headers, &body);
    }
    let Some(signature) = Signature::read(&headers).filter(|signature| signature.is_for(REGION)) else {
        return refused("MissingAuthenticationTokenException", "Missing Authentication Token");
    };
    let credentials = world.lock().aws.get(signature.access_key_id).cloned();
    let (secret, token) = match (credentials, signature.access_key_id) {
        (Some((secret, token)), _) => (secret, Some(token)),
        (None, "AKIDSTATIC00000000") => ("static-secret-access-key-0123456789".to_owned(), None),
        (None, _) => {
            return refused(
                "UnrecognizedClientException",
                "The security token included in the request is invalid.",
            );
        }
    };
    let sent = header_text(&headers, "x-amz-security-token");
    if token.as_deref().unwrap_or_default() != sent {
        return refused(
            "UnrecognizedClientException",
            "The security token included in the request is invalid.",
        );
    }
    let request = Signed { path: uri.path(), headers: &headers, body: &body };
    if !signature.is_valid(&request, &secret, token.is_some()) {
        return refused(
            "InvalidSignatureException",
            "The request signature we calculated does not match the signature you provided.",
        );
    }
    let moment = header_text(&headers, "x-amz-date");
    let signed_at = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", moment)
        .and_then(|moment| moment.to_zoned(jiff::tz::TimeZone::UTC))
        .map_or(0, |moment| moment.timestamp().as_second());
    if (signed_at - world.now()).abs() > MOST_SKEW {
        return refused("InvalidSignatureException", "Signature expired");
    }
    if token.is_some_and(|token| !world.accepts("bedrock", &token)) {
        return refused("ExpiredTokenException", "The security token included in the request is expired");
    }
    if world.options.no_role {
        return refused(
            "AccessDeniedException",
            "The role is not authorized to perform: bedrock:InvokeModel",
        );
    }
    let model = "/bedrock/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.mock/converse";
    if uri.path() != model {
        return rejected(&world, StatusCode::NOT_FOUND, json!({ "message": uri.path() }));
    }
    converse(&world, &headers, &body)
}

fn converse(world: &World, headers: &HeaderMap, body: &[u8]) -> Response {
    answer(world, headers, body, |text| {
        json!({
            "output": { "message": { "role": "assistant", "content": [{ "text": text }] } },
            "stopReason": "end_turn",
            "usage": { "inputTokens": 5, "outputTokens": 5, "totalTokens": 10 },
        })
    })
}
