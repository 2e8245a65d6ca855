//! The protocol between dispatcher and runner. The two may be different versions.
//!
//! - `archive`, `manifest`, `request_line`: the batch
//! - `inputs`, `handover`, `parts`: a workflow dispatch, where its batch is, and how a large one is split
//! - `names`: branches, files, artifacts and workflow runs
//! - `row_seal`, `format`, `readme`: rows with checksums, format numbers, and the page of a results branch

pub mod archive;
mod format;
mod handover;
mod inputs;
mod manifest;
pub mod names;
mod parts;
mod readme;
mod request_line;
mod row_seal;

pub use format::{BATCH_FORMAT, OtherFormat, RESULTS_FORMAT};
pub use handover::Handover;
pub use inputs::{DISPATCH_INPUTS, DispatchId, DispatchInputs, RunnerOptions};
pub use manifest::{BatchManifest, MOST_REQUESTS, MOST_SHARDS, Provenance, ResultsManifest, Stop, Totals};
pub use parts::Split;
pub use readme::readme;
pub use request_line::InvalidRequest;
pub use row_seal::{RowSeal, unsealed};

/// Program and version, as in manifests.
pub const PROGRAM: &str = concat!("run-evals ", env!("CARGO_PKG_VERSION"));
