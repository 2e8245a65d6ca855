//! Results as artifacts of a workflow run.

use std::path::Path;

use super::blocking;
use crate::exchange::RowParts;
use crate::github::{DuplicateArtifact, ResultsService};
use crate::model::BatchId;
use crate::protocol::names::{ROWS_FILE, RowsArtifact};
use crate::util::WorkDir;
use crate::util::zip::zip_one;

/// GitHub allows 500 artifacts per job; the final rows need some too.
pub(super) const MOST_CHECKPOINTS: u32 = 450;
/// Attempts to find a free artifact name.
const MOST_NAMES: u32 = 5;

/// Uploads the rows of a JSONL file under the next free names. Advances `label` even on failure, so that no
/// name is reused.
pub(super) async fn upload(
    service: &ResultsService,
    batch_id: &BatchId,
    label: &mut RowsArtifact,
    rows: &Path,
) -> anyhow::Result<()> {
    let dir = WorkDir::new()?;
    let (rows, folder) = (rows.to_owned(), dir.path().to_owned());
    let zips = blocking(move || {
        let parts = RowParts::for_artifacts(&rows)?;
        let zips = parts.iter().enumerate().map(|(number, part)| {
            let zip = folder.join(format!("{number}.zip"));
            zip_one(part.size, part, ROWS_FILE, &zip).map(|()| zip)
        });
        zips.collect::<anyhow::Result<Vec<_>>>()
    });
    for zip in zips.await? {
        let mut names = 0;
        loop {
            label.sequence += 1;
            names += 1;
            match service.upload(&label.name(batch_id), &zip, None).await {
                // An upload whose response was lost may have taken the name.
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
