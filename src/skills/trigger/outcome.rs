//! What becomes of an evaluation that is asked for.

use serde::{Deserialize, Serialize};

use super::hints::{hint, silence};
use crate::model::Exit;

/// What became of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The service does it.
    Fired {
        /// What the service calls it.
        job_id: String,
    },
    /// The service did something else.
    Busy(Option<CurrentJob>),
    /// The service will not.
    Refused {
        /// The status of its answer.
        status: u16,
        /// Why.
        reason: String,
        /// How to fix it, in the service's words.
        hint: Option<String>,
    },
    /// Nobody knows.
    Silence {
        /// What went wrong.
        cause: String,
        /// Whether the service may have seen the order.
        sent: bool,
    },
    /// The leaderboard has it.
    Merged,
    /// An open pull request has it.
    Proposed {
        /// Its page.
        pull_request: String,
    },
    /// The service is at it, or has just done it.
    Running {
        /// What the service calls it.
        job_id: String,
    },
    /// It would have been asked for.
    Wanted,
}

/// What a busy service does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentJob {
    /// The skill.
    pub skill: String,
    /// Since when.
    #[serde(default)]
    pub started_at: Option<String>,
}

impl Outcome {
    /// One word for it.
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

    /// What there is to say of it.
    pub fn detail(&self) -> String {
        match self {
            Self::Fired { job_id } | Self::Running { job_id } => job_id.clone(),
            Self::Busy(None) => "the service evaluates something else".to_owned(),
            Self::Busy(Some(CurrentJob { skill, started_at: None })) => {
                format!("the service evaluates `{skill}`")
            }
            Self::Busy(Some(CurrentJob { skill, started_at: Some(time) })) => {
                format!("the service evaluates `{skill}` since {time}")
            }
            Self::Refused { status, reason, .. } => format!("the service answered {status}: {reason}"),
            Self::Silence { cause, .. } => cause.clone(),
            Self::Merged => "the leaderboard has an entry".to_owned(),
            Self::Proposed { pull_request } => pull_request.clone(),
            Self::Wanted => "no entry, no pull request, no job".to_owned(),
        }
    }

    /// The way out, where there is one to tell.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Busy(_) => {
                Some("it takes one at a time: `run-evals sweep` asks again for what was left out")
            }
            Self::Refused { status, hint: own, .. } => own.as_deref().or_else(|| hint(*status)),
            Self::Silence { sent, .. } => Some(silence(*sent)),
            _ => None,
        }
    }

    /// What it means for the exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Busy(_) => Exit::Busy,
            Self::Refused { .. } | Self::Silence { .. } => Exit::Failure,
            _ => Exit::Ok,
        }
    }
}
