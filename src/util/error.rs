//! Library errors in messages.

use std::error::Error;

/// Parts of messages about a wrong address: an unknown host name (a temporary DNS failure has another message), an untrusted
/// certificate, a server without TLS.
const WRONG_ADDRESS: [&str; 5] = [
    "name or service not known",
    "nodename nor servname",
    "no address associated with hostname",
    "certificate",
    "corrupt message",
];

/// Whether a connection failed because of a wrong address, so that a retry cannot succeed.
pub fn is_wrong_address(cause: &str) -> bool {
    let cause = cause.to_lowercase();
    WRONG_ADDRESS.iter().any(|sign| cause.contains(sign))
}

/// The innermost error. The outer ones only say that a request failed.
pub fn innermost(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
