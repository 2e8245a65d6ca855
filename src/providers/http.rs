//! The HTTP sender: sends a request, reads the whole response, and maps errors.

use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Request, Response, Url};

use super::wire::{Wire, WireResponse};
use super::{Refusal, Retry};
use crate::model::{Auth, Endpoint, ErrorKind, Failure};
use crate::util::ca::trusting;
use crate::util::error::{innermost, is_wrong_address};

/// What an answer may be, and which setting a redirect asks to correct.
pub(super) struct Expected {
    most_bytes: usize,
    setting: &'static str,
}

/// The answer of a model.
const ANSWER: Expected = Expected { most_bytes: 32 << 20, setting: "base_url" };
/// A token that is exchanged for the identity of a job.
pub(super) const TOKEN: Expected = Expected { most_bytes: 1 << 20, setting: "token_url" };
/// The identity token of a job.
pub(super) const JOB_TOKEN: Expected =
    Expected { most_bytes: 1 << 20, setting: "ACTIONS_ID_TOKEN_REQUEST_URL" };

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Each call in flight has its own connection; keep them all for reuse.
const MOST_IDLE_CONNECTIONS: usize = 1024;
const USER_AGENT: &str = concat!("run-evals/", env!("CARGO_PKG_VERSION"));

/// The most memory reserved for a response because of its announced length.
const MOST_SET_ASIDE: usize = 1 << 20;

/// A client for one target, which trusts these CAs besides the system's.
pub(super) fn client(ca_pem: &[u8]) -> Result<Client, Failure> {
    trusting(Client::builder(), ca_pem)?
        .user_agent(USER_AGENT)
        // A redirect could send the key to another host, and no vendor needs one.
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(MOST_IDLE_CONNECTIONS)
        .tcp_nodelay(true)
        .http1_only()
        .build()
        .map_err(|error| {
            Failure::new(
                crate::model::Exit::Failure,
                format!("cannot set up the HTTP client: {}", innermost(&error.without_url())),
            )
            .hint("check the proxy variables and the system's certificates")
        })
}

/// The header with a static key, marked as sensitive so that it is not logged.
pub(super) fn key_header(
    wire: &Wire,
    endpoint: &Endpoint,
) -> Result<Option<(HeaderName, HeaderValue)>, Failure> {
    let Auth::Key(key) = &endpoint.auth else { return Ok(None) };
    // A missing secret in a workflow is an empty key.
    if key.expose().is_empty() {
        return Ok(None);
    }
    let (name, prefix) = wire.key_header;
    // Do not pass on the error of `from_str`: it may describe the value.
    let value = HeaderValue::from_str(&format!("{prefix}{}", key.expose())).ok();
    match value.filter(|_| !key.expose().contains(char::is_control)) {
        Some(mut value) => {
            value.set_sensitive(true);
            Ok(Some((HeaderName::from_static(name), value)))
        }
        None => Err(Failure::config("the API key contains a line break or another illegal character")
            .hint("store the secret again, without quotes and without text around it")),
    }
}

/// Sends a request, and reads the whole response whatever its status, except a redirect.
pub(super) async fn post(client: &Client, request: Request) -> Result<WireResponse, Refusal> {
    send(client, request, &ANSWER).await
}

/// The same for any other answer.
pub(super) async fn send(
    client: &Client,
    request: Request,
    expected: &Expected,
) -> Result<WireResponse, Refusal> {
    let url = request.url().clone();
    let limit = request.timeout().copied();
    let failed = |error: reqwest::Error| transport_error(error, &url, limit);
    let mut response = client.execute(request).await.map_err(failed)?;
    if response.status().is_redirection() {
        return Err(redirect(&response, &url, expected.setting));
    }
    let status = response.status().as_u16();
    let headers = std::mem::take(response.headers_mut());
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let mut body = Vec::with_capacity(announced.min(MOST_SET_ASIDE));
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > expected.most_bytes {
            let message =
                format!("the answer of `{}` is larger than {} MiB", host(&url), expected.most_bytes >> 20);
            let error = Refusal::new(ErrorKind::BadResponse, Retry::No, message);
            return Err(Refusal { status: Some(status), ..error });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(WireResponse { status, headers, body })
}

fn redirect(response: &Response, url: &Url, setting: &str) -> Refusal {
    let status = response.status().as_u16();
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let to = location.and_then(|location| url.join(location).ok()).map(|to| host(&to));
    let message = match to {
        Some(to) => format!("`{}` returned {status} with a redirect to `{to}`", host(url)),
        None => format!("`{}` returned {status}, a redirect without a location", host(url)),
    };
    Refusal {
        status: Some(status),
        may_be_billed: false,
        ..Refusal::new(
            ErrorKind::BadResponse,
            Retry::No,
            format!("{message}: redirects are not followed; fix `{setting}`"),
        )
    }
}

fn transport_error(error: reqwest::Error, url: &Url, limit: Option<Duration>) -> Refusal {
    let host = host(url);
    // Remove the URL: reqwest writes it, with its query, into its messages.
    let error = error.without_url();
    let cause = innermost(&error);
    if error.is_connect() {
        let retry = if is_wrong_address(&cause) { Retry::No } else { Retry::After(None) };
        return Refusal::new(ErrorKind::Connection, retry, format!("cannot connect to `{host}`: {cause}"));
    }
    if error.is_timeout() {
        let within = limit.map(|limit| format!(" within {limit:?}")).unwrap_or_default();
        let message = format!("no answer from `{host}`{within}");
        return Refusal::new(ErrorKind::Timeout, Retry::After(None), message);
    }
    let message = format!("the connection to `{host}` broke: {cause}");
    Refusal { may_be_billed: true, ..Refusal::new(ErrorKind::Connection, Retry::After(None), message) }
}

fn host(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_urls_are_distinguished_from_network_errors() {
        for wrong in [
            "failed to lookup address information: Name or service not known",
            "invalid peer certificate: UnknownIssuer",
            "received corrupt message of type InvalidContentType",
        ] {
            assert!(is_wrong_address(wrong), "{wrong}");
        }
        for bad_luck in [
            "failed to lookup address information: Temporary failure in name resolution",
            "Connection refused (os error 111)",
            "operation timed out",
        ] {
            assert!(!is_wrong_address(bad_luck), "{bad_luck}");
        }
    }
}
