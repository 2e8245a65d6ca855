//! Sealed rows of journals and results: format, index and checksum.
//!
//! A sealed row begins with `{"format":1,"index":N,"checksum":"…",`, in every format. The checksum covers
//! the rest of the row and the digest of the batch, so that readers detect damage and rows of another
//! batch. `responses.jsonl` has none of these fields.

use sha2::{Digest as _, Sha256};

use super::{OtherFormat, RESULTS_FORMAT};
use crate::model::{Digest, Failure};

/// Hexadecimal digits of a checksum.
const DIGITS: usize = 16;
const FORMAT: &[u8] = b"{\"format\":";
const INDEX: &[u8] = b"\"index\":";
const CHECKSUM: &[u8] = b"\"checksum\":\"";

/// Seals the rows of one batch and verifies them.
#[derive(Debug, Clone)]
pub struct RowSeal {
    /// Hasher state after the digest of the batch.
    seed: Sha256,
}

impl RowSeal {
    /// Seals rows of the batch with this digest.
    pub fn of(batch: Digest) -> Self {
        Self { seed: Sha256::new_with_prefix(batch.to_string()) }
    }

    /// Seals a row, without a line feed. A row that does not start with its index stays unchanged, and
    /// every reader rejects it.
    pub fn seal(&self, row: &str) -> String {
        let Some((index, rest)) = split_index(row.as_bytes()) else { return row.to_owned() };
        let checksum = self.checksum(RESULTS_FORMAT.to_string().as_bytes(), index, rest);
        let (index, rest) = row.split_at(row.len() - rest.len());
        format!("{{\"format\":{RESULTS_FORMAT},{}\"checksum\":\"{checksum}\",{rest}", &index[1..])
    }

    /// The index of a sealed row, if its checksum is correct for this batch. An intact row of another
    /// format is an error (exit 3): calling its request again would cost money again.
    pub fn index(&self, line: &[u8]) -> Result<Option<u64>, Failure> {
        let Some(row) = SealedParts::split(line) else { return Ok(None) };
        if self.checksum(row.format, row.index, row.rest).as_bytes() != row.checksum {
            return Ok(None);
        }
        let number = |digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok();
        let (Some(format), Some(index)) = (number(row.format), number(row.index)) else { return Ok(None) };
        OtherFormat::check(format, RESULTS_FORMAT).map_err(|other| {
            Failure::config(format!("a row among the results {other}")).hint(OtherFormat::HINT)
        })?;
        Ok(Some(index))
    }

    fn checksum(&self, format: &[u8], index: &[u8], rest: &[u8]) -> String {
        let mut hasher = self.seed.clone();
        for part in [format, b",", index, b",", rest] {
            hasher.update(part);
        }
        // The first digits of the digest.
        format!("{:0DIGITS$x}", Digest::finish(hasher).half() >> (128 - 4 * DIGITS))
    }
}

/// The response fields of a sealed row.
pub fn unsealed(line: &[u8]) -> Option<&[u8]> {
    match SealedParts::split(line) {
        Some(row) => Some(row.rest),
        None => split_index(line).map(|(_, rest)| rest),
    }
}

/// The parts of a sealed row.
struct SealedParts<'l> {
    format: &'l [u8],
    index: &'l [u8],
    checksum: &'l [u8],
    rest: &'l [u8],
}

impl<'l> SealedParts<'l> {
    fn split(line: &'l [u8]) -> Option<Self> {
        let (format, rest) = split_number(line.strip_prefix(FORMAT)?)?;
        let (index, rest) = split_number(rest.strip_prefix(INDEX)?)?;
        let (checksum, rest) = rest.strip_prefix(CHECKSUM)?.split_at_checked(DIGITS)?;
        Some(Self { format, index, checksum, rest: rest.strip_prefix(b"\",")? })
    }
}

/// Splits off a number and its comma.
fn split_number(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (digits, rest) = text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count());
    if digits.is_empty() { None } else { Some((digits, rest.strip_prefix(b",")?)) }
}

/// Splits off the index of an unsealed row.
fn split_index(row: &[u8]) -> Option<(&[u8], &[u8])> {
    split_number(row.strip_prefix(b"{")?.strip_prefix(INDEX)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(seal: &RowSeal, line: &[u8]) -> Option<u64> {
        seal.index(line).unwrap()
    }

    proptest! {
        #[test]
        fn rows_round_trip(number: u64, text: String, batch: [u8; 4]) {
            let fields = format!("\"id\":{}}}", serde_json::Value::from(text));
            let seal = RowSeal::of(Digest::of(&batch));
            let line = seal.seal(&format!("{{\"index\":{number},{fields}"));
            prop_assert_eq!(index(&seal, line.as_bytes()), Some(number));
            prop_assert_eq!(unsealed(line.as_bytes()), Some(fields.as_bytes()));
            serde_json::from_str::<serde_json::Value>(&line).unwrap();
        }
    }

    #[test]
    fn a_complete_row_of_another_format_is_rejected() {
        let seal = RowSeal::of(Digest::of(b"batch"));
        let (format, number, fields) = ("2", "7", r#""id":"a"}"#);
        let checksum = seal.checksum(format.as_bytes(), number.as_bytes(), fields.as_bytes());
        let line = format!("{{\"format\":{format},\"index\":{number},\"checksum\":\"{checksum}\",{fields}");
        let failure = seal.index(line.as_bytes()).unwrap_err();
        assert_eq!(
            failure.to_string(),
            format!("a row among the results has format 2, but {} reads format 1", super::super::PROGRAM)
        );
        // A damaged one is not a row.
        assert_eq!(index(&seal, line.replace("\"a\"", "\"b\"").as_bytes()), None);
    }

    #[test]
    fn every_changed_bit_of_a_row_is_detected() {
        let seal = RowSeal::of(Digest::of(b"batch"));
        let line = seal.seal(r#"{"index":12,"id":"a","output":[{"role":"assistant","content":"hé"}]}"#);
        // The first digits of SHA-256 of the batch's digest, "1,12," and the rest.
        assert!(line.starts_with(r#"{"format":1,"index":12,"checksum":"d1d6511342908890","#), "{line}");
        assert_eq!(index(&seal, line.as_bytes()), Some(12));
        assert_eq!(
            unsealed(line.as_bytes()).unwrap(),
            r#""id":"a","output":[{"role":"assistant","content":"hé"}]}"#.as_bytes()
        );
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut damaged = line.clone().into_bytes();
                damaged[at] ^= 1 << bit;
                assert_eq!(index(&seal, &damaged), None, "bit {bit} of byte {at}");
            }
            assert_eq!(index(&seal, &line.as_bytes()[..at]), None, "{at} bytes");
        }
        assert_eq!(index(&RowSeal::of(Digest::of(b"another")), line.as_bytes()), None);
    }

    #[test]
    fn a_row_without_a_checksum_is_incomplete() {
        let seal = RowSeal::of(Digest::of(b"batch"));
        for row in
            [r#"{"index":1,"id":"a"}"#, r#"{"id":"a"}"#, "{\"index\":", "{\"index\":1", "{\"index\":x,", ""]
        {
            assert_eq!(index(&seal, row.as_bytes()), None, "{row}");
        }
        assert_eq!(unsealed(br#"{"index":1,"id":"a"}"#), Some(&br#""id":"a"}"#[..]));
        assert_eq!(unsealed(br#"{"id":"a"}"#), None);
    }
}
