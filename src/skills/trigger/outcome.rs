//! The result of requesting an evaluation.

use serde::{Deserialize, Serialize};

use super::hints::{hint, silence};
use crate::model::Exit;

/// The result of requesting an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The service accepted it.
    Fired {
        /// The service's job id.
        job_id: String,
    },
    /// The service is busy with another evaluation.
    Busy(Option<CurrentJob>),
    /// The service refused.
    Refused {
        /// The response status.
        status: u16,
        /// The reason.
        reason: String,
        /// The service's own hint.
        hint: Option<String>,
    },
    /// The result is unknown.
    Silence {
        /// The error.
        cause: String,
        /// Whether the service may have received the request.
        sent: bool,
    },
    /// The leaderboard already has it.
    Merged,
    /// An open pull request already has it.
    Proposed {
        /// Its URL.
        pull_request: String,
    },
    /// The service is running it, or has just finished it.
    Running {
        /// The service's job id.
        job_id: String,
    },
    /// It would be requested (dry run).
    Wanted,
}

/// The job of a busy service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentJob {
    /// The skill.
    pub skill: String,
    /// Its start time.
    #[serde(default)]
    pub started_at: Option<String>,
}

impl RequestOutcome {
    /// Its name in the report.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Fired { .. } => "fired",
            Self::Busy(_) => "busy",
            Self::Refused { .. } => "refused",
            Self::Silence { .. } => "no answer",
            Self::Merged => "merged",
            Self::Proposed { .. } => "proposed",
            Self::Running { .. } => "running",
            Self::Wanted => "wanted",
        }
    }

    /// The details.
    pub fn detail(&self) -> String {
        match self {
            Self::Fired { job_id } | Self::Running { job_id } => job_id.clone(),
            Self::Busy(None) => "the service is running another evaluation".to_owned(),
            Self::Busy(Some(CurrentJob { skill, started_at: None })) => {
                format!("the service is evaluating `{skill}`")
            }
            Self::Busy(Some(CurrentJob { skill, started_at: Some(time) })) => {
                format!("the service has been evaluating `{skill}` since {time}")
            }
            Self::Refused { status, reason, .. } => format!("the service returned {status}: {reason}"),
            Self::Silence { cause, .. } => cause.clone(),
            Self::Merged => "the leaderboard has an entry".to_owned(),
            Self::Proposed { pull_request } => pull_request.clone(),
            Self::Wanted => "no entry, no pull request, no job".to_owned(),
        }
    }

    /// The hint, if there is one.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Busy(_) => {
                Some("it runs one evaluation at a time: `run-evals sweep` requests missing ones")
            }
            Self::Refused { status, hint: own, .. } => own.as_deref().or_else(|| hint(*status)),
            Self::Silence { sent, .. } => Some(silence(*sent)),
            _ => None,
        }
    }

    /// Its exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Busy(_) => Exit::Busy,
            Self::Refused { .. } | Self::Silence { .. } => Exit::Failure,
            _ => Exit::Ok,
        }
    }
}
