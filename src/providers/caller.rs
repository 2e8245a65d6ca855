//! Calls one target: encodes a request once, and sends it as often as needed.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method};

use super::attachments;
use super::auth::{Authorizer, Token};
use super::base_url::{self, Address};
use super::mock::{Mock, Question};
use super::openai::COMPATIBLE;
use super::reply::tidy;
use super::wire::{Wire, wire};
use super::{CallError, Refusal, Reply, http};
use crate::model::{
    Api, Auth, Block, Content, Endpoint, ErrorKind, Failure, FinishReason, Provider, Request, RunnerTarget,
    TokenUsage,
};
use crate::util::redact::Redactor;

/// The assumed output tokens of a call without a limit.
const USUAL_OUTPUT_TOKENS: u64 = 512;
/// The tokens of a message besides its text.
const TOKENS_PER_MESSAGE: u64 = 8;
/// The most tokens that a vendor adds around tools, once per request.
const MOST_TOOL_FRAME_TOKENS: u64 = 1_024;
/// The most tokens of an image.
const MOST_PICTURE_TOKENS: u64 = 4_096;
/// The assumed bytes per token of a PDF, if that gives more.
const PDF_BYTES_PER_TOKEN: u64 = 8;
/// No model returns more: a request that allows more must not hold back all others.
const MOST_OUTPUT_TOKENS: u64 = 1_000_000;
/// The assumed tokens of an image or a PDF: its size says little about it.
const USUAL_BINARY_TOKENS: u64 = 1_500;

/// Anthropic's beta header for calls with a token instead of a key.
const OAUTH_BETA: &str = "oauth-2025-04-20";

/// The client of one target; made once per run.
pub struct Caller {
    target: Arc<RunnerTarget>,
    route: Route,
    redactor: Redactor,
}

enum Route {
    Http(HttpRoute),
    Mock(Mock),
}

struct HttpRoute {
    wire: &'static Wire,
    address: Address,
    headers: HeaderMap,
    client: Client,
    authorizer: Authorizer,
}

/// An encoded request, which can be sent any number of times.
#[derive(Debug)]
pub struct Call(Outgoing);

#[derive(Debug)]
enum Outgoing {
    Http(reqwest::Request),
    Mock(Question),
}

impl Call {
    /// The body as JSON, if it is JSON.
    pub fn json(&self) -> Option<serde_json::Value> {
        let Outgoing::Http(request) = &self.0 else { return None };
        serde_json::from_slice(request.body()?.as_bytes()?).ok()
    }
}

#[cfg(test)]
impl Call {
    /// The body.
    pub(super) fn body(&self) -> &str {
        let Outgoing::Http(request) = &self.0 else { panic!("nothing is sent to a mock") };
        std::str::from_utf8(request.body().unwrap().as_bytes().unwrap()).unwrap()
    }
}

impl Caller {
    /// Prepares a target: checks its address and key, reads a mock's script, sets up the HTTP client.
    pub fn new(target: Arc<RunnerTarget>) -> Result<Self, Failure> {
        let redactor = Redactor::new(target.secrets());
        let route = Route::new(&target.provider).map_err(|failure| {
            let located = Failure::new(failure.exit(), format!("target `{}`: {failure}", target.name));
            failure.hint_text().map(str::to_owned).into_iter().fold(located, Failure::hint)
        })?;
        Ok(Self { target, route, redactor })
    }

    /// Encodes a request; attachments are read from `files_dir/<sha256>`.
    pub fn encode(&self, request: &Request, files_dir: &Path) -> Result<Call, CallError> {
        self.outgoing(request, files_dir).map(Call).map_err(|refusal| refusal.redacted(&self.redactor))
    }

    fn outgoing(&self, request: &Request, files_dir: &Path) -> Result<Outgoing, Refusal> {
        let params = if request.params.is_empty() {
            Cow::Borrowed(&self.target.params)
        } else {
            Cow::Owned(request.params.or(&self.target.params))
        };
        let outgoing = match &self.route {
            Route::Mock(mock) => {
                Outgoing::Mock(mock.question(request, params.model.as_deref(), files_dir)?)
            }
            Route::Http(HttpRoute { wire, address, headers, .. }) => {
                let model = params.model.as_deref().ok_or_else(|| {
                    Refusal::bad_request(format!(
                        "neither the request nor target `{}` names a `model`",
                        self.target.name
                    ))
                })?;
                let url = address.of(model).map_err(Refusal::bad_request)?;
                let body = wire.body(request, &params, model, files_dir)?;
                Outgoing::Http(self.post_request(url, headers, body))
            }
        };
        Ok(outgoing)
    }

    /// A chat completion with exactly this body, for a target that supports that API.
    pub fn encode_chat(&self, body: &serde_json::Map<String, serde_json::Value>) -> Result<Call, CallError> {
        let outgoing = match &self.route {
            Route::Http(HttpRoute { wire, address, headers, .. }) if wire.is_chat_completions => {
                let model = body.get("model").and_then(serde_json::Value::as_str).unwrap_or_default();
                let url = address.of(model).map_err(Refusal::bad_request);
                let bytes = serde_json::to_vec(body).map_err(|error| Refusal::bad_request(error.to_string()));
                url.and_then(|url| Ok(Outgoing::Http(self.post_request(url, headers, bytes?))))
            }
            _ => Err(Refusal::bad_request("the target does not speak chat completions")),
        };
        outgoing.map(Call).map_err(|refusal| refusal.redacted(&self.redactor))
    }

    fn post_request(&self, url: reqwest::Url, headers: &HeaderMap, body: Vec<u8>) -> reqwest::Request {
        let mut outgoing = reqwest::Request::new(Method::POST, url);
        *outgoing.headers_mut() = headers.clone();
        *outgoing.timeout_mut() = Some(self.target.timeout);
        *outgoing.body_mut() = Some(body.into());
        outgoing
    }

    /// Makes one attempt, counted from 1: sends the call and reads the response.
    pub async fn send(&self, call: &Call, attempt: u32) -> Result<Reply, CallError> {
        let result = match (&self.route, &call.0) {
            (Route::Mock(mock), Outgoing::Mock(question)) => {
                let answer = mock.ask(question, attempt).await;
                let reply = COMPATIBLE.reply(&answer, Timestamp::now(), self.target.keep_raw);
                let tool_calls = || mock.tool_calls(question, attempt).to_vec();
                reply.map(|reply| Reply { tool_calls: tool_calls(), ..reply })
            }
            (Route::Http(route), Outgoing::Http(request)) => self.post(route, request).await,
            _ => Err(Refusal::bad_request("the call was encoded for another target")),
        };
        // A vendor may repeat the key in its error message.
        let reply = result.map_err(|refusal| refusal.redacted(&self.redactor))?;
        let finish_reason = match reply.finish_reason {
            FinishReason::Other(word) => FinishReason::Other(tidy(word, &self.redactor)),
            known => known,
        };
        Ok(Reply { finish_reason, ..reply })
    }

    /// A rough estimate of the tokens of a request, input and output.
    pub fn estimated_tokens(&self, request: &Request) -> TokenUsage {
        let max_tokens = request.params.max_tokens.or(self.target.params.max_tokens);
        let output = max_tokens.unwrap_or(USUAL_OUTPUT_TOKENS).min(MOST_OUTPUT_TOKENS);
        TokenUsage { input: prompt_tokens(request), output, ..TokenUsage::default() }
    }

    /// The most tokens that a request can use: each byte of text may be a token, and the answer as long as `max_tokens` allows.
    /// Without a limit, and for images and PDFs, this is an assumption.
    pub fn most_tokens(&self, request: &Request) -> TokenUsage {
        let params = request.params.or(&self.target.params);
        let wire = if let Route::Http(HttpRoute { wire, .. }) = &self.route { wire } else { &COMPATIBLE };
        let output = params.max_tokens.unwrap_or(wire.most_output_tokens);
        let schema = params.response_format.as_ref().and_then(|format| serde_json::to_string(format).ok());
        let schema = schema.map_or(0, |schema| schema.len() as u64);
        let frames = TOKENS_PER_MESSAGE * request.messages.len() as u64
            + if request.tools.is_empty() { 0 } else { MOST_TOOL_FRAME_TOKENS };
        let Prompt { text_bytes, pictures, pdf_bytes, pdfs } = Prompt::of(request);
        let binary = MOST_PICTURE_TOKENS * pictures
            + (pdf_bytes / PDF_BYTES_PER_TOKEN).max(MOST_PICTURE_TOKENS * pdfs);
        TokenUsage { input: text_bytes + binary + frames + schema, output, ..TokenUsage::default() }
    }

    /// Sends a call; once more with new credentials if short-lived ones were rejected.
    async fn post(&self, route: &HttpRoute, request: &reqwest::Request) -> Result<Reply, Refusal> {
        let authorizer = &route.authorizer;
        let Some(token) = authorizer.token().await? else {
            return self.post_with(route, request, None).await;
        };
        let refusal = match self.post_with(route, request, Some(&token)).await {
            Ok(reply) => {
                token.accepted();
                return Ok(reply);
            }
            Err(refusal) => refusal,
        };
        let Some(renewed) = authorizer.renewed(&token, &refusal).await? else {
            return Err(authorizer.explained(refusal));
        };
        let reply = self.post_with(route, request, Some(&renewed)).await;
        reply.inspect(|_| renewed.accepted()).map_err(|refusal| authorizer.explained(refusal))
    }

    async fn post_with(
        &self,
        route: &HttpRoute,
        request: &reqwest::Request,
        token: Option<&Token>,
    ) -> Result<Reply, Refusal> {
        let url = request.url();
        // The body is shared, not copied; only a streamed one could not be sent twice.
        let mut outgoing =
            request.try_clone().ok_or_else(|| Refusal::bad_request("the call cannot be sent again"))?;
        let signature = route.authorizer.authorize(&mut outgoing, token)?;
        let mut answer = http::post(&route.client, outgoing).await?;
        if let Some(signature) = signature {
            signature.redact(&mut answer);
        }
        route.wire.reply(&answer, Timestamp::now(), self.target.keep_raw).map_err(|error| match error.kind {
            // A wrong model, deployment, version or path look the same: show the address.
            ErrorKind::NotFound => {
                let message = format!("{} (at {})", error.message, base_url::describe(url));
                Refusal { message, ..error }
            }
            _ => error,
        })
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("target", &self.target.name).finish_non_exhaustive()
    }
}

impl Route {
    fn new(provider: &Provider) -> Result<Self, Failure> {
        let endpoint = match provider {
            Provider::Mock(settings) => return Ok(Self::Mock(Mock::new(settings)?)),
            Provider::Api(endpoint) => endpoint,
        };
        let wire = wire(endpoint);
        let address = (wire.address)(endpoint)?;
        let (headers, client) = (headers(wire, endpoint)?, http::client(&endpoint.ca_pem)?);
        let authorizer = Authorizer::new(endpoint)?;
        Ok(Self::Http(HttpRoute { wire, address, headers, client, authorizer }))
    }
}

fn headers(wire: &Wire, endpoint: &Endpoint) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some((name, value)) = http::key_header(wire, endpoint)? {
        headers.insert(name, value);
    }
    if endpoint.api == Api::Anthropic && matches!(endpoint.auth, Auth::GithubOidc(_)) {
        headers.insert(HeaderName::from_static("anthropic-beta"), HeaderValue::from_static(OAUTH_BETA));
    }
    if let Some((name, version)) = wire.version_header.zip(endpoint.api_version.as_deref()) {
        let value = HeaderValue::from_str(version)
            .map_err(|_| Failure::config(format!("invalid API version `{version}`")))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

/// How much a request asks a model to read.
#[derive(Default)]
struct Prompt {
    text_bytes: u64,
    pictures: u64,
    pdfs: u64,
    pdf_bytes: u64,
}

impl Prompt {
    fn of(request: &Request) -> Self {
        let mut prompt = Self::default();
        for message in &request.messages {
            match &message.content {
                Content::Text(text) => prompt.text_bytes += text.len() as u64,
                Content::Blocks(blocks) => blocks.iter().for_each(|block| prompt.add(request, block)),
            }
        }
        if !request.tools.is_empty() {
            prompt.text_bytes += serde_json::to_vec(&request.tools).map_or(0, |tools| tools.len() as u64);
        }
        prompt
    }

    fn add(&mut self, request: &Request, block: &Block) {
        match block {
            Block::Text { text } => self.text_bytes += text.len() as u64,
            Block::File { sha256, name } | Block::Image { sha256, name } => {
                match attachments::find(&request.files, sha256, name.as_deref()) {
                    Ok(file) if attachments::is_text_file(file) => self.text_bytes += file.size,
                    Ok(file) if attachments::is_pdf(file) => {
                        self.pdfs += 1;
                        self.pdf_bytes += file.size;
                    }
                    _ => self.pictures += 1,
                }
            }
        }
    }
}

fn prompt_tokens(request: &Request) -> u64 {
    let prompt = Prompt::of(request);
    prompt.text_bytes / 4 + USUAL_BINARY_TOKENS * (prompt.pictures + prompt.pdfs)
}
