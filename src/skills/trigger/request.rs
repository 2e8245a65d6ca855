//! Requests evaluations, once each.

use super::bumps::Bump;
use super::outcome::RequestOutcome;
use super::service::{Service, ServiceRequest};
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
    pub outcome: RequestOutcome,
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
    pub(super) fn of(bump: &Bump, outcome: RequestOutcome) -> Self {
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
pub(super) fn order(bump: &Bump, replicates: Replicates) -> ServiceRequest {
    ServiceRequest { skill: bump.skill.clone(), replicates, git_sha: bump.commit.as_str().parse().ok() }
}

/// Requests each evaluation, one after the other, once.
pub async fn request(service: &Service, bumps: &[Bump], replicates: Replicates) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for bump in bumps {
        let outcome = service.evaluate(&order(bump, replicates)).await;
        attempts.push(Attempt::of(bump, outcome));
    }
    attempts
}
