//! Rate limits in GitHub's responses.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use super::error::ErrorBody;

/// Messages of a rate limit without headers.
const LIMIT_PHRASES: [&str; 3] = ["rate limit", "abuse detection", "submitted too quickly"];

/// Messages of a missing permission. If it is also the last request of the hour, its headers look like an
/// exhausted rate limit.
const PERMISSION_PHRASES: [&str; 2] = ["resource not accessible", "must have"];

/// Extra wait after a reset, because both clocks count whole seconds.
const CLOCK_SLACK: Duration = Duration::from_secs(1);

/// The rate limit that rejected a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    /// Requested wait.
    pub(super) wait: Option<Duration>,
    /// Whether the hourly limit is exhausted; otherwise it is a secondary rate limit.
    pub(super) used_up: bool,
}

/// The rate limit of a response, if that is why it was rejected.
pub(super) fn limit_of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Option<Limit> {
    if !matches!(status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS) {
        return None;
    }
    let message = ErrorBody::of(headers, body).text().to_lowercase();
    if PERMISSION_PHRASES.iter().any(|phrase| message.contains(phrase)) {
        return None;
    }
    if let Some(wait) = retry_after(headers) {
        return Some(Limit { wait: Some(wait), used_up: false });
    }
    if number(headers, "x-ratelimit-remaining") == Some(0) {
        return Some(Limit { wait: until_reset(headers), used_up: true });
    }
    let told = LIMIT_PHRASES.iter().any(|phrase| message.contains(phrase));
    (told || status == StatusCode::TOO_MANY_REQUESTS).then_some(Limit { wait: None, used_up: false })
}

/// `Retry-After`.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    number(headers, "retry-after").map(Duration::from_secs)
}

/// Time until the limit resets, by the server's clock: ours may be wrong.
fn until_reset(headers: &HeaderMap) -> Option<Duration> {
    let reset = i64::try_from(number(headers, "x-ratelimit-reset")?).ok()?;
    let now = server_time(headers).unwrap_or_else(Timestamp::now).as_second();
    Some(Duration::from_secs(u64::try_from(reset - now).unwrap_or(0)) + CLOCK_SLACK)
}

/// The server's clock at the response.
pub(super) fn server_time(headers: &HeaderMap) -> Option<Timestamp> {
    let date = headers.get(http::header::DATE)?.to_str().ok()?;
    DateTimeParser::new().parse_timestamp(date).ok()
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(status: u16, headers: &[(&'static str, &str)], message: &str) -> Option<(Option<u64>, bool)> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let limit = limit_of(StatusCode::from_u16(status).unwrap(), &headers.collect(), message.as_bytes());
        limit.map(|limit| (limit.wait.map(|wait| wait.as_secs()), limit.used_up))
    }

    #[test]
    fn rate_limits_are_distinguished_from_missing_permissions() {
        let remaining = ("x-ratelimit-remaining", "0");
        let reset =
            [remaining, ("x-ratelimit-reset", "1000000100"), ("date", "Sun, 09 Sep 2001 01:46:40 GMT")];
        let exceeded = "API rate limit exceeded for installation ID 1.";
        assert_eq!(limit(403, &reset, exceeded), Some((Some(101), true)));
        assert_eq!(limit(429, &reset, exceeded), Some((Some(101), true)));
        assert_eq!(limit(403, &[remaining], exceeded), Some((None, true)));
        assert_eq!(limit(403, &[("retry-after", "7"), remaining], exceeded), Some((Some(7), false)));
        assert_eq!(limit(429, &[], ""), Some((None, false)));
        let secondary = "You have exceeded a secondary rate limit. Please wait a few minutes.";
        assert_eq!(limit(403, &[("x-ratelimit-remaining", "4999")], secondary), Some((None, false)));
        assert_eq!(limit(403, &[], "Resource not accessible by integration"), None);
        assert_eq!(limit(403, &[remaining], "Resource not accessible by personal access token"), None);
        assert_eq!(limit(404, &[remaining], exceeded), None);
        assert_eq!(limit(200, &[remaining], ""), None);
    }
}
