//! The options of `leaderboard` and `skills`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Format, examples};
use crate::model::SkillName;

/// `leaderboard`.
#[derive(Debug, Subcommand)]
pub enum LeaderboardCommand {
    /// Join leaderboards, and repair conflicted or reordered ones, without losing an entry
    Merge(MergeArgs),
    /// Write the entries in another format
    Export(ExportArgs),
    /// Write a static site with all pages of the leaderboard
    Site(SiteArgs),
}

/// `leaderboard merge`.
#[derive(Debug, Args)]
#[command(after_help = examples::LEADERBOARD_MERGE)]
pub struct MergeArgs {
    /// Leaderboard files, or directories of them
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Write the result to this file, which may be one of those read [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `leaderboard export`.
#[derive(Debug, Args)]
#[command(after_help = examples::LEADERBOARD_EXPORT)]
pub struct ExportArgs {
    /// Leaderboard files, or directories of them
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The format
    #[arg(long, value_enum)]
    pub format: ExportFormat,
    /// With `hf`: the dataset of the benchmark on the Hugging Face Hub; its tasks are the skills
    #[arg(long, value_name = "OWNER/NAME", required_if_eq("format", "hf"))]
    pub benchmark: Option<String>,
    /// With `hf`: the model whose results are written, if the files have several
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// With `hf`: a page where the results can be looked up
    #[arg(long, value_name = "URL")]
    pub source: Option<String>,
    /// Write to this file [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `leaderboard site`.
#[derive(Debug, Args)]
#[command(after_help = examples::LEADERBOARD_SITE)]
pub struct SiteArgs {
    /// A checkout of the skill library, or one leaderboard file
    #[arg(value_name = "LIBRARY", default_value = ".")]
    pub library: PathBuf,
    /// The directory of the site: new, empty, or with an earlier site
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// The library on github.com: entries link to the signatures that it lists for their digests
    #[arg(long, value_name = "OWNER/NAME")]
    pub repo: Option<String>,
    /// The title of the site
    #[arg(long, value_name = "TEXT", default_value = "Leaderboard")]
    pub title: String,
}

/// Formats of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// One line per entry
    Csv,
    /// The newest result of each skill, as `.eval_results/*.yaml` of a model repository on the Hugging Face Hub
    Hf,
}

/// `skills`.
#[derive(Debug, Subcommand)]
pub enum SkillsCommand {
    /// Check how the answers of skills are scored, and propose scoring rules
    Lint(LintArgs),
}

/// `skills lint`.
#[derive(Debug, Args)]
#[command(after_help = examples::SKILLS_LINT)]
pub struct LintArgs {
    /// The skills [default: all of the library]
    #[arg(value_name = "SKILL")]
    pub skills: Vec<SkillName>,
    /// A checkout of the skill library
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub library: PathBuf,
    /// Write the proposed `evals/scoring.yaml` of skills that have none
    #[arg(long)]
    pub write: bool,
    /// Exit with 1 also if a field is doubtful
    #[arg(long)]
    pub strict: bool,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}
