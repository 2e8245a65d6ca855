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
    /// Comma-separated values, or the `model-index` of Hugging Face model cards
    #[arg(long, value_enum)]
    pub format: ExportFormat,
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
    /// The title of the site
    #[arg(long, value_name = "TEXT", default_value = "Leaderboard")]
    pub title: String,
}

/// Formats of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// One line per entry
    Csv,
    /// Hugging Face's evaluation results
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
