//! The version of a component: `MAJOR.MINOR.PATCH`.

use std::fmt;

use serde::{Serialize, Serializer};

use stand_in::skill_version;

/// A version. A PATCH changes words; MINOR and MAJOR change what a prompt does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u64,
    minor: u64,
    patch: u64,
}

impl Version {
    /// The version that a `prompt.md` has in its front matter.
    pub fn of(prompt_md: &[u8]) -> Option<Self> {
        Self::parse(&skill_version(std::str::from_utf8(prompt_md).ok()?)?)
    }

    /// Reads `MAJOR.MINOR.PATCH`.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| text.parse().ok()).flatten()
        };
        let mut parts = text.split('.').map(number);
        let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(Self { major, minor, patch })
    }

    /// What an evaluation depends on.
    pub fn line(self) -> (u64, u64) {
        (self.major, self.minor)
    }

    /// Whether it is a MAJOR or MINOR step above another; above nothing, it is.
    pub fn rose_above(self, earlier: Option<Self>) -> bool {
        earlier.is_none_or(|earlier| self.line() > earlier.line())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn only_three_numbers_are_a_version() {
        for bad in ["", "1", "1.0", "1.0.0.0", "v1.0.0", "1.0.0-rc", "1..0", "+1.0.0", "99999999999999999999.0.0"] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
        assert_eq!(version("1.20.3").to_string(), "1.20.3");
    }

    #[test]
    fn a_patch_is_no_rise_and_numbers_are_no_text() {
        let rises = |from: &str, to: &str| version(to).rose_above(Some(version(from)));
        assert!(rises("1.0.0", "1.1.0") && rises("1.9.9", "2.0.0") && rises("1.9.0", "1.10.0"));
        assert!(!rises("1.0.0", "1.0.9") && !rises("1.1.0", "1.0.5") && !rises("2.0.0", "1.9.0"));
        assert!(version("0.0.1").rose_above(None));
    }
}

mod stand_in {
    pub(super) fn skill_version(text: &str) -> Option<String> {
        let body = text.strip_prefix("---\n")?;
        let front = body.split("\n---").next()?;
        let line = front.lines().find_map(|line| line.strip_prefix("version:"))?;
        Some(line.trim().trim_matches(['"', '\'']).to_owned())
    }
}
