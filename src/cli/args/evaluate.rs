//! The options of `evaluate`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;

use super::{Format, GithubArgs, TargetArgs, examples};
use crate::model::{BatchId, Replicates, ShaPrefix, SkillName};

/// `evaluate`.
#[derive(Debug, Args)]
#[command(after_help = examples::EVALUATE)]
pub struct EvaluateArgs {
    /// Skill: a folder of `components` in the library
    pub skill: SkillName,
    /// Runs of each case on each model, 1 to 100
    #[arg(long, value_name = "N", default_value_t = Replicates::default())]
    pub replicates: Replicates,
    /// Commit of the library, on its default branch [default: the one checked out]
    #[arg(long, value_name = "SHA")]
    pub git_sha: Option<ShaPrefix>,
    /// Clone of the skill library [default: the working directory]
    #[arg(long, value_name = "DIR")]
    pub library: Option<PathBuf>,
    /// Clone of the data sets that cases refer to
    #[arg(long, value_name = "DIR")]
    pub datasets: Option<PathBuf>,
    /// Which targets.
    #[command(flatten)]
    pub targets: TargetArgs,
    /// Id of the evaluation; the same id resumes it [default: time and digest]
    #[arg(long, value_name = "ID", help_heading = "Batch", hide_short_help = true)]
    pub batch_id: Option<BatchId>,
    /// Directory for what a resume needs
    #[arg(
        long,
        value_name = "DIR",
        default_value = ".run-evals/evaluate",
        help_heading = "Batch",
        hide_short_help = true
    )]
    pub state: PathBuf,
    /// Calls in flight at once [default: the target's]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub max_concurrency: Option<NonZeroU32>,
    /// How results are published.
    #[command(flatten)]
    pub publish: PublishArgs,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// Directory for leaderboard.json, evaluation.json and responses.jsonl
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Output format, `text` or `json`
    #[arg(long, value_enum, hide_possible_values = true, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}

/// How results reach the library.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Pull request")]
pub struct PublishArgs {
    /// Commit leaderboard.json to a branch and open a pull request
    ///
    /// The branch is `eval-results/…` in the library's repository.
    #[arg(long)]
    pub open_pr: bool,
    /// Library's repository on GitHub, `owner/name` [default: the clone's origin]
    #[arg(long, value_name = "REPO", hide_short_help = true)]
    pub repo: Option<String>,
    /// Label of the pull request; repeatable
    #[arg(long, value_name = "NAME", requires = "open_pr", hide_short_help = true)]
    pub label: Vec<String>,
    /// Let GitHub merge the pull request when its checks pass
    #[arg(long, requires = "open_pr")]
    pub auto_merge: bool,
    /// Author of the commit, `Name <address>` [default: run-evals]
    #[arg(long, value_name = "WHO", value_parser = parse_identity, hide_short_help = true)]
    pub commit_as: Option<String>,
}

/// Who commits.
pub(super) fn parse_identity(text: &str) -> Result<String, String> {
    let legal =
        |text: &str| !text.trim().is_empty() && !text.contains(|c: char| c.is_control() || "<>".contains(c));
    match text.trim().strip_suffix('>').and_then(|text| text.split_once(" <")) {
        Some((name, address)) if legal(name) && legal(address) && !address.contains(' ') => {
            Ok(format!("{} <{address}>", name.trim()))
        }
        _ => Err("expected a name and an address, for example `Eval Bot <bot@example.org>`".to_owned()),
    }
}
