//! The result of an evaluation, and the leaderboard with it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::backends::NotServed;
use super::details::DetailsFile;
use super::request::Pinned;
use crate::leaderboard::{AbsentModel, Leaderboard};
use crate::model::{BatchId, CommitSha, Entry, Replicates, SkillName, Skipped};

/// The result of an evaluation.
#[derive(Debug, Clone, Serialize)]
pub struct EvaluationResult {
    /// The id that resumes it.
    pub id: BatchId,
    /// The skill.
    pub skill: SkillName,
    /// Its version.
    pub skill_version: String,
    /// How often each case was run.
    pub replicates: Replicates,
    /// The commits that were evaluated.
    #[serde(flatten)]
    pub pinned: Pinned,
    /// One entry per served model, in the order of the model list.
    pub entries: Vec<Entry>,
    /// The models that no target serves.
    pub not_served: Vec<NotServed>,
    /// The served models without any answer.
    pub failed: Vec<FailedModel>,
    /// The cases that cannot be run.
    pub skipped: Vec<Skipped>,
    /// The calls of all models.
    pub calls: CallCounts,
    /// Warnings about the results.
    pub warnings: Vec<String>,
    /// Whether the commit is part of the default branch, so that its entries may go there.
    #[serde(skip)]
    pub is_on_default: bool,
    /// All responses as JSONL; the target of each is its model.
    #[serde(skip)]
    pub responses: Vec<u8>,
    /// The models' answers, field by field; empty if the library does not publish them.
    #[serde(skip)]
    pub(super) details: Vec<DetailsFile>,
    /// The replies of the model that grades prose, as JSONL; empty if there is none.
    #[serde(skip)]
    pub grades: Vec<u8>,
    /// The leaderboard that the entries are compared with.
    #[serde(skip)]
    pub(super) leaderboard: Leaderboard,
    #[serde(skip)]
    pub(super) ranks: BTreeMap<CommitSha, u64>,
    /// The URL of the library.
    #[serde(skip)]
    pub(super) origin: Option<String>,
    /// The model that graded prose, if any.
    #[serde(skip)]
    pub(super) grader: Option<String>,
    /// The file that keeps the entries until they are published.
    #[serde(skip)]
    pub(super) kept: std::path::PathBuf,
}

impl EvaluationResult {
    /// The leaderboard with these entries, as the library would have it.
    pub fn leaderboard_bytes(&self) -> Vec<u8> {
        self.inserted(self.leaderboard.clone()).to_bytes()
    }

    /// The same for a leaderboard that may have changed meanwhile.
    pub(super) fn inserted(&self, mut leaderboard: Leaderboard) -> Leaderboard {
        for entry in &self.entries {
            leaderboard.insert(entry.clone());
        }
        for absent in self.absent() {
            leaderboard.insert_absent(absent);
        }
        leaderboard
    }

    /// The unserved models, in the leaderboard's format.
    pub(super) fn absent(&self) -> Vec<AbsentModel> {
        let absent = |model: &NotServed| {
            AbsentModel::new(self.skill.clone(), self.pinned.prompt_commit.clone(), model.model.clone())
        };
        self.not_served.iter().map(absent).collect()
    }

    /// How many commits before the evaluated one a commit of the leaderboard is.
    pub(super) fn rank(&self, commit: &CommitSha) -> Option<u64> {
        self.ranks.get(commit).copied()
    }
}

/// A model without an entry, because it gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedModel {
    /// Its name.
    pub model: String,
    /// The reason.
    pub reason: String,
}

/// The call counts of an evaluation. Only these counts are part of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CallCounts {
    /// All of them.
    pub requests: u64,
    /// Those with an answer.
    pub answered: u64,
    /// Those without.
    pub failed: u64,
    /// The calls of the model that grades prose.
    #[serde(skip_serializing_if = "is_zero")]
    pub grades: u64,
    /// The total cost, if prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl CallCounts {
    pub(super) fn spend(&mut self, cost_usd: Option<f64>) {
        if let Some(cost) = cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or(0.0) + cost);
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
