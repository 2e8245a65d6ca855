//! The details of an entry, in a separate file named after the entry's digest, so that two evaluations never change the same file.

use std::path::Path;

use serde::Deserialize;

use super::entry_bytes;
use crate::model::{CallOutcome, DETAILS_FORMAT, Digest, Entry, EntryDetails, Failure, printable};

/// The digest that identifies an entry in other files.
pub fn entry_digest(entry: &Entry) -> Digest {
    Digest::of(&entry_bytes(entry))
}

/// The path of an entry's details in the skill library.
pub fn details_path(entry: &Entry) -> String {
    format!("leaderboard/cases/{}/{}.json", entry.skill, entry_digest(entry))
}

/// The file: keys in a fixed order, two spaces, one line feed at the end.
pub fn details_bytes(details: &EntryDetails) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(details).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

#[derive(Deserialize)]
struct Format {
    schema_version: u32,
}

/// Reads the details of an entry; messages call the file `shown_as`.
pub fn read_details(bytes: &[u8], entry: &Entry, shown_as: &Path) -> Result<EntryDetails, Failure> {
    let shown = shown_as.display();
    let hint = "delete the file: the page of the case then shows no details";
    let wrong = |what: String| Failure::config(format!("cannot read `{shown}`: {what}")).hint(hint);
    if let Ok(Format { schema_version }) = serde_json::from_slice(bytes)
        && schema_version > DETAILS_FORMAT
    {
        let what = format!(
            "`{shown}` has format {schema_version}, but this version of `run-evals` supports format {DETAILS_FORMAT}"
        );
        return Err(Failure::config(what).hint("update `run-evals`"));
    }
    let details: EntryDetails = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
    if details.entry_sha256 != entry_digest(entry) {
        return Err(wrong("it belongs to another entry".to_owned()));
    }
    for case in &details.cases {
        let figures = entry.per_case.iter().find(|figures| figures.case == case.case);
        let count = |is: CallOutcome| case.calls.iter().filter(|call| **call == is).count() as u64;
        let ok = count(CallOutcome::Ok);
        if figures.is_none_or(|figures| figures.ok != ok || figures.errors != case.calls.len() as u64 - ok) {
            return Err(wrong(format!(
                "the calls of the case `{}` do not match the entry",
                printable(&case.case)
            )));
        }
    }
    Ok(details)
}
