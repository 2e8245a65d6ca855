//! The end of an execution: responses are waited for, graded where that is asked for, and put in place.

use std::collections::VecDeque;

use super::execution::{Execution, ToGrade};
use super::grading;
use super::plan::Plan;
use super::report::Output;
use super::submit::SubmittedBatch;
use crate::report::Summary;

/// What an execution has left in its output.
pub struct Finished {
    /// The figures.
    pub summary: Summary,
    /// Why the responses are not graded although they should be.
    pub error: Option<anyhow::Error>,
}

impl Execution {
    /// Waits for the batches, grades their responses as the plan says, and puts the files in place.
    pub async fn finish(
        &mut self,
        batches: Vec<SubmittedBatch>,
        mut output: Output,
        plan: Option<&Plan>,
    ) -> anyhow::Result<Finished> {
        let grading = plan.and_then(|plan| plan.grading.as_ref());
        let is_remote = batches.iter().any(SubmittedBatch::is_remote);
        let stop = self.listen(is_remote || grading.is_some_and(|grading| grading.graders.any_remote()))?;
        let (mut summaries, mut to_grade) = (Vec::new(), Vec::new());
        let mut waiting = VecDeque::from(batches);
        while let Some(batch) = waiting.pop_front() {
            let (target, run_id) = (batch.target_name().to_owned(), batch.run_id().clone());
            let start = grading::length(output.responses_path().as_deref());
            output.of_target(&target);
            let summary = match self.wait(batch, &mut output).await {
                Ok(collected) => collected.collection.summary,
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
            self.observer.note("the answers are not graded, because the run was interrupted");
        } else if let Some(grading) = grading {
            match self.grade(grading, &to_grade, &mut output).await {
                Ok(scores) => summary.add_scores(scores, grading.threshold),
                Err(failed) => {
                    // The responses are kept all the same.
                    output.forget_scores()?;
                    error = Some(failed);
                }
            }
        }
        output.finish(&mut summary, &*self.observer)?;
        Ok(Finished { summary, error })
    }
}
