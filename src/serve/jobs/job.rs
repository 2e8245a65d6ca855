//! One service job, and its JSON.

use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::{BatchId, CommitSha, is_text};
use crate::skills::evaluate::{EvaluationRequest, Pinned, Progress};

/// The time format in a job id.
const SECOND: &str = "%Y%m%dt%H%M%Sz";

/// The id of a job: the second in which it was accepted, and a random part. Later ids sort later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

is_text!(JobId);

impl JobId {
    /// The prefix of every id.
    pub(in crate::serve) const PREFIX: &str = "job-";

    /// A new id.
    pub(in crate::serve) fn new(now: Timestamp) -> Self {
        let second = now.strftime(SECOND);
        Self(format!("{}{second}-{:08x}", Self::PREFIX, fastrand::u32(..)))
    }

    /// The second in which it was accepted, if the id contains one.
    pub(super) fn second(&self) -> Option<Timestamp> {
        let second = self.0.strip_prefix(Self::PREFIX)?.split('-').next()?;
        let second = jiff::civil::DateTime::strptime(SECOND, second).ok()?;
        second.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    }
}

impl FromStr for JobId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = text.strip_prefix(Self::PREFIX).is_some_and(|rest| !rest.is_empty())
            && text.parse::<BatchId>().is_ok();
        if legal { Ok(Self(text.to_owned())) } else { Err("not a job id") }
    }
}

/// An evaluation that was accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceJob {
    /// Its id.
    pub job_id: JobId,
    /// What was requested, and the commits that were found.
    pub order: EvaluationRequest,
    /// The earlier job whose responses it reuses; `None` if it started without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<JobId>,
    /// Whether it was cancelled; written first, so that it stays cancelled after a crash.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_requested: bool,
    /// When it was accepted.
    pub started_at: Timestamp,
    /// When it ended, or was interrupted.
    pub finished_at: Option<Timestamp>,
    /// Its state.
    #[serde(flatten)]
    pub state: JobState,
}

/// The state of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum JobState {
    /// Accepted, or waiting to be resumed.
    Queued,
    /// Models are called.
    Running {
        /// The progress.
        progress: Progress,
    },
    /// It has a result.
    Completed {
        /// The summary of the result.
        summary: Value,
        /// The pull request with the result.
        pull_request: Option<String>,
        /// Problems that do not affect the result.
        #[serde(default)]
        warnings: Vec<String>,
    },
    /// It has no result.
    Failed {
        /// The reason.
        reason: String,
    },
    /// The service stopped first. Responses are kept; a resume makes only the missing calls.
    Interrupted {
        /// The progress at that time.
        progress: Option<Progress>,
    },
    /// It was cancelled. Responses are kept; the same request makes only the missing calls.
    Cancelled {
        /// The progress at that time.
        progress: Option<Progress>,
    },
}

impl JobState {
    /// Its name in the API.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running { .. } => "running",
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Interrupted { .. } => "interrupted",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// Whether it is queued or running.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Queued | Self::Running { .. })
    }
}

impl ServiceJob {
    /// A job that was just accepted.
    pub(in crate::serve) fn new(job_id: JobId, order: EvaluationRequest, started_at: Timestamp) -> Self {
        Self {
            job_id,
            order,
            continues: None,
            cancel_requested: false,
            started_at,
            finished_at: None,
            state: JobState::Queued,
        }
    }

    /// Its progress, in calls.
    pub fn progress(&self) -> Option<Progress> {
        match &self.state {
            JobState::Running { progress } => Some(*progress),
            JobState::Interrupted { progress } | JobState::Cancelled { progress } => *progress,
            JobState::Queued | JobState::Completed { .. } | JobState::Failed { .. } => None,
        }
    }

    /// The final state of a job without a result: cancelled, or interrupted because the service stopped.
    pub(in crate::serve) fn without_result(&self) -> JobState {
        let progress = self.progress();
        if self.cancel_requested {
            JobState::Cancelled { progress }
        } else {
            JobState::Interrupted { progress }
        }
    }

    /// The commit of the skill, once it is known.
    pub fn prompt_commit(&self) -> Option<&CommitSha> {
        self.order.pinned.as_ref().map(|Pinned { prompt_commit, .. }| prompt_commit)
    }

    /// The batch id of its responses.
    pub fn batch(&self) -> &JobId {
        self.continues.as_ref().unwrap_or(&self.job_id)
    }

    /// Whether it makes the calls of this request. The models are not compared: each has its own batch.
    pub(in crate::serve) fn has_calls_of(&self, order: &EvaluationRequest) -> bool {
        let commits = |order: &EvaluationRequest| {
            let Pinned { prompt_commit, dataset_commit, .. } = order.pinned.clone()?;
            Some((prompt_commit, dataset_commit))
        };
        self.order.skill == order.skill
            && self.order.replicates == order.replicates
            && commits(order).is_some_and(|asked| commits(&self.order) == Some(asked))
    }

    /// The job for `GET /jobs/{id}`.
    pub(super) fn to_json(&self, progress: Option<&Value>) -> Value {
        let (mut summary, mut pull_request, mut warnings, mut reason) = (Value::Null, None, &[][..], None);
        match &self.state {
            JobState::Queued | JobState::Running { .. } => {}
            JobState::Completed { summary: came, pull_request: url, warnings: told } => {
                (summary, pull_request, warnings) = (came.clone(), url.as_deref(), told);
            }
            JobState::Failed { reason: told } => reason = Some(told.as_str()),
            JobState::Interrupted { .. } => {
                reason = Some("the service stopped before the job finished; responses are kept");
            }
            JobState::Cancelled { .. } => {
                reason =
                    Some("cancelled; responses are kept, and the same request makes only the missing calls");
            }
        }
        json!({
            "job_id": self.job_id,
            "skill": self.order.skill,
            "replicates": self.order.replicates,
            "git_sha": self.order.git_sha,
            "prompt_commit": self.prompt_commit(),
            "state": self.state.word(),
            "progress": progress,
            "cancel_requested": self.cancel_requested,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "summary": summary,
            "pull_request": pull_request,
            "warnings": warnings,
            "reason": reason,
        })
    }
}
