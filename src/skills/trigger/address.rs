//! The service's address, which must not expose the token to others on the network.

use reqwest::Url;

use crate::model::{Exit, Failure};

/// Refuses an address that is invalid or would expose the token.
pub(super) fn parse_url(text: &str) -> Result<Url, Failure> {
    const HINT: &str = "such as `https://evaluator.example.org`";
    let wrong = |why: &str| Failure::new(Exit::Usage, format!("the address of the service {why}")).hint(HINT);
    let url = Url::parse(text.trim()).map_err(|_| wrong("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(wrong("is not an `https` URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("must not contain credentials: set the token in `RUN_EVALS_SERVE_TOKEN`"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("must not have a query or a fragment"));
    }
    if url.scheme() == "http" && !is_loopback(&url) {
        return Err(wrong("must be `https`: over `http`, others on the network could read the token"));
    }
    Ok(url)
}

/// Whether the address is on this machine, by number or as `localhost`.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        parse_url(url).unwrap_err().to_string()
    }

    #[test]
    fn the_token_is_sent_only_over_tls_or_loopback() {
        for good in [
            "https://e.example.org",
            "https://e.example.org/evals/",
            "http://127.0.0.1:8080",
            "http://[::1]:1",
            "http://localhost:9",
        ] {
            assert!(parse_url(good).is_ok(), "{good}");
        }
        insta::assert_snapshot!(refused("http://e.example.org"), @"the address of the service must be `https`: over `http`, others on the network could read the token");
        for plain in [
            "http://10.0.0.1",
            "http://localhost.example.org",
            "http://127.0.0.1.nip.io",
            "http://0.0.0.0",
            "http://[::]",
        ] {
            assert!(refused(plain).contains("must be `https`"), "{plain}");
        }
        insta::assert_snapshot!(refused("https://u:p@e.example.org"), @"the address of the service must not contain credentials: set the token in `RUN_EVALS_SERVE_TOKEN`");
        insta::assert_snapshot!(refused("https://e.example.org/?x=1"), @"the address of the service must not have a query or a fragment");
        insta::assert_snapshot!(refused("ftp://e.example.org"), @"the address of the service is not an `https` URL");
        insta::assert_snapshot!(refused("evaluator"), @"the address of the service is not a URL");
    }
}
