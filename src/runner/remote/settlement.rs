//! Totals of a whole batch, from the rows of all shards.

use std::path::Path;

use super::super::RunReport;
use super::super::ledger::Ledger;
use super::super::shard::{recall_branch, results_manifest};
use crate::exchange::LocalExchange;
use crate::model::Digest;
use crate::protocol::{BatchManifest, ResultsManifest};

/// The manifest of the results on the branch and in these files; `not_run` counts requests without a row.
pub(super) fn survey<'p>(
    exchange: &LocalExchange,
    batch: &BatchManifest,
    batch_sha256: Digest,
    further: impl Iterator<Item = &'p Path>,
    run_url: String,
) -> anyhow::Result<ResultsManifest> {
    let filter = exchange.row_filter(&batch.batch_id)?;
    let mut ledger = Ledger::whole(batch);
    recall_branch(exchange, &batch.batch_id, &filter, &mut ledger)?;
    for rows in further {
        filter.each_answer(rows, None, |row, _| {
            ledger.recall(row, None);
            Ok(())
        })?;
    }
    let totals = ledger.totals(batch.requests);
    let report = RunReport { totals, called: 0, stopped: None, is_published: false };
    let mut manifest = results_manifest(batch, batch_sha256, &report);
    manifest.run_url = Some(run_url);
    Ok(manifest)
}
