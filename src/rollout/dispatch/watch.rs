//! Follows all runs at once, until every row has ended.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::watch as signal;
use tokio::task::JoinSet;

use super::group::{RowGroup, split};
use super::journal::{Journal, SentRow};
use super::output::Output;
use super::rows::ClientRow;
use super::settle::Patience;
use super::{DispatchOptions, DispatchProgress};
use crate::github::{ApiError, Client, Dispatched, PollResult};
use crate::model::{Exit, Failure};
use crate::rollout::endpoint::{Endpoint, EndpointError};
use crate::rollout::ids::Ids;
use crate::rollout::status::{Code, Status};
use crate::util::clock;

/// How often to poll the endpoint while few rows are open.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many rows to poll per second.
const LOOKS_PER_SECOND: usize = 50;
/// How many requests run at once.
const LOOKS_AT_ONCE: usize = 16;
/// How often to list the workflow runs, unless the target sets it.
const LIST_EVERY: Duration = Duration::from_secs(10);
/// GitHub asks clients to pause between writes, and allows 80 a minute.
const STARTS_AT_ONCE: usize = 10;
const BETWEEN_STARTS: Duration = Duration::from_millis(750);

/// The state while rollouts run.
pub(super) struct Watch<'a> {
    pub(super) client: &'a Client,
    pub(super) options: &'a DispatchOptions,
    pub(super) git_ref: String,
    pub(super) rows: &'a [ClientRow],
    pub(super) ids: Vec<Ids>,
    pub(super) journal: Journal,
    pub(super) output: Output,
    pub(super) waiting: VecDeque<RowGroup>,
    pub(super) open: Vec<RowGroup>,
    /// By row: whether its worker has started.
    pub(super) at_work: Vec<bool>,
    pub(super) began: Instant,
    pub(super) started: usize,
    pub(super) last_start: Option<Instant>,
    pub(super) next_look: Instant,
    pub(super) next_list: Instant,
    /// Whether the endpoint has a status route.
    pub(super) has_status: bool,
}

impl<'a> Watch<'a> {
    #[expect(clippy::too_many_arguments, reason = "everything about a dispatch meets here")]
    pub(super) fn new(
        client: &'a Client,
        options: &'a DispatchOptions,
        git_ref: String,
        rows: &'a [ClientRow],
        ids: Vec<Ids>,
        journal: Journal,
        mut output: Output,
        sent: Vec<SentRow>,
    ) -> Self {
        let finished = output.finished();
        let mut left: Vec<usize> = (0..rows.len()).filter(|index| !finished.contains(index)).collect();
        // Rows that an earlier command dispatched without seeing their end are only watched.
        let mut open = Vec::new();
        for sent in sent {
            let rows: Vec<usize> = sent
                .rows
                .iter()
                .copied()
                .filter(|index| left.contains(index) && !output.has(*index))
                .collect();
            if !rows.is_empty() {
                left.retain(|index| !rows.contains(index));
                let group = RowGroup::new(rows, &ids, 1, true);
                open.push(RowGroup { name: sent.name, at: sent.at, run_id: sent.run, ..group });
            }
        }
        let is_again = |index: &usize| output.has(*index);
        let (again, fresh): (Vec<usize>, Vec<usize>) = left.iter().copied().partition(is_again);
        let mut waiting = VecDeque::new();
        for (these, is_repeated) in [(fresh, false), (again, true)] {
            let groups = split(&these, rows, &ids, options.batch);
            waiting.extend(groups.into_iter().map(|rows| RowGroup::new(rows, &ids, 1, is_repeated)));
            for index in these {
                output.forget(index);
            }
        }
        let now = Instant::now();
        Self {
            at_work: vec![false; rows.len()],
            began: now,
            started: 0,
            last_start: None,
            next_look: now,
            next_list: now + clock::wait(options.target.poll_interval.unwrap_or(LIST_EVERY)),
            has_status: true,
            client,
            options,
            git_ref,
            rows,
            ids,
            journal,
            output,
            waiting,
            open,
        }
    }

    /// The number of runs started.
    pub(super) fn runs_started(&self) -> usize {
        self.started
    }

    /// The rows that have ended.
    pub(super) fn into_rows(self) -> anyhow::Result<Vec<serde_json::Value>> {
        self.output.finish()
    }

    /// Runs until all rows have ended; returns whether it was interrupted.
    pub(super) async fn until_all_have_ended(
        &mut self,
        progress: &DispatchProgress,
        mut interrupts: signal::Receiver<u32>,
    ) -> anyhow::Result<bool> {
        loop {
            let step = async {
                self.start_runs().await?;
                self.look().await?;
                self.list().await?;
                self.settle().await?;
                self.give_up().await
            };
            tokio::select! {
                stepped = step => stepped?,
                Ok(_) = interrupts.wait_for(|count| *count > 0) => return Ok(true),
            }
            self.show(progress);
            if self.open.is_empty() && self.waiting.is_empty() {
                return Ok(false);
            }
            tokio::select! {
                () = tokio::time::sleep_until(self.wake().into()) => {}
                Ok(_) = interrupts.wait_for(|count| *count > 0) => return Ok(true),
            }
        }
    }

    fn wake(&self) -> Instant {
        let may_start = !self.waiting.is_empty() && self.open.len() < self.options.max_concurrency;
        let start = may_start
            .then(|| self.last_start.map_or_else(Instant::now, |last| last + clock::wait(BETWEEN_STARTS)));
        let next = if self.has_status { self.next_look.min(self.next_list) } else { self.next_list };
        start.map_or(next, |start| start.min(next))
    }

    fn show(&self, progress: &DispatchProgress) {
        let left: usize = self.open.iter().chain(&self.waiting).map(|group| group.rows.len()).sum();
        let total = self.rows.len() as u64;
        progress.rows.set((total - left as u64, total));
        *progress.state.borrow_mut() =
            format!("{} runs in progress, {} to start", self.open.len(), self.waiting.len());
    }

    /// Starts as many runs as allowed.
    async fn start_runs(&mut self) -> anyhow::Result<()> {
        while self.open.len() < self.options.max_concurrency {
            let pause = self.last_start.filter(|_| self.started >= STARTS_AT_ONCE);
            if pause.is_some_and(|last| last.elapsed() < clock::wait(BETWEEN_STARTS)) {
                break;
            }
            let Some(mut group) = self.waiting.pop_front() else { break };
            (group.at, group.since) = (self.client.now(), Instant::now());
            // Write before sending: an unrecorded run would be started twice.
            self.note(&group)?;
            let (endpoint, key) = (&self.options.endpoint, self.options.sent_key.as_ref());
            let inputs = group.inputs(self.rows, &self.ids, endpoint, key);
            let target = &self.options.target;
            let sent = self.client.dispatch(&target.repo, &target.workflow, &self.git_ref, &inputs).await;
            self.last_start = Some(Instant::now());
            match sent {
                Ok(Dispatched::Started { run_id, html_url }) => {
                    group.run_id = Some(run_id);
                    group.page = Some(html_url.clone());
                    (self.options.tell)(&format!(
                        "{} runs {}: {html_url}",
                        group.title(),
                        told(group.rows.len())
                    ));
                    self.note(&group)?;
                }
                Ok(Dispatched::Accepted) => {}
                Ok(Dispatched::Unknown { reason }) => {
                    let title = group.title();
                    (self.options.tell)(&format!(
                        "`{title}` may not have started ({reason}); looking for it"
                    ));
                }
                Err(refused) if self.started == 0 && self.open.is_empty() => {
                    return Err(explain(refused).into());
                }
                Err(refused) => {
                    let status = Status::new(
                        Code::Internal,
                        format!("it was not started: {}", refused.into_failure()),
                    );
                    self.fail(&group, &status)?;
                    continue;
                }
            }
            self.started += 1;
            self.open.push(group);
        }
        Ok(())
    }

    fn note(&mut self, group: &RowGroup) -> anyhow::Result<()> {
        let sent =
            SentRow { rows: group.rows.clone(), name: group.name.clone(), at: group.at, run: group.run_id };
        self.journal.write(&sent)
    }

    /// Polls the endpoint for the status of the open rows.
    async fn look(&mut self) -> anyhow::Result<()> {
        if Instant::now() < self.next_look || !self.has_status {
            return Ok(());
        }
        let rows: Vec<usize> = self.open.iter().flat_map(|group| group.rows.iter().copied()).collect();
        let standing = self.ask_all(&rows, |endpoint, id| async move { endpoint.status(&id).await }).await;
        for (index, status) in standing {
            let status = match status {
                Ok(Some(status)) => status,
                Ok(None) => continue,
                Err(EndpointError::NoRoute) => {
                    self.has_status = false;
                    break;
                }
                Err(EndpointError::Refused(code, message)) => {
                    let failure = Failure::new(Exit::Failure, message);
                    let hint = "set the key in `EP_REMOTE_API_KEY`, `FIREWORKS_API_KEY` or `ROLLOUT_API_KEY`";
                    let is_key = matches!(code, Code::Unauthenticated | Code::PermissionDenied);
                    return Err(if is_key { failure.hint(hint) } else { failure }.into());
                }
                Err(EndpointError::Gone(message)) => {
                    tracing::debug!("{message}");
                    continue;
                }
            };
            if status.is_finished() {
                self.finish(index, Patience::Some).await?;
            } else if self.is_news(index, &status) {
                if status.is_running() {
                    self.at_work[index] = true;
                } else {
                    self.fail_row(index, status).await?;
                }
            }
        }
        let open: usize = self.open.iter().map(|group| group.rows.len()).sum();
        let pause = Duration::from_millis((1000 * open / LOOKS_PER_SECOND) as u64);
        self.next_look = Instant::now() + clock::wait(LOOK_EVERY.max(pause));
        Ok(())
    }

    /// Whether a status belongs to this attempt; an older one is ignored.
    pub(super) fn is_news(&self, index: usize, status: &Status) -> bool {
        let Some(group) = self.open.iter().find(|group| group.rows.contains(&index)) else { return true };
        match (status.by_run, group.run_id) {
            (Some(by), Some(own)) => by == own,
            _ => !group.is_repeated || self.at_work[index] || status.is_running(),
        }
    }

    /// Sends a request for each of many rows, several at once.
    async fn ask_all<T, F>(&self, rows: &[usize], ask: impl Fn(Endpoint, String) -> F) -> Vec<(usize, T)>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let mut answers = Vec::new();
        let mut asking = JoinSet::new();
        let mut rows = rows.iter().copied();
        loop {
            while asking.len() < LOOKS_AT_ONCE
                && let Some(index) = rows.next()
            {
                let asked = ask(self.options.endpoint.clone(), self.ids[index].rollout_id.clone());
                asking.spawn(async move { (index, asked.await) });
            }
            match asking.join_next().await {
                Some(Ok(answer)) => answers.push(answer),
                Some(Err(error)) => tracing::error!("a request ended unexpectedly: {error}"),
                None => return answers,
            }
        }
    }

    /// Lists all workflow runs.
    async fn list(&mut self) -> anyhow::Result<()> {
        let Some(oldest) = self.open.iter().map(RowGroup::earliest).min() else { return Ok(()) };
        if Instant::now() < self.next_list {
            return Ok(());
        }
        let target = &self.options.target;
        let (asked, again) = (Instant::now(), clock::wait(target.poll_interval.unwrap_or(LIST_EVERY)));
        let runs = self.client.find_runs(&target.repo, &target.workflow, "rollout:", oldest).await;
        let runs = match runs {
            Ok(runs) => runs,
            Err(error) if error.is_passing() => {
                // A failed request says nothing about the runs.
                tracing::debug!("{error}");
                self.next_list = Instant::now() + again;
                return Ok(());
            }
            Err(error) => return Err(error.into_failure().into()),
        };
        let mut found = Vec::new();
        for group in &mut self.open {
            // The newest comes first.
            if let Some(run) = runs.iter().find(|run| group.is_its(run)) {
                if group.run_id.is_none() {
                    found.push(RowGroup { run_id: Some(run.id), ..group.clone() });
                }
                group.run_id = Some(run.id);
                group.run = Some(run.clone());
            } else if let Some(id) = group.run_id.filter(|_| group.since.elapsed() > self.options.grace) {
                // Lists are limited: fetch a run that is no longer listed.
                if let Ok(PollResult::Changed(run, _)) = self.client.run(&target.repo, id, None).await {
                    group.run = Some(run);
                }
            } else if group.run_id.is_none() && asked > group.since + self.options.grace {
                group.is_missing = true;
            }
        }
        found.iter().try_for_each(|group| self.note(group))?;
        self.next_list = Instant::now() + again;
        Ok(())
    }
}

fn told(rows: usize) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}

fn explain(refused: ApiError) -> Failure {
    let failure = refused.into_failure();
    match failure.hint_text() {
        _ if failure.to_string().contains("'api_key'") => failure
            .hint("this workflow requires the input `api_key`: send the key with `--send-key`, or declare `required: false`"),
        Some(_) => failure,
        None => failure
            .hint("the runner repository needs `workflows/rollout.yml` of run-evals on its default branch"),
    }
}
