//! Finishes an execution: waits for responses, grades them if requested, and writes the output.

use std::collections::VecDeque;
use std::path::Path;

use jiff::Timestamp;

use super::execution::{Execution, ToGrade};
use super::grading::{self, Grading};
use super::plan::Plan;
use super::report::{Output, RUN_FILE, RunBatch, RunRecord};
use super::submit::SubmittedBatch;
use super::wait::CollectedBatch;
use crate::console::actions;
use crate::git::Repository;
use crate::model::BatchId;
use crate::report::{Summary, TargetSummary};

/// The result of an execution.
pub struct ExecutionResult {
    /// The figures.
    pub summary: Summary,
    /// Why the responses were not graded although requested.
    pub error: Option<anyhow::Error>,
}

impl Execution {
    /// Waits for the batches, grades their responses according to the plan, and writes the files.
    pub async fn finish(
        &mut self,
        batches: Vec<SubmittedBatch>,
        mut output: Output,
        plan: Option<&Plan>,
    ) -> anyhow::Result<ExecutionResult> {
        let grading = plan.and_then(|plan| plan.grading.as_ref());
        let is_remote = batches.iter().any(SubmittedBatch::is_remote);
        let stop = self.listen(is_remote || grading.is_some_and(|grading| grading.graders.any_remote()))?;
        let (mut summaries, mut to_grade) = (Vec::new(), Vec::new());
        let (mut ended, mut rows): (Vec<BatchId>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut waiting = VecDeque::from(batches);
        while let Some(batch) = waiting.pop_front() {
            let (target, run_id) = (batch.target_name().to_owned(), batch.run_id().clone());
            let start = grading::length(output.responses_path().as_deref());
            output.of_target(&target);
            let summary = match self.wait(batch, &mut output).await {
                Ok(collected) => {
                    let CollectedBatch { collection, is_running, .. } = collected;
                    if !is_running {
                        ended.push(collection.summary.batch_id.clone());
                    }
                    rows.push(collection.summary.requests - collection.missing);
                    collection.summary
                }
                Err(error) => {
                    self.note_how_to_collect(waiting.make_contiguous());
                    return Err(error);
                }
            };
            let range = start..grading::length(output.responses_path().as_deref());
            to_grade.push(ToGrade { target, run_id, batch_id: summary.batch_id.clone(), range });
            summaries.push(summary);
        }
        let mut summary = Summary::new(plan.and_then(Plan::name).map(ToOwned::to_owned), summaries);
        let mut error = None;
        if grading.is_some() && *stop.requested.borrow() {
            self.observer.note("the answers were not graded, because the run was interrupted");
        } else if let Some(grading) = grading {
            error = self.grade_into(grading, &to_grade, &mut output, &mut summary).await?;
        }
        if let (Some(plan), Some(first)) = (plan, to_grade.first()) {
            let batches = summary.targets.iter().zip(rows).map(run_batch).collect();
            let record = plan.record(RunRecord::new(first.run_id.clone(), self.began, batches));
            output.keep(RUN_FILE, |out| record.write(out))?;
        }
        summary.finished_at = Some(Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        if let Some(plan) = plan {
            summary.commit = checked_out();
            summary.workflow_run = actions::run_url(plan.process_env());
            output.of_suite(plan.suite_file());
        }
        output.finish(&mut summary, &*self.observer)?;
        if !*stop.requested.borrow() {
            self.note_reported(&ended)?;
        }
        Ok(ExecutionResult { summary, error })
    }

    /// Grades responses and adds their scores to the summary; if grading fails, the responses have no scores.
    pub(super) async fn grade_into(
        &mut self,
        grading: &Grading,
        batches: &[ToGrade],
        output: &mut Output,
        summary: &mut Summary,
    ) -> anyhow::Result<Option<anyhow::Error>> {
        match self.grade(grading, batches, output).await {
            Ok(used) => {
                summary.threshold = grading.threshold;
                for (target, used) in summary.targets.iter_mut().zip(used) {
                    target.graders = used;
                }
                Ok(None)
            }
            Err(failed) => {
                // Keep the responses anyway.
                output.drop_scores();
                Ok(Some(failed))
            }
        }
    }
}

/// The batch entry of `run.json`.
fn run_batch((summary, responses): (&TargetSummary, u64)) -> RunBatch {
    RunBatch {
        target: summary.target.clone(),
        runner_target: summary.runner_target.clone(),
        batch_id: summary.batch_id.clone(),
        batch_sha256: summary.batch_sha256,
        results_repo: summary.results_repo.clone(),
        results_branch: summary.results_branch.clone(),
        run_url: summary.run_url.clone(),
        policy_sha256: summary.policy_sha256,
        stopped: summary.stopped,
        requests: summary.requests,
        responses,
    }
}

/// The current commit of the surrounding repository; `None` outside of one.
fn checked_out() -> Option<String> {
    let repository = Repository::around(Path::new(".")).ok().flatten()?;
    repository.commit_named("HEAD").ok().flatten().map(|commit| commit.to_string())
}
