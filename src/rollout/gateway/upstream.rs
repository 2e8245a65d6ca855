//! The upstreams of the gateway's owner, each with its own key. A client can choose among them by address, but cannot name
//! another one.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use bytes::Bytes;
use reqwest::Url;
use serde_json::{Map, Value};

use super::CallRefusal;
use crate::model::{Api, Auth, Endpoint, Exit, Failure, RunnerTarget, Secret, printable};
use crate::rollout::fields;
use crate::util::ca::trusting;

/// The largest response that is forwarded.
const LARGEST_ANSWER: usize = 16 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const USER_AGENT: &str = concat!("run-evals/", env!("CARGO_PKG_VERSION"));
/// Response headers that are forwarded.
const PASSED_ON: [&str; 8] = [
    "retry-after",
    "retry-after-ms",
    "x-request-id",
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens",
];

/// A server to which calls are forwarded.
#[derive(Debug)]
pub(super) struct Upstream {
    target: Arc<RunnerTarget>,
    /// As its owner wrote it.
    base: Url,
    url: Url,
    key: Option<Secret>,
    /// Trusts only the system's CAs and this target's.
    client: reqwest::Client,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Upstreams {
    all: Vec<Upstream>,
}

/// An upstream's response.
#[derive(Debug, Clone)]
pub(super) struct UpstreamResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl UpstreamResponse {
    /// The response without secrets. JSON is parsed and rewritten, so that escapes and repeated keys cannot hide a secret.
    pub(super) fn redacted(self, redact: &impl Fn(Value) -> Value) -> Self {
        let text = |bytes: &[u8]| match redact(String::from_utf8_lossy(bytes).into()) {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let body = match serde_json::from_slice::<Value>(&self.body) {
            Ok(json) => redact(json).to_string(),
            Err(_) => text(&self.body),
        };
        let header = |(name, value): (&HeaderName, &HeaderValue)| {
            Some((name.clone(), HeaderValue::from_str(&text(value.as_bytes())).ok()?))
        };
        let headers = self.headers.iter().filter_map(header).collect();
        Self { headers, body: body.into(), ..self }
    }
}

impl Upstreams {
    /// The targets that may be called; the first is the default.
    pub(super) fn new(targets: Vec<RunnerTarget>) -> Result<Self, Failure> {
        if targets.is_empty() {
            return Err(Failure::config("the trace gateway has no upstream")
                .hint("name a target with `--trace-upstream`"));
        }
        let all = targets.into_iter().map(Upstream::new).collect::<Result<_, _>>()?;
        Ok(Self { all })
    }

    /// The keys, which no trace and no response may contain.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.all.iter().filter_map(|upstream| upstream.key.as_ref())
    }

    /// The upstream that a client names by its encoded base URL, or the first.
    pub(super) fn choose(&self, encoded: Option<&str>) -> Result<&Upstream, CallRefusal> {
        let Some(encoded) = encoded else {
            return self.all.first().ok_or_else(|| CallRefusal::new(503, "no upstream is configured"));
        };
        let decoded = URL_SAFE
            .decode(encoded)
            .or_else(|_| URL_SAFE_NO_PAD.decode(encoded.trim_end_matches('=')))
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .and_then(|text| Url::parse(text.trim()).ok())
            .ok_or_else(|| CallRefusal::new(400, "`encoded_base_url` is not the base64 of a URL"))?;
        let same = |upstream: &&Upstream| is_same(&upstream.base, &decoded);
        self.all.iter().find(same).ok_or_else(|| {
            let host = decoded.host_str().unwrap_or_default();
            CallRefusal::new(403, format!("`{host}` is not among the upstreams of this gateway"))
        })
    }

    /// Forwards a call and reads the whole response.
    pub(super) async fn call(
        &self,
        upstream: &Upstream,
        body: Vec<u8>,
    ) -> Result<UpstreamResponse, CallRefusal> {
        let gone = |error: reqwest::Error| {
            let what = if error.is_timeout() {
                (504, "did not respond in time")
            } else {
                (502, "cannot be reached")
            };
            // Log neither the address nor the key: both belong to the owner.
            tracing::warn!("upstream `{}`: {}", upstream.target.name, error.without_url());
            CallRefusal::new(what.0, format!("the upstream `{}` {}", upstream.target.name, what.1))
        };
        let mut request = upstream
            .client
            .post(upstream.url.clone())
            .timeout(upstream.target.timeout)
            .header("content-type", "application/json")
            .body(body);
        if let Some(key) = &upstream.key {
            request = request.bearer_auth(key.expose());
        }
        let mut response = request.send().await.map_err(gone)?;
        if response.status().is_redirection() {
            let message = format!(
                "the upstream `{}` sent a redirect; redirects are not followed",
                upstream.target.name
            );
            return Err(CallRefusal::new(502, message));
        }
        let status = response.status();
        let headers = PASSED_ON
            .iter()
            .filter_map(|name| Some((HeaderName::from_static(name), response.headers().get(*name)?.clone())))
            .collect();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(gone)? {
            if body.len() + chunk.len() > LARGEST_ANSWER {
                return Err(CallRefusal::new(
                    502,
                    format!("the upstream's response is larger than {} MiB", LARGEST_ANSWER >> 20),
                ));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(UpstreamResponse { status, headers, body: body.into() })
    }
}

impl Upstream {
    fn new(target: RunnerTarget) -> Result<Self, Failure> {
        let chat = |endpoint: &&Endpoint| matches!(endpoint.api, Api::OpenAi | Api::OpenAiCompatible);
        let Some(endpoint) = target.provider.endpoint().filter(chat) else {
            let message = format!("target `{}` cannot be an upstream of the trace gateway", target.name);
            let hint =
                "the gateway forwards only chat completions: `provider: openai` or `openai-compatible`";
            return Err(Failure::config(message).hint(hint));
        };
        let base = Url::parse(endpoint.base_url.trim()).map_err(|error| {
            Failure::config(format!("target `{}`: `base_url` is not a URL: {error}", target.name))
        })?;
        let url = crate::providers::chat_completions_url(&target.provider)?;
        let key = match &endpoint.auth {
            Auth::Key(key) => Some(key.clone()).filter(|key| !key.expose().is_empty()),
            Auth::None => None,
            Auth::Aws(_) | Auth::GithubOidc(_) => {
                let message = format!("target `{}`: the trace gateway does not support `auth`", target.name);
                return Err(Failure::config(message).hint("use a target with `api_key`"));
            }
        };
        let client = trusting(reqwest::Client::builder(), &endpoint.ca_pem)?
            .user_agent(USER_AGENT)
            // A redirect would send the key to a host that was not allowed.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|error| {
                Failure::new(Exit::Failure, format!("cannot set up the HTTP client: {error}"))
            })?;
        Ok(Self { base, url, key, client, target: Arc::new(target) })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.target.name
    }

    /// Refuses models other than the target's `model` and `allow_models`: the owner pays.
    pub(super) fn check_models(&self, call: &Map<String, Value>) -> Result<(), CallRefusal> {
        let model = call.get("model").and_then(Value::as_str).unwrap_or_default();
        for asked in std::iter::once(model).chain(fields::further_models(call)) {
            if !self.target.allows_model(asked) {
                let message =
                    format!("the upstream `{}` does not allow the model `{}`", self.name(), printable(asked));
                return Err(CallRefusal::new(403, message));
            }
        }
        Ok(())
    }
}

/// Whether two base URLs are equal, ignoring a trailing slash.
fn is_same(one: &Url, other: &Url) -> bool {
    let parts = |url: &Url| {
        (
            url.scheme().to_owned(),
            url.host_str().map(str::to_owned),
            url.port_or_known_default(),
            url.path().trim_end_matches('/').to_owned(),
            url.query().map(str::to_owned),
            url.username().to_owned(),
            url.password().map(str::to_owned),
        )
    };
    parts(one) == parts(other)
}
