//! The answers of batches that were begun: followed one after the other, graded where that is asked for, and told.

use super::args::Format;
use super::begin::Begun;
use super::follow::Following;
use super::grading::{self, ToGrade};
use super::output::Output;
use super::session::Session;
use crate::exchange::LocalExchange;
use crate::model::Exit;
use crate::report::Summary;

impl Session<'_> {
    /// Brings the answers, grades them, and tells what came of them.
    pub(super) async fn run<'s>(
        &'s self,
        exchange: &LocalExchange,
        batches: Vec<Begun<'s>>,
        mut output: Output,
        format: Format,
    ) -> anyhow::Result<Exit> {
        let grades_elsewhere = self.grading.as_ref().is_some_and(|grading| grading.graders.any_remote());
        let elsewhere = batches.iter().any(|batch| matches!(batch, Begun::There(..)));
        let mut following =
            Following::new(self.options.clone(), elsewhere || grades_elsewhere, self.display)?;
        let (mut summaries, mut to_grade) = (Vec::new(), Vec::new());
        let mut waiting = std::collections::VecDeque::from(batches);
        while let Some(batch) = waiting.pop_front() {
            let (target, run_id) = (batch.target_name().to_owned(), batch.run_id().clone());
            let start = grading::length(output.responses_path().as_deref());
            output.of_target(&target);
            let collection = match self.follow(exchange, batch, &mut output, &mut following).await {
                Ok(collection) => collection,
                Err(error) => {
                    self.tell_left(waiting.make_contiguous());
                    return Err(error);
                }
            };
            let range = start..grading::length(output.responses_path().as_deref());
            to_grade.push(ToGrade { target, run_id, batch_id: collection.summary.batch_id.clone(), range });
            summaries.push(collection.summary);
        }
        let mut summary = Summary::new(self.name.clone(), summaries);
        if self.grading.is_some() && following.is_stopped() {
            self.display.note("the answers are not graded, because the run was interrupted");
        } else if let Some(grading) = &self.grading {
            match self.grade(exchange, &to_grade, &mut output, &mut following).await {
                Ok(scores) => summary.add_scores(scores, grading.threshold),
                Err(error) => {
                    // The answers are there all the same.
                    output.forget_scores()?;
                    output.finish(summary, format, self.display)?;
                    return Err(error);
                }
            }
        }
        let exit = output.finish(summary, format, self.display)?;
        // Only now: until the responses are in place, they can be collected again.
        self.tidy_up(exchange, following).await?;
        Ok(exit)
    }

    /// Brings the answers, and nothing else.
    pub(super) async fn answer<'s>(
        &'s self,
        exchange: &LocalExchange,
        batches: Vec<Begun<'s>>,
        out: &mut dyn std::io::Write,
    ) -> anyhow::Result<Following<'s>> {
        let elsewhere = batches.iter().any(|batch| matches!(batch, Begun::There(..)));
        let mut following = Following::new(self.options.clone(), elsewhere, self.display)?;
        for batch in batches {
            self.follow(exchange, batch, out, &mut following).await?;
        }
        Ok(following)
    }
}
