//! The call loop: starts calls as fast as the pace allows, writes responses, and decides when to stop.
//!
//! One task owns all state; calls run as other tasks and return a `FinishedCall`. A request that waits for a
//! retry holds no slot. Memory is bounded by the calls in flight and a cap on waiting requests, not by the
//! batch.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::batch::{Lines, OpenBatch};
use super::budget::Budget;
use super::call::{Body, CallJob, FinishedCall, unforeseen_tokens};
use super::calls::Calls;
use super::dedupe::content_key;
use super::journal::Journal;
use super::ledger::{ContentKey, Duplicate, DuplicateGroup, Ledger};
use super::pace::{CallResult, Gate, Pace};
use super::progress::Progress;
use super::retry_queue::RetryQueue;
use super::{RunOptions, retry};
use crate::model::{ErrorInfo, ErrorKind, Response, RetryPolicy, RunnerTarget, TokenUsage};
use crate::protocol::{RowSeal, Stop};
use crate::providers::{CallError, Caller, Retry};
use crate::util::clock;
use crate::util::redact::Redactor;

/// Grace period of calls in flight after a signal or the deadline.
const GRACE: Duration = Duration::from_secs(2);
/// Stop after this many consecutive rejections of the key or the account.
const ACCOUNT_ERRORS: u32 = 5;
/// Buffer size of duplicates' rows.
const MOST_UNWRITTEN: usize = 1 << 16;
/// How long a provider may rate-limit every call, or twice the call timeout if that is longer.
const PATIENCE: Duration = Duration::from_mins(15);

/// A run of one shard.
pub(super) struct Fanout<'r> {
    pub(super) batch: &'r OpenBatch,
    /// Number of requests of the shard.
    pub(super) requests: u64,
    pub(super) target: Arc<RunnerTarget>,
    pub(super) options: &'r RunOptions,
    pub(super) journal: &'r mut Journal,
    pub(super) ledger: &'r mut Ledger,
    pub(super) progress: &'r Progress,
    pub(super) redactor: Redactor,
    pub(super) seal: RowSeal,
    pub(super) stop: watch::Receiver<bool>,
}

/// State of the loop.
struct State {
    caller: Arc<Caller>,
    files: Arc<Path>,
    pace: Pace,
    lines: Option<Lines>,
    /// The next uncalled request, held back by the pace.
    fresh: Option<CallJob>,
    waiting: RetryQueue,
    in_flight: Calls,
    budget: Budget,
    stopped: Option<Stop>,
    give_up_at: Option<Instant>,
    calls: u64,
    account_errors: u32,
    /// Since when all calls have been rate limited.
    refused_since: Option<Instant>,
    patience: Duration,
    rows: Vec<u8>,
}

impl Fanout<'_> {
    /// Calls everything that is not settled. Returns why it stopped early, if it did, and how many requests
    /// it called.
    pub(super) async fn run(mut self) -> anyhow::Result<(Option<Stop>, u64)> {
        let now = Instant::now();
        let deadline = self.options.deadline.map(|deadline| now + deadline);
        let mut state = State {
            caller: Arc::new(Caller::new(Arc::clone(&self.target))?),
            files: self.batch.files_dir().into(),
            pace: Pace::new(self.target.limits, self.options.sharers, now),
            lines: Some(self.batch.lines()?),
            fresh: None,
            waiting: RetryQueue::default(),
            in_flight: Calls::default(),
            budget: Budget::new(self.options.budget_usd, self.target.price),
            stopped: None,
            give_up_at: None,
            calls: 0,
            account_errors: 0,
            refused_since: None,
            patience: PATIENCE.max(2 * self.target.timeout),
            rows: Vec::new(),
        };
        if *self.stop.borrow() {
            state.stop(Stop::Signal);
        } else if self.options.deadline == Some(Duration::ZERO) {
            state.stop(Stop::Deadline);
        }
        let ended = self.until_all_have_ended(&mut state, deadline).await;
        // Write the responses so far, whatever failed.
        if let Err(error) = ended {
            let _ = self.write(&mut state);
            return Err(error);
        }
        self.leave(&mut state)?;
        Ok((state.stopped, state.calls))
    }

    async fn until_all_have_ended(
        &mut self,
        state: &mut State,
        deadline: Option<Instant>,
    ) -> anyhow::Result<()> {
        loop {
            // Write responses before starting more calls: a kill then loses only the calls in flight.
            self.write(state)?;
            let wake = self.start_calls(state)?;
            self.progress.in_flight.set(state.in_flight.len());
            self.progress.waiting.set(state.waiting.len());
            self.progress.learned_per_minute.set(state.pace.learned_per_minute());
            let nothing_left = state.fresh.is_none() && state.lines.is_none() && state.waiting.is_empty();
            if state.in_flight.is_empty() && (nothing_left || state.stopped.is_some()) {
                break;
            }
            let ended = tokio::select! {
                biased;
                // A dropped sender can no longer stop the run.
                Ok(()) = self.stop.changed(), if state.stopped.is_none() => {
                    state.stop(Stop::Signal);
                    continue;
                }
                () = sleep_until(deadline), if state.stopped.is_none() && deadline.is_some() => {
                    state.stop(Stop::Deadline);
                    continue;
                }
                () = sleep_until(state.give_up_at), if state.give_up_at.is_some() => {
                    state.in_flight.abort();
                    // Keep results that have just arrived.
                    while let Some(ended) = state.in_flight.try_next() {
                        self.ended(state, ended)?;
                    }
                    break;
                }
                Some(ended) = state.in_flight.next(), if !state.in_flight.is_empty() => ended,
                () = sleep_until(wake), if wake.is_some() => continue,
            };
            let mut next = Some(ended);
            while let Some(ended) = next {
                self.ended(state, ended)?;
                next = state.in_flight.try_next();
            }
        }
        Ok(())
    }

    /// Starts calls, retries first. Returns when to check again.
    fn start_calls(&mut self, state: &mut State) -> anyhow::Result<Option<Instant>> {
        while state.stopped.is_none() {
            let now = Instant::now();
            if state.refused_since.is_some_and(|since| now.duration_since(since) > state.patience) {
                state.stop(Stop::Refused);
                break;
            }
            let again = state.waiting.ready(now).map(|job| (job.estimate, job.most));
            if again.is_none() && state.fresh.is_none() {
                state.fresh = self.next_fresh(state)?;
            }
            let fresh = || state.fresh.as_ref().map(|job| (job.estimate, job.most));
            let Some((estimate, most)) = again.or_else(fresh) else {
                return Ok(state.waiting.next_ready());
            };
            if again.is_none() && self.options.max_requests.is_some_and(|most| state.calls >= most) {
                if state.in_flight.is_empty() && state.waiting.is_empty() {
                    state.stopped = Some(Stop::MaxRequests);
                }
                return Ok(state.waiting.next_ready());
            }
            if state.budget.refuses(self.ledger.spent_usd(), most) {
                // Calls in flight may cost less than reserved: stop only when none is left.
                if state.in_flight.is_empty() {
                    self.stop_for_the_budget(state, most);
                }
                break;
            }
            match state.pace.gate(now, estimate.input.saturating_add(estimate.output)) {
                Gate::Full => break,
                Gate::At(ready) => return Ok(Some(ready)),
                Gate::Open => {}
            }
            let job = if again.is_some() { state.waiting.pop() } else { state.fresh.take() };
            if let Some(mut job) = job {
                job.held_usd = state.budget.hold(job.most);
                let under_way = self.ledger.settled() + state.in_flight.len() as u64;
                let tokens = job.estimate.input.saturating_add(job.estimate.output);
                state.pace.started(now, tokens, self.requests.saturating_sub(under_way + 1));
                state.calls += u64::from(job.attempts == 0);
                let (caller, files) = (Arc::clone(&state.caller), Arc::clone(&state.files));
                state.in_flight.start(job, |job| job.attempt(caller, files));
            }
        }
        Ok(None)
    }

    /// The next uncalled request.
    fn next_fresh(&mut self, state: &mut State) -> anyhow::Result<Option<CallJob>> {
        if state.waiting.is_full() {
            return Ok(None);
        }
        let shards = u64::from(self.batch.manifest.shards.max(1));
        let Some(lines) = &mut state.lines else { return Ok(None) };
        while let Some(line) = lines.next_line()? {
            if line.index % shards != u64::from(self.options.shard) {
                continue;
            }
            if self.ledger.is_settled(line.index) {
                self.remember_content(&line)?;
                continue;
            }
            let request = line.parse()?;
            let (index, request_sha256) = (line.index, line.sha256());
            let estimate = state.caller.estimated_tokens(&request);
            let most = state.caller.most_tokens(&request);
            let attached: u64 = request.files.iter().map(|file| file.size).sum();
            let weight = attached.saturating_add(line.bytes.len() as u64);
            let content = self.ledger.same().is_some().then(|| content_key(&request)).transpose()?;
            if let Some(key) = content {
                let duplicate = Duplicate { index, id: request.id.clone(), request_sha256 };
                if self.joins_duplicate(key, duplicate, &mut state.rows)? {
                    if state.rows.len() > MOST_UNWRITTEN {
                        self.journal.append(&state.rows)?;
                        state.rows.clear();
                    }
                    continue;
                }
            }
            return Ok(Some(CallJob {
                index,
                id: request.id.clone(),
                request_sha256,
                content,
                estimate,
                most,
                held_usd: 0.0,
                weight,
                attempts: 0,
                failed_attempts: retry::FailedAttempts::default(),
                last_error: None,
                body: Body::Request(Box::new(request)),
            }));
        }
        state.lines = None;
        Ok(None)
    }

    fn stop_for_the_budget(&self, state: &mut State, most: TokenUsage) {
        state.stopped = Some(Stop::Budget);
        let (cost, left) = (state.budget.most(most), state.budget.left(self.ledger.spent_usd()).max(0.0));
        let TokenUsage { input, output, .. } = most;
        let text = format!(
            "the next call could cost up to ${cost:.4} ({input} tokens in, {output} out), and the budget has ${left:.4} left: \
             give `max_tokens` a smaller value, or raise the budget"
        );
        // If nothing was called, the user must learn why.
        if state.calls == 0 { tracing::warn!("{text}") } else { tracing::info!("{text}") }
    }

    fn ended(&mut self, state: &mut State, ended: FinishedCall) -> anyhow::Result<()> {
        let FinishedCall { mut job, started, took, result } = ended;
        let now = Instant::now();
        match result {
            Ok(reply) => {
                state.account_errors = 0;
                state.refused_since = None;
                let tokens = unforeseen_tokens(job.estimate, reply.usage.or(Some(job.estimate)));
                state.pace.ended(now, started, CallResult::Accepted, tokens);
                if let Some(wait) = retry::exhausted_for(&reply.hints, &self.target.retry) {
                    state.pace.exhausted_until(now + clock::wait(wait));
                }
                let content = job.content;
                let (held, most) = (job.held_usd, job.most);
                let response = job.answered(reply, took, &self.target);
                state.budget.answered(held, most, response.cost_usd);
                self.settle(state, &response, content)
            }
            Err(error) => {
                let outcome = outcome(&error, &self.target.retry);
                // The provider may have processed a call that timed out; other failures take no tokens.
                let taken = (error.kind == ErrorKind::Timeout).then_some(job.estimate);
                state.pace.ended(now, started, outcome, unforeseen_tokens(job.estimate, taken));
                match outcome {
                    CallResult::Accepted => state.refused_since = None,
                    _ => _ = state.refused_since.get_or_insert(now),
                }
                state.budget.failed(job.held_usd, error.may_be_billed);
                state.count_refusals_for_good(&error, &self.target.retry);
                let wait = job.failed_attempts.add(&error, now, &self.target.retry);
                let info = ErrorInfo::from(error);
                if let Some(wait) = wait {
                    if matches!(outcome, CallResult::Refused(_)) {
                        self.progress.refused.add(1);
                    }
                    tracing::debug!(id = job.id, ?wait, "{}: {}", info.kind.as_str(), info.message);
                    job.last_error = Some((info, took));
                    state.waiting.push(now + wait, job);
                    return Ok(());
                }
                let content = job.content;
                let response = job.failed(info, took, &self.target);
                self.settle(state, &response, content)
            }
        }
    }

    /// Writes the row of a request and of its duplicates.
    fn settle(
        &mut self,
        state: &mut State,
        response: &Response,
        content: Option<ContentKey>,
    ) -> anyhow::Result<()> {
        if let Some(key) = content {
            // Duplicates need the row's offset in the journal.
            self.write(state)?;
            let offset = self.journal.append(&self.line(response)?)?;
            self.count(response);
            let waiting =
                self.ledger.same().and_then(|same| same.insert(key, DuplicateGroup::Answered(offset)));
            if let Some(DuplicateGroup::Waiting(duplicates)) = waiting {
                for duplicate in duplicates {
                    self.settle_duplicate(response, duplicate, &mut state.rows)?;
                    if state.rows.len() > MOST_UNWRITTEN {
                        self.write(state)?;
                    }
                }
            }
            return Ok(());
        }
        let line = self.line(response)?;
        state.rows.extend_from_slice(&line);
        self.count(response);
        Ok(())
    }

    /// At the end, writes rows for requests whose last attempt failed. Requests that were never called get
    /// none.
    fn leave(&mut self, state: &mut State) -> anyhow::Result<()> {
        while let Some(mut job) = state.waiting.pop() {
            if let Some((error, took)) = job.last_error.take() {
                let response = job.failed(error, took, &self.target);
                state.rows.extend_from_slice(&self.line(&response)?);
                self.count(&response);
            }
        }
        self.write(state)
    }

    fn write(&mut self, state: &mut State) -> anyhow::Result<()> {
        if !state.rows.is_empty() {
            self.journal.append(&state.rows)?;
            state.rows.clear();
        }
        Ok(())
    }

    pub(super) fn line(&self, response: &Response) -> anyhow::Result<Vec<u8>> {
        // Redact the fields, not the line: a key made of digits may be part of a number or a digest.
        let line = serde_json::to_string(&self.redactor.redact_response(response))?;
        let mut line = self.seal.seal(&line);
        line.push('\n');
        Ok(line.into_bytes())
    }

    pub(super) fn count(&mut self, response: &Response) {
        self.ledger.settle(response.index.unwrap_or_default(), response);
        self.progress.count(response);
    }
}

impl State {
    /// A rejected key, an empty account or a too long `Retry-After` affects every further call.
    fn count_refusals_for_good(&mut self, error: &CallError, policy: &RetryPolicy) {
        let reason = match (error.kind, error.retry) {
            (ErrorKind::Auth | ErrorKind::Quota, _) => Stop::Account,
            (ErrorKind::RateLimited, Retry::After(Some(asked))) if retry::is_too_long(asked, policy) => {
                Stop::Refused
            }
            _ => {
                self.account_errors = 0;
                return;
            }
        };
        self.account_errors += 1;
        if self.account_errors >= ACCOUNT_ERRORS && self.stopped.is_none() {
            self.stopped = Some(reason);
        }
    }

    fn stop(&mut self, reason: Stop) {
        self.stopped = Some(reason);
        self.give_up_at = Some(Instant::now() + GRACE);
    }
}

fn outcome(error: &CallError, policy: &RetryPolicy) -> CallResult {
    match (error.kind, error.retry) {
        (ErrorKind::RateLimited, Retry::After(wait)) => {
            CallResult::Refused(wait.map(|wait| wait.min(policy.max_delay)))
        }
        (ErrorKind::Server | ErrorKind::Timeout | ErrorKind::Connection, _) => CallResult::Broken,
        _ => CallResult::Accepted,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
