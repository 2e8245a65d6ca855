//! Merges leaderboards: files of single skills, and files that git or a person has reordered.

use std::path::Path;

use serde::Deserialize;

use super::{AbsentModel, Leaderboard, check};
use crate::model::{ENTRY_FORMAT, Entry, Failure};
use crate::util::path::quoted;

/// The content of a reordered or conflicting file.
#[derive(Deserialize)]
struct LooseFile {
    schema_version: u32,
    entries: Vec<Entry>,
    #[serde(default)]
    absent: Vec<AbsentModel>,
}

impl Leaderboard {
    /// Reads a file that is not canonical: other order or white space, or git conflict markers. Keeps both sides of a conflict. Every
    /// entry must still be one that `run-evals` wrote.
    pub fn repair(bytes: &[u8], shown_as: &Path) -> Result<Self, Failure> {
        let text = String::from_utf8_lossy(bytes);
        let mut board = Self::empty();
        for side in sides(&text) {
            board.merge(&loose(&side, shown_as)?);
        }
        Ok(board)
    }

    /// Whether the file has git's conflict markers.
    pub fn has_conflict(bytes: &[u8]) -> bool {
        bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"<<<<<<< "))
    }

    /// Adds all entries of another leaderboard. Of two with the same key, the one with more answers wins; ties are broken
    /// deterministically, independent of the order.
    pub fn merge(&mut self, other: &Self) {
        for entry in other.entries() {
            let key = entry.key();
            let known = self.entries().binary_search_by_key(&key, Entry::key);
            let known = known.ok().map(|place| &self.entries()[place]);
            if known.is_none_or(|known| weight(known) < weight(entry)) {
                self.insert(entry.clone());
            }
        }
        for absent in other.absent() {
            self.insert_absent(absent.clone());
        }
    }
}

fn weight(entry: &Entry) -> (u64, String) {
    (entry.calls.ok, serde_json::to_string(entry).unwrap_or_default())
}

fn loose(text: &str, shown_as: &Path) -> Result<Leaderboard, Failure> {
    let shown = shown_as.display();
    let read: LooseFile = serde_json::from_str(text).map_err(|error| {
        let stage = |number: u8| quoted(Path::new(&format!(":{number}:{shown}")));
        let (ours, theirs, file) = (stage(2), stage(3), quoted(shown_as));
        Failure::config(format!("cannot read `{shown}`: {error}")).hint(format!(
            "merge the two versions instead: `git show {ours} > ours.json`, `git show {theirs} > theirs.json`, then \
             `run-evals leaderboard merge --output {file} ours.json theirs.json`"
        ))
    })?;
    if read.schema_version > ENTRY_FORMAT {
        let message = format!(
            "`{shown}` has format {}, but this version of `run-evals` supports formats 1 to {ENTRY_FORMAT}",
            read.schema_version
        );
        return Err(Failure::config(message).hint("update `run-evals`"));
    }
    let mut board = Leaderboard::empty();
    let mut entries = read.entries;
    // Each is then inserted at the end.
    entries.sort_by_cached_key(Entry::key);
    for entry in entries {
        if let Err(what) = check::figures(&entry) {
            let message = format!(
                "`{shown}` has an entry of `{}` for `{}` that `run-evals` did not write: {what}",
                entry.model_shown(),
                entry.skill
            );
            return Err(Failure::config(message)
                .hint("restore that entry from the last version that `run-evals` wrote"));
        }
        board.insert(entry);
    }
    for absent in read.absent {
        board.insert_absent(absent);
    }
    Ok(board)
}

/// The file as each side of a conflict has it; the file itself if there is none.
fn sides(text: &str) -> Vec<String> {
    if !text.lines().any(|line| line.starts_with("<<<<<<< ")) {
        return vec![text.to_owned()];
    }
    let (mut ours, mut theirs) = (String::new(), String::new());
    // Neither, ours, the base, theirs.
    let mut part = 0;
    for line in text.lines() {
        part = match (line.get(..7).unwrap_or_default(), part) {
            ("<<<<<<<", 0) => 1,
            ("|||||||", 1) => 2,
            ("=======", 1 | 2) => 3,
            (">>>>>>>", 3) => 0,
            _ => {
                for (side, other) in [(&mut ours, 3), (&mut theirs, 1)] {
                    if part != 2 && part != other {
                        side.push_str(line);
                        side.push('\n');
                    }
                }
                part
            }
        };
    }
    vec![ours, theirs]
}
