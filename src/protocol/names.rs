//! Names by which dispatcher and runner find each other's branches, files, artifacts, workflow runs and
//! jobs. Only this module builds and parses them.

use super::{DispatchId, MOST_SHARDS};
use crate::model::BatchId;

/// Batch archive: on the hand-over branch unless it has parts there, in an artifact, on disk.
pub const BATCH_FILE: &str = "batch.tar.gz";
/// Prefix of hand-over branches.
pub const HANDOVER_FOLDER: &str = "eval-batch";
/// Default prefix of results branches.
pub const RESULTS_FOLDER: &str = "eval-results";
/// Prefix of local branches with rows from artifacts.
pub const ARTIFACTS_FOLDER: &str = "artifact-results";
/// Prefix of local branches that hold a fetched branch for comparison.
pub const INCOMING_FOLDER: &str = "incoming";

/// Prefixes that results branches must not use.
const RESERVED_FOLDERS: [&str; 3] = [HANDOVER_FOLDER, INCOMING_FOLDER, ARTIFACTS_FOLDER];

/// Folder of everything on a results branch except the README.
pub const RESULTS_DIR: &str = "results";
/// Manifest of the results; written last.
pub const RESULTS_MANIFEST: &str = "results/manifest.json";
/// Names the batch that a results branch belongs to, from its first commit on.
pub const RESULTS_OWNER: &str = "results/batch.json";
/// README of a results branch; written with the manifest.
pub const RESULTS_README: &str = "README.md";
/// Path of the rows on a results branch, for people.
pub(super) const ROWS_PATTERN: &str = "results/shard-KKK/NNNN.jsonl";
/// The only file in an artifact with rows.
pub const ROWS_FILE: &str = "rows.jsonl";
/// Size limit of that file.
pub const MOST_ROWS_BYTES: u64 = 1 << 30;

/// Hand-over branch of a batch.
pub fn handover_branch(id: &BatchId) -> String {
    format!("{HANDOVER_FOLDER}/{id}")
}

/// A part of a large archive on the hand-over branch.
pub fn batch_part(number: u32) -> String {
    format!("{BATCH_FILE}.{number:02}")
}

/// The number of a part.
pub fn number_of_batch_part(name: &str) -> Option<u32> {
    let number = name.strip_prefix(BATCH_FILE)?.strip_prefix('.')?.parse().ok()?;
    (batch_part(number) == name).then_some(number)
}

/// Whether a file of a hand-over branch is the archive, or is named like a part of it.
pub fn is_batch_file(name: &str) -> bool {
    name.strip_prefix(BATCH_FILE).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Results branch of a batch.
pub fn results_branch(folder: &str, id: &BatchId) -> String {
    format!("{folder}/{id}")
}

/// The reserved prefix that equals or contains this prefix.
pub fn reserved_folder(folder: &str) -> Option<&'static str> {
    let top = folder.split('/').next().unwrap_or(folder);
    RESERVED_FOLDERS.into_iter().find(|reserved| *reserved == top)
}

/// Folder of a shard in [`RESULTS_DIR`].
pub fn shard_folder(shard: u32) -> String {
    format!("shard-{shard:03}")
}

/// Parses [`shard_folder`].
pub fn shard_of_folder(name: &str) -> Option<u32> {
    let shard = name.strip_prefix("shard-")?.parse().ok()?;
    (shard_folder(shard) == name).then_some(shard)
}

/// File with rows in a shard's folder; later ones have higher numbers.
pub fn rows_file(number: u32) -> String {
    format!("{number:04}.jsonl")
}

/// Parses [`rows_file`].
pub fn number_of_rows_file(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".jsonl")?.parse().ok()?;
    (rows_file(number) == name).then_some(number)
}

/// Hand-over artifact of a batch. The number is random, because an earlier upload may have used the name.
pub fn batch_artifact(id: &BatchId, number: u32) -> String {
    format!("batch-{id}-{number:08x}")
}

/// An artifact with rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowsArtifact {
    pub shard: u32,
    /// Attempt of the workflow run.
    pub attempt: u32,
    /// Number within the attempt.
    pub sequence: u32,
}

impl RowsArtifact {
    pub fn name(self, id: &BatchId) -> String {
        let Self { shard, attempt, sequence } = self;
        format!("eval-results-{id}-{shard:03}-{attempt}-{sequence:04}")
    }

    /// Parses the name; `None` if the artifact has no rows of this batch.
    pub fn parse(name: &str, id: &BatchId) -> Option<Self> {
        let rest = name.strip_prefix("eval-results-")?.strip_prefix(id.as_str())?.strip_prefix('-')?;
        let numbers: Vec<u32> = rest.split('-').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let [shard, attempt, sequence] = numbers[..] else { return None };
        let artifact = Self { shard, attempt, sequence };
        (shard < MOST_SHARDS && artifact.name(id) == name).then_some(artifact)
    }
}

/// Prefix of the titles of a batch's workflow runs; the dispatch id follows.
pub fn run_titles(id: &BatchId) -> String {
    format!("eval {id} ")
}

/// Dispatch id in the title of a workflow run.
pub fn dispatch_of_title(title: &str, id: &BatchId) -> Option<DispatchId> {
    title.strip_prefix(&run_titles(id))?.parse().ok()
}

/// Shard of a workflow job. In a called workflow, the caller's name precedes the job's.
pub fn shard_of_job(name: &str) -> Option<u32> {
    name.rsplit(" / ").next()?.strip_prefix("shard ")?.parse().ok()
}

/// Whether the text is `owner/name`.
pub fn is_repository(text: &str) -> bool {
    let legal = |part: &str, extra: &str, longest: usize| {
        (1..=longest).contains(&part.len())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
    };
    text.split_once('/').is_some_and(|(owner, name)| {
        legal(owner, "-_", 39)
            && !owner.starts_with('-')
            && legal(name, "-_.", 100)
            && !matches!(name, "." | "..")
            && name.strip_suffix(".git").is_none()
    })
}

/// Whether git allows the text as a branch or tag name, or as a prefix of one.
pub fn is_ref_name(text: &str) -> bool {
    let illegal = |c: char| c.is_whitespace() || c.is_control() || "~^:?*[\\".contains(c);
    let part_is_legal = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && part.strip_suffix(".lock").is_none()
    };
    !text.starts_with('-')
        && !text.contains(illegal)
        && !text.contains("..")
        && !text.contains("@{")
        && text.split('/').all(part_is_legal)
}

/// Whether the text is safe as the name of an artifact and a file.
pub(super) fn is_artifact_name(text: &str) -> bool {
    (1..=200).contains(&text.len())
        && !text.starts_with(['.', '-'])
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(text: &str) -> BatchId {
        text.parse().unwrap()
    }

    proptest! {
        #[test]
        fn names_round_trip(batch in "[a-z0-9-]{1,60}", shard in 0..MOST_SHARDS, number: u32, dispatch: u64, attempt: u32) {
            let id = id(&batch);
            prop_assert_eq!(shard_of_folder(&shard_folder(shard)), Some(shard));
            prop_assert_eq!(number_of_rows_file(&rows_file(number)), Some(number));
            prop_assert_eq!(number_of_batch_part(&batch_part(number)), Some(number));
            prop_assert!(is_batch_file(&batch_part(number)) && is_batch_file(BATCH_FILE));
            let artifact = RowsArtifact { shard, attempt, sequence: number };
            prop_assert_eq!(RowsArtifact::parse(&artifact.name(&id), &id), Some(artifact));
            prop_assert!(is_artifact_name(&artifact.name(&id)) && is_artifact_name(&batch_artifact(&id, number)));
            let dispatch = DispatchId::from(dispatch);
            let title = format!("{}{dispatch}", run_titles(&id));
            prop_assert_eq!(dispatch_of_title(&title, &id), Some(dispatch));
            prop_assert!(is_ref_name(&handover_branch(&id)) && is_ref_name(&results_branch(RESULTS_FOLDER, &id)));
        }
    }

    #[test]
    fn artifacts_of_other_batches_are_not_read() {
        let artifact = RowsArtifact { shard: 7, attempt: 12, sequence: 3 };
        assert_eq!(artifact.name(&id("a-1-2")), "eval-results-a-1-2-007-12-0003");
        for other in [
            "eval-results-a-1-007-12-0003",
            "eval-results-a-1-2-7-12-0003",
            "eval-results-a-1-2-007-12",
            "eval-results-a-1-2-007-12-0003-4",
            "eval-results-a-1-2-g-007-12-0003",
            "eval-results-a-1-2-900-1-0001",
            "batch-a-1-2",
        ] {
            assert_eq!(RowsArtifact::parse(other, &id("a-1-2")), None, "{other}");
        }
    }

    #[test]
    fn the_workflow_names_runs_and_jobs_as_they_are_read() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("workflows/run-evals.yml");
        let workflow = std::fs::read_to_string(path).unwrap();
        assert!(workflow.contains("run-name: eval ${{ inputs.batch_id }} ${{ inputs.dispatch_id }}\n"));
        assert!(workflow.contains("name: shard ${{ matrix.shard }}\n"));
        assert_eq!(dispatch_of_title("eval b1-2 0123456789abcdef", &id("b1")), None);
        assert_eq!(
            (shard_of_job("call / shard 12"), shard_of_job("shard"), shard_of_job("x")),
            (Some(12), None, None)
        );
    }
}
