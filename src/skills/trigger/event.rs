//! What GitHub says of a push.

use std::path::Path;

use serde::Deserialize;

use crate::model::{CommitSha, Failure};

/// The commit that is none: before a branch began, and after it ended.
const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

/// A push, from the event file of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushEvent {
    /// The branch or tag, as `refs/…`.
    pub git_ref: String,
    /// Where it was; nothing where it is new.
    pub before: Option<CommitSha>,
    /// Where it is; nothing where it is gone.
    pub after: Option<CommitSha>,
}

impl PushEvent {
    /// Reads an event file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct Event {
            #[serde(rename = "ref")]
            git_ref: String,
            before: String,
            after: String,
        }
        let wrong = |why: String| {
            Failure::config(format!("cannot read the push in `{}`: {why}", path.display()))
                .hint("name the commits with `--before` and `--after`, or a skill")
        };
        let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let Event { git_ref, before, after } =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        let before = Self::commit(&before).map_err(&wrong)?;
        let after = Self::commit(&after).map_err(&wrong)?;
        Ok(Self { git_ref, before, after })
    }

    /// A commit, or none where all its digits are zero.
    pub fn commit(text: &str) -> Result<Option<CommitSha>, String> {
        if text == NO_COMMIT {
            return Ok(None);
        }
        text.to_ascii_lowercase().parse().map(Some).map_err(|error| format!("`{text}`: {error}"))
    }
}
