//! What an answer says about GitHub's rate limits.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

use super::error::Said;

/// What the message of a limit says, where no header does.
const LIMIT_PHRASES: [&str; 3] = ["rate limit", "abuse detection", "submitted too quickly"];

/// What the message of a missing permission says. The last request of an hour can be one that is not permitted: then the
/// headers look like those of a used-up limit.
const PERMISSION_PHRASES: [&str; 2] = ["resource not accessible", "must have"];

/// A reset is waited for a little longer, because both clocks count whole seconds.
const CLOCK_SLACK: Duration = Duration::from_secs(1);

/// A limit that refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    /// How long to wait, where the answer says so.
    pub(super) wait: Option<Duration>,
    /// Whether the hour's requests are used up; otherwise they came too fast.
    pub(super) used_up: bool,
}

/// The limit that this answer tells, if it was refused for one.
pub(super) fn limit_of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Option<Limit> {
    if !matches!(status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS) {
        return None;
    }
    let message = Said::of(headers, body).text().to_lowercase();
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

/// How long the answer asks to wait.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    number(headers, "retry-after").map(Duration::from_secs)
}

/// How long until the limit is full again, by the server's clock: ours may be wrong.
fn until_reset(headers: &HeaderMap) -> Option<Duration> {
    let reset = i64::try_from(number(headers, "x-ratelimit-reset")?).ok()?;
    let told = headers.get(http::header::DATE).and_then(|date| date.to_str().ok());
    let now = told
        .and_then(|date| DateTimeParser::new().parse_timestamp(date).ok())
        .unwrap_or_else(Timestamp::now)
        .as_second();
    Some(Duration::from_secs(u64::try_from(reset - now).unwrap_or(0)) + CLOCK_SLACK)
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
    fn limits_are_told_from_missing_permissions() {
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
