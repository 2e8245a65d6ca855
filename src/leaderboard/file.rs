//! The leaderboard file, with canonical bytes.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::check;
use crate::model::{CommitSha, ENTRY_FORMAT, Entry, Failure, SkillName};
use crate::util::path::quoted;

/// The entries, sorted by key, and the models that were not called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaderboard {
    schema_version: u32,
    entries: Vec<Entry>,
    absent: Vec<AbsentModel>,
}

/// A listed model that was not served.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AbsentModel {
    /// The skill.
    pub skill: SkillName,
    /// The commit of the library that was checked out.
    pub prompt_commit: CommitSha,
    /// The model.
    pub model: String,
    reason: Reason,
}

/// Why a model was not called. Stored in the file, although there is only one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Reason {
    #[serde(rename = "not_served")]
    NotServed,
}

impl AbsentModel {
    /// A model that the server does not list.
    pub fn new(skill: SkillName, prompt_commit: CommitSha, model: String) -> Self {
        Self { skill, prompt_commit, model, reason: Reason::NotServed }
    }
}

/// Only the format version, to distinguish a newer file from a broken one.
#[derive(Deserialize)]
struct Version {
    schema_version: Option<serde_json::Value>,
}

impl Leaderboard {
    /// Its path in the skill library.
    pub const PATH: &str = "leaderboard.json";

    /// The path of a skill's own file.
    pub fn path_of(skill: &SkillName) -> String {
        format!("leaderboard/{skill}.json")
    }

    /// The part for one skill.
    #[must_use]
    pub fn of_skill(&self, skill: &SkillName) -> Self {
        let entries = self.entries.iter().filter(|entry| entry.skill == *skill).cloned().collect();
        let absent = self.absent.iter().filter(|absent| absent.skill == *skill).cloned().collect();
        Self { schema_version: self.schema_version, entries, absent }
    }

    /// Without any entry.
    pub fn empty() -> Self {
        Self { schema_version: ENTRY_FORMAT, entries: Vec::new(), absent: Vec::new() }
    }

    /// Parses the file, which must be exactly as this program writes it; messages call it `shown_as`. Any other file is never
    /// overwritten, because manual changes would be lost.
    pub fn parse(bytes: &[u8], shown_as: &Path) -> Result<Self, Failure> {
        let at = |line: usize| format!("{}:{line}", shown_as.display());
        let hint = || {
            format!(
                "only `run-evals` writes this file; restore its last version: \
                 `git log --oneline -- {0}`, then `git checkout <commit> -- {0}`",
                quoted(shown_as)
            )
        };
        let parsed = serde_json::from_slice::<Version>(bytes);
        if let Ok(Version { schema_version: Some(version) }) = &parsed
            && let Some(version) = version.as_u64().filter(|version| *version > u64::from(ENTRY_FORMAT))
        {
            let message = format!(
                "`{}` has format {version}, but this version of `run-evals` supports formats 1 to {ENTRY_FORMAT}",
                shown_as.display()
            );
            return Err(Failure::config(message).hint("update `run-evals`; the file was left as it is"));
        }
        let board: Self = serde_json::from_slice(bytes).map_err(|error| {
            let conflict = bytes
                .split(|byte| *byte == b'\n')
                .position(|line| line.starts_with(b"<<<<<<< ") || line.starts_with(b">>>>>>> "));
            let text = error.to_string();
            let words = text.split(" at line ").next().unwrap_or(&text);
            let (line, words) = match conflict {
                Some(line) => (line + 1, "it contains a merge conflict"),
                None => (error.line().max(1), words),
            };
            let told = Failure::config(format!("cannot read `{}`: {words}", at(line)));
            let file = shown_as.display();
            match conflict {
                Some(_) => told.hint(format!(
                    "`run-evals leaderboard merge --output {file} {file}` keeps the entries of both sides"
                )),
                None => told.hint(hint()),
            }
        })?;
        let wrong = |line: usize, what: &str| {
            Err(Failure::config(format!("`{}` was changed by hand: {what}", at(line))).hint(hint()))
        };
        if !(1..=ENTRY_FORMAT).contains(&board.schema_version) {
            return wrong(2, &format!("`schema_version` {} never existed", board.schema_version));
        }
        if let Some((entry, what)) =
            board.entries.iter().find_map(|entry| Some((entry, check::figures(entry).err()?)))
        {
            return wrong(line_of(bytes, entry, &board.entries), &what);
        }
        if let Some(line) = first_difference(bytes, &board.canonical().to_bytes()) {
            return wrong(line, "this line differs from what `run-evals` writes");
        }
        Ok(board)
    }

    /// Inserts an entry, replacing one with the same key. Its model is no longer absent.
    pub fn insert(&mut self, entry: Entry) {
        if entry.rules_sha256.is_some() {
            self.schema_version = ENTRY_FORMAT;
        }
        self.absent.retain(|absent| {
            (&absent.skill, &absent.prompt_commit, &absent.model)
                != (&entry.skill, &entry.prompt_commit, &entry.model)
        });
        match self.entries.binary_search_by_key(&entry.key(), Entry::key) {
            Ok(place) => self.entries[place] = entry,
            Err(place) => self.entries.insert(place, entry),
        }
    }

    /// Records a model that was not called, unless it has an entry for the commit.
    pub fn insert_absent(&mut self, absent: AbsentModel) {
        let is_of = |entry: &Entry| {
            (&entry.skill, &entry.prompt_commit, &entry.model)
                == (&absent.skill, &absent.prompt_commit, &absent.model)
        };
        if self.entries.iter().any(is_of) {
            return;
        }
        if let Err(place) = self.absent.binary_search(&absent) {
            self.absent.insert(place, absent);
        }
    }

    /// All entries, sorted.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The models that were not called, sorted.
    pub fn absent(&self) -> &[AbsentModel] {
        &self.absent
    }

    /// The file: keys in a fixed order, two spaces, line feeds, one at the end.
    pub fn to_bytes(&self) -> Vec<u8> {
        // It contains only string keys and numbers that JSON supports.
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// The same entries, sorted and without duplicate keys. A file of format 1 stays one until it gets a new entry.
    fn canonical(&self) -> Self {
        let mut board = Self { schema_version: self.schema_version, ..Self::empty() };
        for entry in &self.entries {
            board.insert(entry.clone());
        }
        for absent in &self.absent {
            board.insert_absent(absent.clone());
        }
        board
    }
}

/// One entry as a file, with the bytes whose digest attestations name: two spaces, one line feed at the end.
pub fn entry_bytes(entry: &Entry) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(entry).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// The first line in which two texts differ.
fn first_difference(found: &[u8], expected: &[u8]) -> Option<usize> {
    if found == expected {
        return None;
    }
    let lines = |bytes: &'_ [u8]| bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (found, expected) = (lines(found), lines(expected));
    let equal = found.iter().zip(&expected).take_while(|(found, expected)| found == expected).count();
    Some(equal.min(found.len().saturating_sub(1)) + 1)
}

/// The line on which an entry starts.
fn line_of(bytes: &[u8], entry: &Entry, entries: &[Entry]) -> usize {
    let place = entries.iter().position(|other| std::ptr::eq(other, entry)).unwrap_or(0);
    let starts = bytes.split(|byte| *byte == b'\n').enumerate();
    let mut starts = starts.filter(|(_, line)| line.starts_with(b"      \"skill\": "));
    starts.nth(place).map_or(1, |(line, _)| line + 1)
}
