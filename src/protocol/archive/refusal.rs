//! Why an archive is rejected.

use std::io;
use std::path::PathBuf;

use super::MANIFEST;
use crate::model::{BatchId, Digest, Exit, Failure};
use crate::protocol::OtherFormat;
use crate::util::truncate::truncate;

/// Limit for an entry's name in a message.
const LONGEST_NAME: usize = 100;

/// A reason; messages prefix it with the batch id.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("cannot be unpacked: cannot write `{}`: {error}", path.display())]
    Unwritable { path: PathBuf, error: io::Error },
    #[error("has the digest {found}, expected {expected}")]
    Digest { found: Digest, expected: Digest },
    #[error("is damaged: {0}")]
    Damaged(String),
    #[error("{what} {most} bytes")]
    TooLarge { most: u64, what: &'static str },
    #[error("has more than {0} entries")]
    TooManyEntries(u64),
    #[error("has the illegal entry `{name}`: {why}")]
    Entry { name: String, why: &'static str },
    #[error("has an invalid `{MANIFEST}`: {0}")]
    Manifest(String),
    #[error("says that it is the batch `{0}`")]
    OtherBatch(BatchId),
    #[error(transparent)]
    Format(OtherFormat),
    #[error("does not hold what it promises: {0}")]
    Content(String),
}

impl Refusal {
    /// An entry that does not belong in a batch.
    pub(super) fn entry(name: &[u8], why: &'static str) -> Self {
        Self::Entry { name: shown(name), why }
    }

    /// The error for the user.
    pub(super) fn about(self, id: &BatchId) -> Failure {
        let exit = match self {
            Self::Unreadable(_) | Self::Unwritable { .. } => Exit::Failure,
            _ => Exit::Config,
        };
        let hint = match &self {
            Self::Unreadable(_) => None,
            Self::Unwritable { .. } => Some("free some space or choose another directory"),
            Self::Digest { .. } | Self::Damaged(_) => {
                Some("it was cut or changed on its way: hand the batch over again")
            }
            Self::TooLarge { .. } | Self::TooManyEntries(_) => Some("split it into several batches"),
            Self::Format(_) => Some(OtherFormat::HINT),
            Self::OtherBatch(_) => Some("hand it over again under its own id"),
            Self::Entry { .. } | Self::Manifest(_) | Self::Content(_) => {
                Some("only archives that `run-evals` made are run: hand the batch over again")
            }
        };
        let failure = Failure::new(exit, format!("the batch `{id}` {self}"));
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// The name, escaped for a terminal or log.
fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    truncate(&text.escape_debug().to_string(), LONGEST_NAME)
}
