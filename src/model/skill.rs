//! Validated names and numbers of skill evaluations.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Name of a skill: the folder of its component. Always a single path segment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SkillName(String);

/// The text is not a skill name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of a skill has 1 to 100 characters of `a-z`, `0-9`, `.`, `_` and `-`, begins with a letter or digit, and has no `..`"
)]
pub struct InvalidSkillName;

is_text!(SkillName);

impl FromStr for SkillName {
    type Err = InvalidSkillName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let legal = (1..=100).contains(&text.len())
            && text.bytes().next().is_some_and(letter)
            && text.bytes().all(|byte| letter(byte) || b"._-".contains(&byte))
            && !text.contains("..");
        if legal { Ok(Self(text.to_owned())) } else { Err(InvalidSkillName) }
    }
}

/// A full commit hash: 40 lowercase hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitSha(String);

/// The text is not a full commit hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a commit has 40 lower-case hexadecimal digits")]
pub struct InvalidCommitSha;

is_text!(CommitSha);

impl CommitSha {
    /// The first seven digits.
    pub fn short(&self) -> &str {
        &self.0[..7]
    }
}

impl FromStr for CommitSha {
    type Err = InvalidCommitSha;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 40 && text.bytes().all(digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidCommitSha)
        }
    }
}

/// A full or abbreviated commit hash: 7 to 40 hexadecimal digits, stored in lowercase.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ShaPrefix(String);

/// The text is not a commit hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a commit is named by 7 to 40 hexadecimal digits")]
pub struct InvalidShaPrefix;

is_text!(ShaPrefix);

impl ShaPrefix {
    /// The commit hash, if it is not abbreviated.
    pub fn whole(&self) -> Option<CommitSha> {
        self.0.parse().ok()
    }
}

impl FromStr for ShaPrefix {
    type Err = InvalidShaPrefix;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if (7..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(InvalidShaPrefix)
        }
    }
}

/// Number of trials of each case on each model: 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Replicates(u32);

/// The number is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("replicates: a whole number from 1 to 100")]
pub struct InvalidReplicates;

impl Replicates {
    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Default for Replicates {
    fn default() -> Self {
        Self(10)
    }
}

impl TryFrom<u32> for Replicates {
    type Error = InvalidReplicates;

    fn try_from(number: u32) -> Result<Self, Self::Error> {
        if (1..=100).contains(&number) { Ok(Self(number)) } else { Err(InvalidReplicates) }
    }
}

impl From<Replicates> for u32 {
    fn from(replicates: Replicates) -> Self {
        replicates.0
    }
}

impl FromStr for Replicates {
    type Err = InvalidReplicates;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(InvalidReplicates);
        }
        text.parse::<u32>().map_err(|_| InvalidReplicates)?.try_into()
    }
}

impl fmt::Display for Replicates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_is_one_path_segment() {
        for good in ["a", "rfp-extraction", "9.x_y", &"x".repeat(100)] {
            assert_eq!(good.parse::<SkillName>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a..b",
            "-rf",
            "_x",
            ".git",
            "A",
            "a b",
            "ä",
            "a\0",
            &"x".repeat(101),
        ] {
            assert_eq!(bad.parse::<SkillName>(), Err(InvalidSkillName), "{bad}");
        }
        insta::assert_snapshot!(InvalidSkillName, @"the name of a skill has 1 to 100 characters of `a-z`, `0-9`, `.`, `_` and `-`, begins with a letter or digit, and has no `..`");
    }

    #[test]
    fn commits_are_hexadecimal_digits() {
        let whole = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(whole.parse::<CommitSha>().unwrap().short(), "0123456");
        for bad in
            ["", "0123456", &whole.to_uppercase(), &whole[1..], "g123456789abcdef0123456789abcdef01234567"]
        {
            assert_eq!(bad.parse::<CommitSha>(), Err(InvalidCommitSha), "{bad}");
        }
        assert_eq!("ABCDEF0".parse::<ShaPrefix>().unwrap().as_str(), "abcdef0");
        assert_eq!(whole.parse::<ShaPrefix>().unwrap().whole().unwrap().as_str(), whole);
        assert_eq!("abcdef0".parse::<ShaPrefix>().unwrap().whole(), None);
        for bad in ["", "abcdef", "--upload-pack=x", "HEAD~12", "main123", "abcdef0 ", &format!("{whole}0")] {
            assert_eq!(bad.parse::<ShaPrefix>(), Err(InvalidShaPrefix), "{bad}");
        }
        insta::assert_snapshot!(InvalidShaPrefix, @"a commit is named by 7 to 40 hexadecimal digits");
        insta::assert_snapshot!(InvalidCommitSha, @"a commit has 40 lower-case hexadecimal digits");
    }

    #[test]
    fn the_number_of_replicates_is_limited() {
        assert_eq!(Replicates::default().get(), 10);
        assert_eq!("100".parse::<Replicates>().unwrap().get(), 100);
        for bad in ["", "0", "-1", "+1", "101", "1000000000", "99999999999999999999", "1.0", " 1"] {
            assert_eq!(bad.parse::<Replicates>(), Err(InvalidReplicates), "{bad}");
        }
        assert!(serde_json::from_str::<Replicates>("0").is_err());
        insta::assert_snapshot!(InvalidReplicates, @"replicates: a whole number from 1 to 100");
    }
}
