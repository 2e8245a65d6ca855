//! What is asked for.

use serde::{Deserialize, Serialize};

use crate::model::{CommitSha, Replicates, ShaPrefix, SkillName};

/// An evaluation that somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Which skill.
    pub skill: SkillName,
    /// How often each case is asked of each model.
    #[serde(default)]
    pub replicates: Replicates,
    /// The commit of the library; without it, what the default branch or the checkout is now.
    #[serde(default)]
    pub git_sha: Option<ShaPrefix>,
    /// What an earlier run under the same id has found; a resume takes it as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Pinned>,
}

impl Order {
    /// An order of the skill as it is now.
    pub fn new(skill: SkillName, replicates: Replicates, git_sha: Option<ShaPrefix>) -> Self {
        Self { skill, replicates, git_sha, pinned: None }
    }
}

/// The commits that an evaluation is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// Of the library: the skill and its cases.
    pub prompt_commit: CommitSha,
    /// Of the data sets, where there is a clone of them.
    pub dataset_commit: Option<CommitSha>,
    /// Of the library's default branch: the models.
    pub models_commit: CommitSha,
}
