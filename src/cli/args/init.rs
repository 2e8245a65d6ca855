//! The options of `init` and `completions`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::Shell;

use super::{GithubArgs, examples};
use crate::setup::known_providers;

/// `init`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = examples::INIT)]
pub struct InitArgs {
    /// Directory of the project
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// What else to set up.
    #[command(subcommand)]
    pub command: Option<InitCommand>,
}

/// `init runner`.
#[derive(Debug, Subcommand)]
pub enum InitCommand {
    /// Create or complete a runner repository: workflow, targets, policy, environment, secret, branch rule
    Runner(Box<InitRunnerArgs>),
}

/// `init runner`.
#[derive(Debug, Args)]
#[command(after_help = examples::INIT_RUNNER)]
#[expect(clippy::struct_excessive_bools, reason = "one per option")]
pub struct InitRunnerArgs {
    /// The runner repository
    #[arg(value_name = "OWNER/REPO")]
    pub repo: String,
    /// The provider of the first target.
    #[arg(long, value_name = "NAME", required_unless_present = "keyless", help = provider_help())]
    pub provider: Option<String>,
    /// Store no key: openai, anthropic, azure, aws (bedrock) or gcp (vertex) trusts the jobs of the repository. Prints what to set up at
    /// the provider
    #[arg(long, value_name = "VENDOR", conflicts_with_all = ["provider", "repository_secret", "no_secret"])]
    pub keyless: Option<String>,
    /// With --keyless: an id that the provider assigned, for example `role_arn=arn:aws:iam::…`; repeatable
    #[arg(long, value_name = "NAME=VALUE", requires = "keyless", value_parser = parse_id)]
    pub id: Vec<(String, String)>,
    /// The model [default: a cheap one of the provider]
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// URL of the API, for azure and openai-compatible
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// US dollars per million tokens, for a model whose price is not known, for example `0.10:0.50`
    #[arg(long, value_name = "INPUT:OUTPUT", value_parser = parse_price)]
    pub price: Option<(f64, f64)>,
    /// Create a public repository
    #[arg(long)]
    pub public: bool,
    /// Print every step and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Who may start runs besides you; repeatable
    #[arg(long, value_name = "LOGIN", value_parser = parse_login)]
    pub allow_sender: Vec<String>,
    /// On GitHub Free: store the key as a repository secret, which every writer can read
    #[arg(long)]
    pub repository_secret: bool,
    /// Do not ask for the key
    #[arg(long, conflicts_with = "repository_secret")]
    pub no_secret: bool,
    /// Replace an existing workflow with the one of this version, with a line for each key
    #[arg(long)]
    pub update_workflow: bool,
    /// The local targets file that gets the new target [default: the nearest one, else targets.yaml]
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// The name of the new target in the local targets file
    #[arg(long, value_name = "NAME", default_value = "cloud-eval-runner")]
    pub target: String,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
}

fn provider_help() -> String {
    let names = known_providers().join(", ");
    let (others, last) = names.rsplit_once(", ").unwrap_or_default();
    format!("The provider of the first target: {others} or {last}")
}

fn parse_price(text: &str) -> Result<(f64, f64), String> {
    let amount =
        |text: &str| text.trim().parse::<f64>().ok().filter(|price| price.is_finite() && *price >= 0.0);
    text.split_once(':')
        .and_then(|(input, output)| Some((amount(input)?, amount(output)?)))
        .ok_or_else(|| "expected the price of input and output, for example `0.10:0.50`".to_owned())
}

fn parse_id(text: &str) -> Result<(String, String), String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_.:/@".contains(c);
    match text.split_once('=') {
        Some((name, value)) if !value.is_empty() && value.chars().all(legal) => {
            Ok((name.to_owned(), value.to_owned()))
        }
        Some(_) => Err("a value has letters, digits, `-`, `_`, `.`, `:`, `/` and `@`".to_owned()),
        None => Err("expected NAME=VALUE".to_owned()),
    }
}

fn parse_login(text: &str) -> Result<String, String> {
    // Apps are `name[bot]`.
    let name = text.strip_suffix("[bot]").unwrap_or(text);
    let is_legal =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_legal { Ok(text.to_owned()) } else { Err("expected a login on GitHub".to_owned()) }
}

/// `completions`.
#[derive(Debug, Args)]
#[command(after_help = examples::COMPLETIONS)]
pub struct CompletionsArgs {
    /// Shell
    pub shell: Shell,
}
