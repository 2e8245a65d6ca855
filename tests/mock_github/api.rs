//! Common to all requests of the REST API: they are recorded, validated against the description, counted, and may fail on purpose.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::auth::{self, Caller};
use crate::limits;
use crate::openapi::Matched;
use crate::reply::{self, OnPurpose, Query, Refused};
use crate::wire::{Recorded, TokenKind, What};
use crate::world::{World, now, random_hex};

/// The legal values of `X-GitHub-Api-Version`.
pub(crate) const VERSIONS: [&str; 2] = ["2022-11-28", "2026-03-10"];

const LONGEST_BODY: usize = 10 << 20;
const VERSION: &str = "x-github-api-version";

/// The parts of a request that a handler needs, besides its path.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The caller.
    pub(crate) caller: Caller,
    /// The API version.
    pub(crate) version: &'static str,
    /// The query, decoded.
    pub(crate) query: Arc<Query>,
    /// The URL without the query, for links to other pages.
    pub(crate) url: String,
    /// The accepted media type.
    pub(crate) accept: String,
    /// The body.
    pub(crate) body: Bytes,
}

/// A request, as handlers take it.
pub(crate) struct Call {
    pub(crate) world: Arc<World>,
    pub(crate) asked: Asked,
}

/// The path of a route below a repository.
pub(crate) type InRepo = Path<(String, String)>;
/// The same with a name.
pub(crate) type Named = Path<(String, String, String)>;
/// The same with a number.
pub(crate) type Numbered = Path<(String, String, u64)>;

impl FromRequestParts<Arc<World>> for Call {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, world: &Arc<World>) -> Result<Self, Refused> {
        let asked = parts.extensions.get().cloned().ok_or_else(Refused::not_found)?;
        Ok(Self { world: Arc::clone(world), asked })
    }
}

/// Serves one request to the API.
pub(crate) async fn serve(State(world): State<Arc<World>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let body = to_bytes(body, LONGEST_BODY).await.unwrap_or_default();
    let (method, path) = (parts.method.as_str().to_owned(), parts.uri.path().to_owned());
    let query = Arc::new(Query::parse(parts.uri.query().unwrap_or_default()));
    let matched = world.openapi.find(&method, &path);
    let route = matched.as_ref().map_or(String::new(), |matched| matched.route.clone());
    let called = if route.is_empty() { format!("{method} {path}") } else { route.clone() };
    let record = {
        let mut state = world.lock();
        state.requests.push(Recorded {
            method,
            path: path.clone(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            route,
            login: String::new(),
            headers: recorded_headers(&parts.headers),
            body: serde_json::from_slice(&body).ok(),
            status: 0,
            counted: true,
            at_ms: world.at_ms(),
        });
        state.requests.len() - 1
    };
    let note =
        |problems: Vec<String>| problems.into_iter().for_each(|problem| world.violation(&called, problem));
    match &matched {
        Some(matched) => note(world.openapi.check_request(matched, &query, &body)),
        None if path == "/graphql" => {}
        None => note(vec![format!("`{path}` is none of the routes of the description's extract")]),
    }
    note(header_problems(&parts.headers));

    let caller = auth::caller(&world, &parts.headers);
    let known = caller.as_ref().map(Clone::clone).unwrap_or_default();
    world.lock().requests[record].login = known.login();
    let asked = Asked {
        caller: known.clone(),
        version: version(&parts.headers).unwrap_or(VERSIONS[0]),
        query,
        url: format!("{}{path}", world.urls.api_url),
        accept: header_text(&parts.headers, header::ACCEPT.as_str()).to_owned(),
        body: body.clone(),
    };
    let etag_sent = header_text(&parts.headers, header::IF_NONE_MATCH.as_str()).to_owned();
    let is_read = parts.method.is_safe();
    let refused = refused_at_once(&world, &parts.headers, caller, &known, &called);
    parts.extensions.insert(asked);
    let request = Request::from_parts(parts, Body::from(body));

    let before = world.lock().faults.answer_to(&called, false);
    let mut response = match (refused, before) {
        (Some(refused), _) => refused,
        (None, Some(wrong)) => reply::wrong(wrong, next.run(request)).await,
        (None, None) => {
            let right = next.run(request).await;
            let after = world.lock().faults.answer_to(&called, true);
            match after {
                Some(wrong) => reply::wrong(wrong, async { right }).await,
                None => right,
            }
        }
    };
    if response.extensions().get::<OnPurpose>().is_none() {
        response = checked(&world, matched.as_ref(), &called, response).await;
        if is_read {
            response = conditional(response, &etag_sent).await;
        }
    }
    let is_free =
        called == "GET /rate_limit" || response.status() == StatusCode::NOT_MODIFIED && known.token.is_some();
    add_headers(&world, &known, &mut response, is_free);
    let mut state = world.lock();
    state.requests[record].status = response.status().as_u16();
    state.requests[record].counted = !is_free;
    drop(state);
    response
}

/// Responses that do not depend on the route.
fn refused_at_once(
    world: &World,
    headers: &HeaderMap,
    caller: Result<Caller, Refused>,
    known: &Caller,
    called: &str,
) -> Option<Response> {
    if header_text(headers, header::USER_AGENT.as_str()).is_empty() {
        let message = "Request forbidden by administrative rules. Please make sure your request has a User-Agent header";
        return Some(Refused::new(403, message).into_response());
    }
    if let Some(sent) = headers.get(VERSION).filter(|_| version(headers).is_none()) {
        let message = format!("\"{}\" is not a supported version", sent.to_str().unwrap_or_default());
        return Some(Refused::new(400, message).into_response());
    }
    if let Err(refused) = caller {
        return Some(refused.into_response());
    }
    let (who, limit) = limits::bucket(known.token.as_ref());
    let mut state = world.lock();
    if let Some(What::RateLimitUsedUp { seconds }) =
        state.faults.strike(|what| matches!(what, What::RateLimitUsedUp { .. }))
    {
        state.limits.use_up(&who, limit, seconds);
    }
    let window = state.limits.take(&who, limit, 0);
    drop(state);
    (window.remaining() == 0 && called != "GET /rate_limit").then(|| {
        let message = format!("API rate limit exceeded for {who}. If you reach out to GitHub Support for help, please include the request ID.");
        Refused::new(403, message).into_response()
    })
}

/// Validates a response against the description.
async fn checked(world: &World, matched: Option<&Matched>, called: &str, response: Response) -> Response {
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    if let Some(matched) = matched {
        let content_type = header_text(&parts.headers, header::CONTENT_TYPE.as_str());
        for problem in world.openapi.check_answer(matched, parts.status.as_u16(), content_type, &body) {
            world.violation(called, format!("the answer {}: {problem}", parts.status.as_u16()));
        }
    }
    Response::from_parts(parts, Body::from(body))
}

/// Adds the `ETag`, and responds 304 if the client has it.
async fn conditional(response: Response, etag_sent: &str) -> Response {
    if response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let etag = format!("W/\"{}\"", hex::encode(Sha256::digest(&body)));
    if let Ok(value) = HeaderValue::from_str(&etag) {
        parts.headers.insert(header::ETAG, value);
    }
    let bare = etag.trim_start_matches("W/");
    if etag_sent.split(',').any(|sent| sent.trim().trim_start_matches("W/") == bare) {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(header::CONTENT_TYPE);
        parts.headers.remove(header::CONTENT_LENGTH);
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, Body::from(body))
}

/// The headers of every response. Headers set by a fault stay.
fn add_headers(world: &World, caller: &Caller, response: &mut Response, is_free: bool) {
    let (who, limit) = limits::bucket(caller.token.as_ref());
    let window = world.lock().limits.take(&who, limit, u64::from(!is_free));
    let all = [
        ("date", now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()),
        ("x-ratelimit-limit", window.limit.to_string()),
        ("x-ratelimit-remaining", window.remaining().to_string()),
        ("x-ratelimit-used", window.used.to_string()),
        ("x-ratelimit-reset", window.reset.to_string()),
        ("x-ratelimit-resource", "core".to_owned()),
        ("x-github-request-id", random_hex(16).to_uppercase()),
        ("x-github-media-type", "github.v3; format=json".to_owned()),
    ];
    let classic = caller.token.as_ref().filter(|token| token.kind == TokenKind::Classic);
    let scopes = classic.map(|token| ("x-oauth-scopes", token.scopes.join(", ")));
    for (name, value) in all.into_iter().chain(scopes) {
        if let Ok(value) = HeaderValue::from_str(&value)
            && !response.headers().contains_key(name)
        {
            response.headers_mut().insert(name, value);
        }
    }
}

/// The requested API version, if it exists.
fn version(headers: &HeaderMap) -> Option<&'static str> {
    match headers.get(VERSION) {
        None => Some(VERSIONS[0]),
        Some(sent) => VERSIONS.into_iter().find(|version| sent.to_str().is_ok_and(|sent| sent == *version)),
    }
}

/// What no client should send.
fn header_problems(headers: &HeaderMap) -> Vec<String> {
    let singles = [VERSION, "authorization", "accept", "user-agent", "if-none-match"];
    let twice = singles.into_iter().filter(|name| headers.get_all(*name).iter().count() > 1);
    twice.map(|name| format!("the header `{name}` is there twice")).collect()
}

fn recorded_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let shown = |name: &str, value: &HeaderValue| {
        let value = if name == "authorization" { "***" } else { value.to_str().unwrap_or("not text") };
        (name.to_owned(), value.to_owned())
    };
    headers.iter().map(|(name, value)| shown(name.as_str(), value)).collect()
}

fn header_text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The body as JSON.
pub(crate) fn json_body(asked: &Asked) -> Result<Value, Refused> {
    if asked.body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&asked.body).map_err(|_| Refused::new(400, "Problems parsing JSON"))
}

/// GitHub's limit for texts.
const LONGEST_TEXT: usize = 65_536;

/// A text in the body.
pub(crate) fn text(asked: &Asked, field: &str) -> Result<String, Refused> {
    let text = json_body(asked)?[field].as_str().unwrap_or_default().to_owned();
    if text.chars().count() > LONGEST_TEXT {
        return Err(Refused::new(
            422,
            format!("Validation Failed: {field} is too long (maximum is 65536 characters)"),
        ));
    }
    Ok(text)
}
