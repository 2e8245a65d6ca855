//! The tracing endpoint, as a worker and a dispatcher use it: the address of calls, the status of a rollout, its traces.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use reqwest::{StatusCode, Url};
use serde_json::{Value, json};

use super::ids::{BEHIND, Ids};
use super::status::{Code, Status};
use crate::model::{Exit, Failure, Secret, printable};
use crate::util::backoff;
use crate::util::ca::trusting;
use crate::util::error::innermost;
use crate::util::redact::Redactor;

/// Separates the base of a tracing endpoint from the ids.
const IDS_BEGIN: &str = "/rollout_id/";
const USER_AGENT: &str = concat!("run-evals/", env!("CARGO_PKG_VERSION"));
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of a request about a rollout.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The largest response that is read.
const LARGEST_ANSWER: usize = 64 << 20;
/// No rollout has more turns.
const MOST_TRACES: &str = "1000";

/// A tracing endpoint.
#[derive(Clone)]
pub struct Endpoint {
    base: Url,
    key: Option<Secret>,
    /// The certificates of private CAs.
    ca_pem: Vec<u8>,
    client: reqwest::Client,
}

/// A recorded call: the messages and the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The messages that were sent.
    pub messages: Vec<Value>,
    /// The message that came back.
    pub answer: Value,
    /// The tools that were offered.
    pub tools: Option<Value>,
}

/// Why a request to the endpoint failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndpointError {
    /// It has no such route: it is not a tracing endpoint, or an older one.
    NoRoute,
    /// It refuses the request, for example because of the key.
    Refused(Code, String),
    /// It is unreachable or broken.
    Gone(String),
}

impl EndpointError {
    /// The status that it means for a rollout.
    pub fn status(&self) -> Status {
        match self {
            Self::NoRoute => Status::new(Code::NotFound, "the tracing endpoint has no such route"),
            Self::Refused(code, message) => Status::new(*code, message.clone()),
            Self::Gone(message) => Status::new(Code::Unavailable, message.clone()),
        }
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

/// Splits a client's address into the base and the ids it already contains.
pub(super) fn split(text: &str) -> Result<(Url, Option<String>), Failure> {
    const HINT: &str = "such as `https://traces.example.com`; the key belongs in `api_key`";
    // Do not repeat it in full: it may be a key pasted into the wrong field.
    let mut url = Url::parse(text.trim())
        .map_err(|error| Failure::config(format!("`model_base_url` is not a URL: {error}")).hint(HINT))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(Failure::config("`model_base_url` is not an `http` or `https` URL").hint(HINT));
    }
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        let message = "`model_base_url` has a user name, a password, a query or a fragment";
        return Err(Failure::config(message).hint(HINT));
    }
    let path = url.path().to_owned();
    let (base, ids) = match path.find(IDS_BEGIN) {
        Some(at) => (path[..at].to_owned(), Some(path[at..].trim_end_matches('/').to_owned())),
        None => (path.trim_end_matches('/').to_owned(), None),
    };
    // Servers differ in how they resolve an escape or an empty segment.
    if base.contains(['%', '\\']) || base.contains("//") || base.to_ascii_lowercase().contains(BEHIND) {
        let message =
            format!("`model_base_url` has `{BEHIND}`, an escape or an empty segment before the ids");
        return Err(Failure::config(message).hint(HINT));
    }
    url.set_path(&base);
    Ok((url, ids))
}

/// Refuses an address that cannot be the base of a tracing endpoint.
pub fn check_base_url(text: &str) -> Result<Url, Failure> {
    match split(text)? {
        (base, None) => Ok(base),
        (_, Some(_)) => Err(Failure::config("`model_base_url` contains ids")
            .hint("give only the base of the tracing endpoint, such as `https://traces.example.com`")),
    }
}

impl Endpoint {
    /// The endpoint at this base. `ca_pem` has the certificates of private CAs to trust besides the system's.
    pub fn new(base: Url, key: Option<Secret>, ca_pem: &[u8]) -> Result<Self, Failure> {
        let client = trusting(reqwest::Client::builder(), ca_pem)?
            .user_agent(USER_AGENT)
            // The key is only for the named host.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .build()
            .map_err(|error| {
                Failure::new(Exit::Failure, format!("cannot set up the HTTP client: {error}"))
            })?;
        Ok(Self { base, key, ca_pem: ca_pem.to_vec(), client })
    }

    /// The key.
    pub fn key(&self) -> Option<&Secret> {
        self.key.as_ref()
    }

    /// The certificates of private CAs, in PEM format.
    pub fn ca_pem(&self) -> &[u8] {
        &self.ca_pem
    }

    /// The base as text, without a final slash.
    pub fn base(&self) -> String {
        self.base.as_str().trim_end_matches('/').to_owned()
    }

    /// The base URL of a rollout's calls, with its ids.
    pub fn calls(&self, ids: &Ids, behind: Option<&str>) -> String {
        let behind = behind.map(|url| format!("/encoded_base_url/{}", URL_SAFE.encode(url)));
        format!("{}{}{}", self.base(), ids.path(), behind.unwrap_or_default())
    }

    /// The `model_base_url` of a dispatch. For these hosts Eval Protocol's client adds the ids itself, so that any OpenAI client
    /// reaches the rollout's own URL; for others it does not.
    pub fn model_base_url(&self, ids: &Ids, behind: Option<&str>) -> String {
        let base = self.base();
        let adds_ids = base.starts_with("http://localhost")
            || ["tracing.fireworks.ai", "litellm-gateway"].iter().any(|name| base.contains(name));
        if adds_ids { self.calls(ids, behind) } else { base }
    }

    /// The status of a rollout; `None` if none was reported.
    pub async fn status(&self, rollout_id: &str) -> Result<Option<Status>, EndpointError> {
        let query = [("rollout_id", rollout_id)];
        let answer = self.get(&["/v1/status", "/status"], &query).await?;
        let status =
            answer.get("status").and_then(|status| serde_json::from_value::<Status>(status.clone()).ok());
        let page = answer.pointer("/extras/github_actions_run_url").and_then(Value::as_str);
        let by_run = page.and_then(|page| page.rsplit('/').next()?.parse().ok());
        Ok(status.map(|status| Status { by_run, ..status }))
    }

    /// The worker's last message with this code.
    pub async fn message(&self, rollout_id: &str, code: i64) -> Result<Option<String>, EndpointError> {
        let tag = format!("rollout_id:{rollout_id}");
        let query =
            [("tags", tag.as_str()), ("limit", "100"), ("hours_back", "720"), ("program", "eval_protocol")];
        let answer = self.get(&["/logs", "/v1/logs"], &query).await?;
        let entries = answer["entries"].as_array().cloned().unwrap_or_default();
        let said =
            entries.iter().find(|entry| entry.pointer("/status/code").and_then(Value::as_i64) == Some(code));
        Ok(said.and_then(|entry| entry.pointer("/status/message")?.as_str()).map(printable))
    }

    /// The recorded traces of a rollout.
    pub async fn traces(&self, rollout_id: &str) -> Result<Vec<Trace>, EndpointError> {
        let tag = format!("rollout_id:{rollout_id}");
        let query = [("tags", tag.as_str()), ("limit", MOST_TRACES)];
        let answer = self.get(&["/v1/traces/pointwise", "/traces/pointwise"], &query).await?;
        let traces = answer["traces"].as_array().cloned().unwrap_or_default();
        Ok(traces.iter().filter_map(Trace::read).collect())
    }

    /// Reports the status of a rollout.
    pub async fn report(&self, ids: &Ids, status: &Status, extras: Value) -> Result<(), EndpointError> {
        let redactor = Redactor::new(&self.key);
        let status = Status { message: redactor.redact(status.message.clone()), ..status.clone() };
        let body = json!({
            "program": "eval_protocol",
            "status": status.to_json(),
            "message": status.message,
            "tags": ids.tags(),
            "extras": extras,
        });
        let body = body.to_string();
        let post =
            |url: Url| self.client.post(url).header("content-type", "application/json").body(body.clone());
        self.ask(&["/logs", "/v1/logs"], post).await.map(|_| ())
    }

    async fn get(&self, routes: &[&str], query: &[(&str, &str)]) -> Result<Value, EndpointError> {
        let get = |mut url: Url| {
            url.query_pairs_mut().extend_pairs(query);
            self.client.get(url)
        };
        self.ask(routes, get).await
    }

    /// Sends a request to the first route that exists; retries if the endpoint is briefly unreachable.
    async fn ask(
        &self,
        routes: &[&str],
        request: impl Fn(Url) -> reqwest::RequestBuilder,
    ) -> Result<Value, EndpointError> {
        let mut trouble = EndpointError::NoRoute;
        for route in routes {
            let mut url = self.base.clone();
            url.set_path(&format!("{}{route}", self.base.path().trim_end_matches('/')));
            let mut attempts = backoff::TRACE_ENDPOINT.attempts();
            loop {
                match self.ask_once(request(url.clone())).await {
                    Ok(answer) => return Ok(answer),
                    Err(gone @ EndpointError::Gone(_)) => {
                        trouble = gone;
                        if !attempts.again_async().await {
                            break;
                        }
                    }
                    Err(EndpointError::NoRoute) => {
                        trouble = EndpointError::NoRoute;
                        break;
                    }
                    Err(refused) => return Err(refused),
                }
            }
            if trouble != EndpointError::NoRoute {
                break;
            }
        }
        Err(trouble)
    }

    async fn ask_once(&self, request: reqwest::RequestBuilder) -> Result<Value, EndpointError> {
        let host = self.base.host_str().unwrap_or_default().to_owned();
        let gone = |error: reqwest::Error| {
            let error = error.without_url();
            tracing::debug!("{host}: {error}");
            let cause = innermost(&error);
            let what = if error.is_timeout() {
                "did not respond in time".to_owned()
            } else if cause.to_lowercase().contains("certificate") {
                format!("cannot be reached: {cause}; `--ca-file` or `RUN_EVALS_CA` adds a private CA")
            } else {
                "cannot be reached".to_owned()
            };
            EndpointError::Gone(format!("the tracing endpoint `{host}` {what}"))
        };
        let request = match &self.key {
            Some(key) => request.bearer_auth(key.expose()),
            None => request,
        };
        let mut response = request.send().await.map_err(gone)?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(gone)? {
            if body.len() + chunk.len() > LARGEST_ANSWER {
                let message = format!("the response of `{host}` is too large");
                return Err(EndpointError::Refused(Code::Internal, message));
            }
            body.extend_from_slice(&chunk);
        }
        let code = status.as_u16();
        match status {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Err(EndpointError::NoRoute),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let message = format!("the tracing endpoint `{host}` does not accept the key: {code}");
                let is_unknown = status == StatusCode::UNAUTHORIZED;
                let code = if is_unknown { Code::Unauthenticated } else { Code::PermissionDenied };
                Err(EndpointError::Refused(code, message))
            }
            StatusCode::TOO_MANY_REQUESTS => {
                Err(EndpointError::Gone(format!("the tracing endpoint `{host}` returned {code}")))
            }
            status if status.is_server_error() => {
                Err(EndpointError::Gone(format!("the tracing endpoint `{host}` returned {code}")))
            }
            status if status.is_success() => Ok(serde_json::from_slice(&body).unwrap_or_default()),
            _ => Err(EndpointError::Refused(
                Code::Internal,
                format!("the tracing endpoint `{host}` returned {code}"),
            )),
        }
    }
}

impl Trace {
    fn read(trace: &Value) -> Option<Self> {
        let messages = match &trace["input"] {
            Value::Array(messages) => messages.clone(),
            input => input["messages"].as_array()?.clone(),
        };
        let answer = trace["output"].is_object().then(|| trace["output"].clone())?;
        let tools = trace["input"].get("tools").filter(|tools| !tools.is_null()).cloned();
        Some(Self { messages, answer, tools })
    }

    /// The whole conversation.
    pub fn conversation(&self) -> Vec<Value> {
        self.messages.iter().cloned().chain([self.answer.clone()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_parsed() {
        let parts = |text: &str| {
            let (base, ids) = split(text).unwrap();
            (base.as_str().trim_end_matches('/').to_owned(), ids)
        };
        assert_eq!(parts("http://localhost:9/"), ("http://localhost:9".to_owned(), None));
        assert_eq!(parts("https://h/p/v1/"), ("https://h/p/v1".to_owned(), None));
        let (base, ids) = parts("https://h/p/rollout_id/a/run_id/b/");
        assert_eq!((base.as_str(), ids.as_deref()), ("https://h/p", Some("/rollout_id/a/run_id/b")));
    }

    /// As `build_init_request` of Eval Protocol 0.3.33 does.
    #[test]
    fn ids_are_added_where_the_official_client_adds_them() {
        let ids = Ids {
            rollout_id: "late-life-832674".into(),
            invocation_id: "i".into(),
            experiment_id: "e".into(),
            run_id: "r".into(),
            row_id: "7".into(),
        };
        let sent = |base: &str, behind: Option<&str>| {
            Endpoint::new(split(base).unwrap().0, None, &[]).unwrap().model_base_url(&ids, behind)
        };
        let path = "/rollout_id/late-life-832674/invocation_id/i/experiment_id/e/run_id/r/row_id/7";
        for base in
            ["http://localhost:9", "https://tracing.fireworks.ai", "https://litellm-gateway.example.com/v1"]
        {
            assert_eq!(sent(base, None), format!("{base}{path}"));
        }
        for base in ["http://127.0.0.1:9", "https://localhost:9", "https://traces.example.com"] {
            assert_eq!(sent(base, None), base);
        }
        assert_eq!(
            sent("http://localhost:9", Some("https://api.example.com/v1")),
            format!("http://localhost:9{path}/encoded_base_url/aHR0cHM6Ly9hcGkuZXhhbXBsZS5jb20vdjE=")
        );
    }

    #[test]
    fn an_invalid_endpoint_is_an_error() {
        let problem = |text: &str| split(text).unwrap_err().to_string();
        insta::assert_snapshot!(problem("sk-pasted"), @"`model_base_url` is not a URL: relative URL without a base");
        insta::assert_snapshot!(problem("file:///etc/passwd"), @"`model_base_url` is not an `http` or `https` URL");
        insta::assert_snapshot!(problem("https://h/%65ncoded_base_url/eA=="), @"`model_base_url` has `encoded_base_url`, an escape or an empty segment before the ids");
        for odd in ["a/..%2fb", "a/%2e%2e%2fb", "%2565ncoded_base_url/eA==", "a%0d%0aX:y", "a//127.0.0.1:1"] {
            assert!(problem(&format!("https://h/{odd}")).contains("an escape or an empty segment"), "{odd}");
        }
        insta::assert_snapshot!(problem("https://u:p@h"), @"`model_base_url` has a user name, a password, a query or a fragment");
    }
}
