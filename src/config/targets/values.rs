//! Values with their own format: durations, URLs, repositories, branch names.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::Url;

use crate::protocol::names::{is_ref_name, is_repository};

/// The longest duration; a longer one would overflow when added to the current time on some systems.
const LONGEST: Duration = Duration::from_hours(365 * 24);

/// The legal values, as the words after "expected".
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Legal {
    pub(super) expected: String,
    pub(super) hint: Option<String>,
}

impl Legal {
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl<T: Into<String>> From<T> for Legal {
    fn from(expected: T) -> Self {
        Self { expected: expected.into(), hint: None }
    }
}

/// A duration with its unit: `500ms`, `90s`, `10m`, `1.5h`. The error names the expected format.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let wrong = || "expected a duration such as `90s`, `10m`, `1h` or `500ms`".to_owned();
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "" if !number.is_empty() => {
            return Err(format!("expected a unit after the number: `{number}s`, `{number}m` or `{number}h`"));
        }
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds)
        .ok()
        .filter(|duration| *duration <= LONGEST)
        .ok_or_else(|| format!("expected at most `{}h`", LONGEST.as_secs() / 3600))
}

/// An `http` or `https` address without credentials, query or fragment.
pub(super) fn url(text: &str) -> Result<Url, Legal> {
    let not_a_url = || Legal::from("a URL such as `https://api.example.com/v1`");
    let url = Url::parse(text).map_err(|_| not_a_url())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(not_a_url());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Legal::from("a URL without a user or password in it")
            .hint("a key belongs in `api_key`, as `${{ NAME }}`"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Legal::from("a URL without `?` and `#`"));
    }
    Ok(url)
}

/// Whether a request to this URL leaves the machine unencrypted.
pub(super) fn is_cleartext(url: &Url) -> bool {
    url.scheme() == "http" && !is_loopback(url)
}

/// Whether a URL is on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A repository as `owner/name`.
pub(super) fn repository(text: &str) -> Result<String, Legal> {
    if is_repository(text) {
        return Ok(text.to_owned());
    }
    let expected = Legal::from("a repository as `owner/name`");
    let from_url = || {
        let (_, path) = text.trim_end_matches('/').trim_end_matches(".git").split_once("github.com")?;
        repository(path.trim_start_matches(['/', ':'])).ok()
    };
    let without_git = || repository(text.strip_suffix(".git")?).ok();
    Err(match from_url().or_else(without_git) {
        Some(name) => expected.hint(format!("write `{name}`")),
        None => expected,
    })
}

/// The name or the prefix of a branch or tag, by git's rules.
pub(super) fn ref_name(text: &str) -> Result<String, Legal> {
    if is_ref_name(text) { Ok(text.to_owned()) } else { Err("a name that git allows for a branch".into()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whole_durations_are_parsed(number in 0_u64..8760) {
            for (unit, millis) in [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)] {
                let parsed = parse_duration(&format!("{number}{unit}")).unwrap();
                prop_assert_eq!(parsed, Duration::from_millis(number * millis));
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = parse_duration(&text);
            let _ = repository(&text);
            let _ = ref_name(&text);
            let _ = url(&text);
        }
    }

    #[test]
    fn durations_need_a_unit_and_have_a_maximum() {
        assert_eq!(parse_duration("1.5h"), Ok(Duration::from_mins(90)));
        insta::assert_snapshot!(parse_duration("90").unwrap_err(), @"expected a unit after the number: `90s`, `90m` or `90h`");
        insta::assert_snapshot!(parse_duration("ten").unwrap_err(), @"expected a duration such as `90s`, `10m`, `1h` or `500ms`");
        insta::assert_snapshot!(parse_duration("99999h").unwrap_err(), @"expected at most `8760h`");
        for wrong in ["", "s", "-1s", "1 s", "1d", "1s1", "1.2.3s", ".s", "1e3s", "１s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn repositories_are_owner_and_name() {
        for good in ["myorg/eval-runner", "a/b.c", "emu_corp/x_y"] {
            assert_eq!(repository(good).as_deref(), Ok(good));
        }
        for bad in ["", "x", "a/", "/b", "a/b/c", "a b/c", "-a/b", "a/..", "ä/b"] {
            assert_eq!(repository(bad).unwrap_err().hint, None, "{bad}");
        }
        for url in
            ["https://github.com/o/n", "https://github.com/o/n.git", "git@github.com:o/n.git", "o/n.git"]
        {
            assert_eq!(repository(url).unwrap_err().hint.as_deref(), Some("write `o/n`"), "{url}");
        }
    }

    #[test]
    fn ref_names_follow_git() {
        for good in ["main", "eval-results", "team/eval-results", "v1.2", "refs/heads/main"] {
            assert!(ref_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-x",
            "a..b",
            "a b",
            "a/",
            "/a",
            "a//b",
            ".a",
            "a.lock",
            "a/b.lock/c",
            "a~1",
            "x@{1}",
            "a\u{7}",
        ] {
            assert!(ref_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_http_beyond_this_machine_is_cleartext() {
        for (text, cleartext) in [
            ("http://10.0.0.1/v1", true),
            ("http://gateway", true),
            ("http://127.0.0.2:8000", false),
            ("http://[::1]:8000", false),
            ("http://localhost:11434/v1", false),
            ("https://gateway", false),
        ] {
            assert_eq!(is_cleartext(&url(text).unwrap()), cleartext, "{text}");
        }
    }
}
