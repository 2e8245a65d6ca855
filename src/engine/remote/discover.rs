//! Finds a batch that another machine dispatched, by its branches and runs in the runner repository.

use super::check::RunnerRepo;
use super::record::DispatchRecord;
use super::{Dispatcher, PATIENCE};
use crate::github::ApiError;
use crate::model::{BatchId, Failure, RemoteTarget};
use crate::protocol::Handover;
use crate::protocol::names::handover_branch;
use crate::util::WorkDir;

impl Dispatcher {
    /// Creates a record of a batch from its branches and runs.
    pub async fn discover(&self, target: &RemoteTarget, id: &BatchId) -> anyhow::Result<DispatchRecord> {
        let info = self.client.repository(&target.repo).await.map_err(ApiError::into_failure)?;
        let remote = self.remote(&target.repo, &info.clone_url).await?;
        let batch_id = id.clone();
        let known = self
            .with_exchange(move |exchange| {
                exchange.fetch_results(&remote, &batch_id, None, PATIENCE)?;
                let branch = handover_branch(&batch_id);
                let here = exchange.batch_bytes(&batch_id)?.is_some();
                if here || exchange.fetch_batch(&remote, &branch, &batch_id, true, PATIENCE)? {
                    let temporary = WorkDir::new()?;
                    let (manifest, sha256) =
                        exchange.unpack_batch(&batch_id, None, &temporary.path().join("batch"))?;
                    return Ok(Some((sha256, manifest.requests, manifest.shards, true)));
                }
                let results = exchange.results_manifest(&batch_id)?;
                Ok(results.map(|manifest| (manifest.batch_sha256, manifest.requests, manifest.shards, false)))
            })
            .await?;
        let Some((sha256, requests, shards, on_a_branch)) = known else {
            let message = format!("`{}` has neither the batch `{id}` nor its finished results", target.repo);
            let hint = "a batch that is handed over inline or as an artifact can be collected before it is finished only where it was \
                        dispatched; wait for its run to end, and check the batch id and the target";
            return Err(Failure::config(message).hint(hint).into());
        };
        let git_ref = target.git_ref.clone().unwrap_or_else(|| info.default_branch.clone());
        let runner = RunnerRepo { info, git_ref };
        let mut record =
            DispatchRecord::new(id.clone(), sha256, (requests, shards), &self.api_url, &runner, target);
        if on_a_branch {
            let (repo, branch) = (record.repo.clone(), handover_branch(id));
            record.handover = Some(Handover::Branch { repo, branch });
        }
        self.learn_runs(&mut record).await?;
        record.write(&self.exchange)?;
        Ok(record)
    }
}
