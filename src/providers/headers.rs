//! Rate limits and waits in response headers, in every format that vendors use.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::HeaderMap;

/// Plain numbers from here on are timestamps in seconds.
const EPOCH_SECONDS: f64 = 1e9;
/// Plain numbers from here on are timestamps in milliseconds.
const EPOCH_MILLISECONDS: f64 = 1e12;

/// The rate limits in the response headers, normalized over vendors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateHints {
    /// The limit of calls.
    pub requests: Allowance,
    /// The limit of tokens; if a vendor counts several kinds, the tightest one.
    pub tokens: Allowance,
}

/// One limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    /// The size of a full window.
    pub limit: Option<u32>,
    /// What is left of it.
    pub remaining: Option<u32>,
    /// When the window is full again; a single call can often be sent earlier.
    pub resets_in: Option<Duration>,
}

impl Allowance {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The share that is left, 0 to 1; 1 if unknown.
    fn share_left(&self) -> f64 {
        match (self.remaining, self.limit) {
            (Some(remaining), Some(limit)) if limit > 0 => f64::from(remaining) / f64::from(limit),
            _ => 1.0,
        }
    }
}

/// Reads the rate limits.
pub(super) fn rate_hints(headers: &HeaderMap, now: Timestamp) -> RateHints {
    // Most servers send none: checking the names once is cheaper than looking up each format.
    if !headers.keys().any(|name| name.as_str().contains("ratelimit")) {
        return RateHints::default();
    }
    let read = |names: [&str; 3]| {
        let [limit, remaining, reset] = names.map(|name| text(headers, name));
        Allowance {
            limit: limit.and_then(whole),
            remaining: remaining.and_then(whole),
            resets_in: reset.and_then(|text| parse_reset(text, now)),
        }
    };
    let first = |candidates: &[[&str; 3]]| {
        candidates.iter().map(|names| read(*names)).find(|found| !found.is_empty()).unwrap_or_default()
    };
    let requests = first(&[
        ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
        [
            "anthropic-ratelimit-requests-limit",
            "anthropic-ratelimit-requests-remaining",
            "anthropic-ratelimit-requests-reset",
        ],
        ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
        [
            "llm_provider-x-ratelimit-limit-requests",
            "llm_provider-x-ratelimit-remaining-requests",
            "llm_provider-x-ratelimit-reset-requests",
        ],
    ]);
    let mut tokens = first(&[
        ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"],
        [
            "x-ratelimit-limit-tokens_usage_based",
            "x-ratelimit-remaining-tokens_usage_based",
            "x-ratelimit-reset-tokens_usage_based",
        ],
        [
            "anthropic-ratelimit-tokens-limit",
            "anthropic-ratelimit-tokens-remaining",
            "anthropic-ratelimit-tokens-reset",
        ],
        [
            "llm_provider-x-ratelimit-limit-tokens",
            "llm_provider-x-ratelimit-remaining-tokens",
            "llm_provider-x-ratelimit-reset-tokens",
        ],
    ]);
    if tokens.is_empty() {
        let input = read([
            "anthropic-ratelimit-input-tokens-limit",
            "anthropic-ratelimit-input-tokens-remaining",
            "anthropic-ratelimit-input-tokens-reset",
        ]);
        let output = read([
            "anthropic-ratelimit-output-tokens-limit",
            "anthropic-ratelimit-output-tokens-remaining",
            "anthropic-ratelimit-output-tokens-reset",
        ]);
        let input_is_tighter = input.share_left() <= output.share_left();
        tokens = if !input.is_empty() && (output.is_empty() || input_is_tighter) { input } else { output };
    }
    RateHints { requests, tokens }
}

/// The requested wait; `None` if there is none in the future.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let milliseconds = || {
        let number: f64 = text(headers, "retry-after-ms")?.parse().ok()?;
        seconds(number / 1000.0)
    };
    let plain = || parse_wait(text(headers, "retry-after")?, now);
    milliseconds().filter(|wait| !wait.is_zero()).or_else(plain).filter(|wait| !wait.is_zero())
}

/// `x-should-retry`, which overrides the status.
pub(super) fn should_retry(headers: &HeaderMap) -> Option<bool> {
    match text(headers, "x-should-retry")? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// A `Retry-After`: seconds, whole or not, or an HTTP date.
pub(super) fn parse_wait(text: &str, now: Timestamp) -> Option<Duration> {
    parse_duration(text).or_else(|| {
        let at = parse_http_date(text)?;
        Some(until(at, now))
    })
}

/// An HTTP date.
pub(super) fn parse_http_date(text: &str) -> Option<Timestamp> {
    DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text.trim()).ok()
}

/// By how many seconds this machine's clock is ahead of the server's.
pub(super) fn clock_skew(headers: &HeaderMap, now: Timestamp) -> Option<i64> {
    parse_http_date(text(headers, "date")?).map(|at| now.as_second() - at.as_second())
}

/// AWS's error code in a header, in lower case.
pub(super) fn aws_error(headers: &HeaderMap) -> Option<String> {
    let name = text(headers, "x-amzn-errortype")?;
    Some(name.split(':').next().unwrap_or(name).to_lowercase())
}

/// A reset time: a duration, seconds, a timestamp in seconds or milliseconds, or RFC 3339.
pub(super) fn parse_reset(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>()
        && number >= EPOCH_SECONDS
    {
        let unix = if number >= EPOCH_MILLISECONDS { number / 1000.0 } else { number };
        let at = Timestamp::UNIX_EPOCH.checked_add(seconds(unix)?).ok()?;
        return Some(until(at, now));
    }
    parse_duration(text).or_else(|| Some(until(text.parse().ok()?, now)))
}

/// A duration such as `250ms`, `6m0s`, `1h2m3.5s` or `36.42s`; a plain number is seconds.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text.starts_with(|c: char| !c.is_ascii_digit() && c != '.') {
        return None;
    }
    if let Ok(number) = text.parse() {
        return seconds(number);
    }
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        rest = &rest[letters..];
        sum = sum.checked_add(seconds(number * unit)?)?;
    }
    (!text.is_empty()).then_some(sum)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
}

/// A count; a negative one is unknown, one beyond any real limit becomes the largest.
fn whole(text: &str) -> Option<u32> {
    let number: u64 = text.parse().ok()?;
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

/// Zero if it has passed.
fn until(at: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn now() -> Timestamp {
        "2026-11-16T12:00:00Z".parse().unwrap()
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[expect(clippy::unnecessary_wraps, reason = "every use compares it with an option")]
    fn ms(milliseconds: u64) -> Option<Duration> {
        Some(Duration::from_millis(milliseconds))
    }

    #[test]
    fn durations_of_all_providers() {
        let cases = [
            ("", None),
            ("0", ms(0)),
            ("250", ms(250_000)),
            ("0.5", ms(500)),
            ("250ms", ms(250)),
            ("1s", ms(1_000)),
            ("6m0s", ms(360_000)),
            ("1h0m0s", ms(3_600_000)),
            ("1m30.5s", ms(90_500)),
            ("47s", ms(47_000)),
            ("36.429760048s", Some(Duration::from_nanos(36_429_760_048))),
            ("-1", None),
            ("soon", None),
            ("5 minutes", None),
            ("1e999", None),
            ("1x", None),
            ("inf", None),
            ("NaN", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration(text), expected, "{text:?}");
        }
    }

    #[test]
    fn waits_in_seconds_dates_and_milliseconds() {
        let cases: [(&[(&str, &str)], _); 9] = [
            (&[("retry-after", "7")], ms(7_000)),
            (&[("retry-after", "0.25")], ms(250)),
            (&[("retry-after", "Mon, 16 Nov 2026 12:00:30 GMT")], ms(30_000)),
            (&[("retry-after", "Mon, 16 Nov 2026 11:00:00 GMT")], None),
            (&[("retry-after-ms", "1500.5"), ("retry-after", "7")], Some(Duration::from_micros(1_500_500))),
            (&[("retry-after-ms", "soon"), ("retry-after", "7")], ms(7_000)),
            (&[("retry-after", "0")], None),
            (&[("retry-after", "-3")], None),
            (&[], None),
        ];
        for (pairs, expected) in cases {
            assert_eq!(retry_after(&headers(pairs), now()), expected, "{pairs:?}");
        }
    }

    #[test]
    fn x_should_retry_is_literal() {
        assert_eq!(should_retry(&headers(&[("x-should-retry", "true")])), Some(true));
        assert_eq!(should_retry(&headers(&[("X-Should-Retry", "false")])), Some(false));
        assert_eq!(should_retry(&headers(&[("x-should-retry", "maybe")])), None);
    }

    #[test]
    fn openai_and_azure_limits() {
        let hints = rate_hints(
            &headers(&[
                ("x-ratelimit-limit-requests", "5000"),
                ("x-ratelimit-remaining-requests", "4999"),
                ("x-ratelimit-reset-requests", "12ms"),
                ("x-ratelimit-limit-tokens", "-1"),
                ("x-ratelimit-remaining-tokens", "159976"),
                ("x-ratelimit-reset-tokens", "6"),
            ]),
            now(),
        );
        assert_eq!(
            hints,
            RateHints {
                requests: Allowance { limit: Some(5000), remaining: Some(4999), resets_in: ms(12) },
                tokens: Allowance { limit: None, remaining: Some(159_976), resets_in: ms(6_000) },
            }
        );
    }

    #[test]
    fn anthropic_limits_take_the_tighter_kind_of_token() {
        let pairs = [
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2026-11-16T12:00:02Z"),
            ("anthropic-ratelimit-input-tokens-limit", "30000"),
            ("anthropic-ratelimit-input-tokens-remaining", "29000"),
            ("anthropic-ratelimit-output-tokens-limit", "8000"),
            ("anthropic-ratelimit-output-tokens-remaining", "100"),
            ("anthropic-ratelimit-output-tokens-reset", "2026-11-16T11:59:00Z"),
        ];
        let hints = rate_hints(&headers(&pairs), now());
        assert_eq!(
            hints,
            RateHints {
                requests: Allowance { limit: Some(50), remaining: Some(0), resets_in: ms(2_000) },
                tokens: Allowance { limit: Some(8000), remaining: Some(100), resets_in: ms(0) },
            }
        );
    }

    #[test]
    fn gateway_limits() {
        let openrouter = rate_hints(
            &headers(&[
                ("x-ratelimit-limit", "20"),
                ("x-ratelimit-remaining", "0"),
                // 2026-11-16T12:00:05Z
                ("x-ratelimit-reset", "1794830405000"),
            ]),
            now(),
        );
        assert_eq!(
            openrouter.requests,
            Allowance { limit: Some(20), remaining: Some(0), resets_in: ms(5_000) }
        );
        let litellm = rate_hints(&headers(&[("llm_provider-x-ratelimit-remaining-tokens", "7")]), now());
        assert_eq!(litellm.tokens.remaining, Some(7));
        assert_eq!(rate_hints(&headers(&[("server", "vllm")]), now()), RateHints::default());
    }

    proptest! {
        #[test]
        fn go_durations_are_read_back(hours in 0_u64..50, minutes in 0_u64..60, millis in 0_u64..60_000) {
            let text = format!("{hours}h{minutes}m{}.{:03}s", millis / 1000, millis % 1000);
            let expected = Duration::from_millis((hours * 3600 + minutes * 60) * 1000 + millis);
            let parsed = parse_duration(&text).unwrap();
            let difference = parsed.abs_diff(expected);
            prop_assert!(difference < Duration::from_micros(1), "{text}: {parsed:?}");
        }

        #[test]
        fn no_header_text_panics(text in ".{0,40}") {
            let _ = parse_reset(&text, now());
            let _ = parse_wait(&text, now());
        }
    }
}
