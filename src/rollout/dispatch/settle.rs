//! How a row ends: by its worker's status, by the conclusion of its run, or by timeout.

use std::time::{Duration, Instant};

use super::group::{RowGroup, split};
use super::rows::FinishedRow;
use super::watch::{LOOK_EVERY, Watch};
use crate::github::Run;
use crate::model::printable;
use crate::rollout::endpoint::{EndpointError, Trace};
use crate::rollout::status::{Code, Status};
use crate::util::clock;

/// How often a row is dispatched if its run never starts.
const MOST_ATTEMPTS: u32 = 3;
/// How long traces may take to appear after the worker has finished.
const TRACES_APPEAR: Duration = Duration::from_secs(10);

/// Whether a request can be repeated later.
pub(super) enum Patience {
    Some,
    None,
}

impl Watch<'_> {
    /// Ends the rows whose runs have ended or never appeared.
    pub(super) async fn settle(&mut self) -> anyhow::Result<()> {
        // Elapsed time is not enough: the run may exist but was not looked up yet.
        let is_lost = |group: &RowGroup| group.run_id.is_none() && group.is_missing;
        let over = |group: &&RowGroup| group.run.as_ref().is_some_and(Run::is_over) || is_lost(group);
        let over: Vec<RowGroup> = self.open.iter().filter(over).cloned().collect();
        for group in over {
            let conclusion = group.run.as_ref().and_then(|run| run.conclusion.clone());
            let mut not_run = Vec::new();
            for index in group.rows.clone() {
                if !self.settle_row(&group, index, conclusion.as_deref()).await? {
                    not_run.push(index);
                }
            }
            self.open.retain(|open| open.name != group.name);
            if not_run.is_empty() {
                continue;
            }
            let what = conclusion.map_or_else(
                || "its run did not appear".to_owned(),
                |how| format!("its run ended as `{how}`"),
            );
            (self.options.tell)(&format!(
                "{}: {what} before it started; dispatching it again",
                group.title()
            ));
            let again = split(&not_run, self.rows, &self.ids, self.options.batch);
            let attempt = group.attempt + 1;
            self.waiting.extend(
                again.into_iter().map(|rows| RowGroup::new(rows, &self.ids, attempt, group.is_repeated)),
            );
        }
        Ok(())
    }

    /// Ends a row whose run has ended; returns false if the row did not run and may be dispatched again.
    async fn settle_row(
        &mut self,
        group: &RowGroup,
        index: usize,
        conclusion: Option<&str>,
    ) -> anyhow::Result<bool> {
        let rollout_id = self.ids[index].rollout_id.clone();
        let status = match self.options.endpoint.status(&rollout_id).await {
            Ok(status) => status,
            Err(EndpointError::NoRoute) => None,
            Err(trouble) => {
                self.end(index, trouble.status(), None)?;
                return Ok(true);
            }
        };
        match status {
            Some(status) if status.is_finished() => self.finish(index, Patience::None).await?,
            Some(status) if !status.is_running() && self.is_news(index, &status) => {
                self.fail_row(index, status).await?;
            }
            status => {
                let is_at_work = |status: Status| status.is_running() && self.is_news(index, &status);
                let began = self.at_work[index] || status.is_some_and(is_at_work);
                let traces = self.options.endpoint.traces(&rollout_id).await.unwrap_or_default();
                let how = conclusion.unwrap_or("lost");
                let somebody_ended_it =
                    matches!(how, "success" | "cancelled" | "action_required" | "skipped");
                let may_repeat = !began && traces.is_empty() && !somebody_ended_it;
                if may_repeat && group.attempt < MOST_ATTEMPTS {
                    return Ok(false);
                }
                let status = match (how, traces.is_empty(), began) {
                    // A worker that reports no status, but has done its work.
                    ("success", false, _) => {
                        self.finish(index, Patience::None).await?;
                        return Ok(true);
                    }
                    ("success", true, _) => Status::new(
                        Code::NotFound,
                        "the run succeeded, but no trace of the rollout was recorded",
                    ),
                    ("lost", ..) => Status::new(Code::NotFound, "no workflow run appeared for it"),
                    (how, _, began) => {
                        let code = match how {
                            "cancelled" => Code::Cancelled,
                            "timed_out" => Code::DeadlineExceeded,
                            _ => Code::Internal,
                        };
                        let when = if began { "while it was running" } else { "before it started" };
                        Status::new(code, format!("the workflow run ended as `{how}` {when}"))
                    }
                };
                self.end(index, status, None)?;
            }
        }
        Ok(true)
    }

    /// Cancels runs that take too long.
    pub(super) async fn give_up(&mut self) -> anyhow::Result<()> {
        let timeout = self.options.target.timeout;
        let late: Vec<RowGroup> =
            self.open.iter().filter(|group| group.since.elapsed() > timeout).cloned().collect();
        for group in late {
            let what = match group.run_id {
                None => "its run was not found",
                Some(id) => match self.client.cancel_run(&self.options.target.repo, id).await {
                    Ok(()) => "its run was cancelled",
                    Err(error) => {
                        let why = error.into_failure();
                        (self.options.tell)(&format!("{} could not be cancelled: {why}", group.title()));
                        "its run could not be cancelled"
                    }
                },
            };
            let message = format!("it was not finished within {} s, and {what}", timeout.as_secs());
            self.fail(&group, &Status::new(Code::DeadlineExceeded, message))?;
        }
        Ok(())
    }

    /// Completes a row with the conversation that the endpoint recorded.
    pub(super) async fn finish(&mut self, index: usize, patience: Patience) -> anyhow::Result<()> {
        let rollout_id = self.ids[index].rollout_id.clone();
        let until = Instant::now() + TRACES_APPEAR;
        let status = loop {
            match self.options.endpoint.traces(&rollout_id).await {
                Ok(traces) => {
                    let longest = traces.into_iter().max_by_key(|trace| trace.messages.len());
                    if longest.is_some() {
                        return self.end(index, Status::new(Code::Finished, "rollout finished"), longest);
                    }
                }
                Err(EndpointError::Gone(message)) if matches!(patience, Patience::Some) => {
                    tracing::debug!("{message}");
                    return Ok(());
                }
                Err(trouble) => break trouble.status(),
            }
            if Instant::now() > until {
                break Status::new(Code::NotFound, "it is finished, but no trace of it was recorded");
            }
            clock::sleep(LOOK_EVERY).await;
        };
        self.end(index, status, None)
    }

    /// Fails a row with its worker's message.
    pub(super) async fn fail_row(&mut self, index: usize, status: Status) -> anyhow::Result<()> {
        let rollout_id = self.ids[index].rollout_id.clone();
        let said = self.options.endpoint.message(&rollout_id, status.code).await.ok().flatten();
        let message = said.unwrap_or_else(|| status.message.clone());
        self.end(index, Status { message, ..status }, None)
    }

    /// Fails all rows of a group.
    pub(super) fn fail(&mut self, group: &RowGroup, status: &Status) -> anyhow::Result<()> {
        for index in &group.rows {
            self.end(*index, status.clone(), None)?;
        }
        self.open.retain(|open| open.name != group.name);
        Ok(())
    }

    /// Ends a row.
    fn end(&mut self, index: usize, status: Status, trace: Option<Trace>) -> anyhow::Result<()> {
        let group = self.open.iter_mut().find(|group| group.rows.contains(&index));
        let (run_url, seconds) = group.map_or((None, self.began.elapsed()), |group| {
            group.rows.retain(|row| *row != index);
            (group.url(), group.since.elapsed())
        });
        if trace.as_ref().is_some_and(|trace| self.rows[index].lacks_tools(trace)) {
            (self.options.tell)(&format!(
                "row `{}`: its worker did not offer the row's `tools` to the model",
                printable(&self.rows[index].row_id)
            ));
        }
        let ended = FinishedRow { status, trace, run_url, seconds: seconds.as_secs_f64() };
        let row = self.rows[index].ended(&self.ids[index], &ended);
        self.output.put(index, row)?;
        self.open.retain(|group| !group.rows.is_empty());
        Ok(())
    }
}
