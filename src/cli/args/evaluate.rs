//! The options of `evaluate`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::Args;

use super::{Format, GithubArgs, TargetArgs};
use crate::model::{BatchId, Replicates, ShaPrefix, SkillName};

/// `evaluate`.
#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// The skill: a folder of `components` in the library
    pub skill: SkillName,
    /// How often each case is asked of each model, 1 to 100
    #[arg(long, value_name = "N", default_value_t = Replicates::default())]
    pub replicates: Replicates,
    /// The commit of the library, which must be part of its default branch [default: what is checked out]
    #[arg(long, value_name = "SHA")]
    pub git_sha: Option<ShaPrefix>,
    /// The skill library, a clone
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub library: PathBuf,
    /// The data sets that cases refer to, a clone
    #[arg(long, value_name = "DIR")]
    pub datasets: Option<PathBuf>,
    /// Which targets.
    #[command(flatten)]
    pub targets: TargetArgs,
    /// The evaluation's name; the same name resumes it [default: time and digest]
    #[arg(long, value_name = "ID", help_heading = "Batch")]
    pub batch_id: Option<BatchId>,
    /// The directory for what a resume needs
    #[arg(long, value_name = "DIR", default_value = ".run-evals/evaluate", help_heading = "Batch")]
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
    /// The directory for leaderboard.json, evaluation.json and responses.jsonl
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}

/// How results reach the library.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Pull request")]
pub struct PublishArgs {
    /// Commit leaderboard.json on a branch `eval-results/…` of the library, and open a pull request
    #[arg(long)]
    pub open_pr: bool,
    /// The library's repository on GitHub, `owner/name` [default: where it was cloned from]
    #[arg(long, value_name = "REPO")]
    pub repo: Option<String>,
    /// A label of the pull request; may be given more than once
    #[arg(long, value_name = "NAME", requires = "open_pr")]
    pub label: Vec<String>,
    /// Let GitHub merge the pull request as soon as its checks allow
    #[arg(long, requires = "open_pr")]
    pub auto_merge: bool,
    /// Who commits, as `Name <address>` [default: run-evals]
    #[arg(long, value_name = "WHO", value_parser = parse_identity)]
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
