//! The HTTP client, with timeouts, proxies and system certificates, and the service that octocrab sends
//! through.

use std::env;
use std::fs;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::MapErr;
use octocrab::OctoBody;
use reqwest::{Certificate, Client, Url};
use tower::Service;

use super::retry_policy::RetryPolicy;
use crate::model::{Exit, Failure};
use crate::util::ca::trusting;
use crate::util::error::{innermost, is_wrong_address};

const USER_AGENT: &str = concat!("run-evals/", env!("CARGO_PKG_VERSION"));

/// How long idle connections are kept.
const IDLE: Duration = Duration::from_secs(20);

/// Variable with a file of trusted certificates.
const CERTIFICATES: &str = "SSL_CERT_FILE";

/// A request without a complete response.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{cause}")]
pub(super) struct TransportError {
    /// Cause, without any URL.
    pub(super) cause: String,
    /// Whether the server may have received the request.
    pub(super) sent: bool,
    /// Whether a retry may succeed.
    pub(super) repeatable: bool,
}

impl TransportError {
    /// The response exceeds the limit.
    pub(super) fn endless() -> Self {
        Self { cause: "the response does not end".to_owned(), sent: true, repeatable: true }
    }
}

impl From<reqwest::Error> for TransportError {
    fn from(error: reqwest::Error) -> Self {
        // reqwest's messages contain the URL, and the query of a signed URL is a credential.
        let error = error.without_url();
        let innermost = innermost(&error);
        let wrong = is_wrong_address(&innermost);
        let sent = !(error.is_connect() || error.is_builder());
        let cause = match (error.is_timeout(), sent) {
            (true, true) => "no response in time".to_owned(),
            (true, false) => "no connection in time".to_owned(),
            (false, true) => format!("the connection broke: {innermost}"),
            (false, false) => innermost,
        };
        Self { cause, sent, repeatable: !error.is_builder() && (sent || !wrong) }
    }
}

/// The service under octocrab: sends to one origin and follows no redirect.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    client: Client,
    origin: Url,
}

impl Transport {
    pub(super) fn new(client: Client, origin: Url) -> Self {
        Self { client, origin }
    }
}

impl Service<Request<OctoBody>> for Transport {
    type Response = Response<MapErr<reqwest::Body, fn(reqwest::Error) -> TransportError>>;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<OctoBody>) -> Self::Future {
        let Self { client, mut origin } = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            origin.set_path(parts.uri.path());
            origin.set_query(parts.uri.query());
            let mut outgoing = reqwest::Request::new(parts.method, origin);
            *outgoing.headers_mut() = parts.headers;
            *outgoing.body_mut() = Some(reqwest::Body::wrap(body));
            let answer: Response<reqwest::Body> = client.execute(outgoing).await?.into();
            Ok(answer.map(|body| body.map_err(TransportError::from as fn(reqwest::Error) -> TransportError)))
        })
    }
}

/// A client that follows no redirects, because they would get the token.
pub(super) fn http_client(patience: &RetryPolicy, ca_pem: &[u8]) -> Result<Client, Failure> {
    let mut builder = trusting(Client::builder(), ca_pem)?
        .user_agent(USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(patience.connect)
        .read_timeout(patience.silence)
        // Below the servers' own timeout: a request on a closing connection has an unknown outcome.
        .pool_idle_timeout(IDLE)
        .tcp_nodelay(true)
        .http1_only();
    // On Apple platforms, the verifier ignores the variable.
    if cfg!(target_vendor = "apple")
        && let Some(file) = env::var_os(CERTIFICATES).filter(|file| !file.is_empty())
    {
        let certificates = fs::read(&file)
            .map_err(|error| error.to_string())
            .and_then(|pem| Certificate::from_pem_bundle(&pem).map_err(|error| error.to_string()))
            .map_err(|error| {
                let file = file.to_string_lossy();
                Failure::config(format!("cannot read the certificates in `{file}`: {error}"))
                    .hint(format!("`{CERTIFICATES}` names a file with certificates in PEM format"))
            })?;
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(|error| {
        let cause = innermost(&error.without_url());
        Failure::new(Exit::Failure, format!("cannot set up the HTTP client: {cause}"))
            .hint(format!("check the proxy variables, the system's certificates and `{CERTIFICATES}`"))
    })
}

/// Host, with a non-default port.
pub(super) fn host(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}
