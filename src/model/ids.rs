//! Validated identifiers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The name of a batch, safe in a git ref, a path and an artifact name: `[a-z0-9-]{1,60}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BatchId(String);

/// The text is not a batch id.
#[derive(Debug, thiserror::Error)]
#[error("a batch id has 1 to 60 characters of `a-z`, `0-9` and `-`")]
pub struct InvalidBatchId;

is_text!(BatchId);

impl FromStr for BatchId {
    type Err = InvalidBatchId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=60).contains(&text.len()) && text.bytes().all(legal) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidBatchId)
        }
    }
}

/// A SHA-256 digest; as text, 64 lowercase hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// Hashes bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::finish(Sha256::new_with_prefix(bytes))
    }

    /// Finishes a hasher.
    pub fn finish(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }

    /// The digest of this one followed by more bytes.
    #[must_use]
    pub fn and(self, bytes: &[u8]) -> Self {
        Self::finish(Sha256::new_with_prefix(self.0).chain_update(bytes))
    }

    /// The first half: unique enough, in half the memory.
    pub fn half(&self) -> u128 {
        let mut half = [0; 16];
        half.copy_from_slice(&self.0[..16]);
        u128::from_be_bytes(half)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // On the stack: several digests are written for every row.
        let mut digits = [0; 64];
        hex::encode_to_slice(self.0, &mut digits).map_err(|_| fmt::Error)?;
        f.write_str(str::from_utf8(&digits).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

json_is_text!(Digest);

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        let lower = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        match hex::decode_to_slice(text, &mut bytes) {
            Ok(()) if lower => Ok(Self(bytes)),
            _ => Err("a SHA-256 has 64 lower-case hexadecimal digits".to_owned()),
        }
    }
}

/// Id of a request: the test's id, with `#<n>` from the second replicate on.
pub fn request_id(test_id: &str, replicate: u32) -> String {
    if replicate <= 1 { test_id.to_owned() } else { format!("{test_id}#{replicate}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_ids_are_safe_everywhere() {
        for good in ["a", "20261116-120000-0011aabb", &"x".repeat(60)] {
            assert_eq!(good.parse::<BatchId>().unwrap().as_str(), good);
        }
        for bad in ["", "A", "a/b", "a_b", "..", "ä", &"x".repeat(61)] {
            assert!(bad.parse::<BatchId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn digest_text_round_trips_and_is_strict() {
        let digest = Digest::of(b"abc");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        assert!(digest.to_string().to_uppercase().parse::<Digest>().is_err());
        assert!("00".parse::<Digest>().is_err());
    }
}
