//! JSON files with a checksum: the first field is the checksum of everything after it.

use serde::Serialize;

use crate::model::Digest;

const START: &[u8] = b"{\n  \"checksum\": \"";
const END: &[u8] = b"\",\n";
const DIGITS: usize = 64;

/// An object as indented JSON with its checksum.
pub fn to_vec(object: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut json = serde_json::to_vec_pretty(object)?;
    json.push(b'\n');
    let rest = json.strip_prefix(b"{\n").unwrap_or(&json);
    Ok([START, Digest::of(rest).to_string().as_bytes(), END, rest].concat())
}

/// Whether the checksum of a file is correct.
pub fn is_whole(bytes: &[u8]) -> bool {
    let parts = bytes.strip_prefix(START).and_then(|bytes| bytes.split_at_checked(DIGITS));
    let Some((checksum, rest)) = parts else { return false };
    rest.strip_prefix(END).is_some_and(|rest| Digest::of(rest).to_string().as_bytes() == checksum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_or_missing_byte_is_detected() {
        let json = to_vec(&serde_json::json!({ "a": 1, "b": ["x"] })).unwrap();
        assert!(is_whole(&json));
        let read: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(read["b"][0], "x");
        for at in 0..json.len() {
            let mut changed = json.clone();
            changed[at] ^= 1;
            assert!(!is_whole(&changed) && !is_whole(&json[..at]), "byte {at}");
        }
        assert!(!is_whole(&[&json[..], &json].concat()));
    }
}
