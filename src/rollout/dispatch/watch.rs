//! Follows all runs at once, until every row has ended.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::watch as signal;
use tokio::task::JoinSet;

use super::group::{Group, split};
use super::journal::{Journal, Sent};
use super::output::Output;
use super::rows::{ClientRow, Ended};
use super::{DispatchOptions, DispatchProgress};
use crate::github::{ApiError, Client, Dispatched, Polled, Run};
use crate::model::{Exit, Failure};
use crate::rollout::endpoint::{Endpoint, Trace, Trouble};
use crate::rollout::ids::Ids;
use crate::rollout::status::{Code, Status};

/// How often the endpoint is asked, while few rows are open.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many rows the endpoint is asked about in a second.
const LOOKS_PER_SECOND: usize = 50;
/// How many questions are under way at once.
const LOOKS_AT_ONCE: usize = 16;
/// How often GitHub lists the runs, where the target does not say.
const LIST_EVERY: Duration = Duration::from_secs(10);
/// How often a row is dispatched that does not run.
const MOST_ATTEMPTS: u32 = 3;
/// GitHub asks writers to pause, and allows 80 of these a minute.
const STARTS_AT_ONCE: usize = 10;
const BETWEEN_STARTS: Duration = Duration::from_millis(750);
/// How long traces may take to appear after a worker said that it is done.
const TRACES_APPEAR: Duration = Duration::from_secs(10);

/// Everything that is known while rollouts run.
pub(super) struct Watch<'a> {
    client: &'a Client,
    options: &'a DispatchOptions,
    git_ref: String,
    rows: &'a [ClientRow],
    ids: Vec<Ids>,
    journal: Journal,
    output: Output,
    waiting: VecDeque<Group>,
    open: Vec<Group>,
    /// By row: whether its worker was seen at work.
    at_work: Vec<bool>,
    began: Instant,
    started: usize,
    last_start: Option<Instant>,
    next_look: Instant,
    next_list: Instant,
    /// Whether the endpoint says how rollouts stand.
    has_status: bool,
}

impl<'a> Watch<'a> {
    #[expect(clippy::too_many_arguments, reason = "everything that a dispatch knows meets here")]
    pub(super) fn new(
        client: &'a Client,
        options: &'a DispatchOptions,
        git_ref: String,
        rows: &'a [ClientRow],
        ids: Vec<Ids>,
        journal: Journal,
        mut output: Output,
        sent: Vec<Sent>,
    ) -> Self {
        let finished = output.finished();
        let mut left: Vec<usize> = (0..rows.len()).filter(|index| !finished.contains(index)).collect();
        // Those that an earlier command has dispatched, and did not see the end of, are only watched.
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
                let group = Group::new(rows, &ids, 1, true);
                open.push(Group { name: sent.name, at: sent.at, run_id: sent.run, ..group });
            }
        }
        let is_again = |index: &usize| output.has(*index);
        let (again, fresh): (Vec<usize>, Vec<usize>) = left.iter().copied().partition(is_again);
        let mut waiting = VecDeque::new();
        for (these, is_repeated) in [(fresh, false), (again, true)] {
            let groups = split(&these, rows, &ids, options.batch);
            waiting.extend(groups.into_iter().map(|rows| Group::new(rows, &ids, 1, is_repeated)));
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
            next_list: now + options.target.poll_interval.unwrap_or(LIST_EVERY),
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

    /// How many runs were started.
    pub(super) fn runs_started(&self) -> usize {
        self.started
    }

    /// The rows that have ended.
    pub(super) fn into_rows(self) -> anyhow::Result<Vec<serde_json::Value>> {
        self.output.finish()
    }

    /// Whether it was interrupted.
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
        let start =
            may_start.then(|| self.last_start.map_or_else(Instant::now, |last| last + BETWEEN_STARTS));
        let next = self.next_look.min(self.next_list);
        start.map_or(next, |start| start.min(next))
    }

    fn show(&self, progress: &DispatchProgress) {
        let left: usize = self.open.iter().chain(&self.waiting).map(|group| group.rows.len()).sum();
        let total = self.rows.len() as u64;
        progress.rows.set((total - left as u64, total));
        *progress.state.borrow_mut() =
            format!("{} runs going on, {} to start", self.open.len(), self.waiting.len());
    }

    /// Starts what may start.
    async fn start_runs(&mut self) -> anyhow::Result<()> {
        while self.open.len() < self.options.max_concurrency {
            let pause = self.last_start.filter(|_| self.started >= STARTS_AT_ONCE);
            if pause.is_some_and(|last| last.elapsed() < BETWEEN_STARTS) {
                break;
            }
            let Some(mut group) = self.waiting.pop_front() else { break };
            (group.at, group.since) = (jiff::Timestamp::now(), Instant::now());
            // Before it is sent: a run that nobody wrote down would be started twice.
            self.note(&group)?;
            let base_url = self.options.endpoint.base();
            let inputs = group.inputs(self.rows, &self.ids, &base_url, self.options.sent_key.as_ref());
            let target = &self.options.target;
            let sent = self.client.dispatch(&target.repo, &target.workflow, &self.git_ref, &inputs).await;
            self.last_start = Some(Instant::now());
            match sent {
                Ok(Dispatched::Started { run_id, html_url }) => {
                    group.run_id = Some(run_id);
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
                        "whether `{title}` was started is not known ({reason}); looking for it"
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

    fn note(&mut self, group: &Group) -> anyhow::Result<()> {
        let sent =
            Sent { rows: group.rows.clone(), name: group.name.clone(), at: group.at, run: group.run_id };
        self.journal.write(&sent)
    }

    /// Asks the endpoint how the open rows stand.
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
                Err(Trouble::NoRoute) => {
                    self.has_status = false;
                    break;
                }
                Err(trouble @ Trouble::Refused(_)) => {
                    return Err(Failure::new(Exit::Failure, trouble.status().message)
                        .hint(
                            "the key comes as `EP_REMOTE_API_KEY`, `FIREWORKS_API_KEY` or `ROLLOUT_API_KEY`",
                        )
                        .into());
                }
                Err(Trouble::Gone(message)) => {
                    tracing::debug!("{message}");
                    continue;
                }
            };
            if status.is_running() {
                self.at_work[index] = true;
            } else if status.is_finished() {
                self.finish(index, Patience::Some).await?;
            } else {
                let group = self.open.iter().find(|group| group.rows.contains(&index));
                // A status that an earlier try has left says nothing of this one.
                if group.is_some_and(|group| !group.is_repeated) || self.at_work[index] {
                    self.fail_row(index, status).await?;
                }
            }
        }
        let open: usize = self.open.iter().map(|group| group.rows.len()).sum();
        let pause = Duration::from_millis((1000 * open / LOOKS_PER_SECOND) as u64);
        self.next_look = Instant::now() + LOOK_EVERY.max(pause);
        Ok(())
    }

    /// Asks something about many rows, some at once.
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
                Some(Err(error)) => tracing::error!("a question ended unexpectedly: {error}"),
                None => return answers,
            }
        }
    }

    /// Asks GitHub for all runs at once.
    async fn list(&mut self) -> anyhow::Result<()> {
        let Some(oldest) = self.open.iter().map(Group::earliest).min() else { return Ok(()) };
        if Instant::now() < self.next_list {
            return Ok(());
        }
        let target = &self.options.target;
        let runs = self.client.find_runs(&target.repo, &target.workflow, "rollout:", oldest).await;
        let runs = match runs {
            Ok(runs) => runs,
            Err(error) if error.is_passing() => {
                tracing::debug!("{error}");
                Vec::new()
            }
            Err(error) => return Err(error.into_failure().into()),
        };
        let mut found = Vec::new();
        for group in &mut self.open {
            // The newest comes first.
            if let Some(run) = runs.iter().find(|run| group.is_its(run)) {
                if group.run_id.is_none() {
                    found.push(Group { run_id: Some(run.id), ..group.clone() });
                }
                group.run_id = Some(run.id);
                group.run = Some(run.clone());
            } else if let Some(id) = group.run_id.filter(|_| group.since.elapsed() > self.options.grace) {
                // A list has an end; a run that it no longer shows is asked for by itself.
                if let Ok(Polled::Changed(run, _)) = self.client.run(&target.repo, id, None).await {
                    group.run = Some(run);
                }
            }
        }
        found.iter().try_for_each(|group| self.note(group))?;
        self.next_list = Instant::now() + target.poll_interval.unwrap_or(LIST_EVERY);
        Ok(())
    }

    /// Ends the rows whose runs are over, or never appeared.
    async fn settle(&mut self) -> anyhow::Result<()> {
        let is_lost = |group: &Group| group.run_id.is_none() && group.since.elapsed() > self.options.grace;
        let over = |group: &&Group| group.run.as_ref().is_some_and(Run::is_over) || is_lost(group);
        let over: Vec<Group> = self.open.iter().filter(over).cloned().collect();
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
                || "no run of it appeared".to_owned(),
                |how| format!("its run ended as `{how}`"),
            );
            (self.options.tell)(&format!(
                "{}: {what} before it began; it is dispatched again",
                group.title()
            ));
            let again = split(&not_run, self.rows, &self.ids, self.options.batch);
            let attempt = group.attempt + 1;
            self.waiting.extend(
                again.into_iter().map(|rows| Group::new(rows, &self.ids, attempt, group.is_repeated)),
            );
        }
        Ok(())
    }

    /// Ends a row whose run is over; false where it did not run, and may be dispatched again.
    async fn settle_row(
        &mut self,
        group: &Group,
        index: usize,
        conclusion: Option<&str>,
    ) -> anyhow::Result<bool> {
        let rollout_id = self.ids[index].rollout_id.clone();
        let status = match self.options.endpoint.status(&rollout_id).await {
            Ok(status) => status,
            Err(Trouble::NoRoute) => None,
            Err(trouble) => {
                self.end(index, trouble.status(), None)?;
                return Ok(true);
            }
        };
        match status {
            Some(status) if status.is_finished() => self.finish(index, Patience::None).await?,
            Some(status) if !status.is_running() && (!group.is_repeated || self.at_work[index]) => {
                self.fail_row(index, status).await?;
            }
            status => {
                let began = self.at_work[index] || status.is_some_and(|status| status.is_running());
                let traces = self.options.endpoint.traces(&rollout_id).await.unwrap_or_default();
                let how = conclusion.unwrap_or("lost");
                let somebody_ended_it =
                    matches!(how, "success" | "cancelled" | "action_required" | "skipped");
                let may_repeat = !began && traces.is_empty() && !somebody_ended_it;
                if may_repeat && group.attempt < MOST_ATTEMPTS {
                    return Ok(false);
                }
                let status = match (how, traces.is_empty(), began) {
                    // A worker that tells nobody how it stands, but has done its work.
                    ("success", false, _) => {
                        self.finish(index, Patience::None).await?;
                        return Ok(true);
                    }
                    ("success", true, _) => Status::new(
                        Code::NotFound,
                        "the run ended well, but nothing was recorded of the rollout",
                    ),
                    ("lost", ..) => Status::new(Code::NotFound, "no workflow run appeared for it"),
                    (how, _, began) => {
                        let code = match how {
                            "cancelled" => Code::Cancelled,
                            "timed_out" => Code::DeadlineExceeded,
                            _ => Code::Internal,
                        };
                        let when = if began { "while it was at work" } else { "before it began" };
                        Status::new(code, format!("the workflow run ended as `{how}` {when}"))
                    }
                };
                self.end(index, status, None)?;
            }
        }
        Ok(true)
    }

    /// Cancels what takes too long.
    async fn give_up(&mut self) -> anyhow::Result<()> {
        let timeout = self.options.target.timeout;
        let late: Vec<Group> =
            self.open.iter().filter(|group| group.since.elapsed() > timeout).cloned().collect();
        for group in late {
            if let Some(id) = group.run_id
                && let Err(error) = self.client.cancel_run(&self.options.target.repo, id).await
            {
                (self.options.tell)(&format!(
                    "{} could not be cancelled: {}",
                    group.title(),
                    error.into_failure()
                ));
            }
            let message =
                format!("it was not finished within {} s, and its run was cancelled", timeout.as_secs());
            self.fail(&group, &Status::new(Code::DeadlineExceeded, message))?;
        }
        Ok(())
    }

    /// A row is done: its conversation is what the endpoint recorded.
    async fn finish(&mut self, index: usize, patience: Patience) -> anyhow::Result<()> {
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
                Err(Trouble::Gone(message)) if matches!(patience, Patience::Some) => {
                    tracing::debug!("{message}");
                    return Ok(());
                }
                Err(trouble) => break trouble.status(),
            }
            if Instant::now() > until {
                break Status::new(Code::NotFound, "it is finished, but nothing was recorded of it");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        };
        self.end(index, status, None)
    }

    /// A row has failed, in its worker's words.
    async fn fail_row(&mut self, index: usize, status: Status) -> anyhow::Result<()> {
        let rollout_id = self.ids[index].rollout_id.clone();
        let said = self.options.endpoint.message(&rollout_id, status.code).await.ok().flatten();
        let message = said.unwrap_or(status.message);
        self.end(index, Status { code: status.code, message }, None)
    }

    /// All rows of a group have failed.
    fn fail(&mut self, group: &Group, status: &Status) -> anyhow::Result<()> {
        for index in &group.rows {
            self.end(*index, status.clone(), None)?;
        }
        self.open.retain(|open| open.name != group.name);
        Ok(())
    }

    /// A row has ended.
    fn end(&mut self, index: usize, status: Status, trace: Option<Trace>) -> anyhow::Result<()> {
        let group = self.open.iter_mut().find(|group| group.rows.contains(&index));
        let (run_url, seconds) = group.map_or((None, self.began.elapsed()), |group| {
            group.rows.retain(|row| *row != index);
            let page = |id: u64| format!("https://github.com/{}/actions/runs/{id}", self.options.target.repo);
            (group.url().or_else(|| group.run_id.map(page)), group.since.elapsed())
        });
        let ended = Ended { status, trace, run_url, seconds: seconds.as_secs_f64() };
        let row = self.rows[index].ended(&self.ids[index], &ended);
        self.output.put(index, row)?;
        self.open.retain(|group| !group.rows.is_empty());
        Ok(())
    }
}

/// Whether a question can be asked again later.
enum Patience {
    Some,
    None,
}

fn told(rows: usize) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}

fn explain(refused: ApiError) -> Failure {
    let failure = refused.into_failure();
    match failure.hint_text() {
        Some(_) => failure,
        None => failure
            .hint("the runner repository needs `workflows/rollout.yml` of run-evals on its default branch"),
    }
}
