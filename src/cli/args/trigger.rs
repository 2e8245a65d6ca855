//! The options of `trigger`.

use clap::Args;

use super::{Format, GithubArgs, ServiceArgs};
use crate::model::{Replicates, ShaPrefix, SkillName};

/// `trigger`.
#[derive(Debug, Args)]
pub struct TriggerArgs {
    /// The skill; without it, every component whose version rose by MAJOR or MINOR in a push
    #[arg(value_name = "SKILL")]
    pub skill: Option<SkillName>,
    /// How often each case is asked of each model
    #[arg(long, value_name = "N", default_value_t)]
    pub replicates: Replicates,
    /// Evaluate the skill at this commit [default: the newest of the default branch]
    #[arg(long, value_name = "SHA", requires = "skill")]
    pub git_sha: Option<ShaPrefix>,
    /// The commit before the push; all zeros stand for the parent of the last [default: the event's]
    #[arg(long, value_name = "SHA", help_heading = "Push", conflicts_with = "skill", requires = "after")]
    pub before: Option<String>,
    /// The last commit of the push [default: the event's]
    #[arg(long, value_name = "SHA", help_heading = "Push", conflicts_with = "skill")]
    pub after: Option<String>,
    /// The skill library, as `<owner>/<name>` [default: the workflow's repository]
    #[arg(long, value_name = "REPO", help_heading = "Push")]
    pub repo: Option<String>,
    /// Which service.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}
