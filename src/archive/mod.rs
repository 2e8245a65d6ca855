//! Batch archives (`batch.tar.gz`): deterministic to write, checked to read.
//!
//! `pack` turns a manifest, `requests.jsonl` and the attachments into the same bytes on every machine; `unpack` takes an
//! archive from anywhere and lets nothing through but those three, with a `refusal` for all else. Both keep to the same
//! `limits`, so that what was packed can be unpacked. `gzip` is the deterministic compression that results files share,
//! `tally` counts what passes. `zip` is the wrapping that artifacts have.

mod gzip;
mod limits;
mod pack;
mod refusal;
mod tally;
#[cfg(test)]
mod tests;
mod unpack;
mod zip;

pub use gzip::{Compressor, compressor};
pub use limits::Limits;
pub use pack::pack;
pub use unpack::{digest, unpack};
pub use zip::{unzip_one, zip_one};

const MANIFEST: &str = "manifest.json";
const REQUESTS: &str = "requests.jsonl";
const FILES: &str = "files";
