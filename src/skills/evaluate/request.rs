//! The request for an evaluation.

use serde::{Deserialize, Serialize};

use crate::model::{CommitSha, Replicates, ShaPrefix, SkillName};

/// A requested evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluationRequest {
    /// The skill.
    pub skill: SkillName,
    /// How often each case is run on each model.
    #[serde(default)]
    pub replicates: Replicates,
    /// The commit of the library; by default the current one of the default branch or the checkout.
    #[serde(default)]
    pub git_sha: Option<ShaPrefix>,
    /// The commits of an earlier run with the same id, which a resume reuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Pinned>,
}

impl EvaluationRequest {
    /// A request for the current skill.
    pub fn new(skill: SkillName, replicates: Replicates, git_sha: Option<ShaPrefix>) -> Self {
        Self { skill, replicates, git_sha, pinned: None }
    }
}

/// The commits of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// Of the library, for the skill and its cases.
    pub prompt_commit: CommitSha,
    /// Of the data sets, if there is a clone of them.
    pub dataset_commit: Option<CommitSha>,
    /// Of the library's default branch, for the models.
    pub models_commit: CommitSha,
}
