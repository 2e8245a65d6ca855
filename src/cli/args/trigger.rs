//! The options of `trigger`.

use clap::Args;

use super::{Format, GithubArgs, ServiceArgs, examples};
use crate::model::{Replicates, ShaPrefix, SkillName};

/// `trigger`.
#[derive(Debug, Args)]
#[command(after_help = examples::TRIGGER)]
pub struct TriggerArgs {
    /// Skill; without it, every component with a MAJOR or MINOR version bump in a push
    #[arg(value_name = "SKILL")]
    pub skill: Option<SkillName>,
    /// Runs of each case on each model
    #[arg(long, value_name = "N", default_value_t)]
    pub replicates: Replicates,
    /// Commit to evaluate [default: the latest of the default branch]
    #[arg(long, value_name = "SHA", requires = "skill")]
    pub git_sha: Option<ShaPrefix>,
    /// Commit before the push; all zeros mean the parent of the last [default: the event's]
    #[arg(long, value_name = "SHA", help_heading = "Push", conflicts_with = "skill", requires = "after")]
    pub before: Option<String>,
    /// Last commit of the push [default: the event's]
    #[arg(long, value_name = "SHA", help_heading = "Push", conflicts_with = "skill")]
    pub after: Option<String>,
    /// Skill library, `<owner>/<name>` [default: the workflow's repository]
    #[arg(long, value_name = "REPO", help_heading = "Push")]
    pub repo: Option<String>,
    /// Which service.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// Output format, `text` or `json`
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}
