//! The in-toto statement about the entries of an evaluation.

use std::path::Path;

use serde::Serialize;

use super::result::EvaluationResult;
use crate::engine::report::{attestation, write_file};
use crate::leaderboard::entry_bytes;
use crate::model::{CommitSha, Digest, Entry};
use crate::report::{LEADERBOARD_TYPE, Origin, Statement, Subject};

/// The folder of an output directory with each entry as a file, named by its digest.
const ENTRIES: &str = "entries";
/// The folder with a statement per entry, named by the entry's digest.
const ATTESTATIONS: &str = "attestations";

/// How the entries were made.
#[derive(Debug, Clone, Serialize)]
struct LeaderboardPredicate<'e> {
    origin: Origin,
    skill: &'e str,
    skill_version: &'e str,
    prompt_commit: &'e CommitSha,
    #[serde(skip_serializing_if = "Option::is_none")]
    dataset_commit: Option<&'e CommitSha>,
    /// The commit whose list of models was used.
    models_commit: &'e CommitSha,
    replicates: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rules_sha256: Option<Digest>,
    /// The model that graded prose.
    #[serde(skip_serializing_if = "Option::is_none")]
    grader: Option<&'e str>,
    models: Vec<AttestedModel<'e>>,
}

#[derive(Debug, Clone, Serialize)]
struct AttestedModel<'e> {
    model: &'e str,
    #[serde(skip_serializing_if = "Option::is_none")]
    alias_target: Option<&'e str>,
    entry_sha256: Digest,
}

/// Writes every entry as a file with its own statement, and one statement about all of them and the responses.
pub(super) fn write(dir: &Path, evaluated: &EvaluationResult) -> anyhow::Result<()> {
    let responses = Subject::new("responses.jsonl", &Digest::of(&evaluated.responses));
    let name = |digest: &Digest| format!("{ENTRIES}/{digest}.json");
    let origin = attestation::origin();
    let mut all = vec![responses.clone()];
    if !evaluated.grades.is_empty() {
        all.push(Subject::new("grades.jsonl", &Digest::of(&evaluated.grades)));
    }
    for entry in &evaluated.entries {
        let bytes = entry_bytes(entry);
        let digest = Digest::of(&bytes);
        write_file(&dir.join(name(&digest)), &bytes)?;
        let subject = Subject::new(name(&digest), &digest);
        all.push(subject.clone());
        let predicate = predicate(evaluated, &origin, std::slice::from_ref(entry));
        let statement = Statement::new(vec![subject, responses.clone()], LEADERBOARD_TYPE, predicate);
        let path = dir.join(ATTESTATIONS).join(format!("{digest}.intoto.json"));
        write_file(&path, &statement.to_bytes())?;
    }
    let predicate = predicate(evaluated, &origin, &evaluated.entries);
    attestation::write(dir, &Statement::new(all, LEADERBOARD_TYPE, predicate))
}

fn predicate<'e>(
    evaluated: &'e EvaluationResult,
    origin: &Origin,
    entries: &'e [Entry],
) -> LeaderboardPredicate<'e> {
    let model = |entry: &'e Entry| AttestedModel {
        model: &entry.model,
        alias_target: entry.alias_target.as_deref(),
        entry_sha256: Digest::of(&entry_bytes(entry)),
    };
    LeaderboardPredicate {
        origin: origin.clone(),
        skill: evaluated.skill.as_str(),
        skill_version: &evaluated.skill_version,
        prompt_commit: &evaluated.pinned.prompt_commit,
        dataset_commit: evaluated.pinned.dataset_commit.as_ref(),
        models_commit: &evaluated.pinned.models_commit,
        replicates: evaluated.replicates.get(),
        rules_sha256: entries.first().and_then(|entry| entry.rules_sha256),
        grader: evaluated.grader.as_deref(),
        models: entries.iter().map(model).collect(),
    }
}
