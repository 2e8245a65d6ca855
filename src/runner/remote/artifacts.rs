//! Results as artifacts of the workflow run: how they are named, and how rows get into one.

use std::path::Path;

use super::blocking;
use crate::archive::zip_one;
use crate::exchange::compress_rows;
use crate::github::{DuplicateArtifact, ResultsService};
use crate::model::BatchId;

/// The one file in a results artifact.
pub(super) const ROWS: &str = "rows.jsonl.gz";
/// A job may have 500 artifacts; the last rows need room too.
pub(super) const MOST_CHECKPOINTS: u32 = 450;
/// How many names are tried for one artifact.
const MOST_NAMES: u32 = 5;

/// Which leg's rows an artifact has, and in which order they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Label {
    pub(super) shard: u32,
    pub(super) attempt: u32,
    pub(super) sequence: u32,
}

impl Label {
    /// The name of the artifact.
    pub(super) fn name(self, batch_id: &BatchId) -> String {
        let Self { shard, attempt, sequence } = self;
        format!("eval-results-{batch_id}-{shard:03}-{attempt}-{sequence:04}")
    }

    /// The label of an artifact of this batch.
    pub(super) fn parse(name: &str, batch_id: &BatchId) -> Option<Self> {
        let rest = name.strip_prefix("eval-results-")?.strip_prefix(batch_id.as_str())?.strip_prefix('-')?;
        let numbers: Vec<u32> =
            rest.split('-').map(|number| number.parse().ok()).collect::<Option<Vec<u32>>>()?;
        let [shard, attempt, sequence] = numbers[..] else { return None };
        let label = Self { shard, attempt, sequence };
        (label.name(batch_id) == name).then_some(label)
    }
}

/// Uploads the rows of a JSONL file under the next free names. `label` is moved on even where it fails, so that no name is
/// used twice.
pub(super) async fn upload(
    service: &ResultsService,
    batch_id: &BatchId,
    label: &mut Label,
    rows: &Path,
) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let (rows, parts_dir) = (rows.to_owned(), dir.path().to_owned());
    let parts = blocking(move || compress_rows(&rows, &parts_dir)).await?;
    for part in parts {
        let zip = dir.path().join("rows.zip");
        let to = zip.clone();
        blocking(move || zip_one(&part, ROWS, &to)).await?;
        let mut names = 0;
        loop {
            label.sequence += 1;
            names += 1;
            match service.upload(&label.name(batch_id), &zip, None).await {
                // An upload whose answer was lost may hold the name, and nothing else.
                Err(error) if names < MOST_NAMES && is_duplicate(&error) => {}
                result => break result.map(drop)?,
            }
        }
    }
    Ok(())
}

fn is_duplicate(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<DuplicateArtifact>().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_one_to_one() {
        let id: BatchId = "a-1-2".parse().unwrap();
        let label = Label { shard: 7, attempt: 12, sequence: 3 };
        assert_eq!(label.name(&id), "eval-results-a-1-2-007-12-0003");
        assert_eq!(Label::parse("eval-results-a-1-2-007-12-0003", &id), Some(label));
        for other in [
            "eval-results-a-1-007-12-0003",
            "eval-results-a-1-2-7-12-0003",
            "eval-results-a-1-2-007-12",
            "eval-results-a-1-2-007-12-0003-4",
            "eval-results-a-1-2-g-007-12-0003",
            "batch-a-1-2",
        ] {
            assert_eq!(Label::parse(other, &id), None, "{other}");
        }
    }
}
