//! The way out: one HTTP client with timeouts, the environment's proxies and the system's certificates, and the service
//! that octocrab sends through.

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

use super::patience::Patience;
use crate::model::{Exit, Failure};

const USER_AGENT: &str = concat!("run-evals/", env!("CARGO_PKG_VERSION"));

/// How long a connection is kept for the next request.
const IDLE: Duration = Duration::from_secs(20);

/// The variable that names a file with the certificates to trust.
const CERTIFICATES: &str = "SSL_CERT_FILE";

/// What a wrong address sounds like: a name that does not exist (one that cannot be looked up right now sounds
/// different), a certificate that is not to be trusted, a server that does not speak TLS.
const WRONG_ADDRESS: [&str; 5] = [
    "name or service not known",
    "nodename nor servname",
    "no address associated with hostname",
    "certificate",
    "corrupt message",
];

/// A request that got no whole answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{cause}")]
pub(super) struct TransportError {
    /// What went wrong, without any address.
    pub(super) cause: String,
    /// Whether the server may have seen the request.
    pub(super) sent: bool,
    /// Whether another try can end differently.
    pub(super) repeatable: bool,
}

impl TransportError {
    /// The answer went on and on.
    pub(super) fn endless() -> Self {
        Self { cause: "the answer does not end".to_owned(), sent: true, repeatable: true }
    }
}

impl From<reqwest::Error> for TransportError {
    fn from(error: reqwest::Error) -> Self {
        // Signed addresses carry their signature in the query, and reqwest puts the address into its messages.
        let error = error.without_url();
        let innermost = innermost(&error);
        let lower = innermost.to_lowercase();
        let wrong = WRONG_ADDRESS.iter().any(|sign| lower.contains(sign));
        let sent = !(error.is_connect() || error.is_builder());
        let cause = match (error.is_timeout(), sent) {
            (true, true) => "no answer in time".to_owned(),
            (true, false) => "no connection in time".to_owned(),
            (false, true) => format!("the connection broke: {innermost}"),
            (false, false) => innermost,
        };
        Self { cause, sent, repeatable: !error.is_builder() && (sent || !wrong) }
    }
}

/// The service under octocrab: paths go to one origin, and no redirect is followed.
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

/// A client that follows no redirect: whoever redirects must not be followed with a token.
pub(super) fn http_client(patience: &Patience) -> Result<Client, Failure> {
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(patience.connect)
        .read_timeout(patience.silence)
        // Sooner than servers do: a request on a connection that is just being closed has an unknown end.
        .pool_idle_timeout(IDLE)
        .tcp_nodelay(true)
        .http1_only();
    // On Apple's systems the platform's verifier does not look at the variable; elsewhere it does.
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

/// The host and, unless it is the usual one, the port.
pub(super) fn host(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

/// The innermost error: the outer ones only say that a request was sent.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
