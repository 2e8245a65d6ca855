//! Requests evaluations, once each.

use super::bumps::Bump;
use super::hints::{hint, silence};
use super::service::{CurrentJob, Order, Service, ServiceResponse};
use crate::model::{Exit, Replicates, SemVersion, ShaPrefix, SkillName};

/// An evaluation that was requested, or did not need to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The skill.
    pub skill: SkillName,
    /// The version before, if a range was checked and had one.
    pub from: Option<SemVersion>,
    /// The version, if it was checked.
    pub to: Option<SemVersion>,
    /// The commit.
    pub git_sha: Option<ShaPrefix>,
    /// The result.
    pub outcome: Outcome,
}

/// The result of requesting an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
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

impl Attempt {
    /// The error message of a failed attempt, with its hint.
    pub fn error_text(&self) -> Option<String> {
        if self.outcome.exit() == Exit::Ok {
            return None;
        }
        let hint = self.outcome.hint().map(|hint| format!("\n\nhint: {hint}")).unwrap_or_default();
        Some(format!("`{}` was not evaluated: {}{hint}", self.skill, self.outcome.detail()))
    }

    /// A bump and its result.
    pub(super) fn of(bump: &Bump, outcome: Outcome) -> Self {
        Self {
            skill: bump.skill.clone(),
            from: bump.from,
            to: Some(bump.to),
            git_sha: bump.commit.as_str().parse().ok(),
            outcome,
        }
    }

    /// The combined exit code: a failure before a busy service before success.
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

/// The request for a bump.
pub(super) fn order(bump: &Bump, replicates: Replicates) -> Order {
    Order { skill: bump.skill.clone(), replicates, git_sha: bump.commit.as_str().parse().ok() }
}

/// Requests each evaluation, one after the other, once.
pub async fn request(service: &Service, bumps: &[Bump], replicates: Replicates) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for bump in bumps {
        let outcome = service.evaluate(&order(bump, replicates)).await.into();
        attempts.push(Attempt::of(bump, outcome));
    }
    attempts
}
