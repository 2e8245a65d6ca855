//! Batch archives (`batch.tar.gz`): written deterministically, validated on reading.
//!
//! `pack` turns a manifest, `requests.jsonl` and the attachments into the same bytes on every machine.
//! `unpack` reads an untrusted archive and accepts nothing but those three; `refusal` says why it rejects
//! one. Both have the same `limits`, so that everything that was packed can be unpacked. `tally` counts and
//! hashes.

mod limits;
mod pack;
mod refusal;
mod tally;
#[cfg(test)]
mod tests;
mod unpack;

pub use limits::Limits;
pub use pack::pack;
pub use unpack::{digest, unpack};

const MANIFEST: &str = "manifest.json";
const REQUESTS: &str = "requests.jsonl";
const FILES: &str = "files";
