//! The results of syncs, and the commits they refer to.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::clone_state::CloneState;
use super::failure::Failure;
use super::update::{Change, SyncResult};
use crate::model::printable;
use crate::util::truncate::truncate;

/// The most commits between a clone and its target that are listed.
pub(super) const MOST_COMMITS: usize = 20;
/// The most bytes of a subject or a name.
const LONGEST_TEXT: usize = 200;

/// A commit, for display. Its texts are untrusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitInfo {
    /// The full SHA.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
    /// The name of its author.
    pub author: String,
    /// When it was committed.
    pub at: Option<Timestamp>,
}

/// The commits of a range, newest first, up to `most`. Unreadable ones are left out.
pub(super) fn commits(view: &CloneState, range: &str, most: usize) -> Vec<CommitInfo> {
    let most = format!("--max-count={most}");
    let args = [&most, "-z", "--no-show-signature", "--format=%H%n%ct%n%an%n%s", "--end-of-options", range];
    let Ok(listed) = view.place.run("log", &args) else { return Vec::new() };
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let commit = |text: &str| {
        let mut lines = text.splitn(4, '\n');
        let (id, time) = (lines.next()?.to_owned(), lines.next()?);
        let mut text =
            || lines.next().map(|text| truncate(&printable(text), LONGEST_TEXT)).unwrap_or_default();
        let at = time.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        Some(CommitInfo { id, author: text(), subject: text(), at })
    };
    listed.split('\0').filter(|text| !text.is_empty()).filter_map(commit).collect()
}

/// The result of one sync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncRecord {
    /// When it ended.
    pub at: Timestamp,
    /// What it did; `None` if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// The commit before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The commit after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Notes for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl SyncRecord {
    /// The record of a sync that ended now.
    pub fn of(result: &Result<SyncResult, Failure>) -> Self {
        let synced = result.as_ref().ok();
        Self {
            at: Timestamp::now(),
            change: synced.map(|synced| synced.change),
            from: synced.and_then(|synced| synced.from.clone()),
            commit: synced.and_then(|synced| synced.commit.clone()),
            notes: synced.map(|synced| synced.notes.clone()).unwrap_or_default(),
            failure: result.as_ref().err().cloned(),
        }
    }

    /// Appends it to a history. A result equal to the last one replaces it, so that a sync every minute does not push the rest
    /// out.
    pub fn append_to(self, history: &mut Vec<Self>, most: usize) {
        if history.last().is_some_and(|last| Self { at: self.at, ..last.clone() } == self) {
            history.pop();
        }
        history.push(self);
        history.drain(..history.len().saturating_sub(most));
    }
}
