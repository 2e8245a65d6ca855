//! Calls in flight. A panicking call becomes a failed call.

use std::collections::HashMap;
use std::time::Instant;

use tokio::task::{Id, JoinError, JoinSet};

use super::call::{Body, CallJob, FinishedCall};
use crate::providers::CallError;

#[derive(Default)]
pub(super) struct Calls {
    tasks: JoinSet<FinishedCall>,
    /// State of each call, in case its task panics.
    known: HashMap<Id, (CallJob, Instant)>,
}

impl Calls {
    /// Starts the call of a job.
    pub(super) fn start<F>(&mut self, job: CallJob, call: impl FnOnce(CallJob) -> F)
    where
        F: Future<Output = FinishedCall> + Send + 'static,
    {
        let known = CallJob {
            id: job.id.clone(),
            attempts: job.attempts + 1,
            last_error: None,
            body: Body::Gone,
            ..job
        };
        let CallJob { id, attempts, last_error, body, .. } = job;
        let job = CallJob { id, attempts, last_error, body, ..known };
        let task = self.tasks.spawn(call(job));
        self.known.insert(task.id(), (known, Instant::now()));
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits for the next finished call; `None` if there are no calls.
    pub(super) async fn next(&mut self) -> Option<FinishedCall> {
        loop {
            let ended = self.tasks.join_next_with_id().await?;
            if let Some(ended) = self.settled(ended) {
                return Some(ended);
            }
        }
    }

    /// The next call that has already finished.
    pub(super) fn try_next(&mut self) -> Option<FinishedCall> {
        loop {
            let ended = self.tasks.try_join_next_with_id()?;
            if let Some(ended) = self.settled(ended) {
                return Some(ended);
            }
        }
    }

    /// Aborts all calls; results that have already arrived can still be taken.
    pub(super) fn abort(&mut self) {
        self.tasks.abort_all();
    }

    fn settled(&mut self, ended: Result<(Id, FinishedCall), JoinError>) -> Option<FinishedCall> {
        match ended {
            Ok((task, ended)) => {
                self.known.remove(&task);
                Some(ended)
            }
            Err(error) => {
                let (job, started) = self.known.remove(&error.id())?;
                // A later run calls an aborted request again.
                if error.is_cancelled() {
                    return None;
                }
                tracing::error!(id = job.id, "a call ended unexpectedly: {error}");
                let result = Err(CallError::broken_off());
                Some(FinishedCall { job, started, took: started.elapsed(), result })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Digest, ErrorKind, TokenUsage};
    use crate::runner::FailedAttempts;

    fn job(id: &str) -> CallJob {
        CallJob {
            index: 7,
            id: id.to_owned(),
            request_sha256: Digest::of(b"x"),
            content: None,
            estimate: TokenUsage::default(),
            most: TokenUsage::default(),
            held_usd: 0.25,
            weight: 1,
            attempts: 2,
            failed_attempts: FailedAttempts::default(),
            last_error: None,
            body: Body::Gone,
        }
    }

    #[tokio::test]
    async fn a_panic_is_a_failed_call_and_the_others_continue() {
        let mut calls = Calls::default();
        calls.start(job("bad"), async |_| panic!("a mistake"));
        let bad = calls.next().await.unwrap();
        assert_eq!((bad.job.id.as_str(), bad.job.index, bad.job.attempts), ("bad", 7, 3));
        assert!((bad.job.held_usd - 0.25).abs() < 1e-9);
        let error = bad.result.unwrap_err();
        assert_eq!((error.kind, error.may_be_billed), (ErrorKind::BadResponse, true));
        calls.start(job("given up"), async |_| std::future::pending().await);
        calls.abort();
        assert!(calls.next().await.is_none(), "what was given up has no row");
        assert!(calls.is_empty() && calls.known.is_empty());
    }
}
