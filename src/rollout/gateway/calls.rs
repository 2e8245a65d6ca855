//! One call: checked, forwarded, recorded, answered.
//!
//! A forwarded call is finished and recorded even if the client disconnects, because it costs money. Its response is then kept
//! for the same request of the same rollout: a client that retries after a lost connection pays once.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::body::{BodyPermit, Caller};
use super::upstream::UpstreamResponse;
use super::{CallRefusal, Gateway, stream};
use crate::model::{Digest, Secret};
use crate::rollout::fields;
use crate::rollout::ids::Ids;

/// The largest request.
const LARGEST_REQUEST: usize = 16 << 20;
/// How long, and how many, undelivered responses are kept.
const KEEP_UNHEARD: Duration = Duration::from_mins(10);
const MOST_UNHEARD: usize = 64;

/// Identifies a request: the rollout, the upstream, and the digest of the body.
pub(super) type Question = (String, String, Digest);

type UpstreamResult = Result<UpstreamResponse, CallRefusal>;

/// A response, or a pending one, that no client waits for.
#[derive(Debug)]
pub(super) struct AbandonedCall {
    outcome: watch::Receiver<Option<UpstreamResult>>,
    since: Instant,
}

/// Forwards a call: `/rollout_id/…/row_id/…[/encoded_base_url/…]/chat/completions`.
pub(super) async fn pass_on(
    State(gateway): State<Arc<Gateway>>,
    Path(rest): Path<String>,
    request: Request,
) -> Result<Response, CallRefusal> {
    let (ids, base_url) = read_path(&rest)?;
    let upstream = gateway.upstreams.choose(base_url.as_deref())?;
    // Before reading the body: a request that cannot be served takes no memory.
    let Ok(permit) = Arc::clone(&gateway.calls).try_acquire_owned() else {
        return Err(CallRefusal { retry_after: Some(1), ..CallRefusal::new(503, "too many calls at once") });
    };
    let own_secret = own_secret(request.headers());
    let caller = Caller::of(request.extensions());
    let (body, held) = gateway.bodies.read(caller, request.into_body(), LARGEST_REQUEST).await?;
    let mut asked: Value = serde_json::from_slice(&body)
        .map_err(|error| CallRefusal::new(400, format!("the body is not JSON: {error}")))?;
    drop(body);
    let Some(call) = asked.as_object_mut().filter(|call| call.get("messages").is_some_and(Value::is_array))
    else {
        return Err(CallRefusal::new(400, "the body has no `messages`"));
    };
    fields::check_call(call, &gateway.fields).map_err(|problem| CallRefusal::new(400, problem))?;
    upstream.check_models(call)?;
    let wants = ReplyOptions::take_from(&mut asked);
    // The forwarded body identifies a request.
    let sent = serde_json::to_vec(&asked).map_err(|error| CallRefusal::new(400, error.to_string()))?;
    let question = (ids.rollout_id.clone(), upstream.name().to_owned(), Digest::of(&sent));
    let mut outcome = match gateway.take_unheard(&question) {
        Some(outcome) => outcome,
        None => start(&gateway, (ids, base_url), asked, sent, own_secret, (permit, held)),
    };
    let mut waiting = Waiting { gateway: &gateway, question, outcome: Some(outcome.clone()) };
    let answered = outcome.wait_for(Option::is_some).await.ok().and_then(|outcome| outcome.clone());
    waiting.outcome = None;
    let answer = answered.ok_or_else(|| CallRefusal::new(500, "the call was lost"))??;
    Ok(wants.respond(answer))
}

/// Starts a call in its own task, which survives a disconnect.
fn start(
    gateway: &Arc<Gateway>,
    (ids, base_url): (Ids, Option<String>),
    asked: Value,
    sent: Vec<u8>,
    own_secret: Option<Secret>,
    held: (OwnedSemaphorePermit, BodyPermit),
) -> watch::Receiver<Option<UpstreamResult>> {
    let (sender, receiver) = watch::channel(None);
    let gateway = Arc::clone(gateway);
    tokio::spawn(async move {
        let _held = held;
        let began = Instant::now();
        let outcome = async {
            let upstream = gateway.upstreams.choose(base_url.as_deref())?;
            let room = gateway.make_room(&ids.rollout_id, sent.len()).await;
            room.map_err(|error| CallRefusal::of_store(&error))?;
            let answer = gateway.upstreams.call(upstream, sent).await?;
            // An upstream may echo its key: redact it for the caller and the trace.
            let answer = answer.redacted(&|value| gateway.redact(value, own_secret.as_ref()));
            let trace = trace(&ids, upstream.name(), &asked, &answer, began);
            let trace = gateway.redact(trace, own_secret.as_ref());
            gateway.append(&ids.rollout_id, trace).await.map_err(|error| CallRefusal::of_store(&error))?;
            Ok(answer)
        };
        let outcome = outcome.await;
        // Delivers the outcome to current and later waiters.
        let _ = sender.send(Some(outcome));
    });
    receiver
}

/// The line of a call: a trace if a model answered, otherwise a note.
fn trace(ids: &Ids, upstream: &str, asked: &Value, answer: &UpstreamResponse, began: Instant) -> Value {
    let completion: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let message = completion.pointer("/choices/0/message").filter(|message| message.is_object());
    let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut line = json!({
        "kind": if answer.status.is_success() && message.is_some() { "trace" } else { "failed_call" },
        "rollout_id": ids.rollout_id,
        "id": format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..)),
        "timestamp": Timestamp::now().to_string(),
        "tags": ids.tags(),
        "upstream": upstream,
        "status": answer.status.as_u16(),
        "latency_ms": took,
    });
    if line["kind"] == "trace" {
        let mut input = json!({"messages": asked["messages"]});
        if asked["tools"].is_array() {
            input["tools"] = asked["tools"].clone();
        }
        line["input"] = input;
        line["output"] = message.cloned().unwrap_or_default();
        line["model"] = completion["model"].clone();
        line["usage"] = completion["usage"].clone();
        line["finish_reason"] = completion.pointer("/choices/0/finish_reason").cloned().unwrap_or_default();
    } else {
        let said = completion.get("error").cloned().unwrap_or_default();
        line["error"] = said;
    }
    line
}

/// The client's own credentials, as secret as any key.
pub(super) fn own_secret(headers: &HeaderMap) -> Option<Secret> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let value = value.split_once(' ').map_or(value, |(_, credentials)| credentials);
    Some(Secret::new(value))
}

fn read_path(rest: &str) -> Result<(Ids, Option<String>), CallRefusal> {
    let rest = rest.trim_end_matches('/');
    let tail = ["/v1/chat/completions", "/chat/completions"].iter().find_map(|tail| rest.strip_suffix(tail));
    let Some(path) = tail else {
        return Err(CallRefusal::new(404, "only `…/chat/completions` is forwarded"));
    };
    let segments: Vec<String> =
        std::iter::once("rollout_id").chain(path.split('/')).map(str::to_owned).collect();
    Ids::from_segments(&segments).map_err(|problem| CallRefusal::new(400, problem))
}

/// The response format that a client wants.
struct ReplyOptions {
    stream: bool,
    usage: bool,
}

impl ReplyOptions {
    fn take_from(asked: &mut Value) -> Self {
        let usage = asked.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
        let Some(map) = asked.as_object_mut() else { return Self { stream: false, usage } };
        map.remove("stream_options");
        Self { stream: map.remove("stream") == Some(Value::Bool(true)), usage }
    }

    fn respond(&self, answer: UpstreamResponse) -> Response {
        let completion = serde_json::from_slice::<Value>(&answer.body).ok();
        let (kind, body) = match completion {
            Some(completion) if self.stream && answer.status.is_success() => {
                ("text/event-stream", stream::events(&completion, self.usage).into())
            }
            Some(_) => ("application/json", answer.body),
            // Serve a proxy's error page as text, never as a page of this host.
            None => ("text/plain; charset=utf-8", answer.body),
        };
        let mut response = (answer.status, answer.headers, body).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }
}

impl Gateway {
    /// The undelivered response to this request.
    fn take_unheard(&self, question: &Question) -> Option<watch::Receiver<Option<UpstreamResult>>> {
        let mut unheard = self.unheard.lock().unwrap_or_else(PoisonError::into_inner);
        unheard.retain(|_, entry| entry.since.elapsed() < KEEP_UNHEARD);
        unheard.remove(question).map(|entry| entry.outcome)
    }
}

/// A client waiting for a response. If it is dropped while open, the client has disconnected.
struct Waiting<'g> {
    gateway: &'g Gateway,
    question: Question,
    outcome: Option<watch::Receiver<Option<UpstreamResult>>>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(outcome) = self.outcome.take() else { return };
        let mut unheard = self.gateway.unheard.lock().unwrap_or_else(PoisonError::into_inner);
        if unheard.len() < MOST_UNHEARD {
            unheard.insert(self.question.clone(), AbandonedCall { outcome, since: Instant::now() });
        }
    }
}
