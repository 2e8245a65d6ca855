//! The details of the entries, for the case pages: one file per entry in the same pull request.

use crate::leaderboard::{details_bytes, details_path, entry_digest};
use crate::model::{DETAILS_FORMAT, Entry, EntryDetails};
use crate::scoring::fields;

/// The largest file.
const LARGEST: usize = 1 << 20;
/// The most fields per case; fewer if the file would be too large.
const MOST_FIELDS: [usize; 6] = [500, 200, 80, 30, 10, 0];

/// A file of the library.
#[derive(Debug, Clone)]
pub(super) struct DetailsFile {
    /// Its path in the library.
    pub(super) path: String,
    /// What is in it.
    pub(super) bytes: Vec<u8>,
}

/// The details of an entry; `None` if even its case names are too large.
pub(super) fn of_entry(
    subject: &fields::Subject<'_>,
    answers: &fields::Answers,
    verdicts: &fields::Verdicts,
    entry: &Entry,
) -> Option<DetailsFile> {
    let bytes = |most: usize| {
        details_bytes(&EntryDetails {
            schema_version: DETAILS_FORMAT,
            entry_sha256: entry_digest(entry),
            cases: fields::details(subject, answers, verdicts, most),
        })
    };
    let bytes = MOST_FIELDS.into_iter().map(bytes).find(|bytes| bytes.len() <= LARGEST)?;
    Some(DetailsFile { path: details_path(entry), bytes })
}
