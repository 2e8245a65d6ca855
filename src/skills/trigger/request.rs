//! Evaluations asked for, once each, and what became of them.

use super::bumps::Bump;
use super::hints::{hint, silence};
use super::service::{CurrentJob, Order, Service, ServiceResponse};
use crate::model::{Exit, Replicates, SemVersion, ShaPrefix, SkillName};

/// An evaluation that was asked for, or that need not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Which skill.
    pub skill: SkillName,
    /// The version before, where there was a range to look at and one before it.
    pub from: Option<SemVersion>,
    /// The version, where it was looked at.
    pub to: Option<SemVersion>,
    /// At which commit.
    pub git_sha: Option<ShaPrefix>,
    /// What became of it.
    pub outcome: Outcome,
}

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

impl From<ServiceResponse> for Outcome {
    fn from(answer: ServiceResponse) -> Self {
        match answer {
            ServiceResponse::Accepted { job_id } => Self::Fired { job_id },
            ServiceResponse::Busy(current) => Self::Busy(current),
            ServiceResponse::Refused { status, reason, hint } => Self::Refused { status, reason, hint },
            ServiceResponse::Nothing { cause, sent } => Self::Silence { cause, sent },
        }
    }
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

impl Attempt {
    /// The error message of a failed attempt, with its hint.
    pub fn error_text(&self) -> Option<String> {
        if self.outcome.exit() == Exit::Ok {
            return None;
        }
        let hint = self.outcome.hint().map(|hint| format!("\n\nhint: {hint}")).unwrap_or_default();
        Some(format!("`{}` is not evaluated: {}{hint}", self.skill, self.outcome.detail()))
    }

    /// A bump and what became of it.
    pub(super) fn of(bump: &Bump, outcome: Outcome) -> Self {
        Self {
            skill: bump.skill.clone(),
            from: bump.from,
            to: Some(bump.to),
            git_sha: bump.commit.as_str().parse().ok(),
            outcome,
        }
    }

    /// What all of them mean for the exit code: a failure before a busy service, that before success.
    pub fn exit(attempts: &[Self]) -> Exit {
        let has = |exit| attempts.iter().any(|attempt| attempt.outcome.exit() == exit);
        if has(Exit::Failure) {
            Exit::Failure
        } else if has(Exit::Busy) {
            Exit::Busy
        } else {
            Exit::Ok
        }
    }
}

/// The order that a bump is.
pub(super) fn order(bump: &Bump, replicates: Replicates) -> Order {
    Order { skill: bump.skill.clone(), replicates, git_sha: bump.commit.as_str().parse().ok() }
}

/// Asks for each, one after the other, once.
pub async fn request(service: &Service, bumps: &[Bump], replicates: Replicates) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for bump in bumps {
        let outcome = service.evaluate(&order(bump, replicates)).await.into();
        attempts.push(Attempt::of(bump, outcome));
    }
    attempts
}
