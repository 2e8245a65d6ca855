//! What a workflow job of a batch reports: one shard, or the job that commits the results of all shards.

use super::collect::{Collection, collect, collect_shard};
use crate::model::{Exit, RemoteResults};
use crate::protocol::{Stop, Totals};
use crate::report::Summary;
use crate::runner::{FinishReport, Host, SavedRows, ShardJobReport};

/// The result of a workflow job.
#[derive(Debug)]
pub struct JobReport {
    pub title: String,
    pub totals: Totals,
    pub summary: Summary,
    /// The number of failed calls of a shard.
    pub failed: u64,
    /// Incomplete if a later run may add responses: then the job is red, and running it again resumes it. Final failures would fail
    /// again; they are in the rows.
    pub exit: Exit,
    /// How to resume an incomplete shard.
    pub resume: Option<String>,
}

impl JobReport {
    /// The result of one shard.
    pub fn of_shard(host: &Host, shard: u32, report: &ShardJobReport) -> anyhow::Result<Self> {
        let id = &host.inputs.batch_id;
        let totals = report.run.totals;
        let mut collection = collect_shard(&report.exchange, id, shard)?;
        collection.summary.stopped = report.run.stopped.filter(|_| totals.not_run > 0);
        let is_saved = matches!(report.kept, SavedRows::Branch | SavedRows::Artifacts);
        let exit = if is_saved { exit_code(&collection) } else { Exit::Incomplete };
        Ok(Self {
            title: format!("batch {id}, shard {shard}"),
            totals,
            failed: collection.summary.totals.failed,
            summary: summary(collection, host),
            exit,
            resume: (exit == Exit::Incomplete).then(|| resume(host, report.run.stopped)),
        })
    }

    /// The result of all shards.
    pub fn of_batch(host: &Host, report: &FinishReport) -> anyhow::Result<Self> {
        let id = &host.inputs.batch_id;
        let collection = collect(&report.exchange, id, None, &mut std::io::sink())?;
        Ok(Self {
            title: format!("batch {id}"),
            totals: report.manifest.totals,
            failed: 0,
            exit: exit_code(&collection),
            summary: summary(collection, host),
            resume: None,
        })
    }
}

fn exit_code(collection: &Collection) -> Exit {
    if collection.resumable { Exit::Incomplete } else { Exit::Ok }
}

fn resume(host: &Host, stopped: Option<Stop>) -> String {
    let why = stopped.map(|stop| format!(" ({})", stop.describe())).unwrap_or_default();
    let id = &host.inputs.batch_id;
    format!(
        "some requests have no response yet{why}; to call only these, run `run-evals dispatch --resume {id}` where the batch \
         was dispatched, or choose `Re-run failed jobs` on the page of this run"
    )
}

fn summary(collection: Collection, host: &Host) -> Summary {
    let mut target = collection.summary;
    target.results_repo.clone_from(&host.repo);
    target.run_url = Some(host.run_url());
    if host.inputs.results == RemoteResults::Artifact {
        target.results_branch = String::new();
    }
    Summary::new(None, vec![target])
}
