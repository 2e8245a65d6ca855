//! Versions of skills.

use std::fmt;
use std::str::FromStr;

/// A semantic version. MAJOR breaks the skill's output format, MINOR adds to it, PATCH changes wording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SemVersion {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
}

/// The text is not a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a version has three numbers, as in `1.4.0`")]
pub struct InvalidVersion;

impl SemVersion {
    /// Whether MAJOR or MINOR is higher than before. A new skill counts as a bump.
    pub fn is_bump_from(&self, before: Option<&Self>) -> bool {
        before.is_none_or(|before| (self.major, self.minor) > (before.major, before.minor))
    }
}

impl FromStr for SemVersion {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |part: &str| {
            let digits = (1..=9).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
            if digits { part.parse::<u64>().ok() } else { None }
        };
        let parts: Vec<Option<u64>> = text.split('.').map(number).collect();
        match parts[..] {
            [Some(major), Some(minor), Some(patch)] => Ok(Self { major, minor, patch }),
            _ => Err(InvalidVersion),
        }
    }
}

impl fmt::Display for SemVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_three_numbers() {
        assert_eq!("1.10.0".parse::<SemVersion>().unwrap().to_string(), "1.10.0");
        assert!("1.10.0".parse::<SemVersion>().unwrap() > "1.9.9".parse().unwrap());
        for bad in
            ["", "1", "1.2", "1.2.3.4", "v1.2.3", "1.2.x", "1..2", "1.2.-3", "1.2.3-rc", "1.2.9999999999"]
        {
            assert_eq!(bad.parse::<SemVersion>(), Err(InvalidVersion), "{bad}");
        }
    }

    #[test]
    fn only_major_and_minor_count_as_a_bump() {
        let version = |text: &str| text.parse::<SemVersion>().unwrap();
        for (before, after, is_bump) in [
            ("1.0.0", "1.1.0", true),
            ("1.9.9", "2.0.0", true),
            ("1.0.0", "1.0.9", false),
            ("1.1.0", "1.0.9", false),
            ("2.0.0", "1.9.0", false),
            ("1.1.0", "1.1.0", false),
        ] {
            assert_eq!(version(after).is_bump_from(Some(&version(before))), is_bump, "{before} → {after}");
        }
        assert!(version("0.0.1").is_bump_from(None));
    }
}
