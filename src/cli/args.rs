//! The options, each defined once. The action's inputs are turned into these by `action`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::report_args::{ReportArgs, ReportCommandArgs};
use crate::config::parse_duration;
use crate::dispatcher::HandOverChoice;
use crate::exchange::LocalExchange;
use crate::model::{BatchId, Digest};

const EXIT_CODES: &str = "\
Exit codes:
  0  fine
  1  failure
  2  wrong usage
  3  invalid configuration or input file
  4  finished, below the threshold or worse than the baseline
  5  finished, but incomplete: some requests have no answer
  6  busy: somebody else runs it";

/// The generated one would show only one of the ways.
const DISPATCH_USAGE: &str = "\
run-evals dispatch [OPTIONS] <SUITE>
       run-evals dispatch [OPTIONS] --requests <FILE>
       run-evals dispatch [OPTIONS] --resume <BATCH>
       run-evals dispatch [OPTIONS] --agentv-batch <SUITE> --output-file <FILE>";

const ADAPTER_EXAMPLE: &str = "\
In AgentV's targets.yaml:
  - name: cloud
    provider: github-actions
    repo: myorg/eval-runner
    workflow: run-evals.yml
    command: >-
      /usr/local/bin/run-evals adapter --target cloud --workers 50 --prompt-file {PROMPT_FILE}
      --output-file {OUTPUT_FILE} --id {EVAL_ID} --attempt {ATTEMPT} --files {FILES}";

/// GitHub Actions as the compute backend of LLM evaluations.
#[derive(Debug, Parser)]
#[command(name = "run-evals", version, about, after_help = EXIT_CODES, propagate_version = true)]
pub struct Cli {
    /// For all commands.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Whether AgentV has called the command: what it prints becomes part of a result, in which there is room for one line.
    pub fn is_for_agentv(&self) -> bool {
        match &self.command {
            Command::Adapter(_) => true,
            Command::Dispatch(args) => args.agentv_batch,
            Command::Eval(_)
            | Command::Collect(_)
            | Command::Run(_)
            | Command::Report(_)
            | Command::Bundle(_)
            | Command::Targets(_) => false,
        }
    }
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub struct GlobalArgs {
    /// Tell more on stderr; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Show no progress and no warnings
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a suite: plan, call, collect, grade
    Eval(Box<EvalArgs>),
    /// Turn a suite or a requests file into responses
    Dispatch(DispatchArgs),
    /// Collect the responses of a batch that is running or finished
    Collect(CollectArgs),
    /// The runner role: call one shard of a batch
    Run(RunArgs),
    /// Tell what the results of an evaluation come to, and compare them with a baseline
    Report(ReportCommandArgs),
    /// Compile a suite and all it refers to into a directory that runs anywhere
    Bundle(BundleArgs),
    /// Answer one call of AgentV; calls that come together leave as one batch
    Adapter(AdapterArgs),
    /// Check a targets file, or print its schema
    #[command(subcommand)]
    Targets(TargetsCommand),
}

/// `targets`.
#[derive(Debug, Subcommand)]
pub enum TargetsCommand {
    /// Tell of each target whether it can be used: its links, its variables, its runner repository
    Check(CheckArgs),
    /// Print the JSON Schema of targets files, for editors
    Schema,
}

/// `targets check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// The target to check; may be given more than once [default: all]
    #[arg(long, value_name = "NAME")]
    pub target: Vec<String>,
    /// Do not ask GitHub
    #[arg(long)]
    pub offline: bool,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
}

/// `eval`.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// The suite: an EVAL.yaml, a .jsonl file or a bundle
    pub suite: PathBuf,
    /// How answers are graded.
    #[command(flatten)]
    pub grading: GradingArgs,
    /// What both commands take.
    #[command(flatten)]
    pub work: WorkArgs,
    /// A file that gets the answers as AgentV's `provider: replay` plays them
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub replay_out: Option<PathBuf>,
    /// What is told of the scores.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// How answers are graded.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Grading")]
pub struct GradingArgs {
    /// The score that each test must reach, 0 to 1; one below it means exit code 4 [default: the suite's]
    #[arg(long, value_name = "SCORE", value_parser = parse_score)]
    pub threshold: Option<f64>,
    /// The target that grades where a model does [default: the `grader_target` of the answers' target, else that itself]
    #[arg(long, value_name = "NAME")]
    pub grader_target: Option<String>,
    /// Collect the answers and do not grade them
    #[arg(long)]
    pub no_grade: bool,
    /// Leave out graders that this version does not have
    #[arg(long)]
    pub ignore_unknown_graders: bool,
    /// Run the commands that a suite brings in the container of the action, too
    #[arg(long)]
    pub allow_commands: bool,
    /// A variable that commands of the suite get to see; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub grader_env: Vec<String>,
    /// The longest that one command may take
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s")]
    pub grader_timeout: Duration,
}

/// `dispatch`.
#[derive(Debug, Args)]
#[command(override_usage = DISPATCH_USAGE)]
pub struct DispatchArgs {
    /// The suite: an EVAL.yaml, a .jsonl file or a bundle
    #[arg(required_unless_present_any = ["requests", "resume"], conflicts_with = "requests")]
    pub suite: Option<PathBuf>,
    /// A file with one request a line, instead of a suite
    #[arg(long, value_name = "FILE")]
    pub requests: Option<PathBuf>,
    /// Start what is missing or failed for a passing reason of a batch on GitHub, instead of a suite
    #[arg(long, value_name = "BATCH", conflicts_with_all = ["suite", "requests", "batch_id"])]
    pub resume: Option<BatchId>,
    /// What both commands take.
    #[command(flatten)]
    pub work: WorkArgs,
    /// Leave once the run on GitHub is started
    #[arg(long, help_heading = "GitHub")]
    pub no_wait: bool,
    /// A file that gets the answers as AgentV's `provider: replay` plays them; needs a suite
    #[arg(long, value_name = "FILE", help_heading = "Output", conflicts_with_all = ["requests", "resume", "no_wait"])]
    pub replay_out: Option<PathBuf>,
    /// Be the command of an AgentV target with `provider_batching: true`
    #[arg(
        long,
        help_heading = "AgentV",
        requires_all = ["suite", "output_file"],
        conflicts_with_all = ["requests", "resume", "no_wait", "batch_id", "output", "replay_out"]
    )]
    pub agentv_batch: bool,
    /// The file that AgentV wants: `{OUTPUT_FILE}`
    #[arg(long, value_name = "FILE", help_heading = "AgentV", requires = "agentv_batch")]
    pub output_file: Option<PathBuf>,
    /// The test that AgentV asks for: `{EVAL_ID}` [default: the one in the file's name]
    #[arg(
        long,
        value_name = "TEST",
        help_heading = "AgentV",
        requires = "agentv_batch",
        allow_hyphen_values = true
    )]
    pub id: Option<String>,
}

/// What `eval` and `dispatch` take alike.
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// Which targets.
    #[command(flatten)]
    pub targets: TargetArgs,
    /// Which batch.
    #[command(flatten)]
    pub batch: BatchArgs,
    /// How far.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// How a batch gets there.
    #[command(flatten)]
    pub remote: RemoteArgs,
    /// Where to.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `collect`.
#[derive(Debug, Args)]
pub struct CollectArgs {
    /// The batch
    #[arg(value_name = "BATCH")]
    pub batch_id: BatchId,
    /// The local exchange, a git repository
    #[arg(long, value_name = "PATH", default_value = LocalExchange::DEFAULT_PATH)]
    pub exchange: PathBuf,
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub targets: Option<PathBuf>,
    /// The runner repository's target, where the batch was dispatched from another machine
    #[arg(long, value_name = "NAME", help_heading = "Targets")]
    pub target: Option<String>,
    /// Delete the results branch on GitHub once everything is collected
    #[arg(long, help_heading = "GitHub")]
    pub delete_results: bool,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// Where to.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The batch to run, in the local exchange [default: the one that the workflow was dispatched for]
    #[arg(long, value_name = "ID")]
    pub batch_id: Option<BatchId>,
    /// Gather what the legs of a workflow run left as artifacts onto the results branch
    #[arg(long, conflicts_with_all = ["batch_id", "shard"])]
    pub finish: bool,
    /// The digest that the batch archive must have
    #[arg(long, value_name = "SHA256")]
    pub batch_sha256: Option<Digest>,
    /// The local exchange, a git repository
    #[arg(long, value_name = "PATH", default_value = LocalExchange::DEFAULT_PATH)]
    pub exchange: PathBuf,
    /// Which shard of the batch, counted from 0
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub shard: u32,
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// The target to call [default: the one that the batch names]
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// How far.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}

/// `bundle`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub struct BundleArgs {
    /// The suite: an EVAL.yaml, a .jsonl file or a bundle
    #[arg(required = true)]
    pub suite: Option<PathBuf>,
    /// The directory that the bundle becomes
    #[arg(short, long, value_name = "DIR", required_unless_present = "check", conflicts_with = "check")]
    pub output: Option<PathBuf>,
    /// Only tell what would not travel, with file and line
    #[arg(long)]
    pub check: bool,
    /// Write the bundle as DIR.tar.gz too
    #[arg(long, requires = "output")]
    pub archive: bool,
    /// Replace another bundle in DIR
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Run the bundle once with a mock in the place of every model
    #[arg(long, requires = "output")]
    pub verify_run: bool,
    /// The directory that counts as the repository [default: the git work tree, else the suite's directory]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Write values of variables into the bundle: of all that look like no secret, or of these
    #[arg(
        long,
        value_name = "NAMES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_delimiter = ','
    )]
    pub capture_env: Option<Vec<String>>,
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub targets: Option<PathBuf>,
    /// A target to take along besides those that the suite names; may be given more than once
    #[arg(long, value_name = "NAME", help_heading = "Targets")]
    pub target: Vec<String>,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
    /// Something else than a bundle.
    #[command(subcommand)]
    pub command: Option<BundleCommand>,
}

/// What can be done with a bundle.
#[derive(Debug, Subcommand)]
pub enum BundleCommand {
    /// Check that a bundle is what its manifest says
    Verify {
        /// The bundle: a directory or a .tar.gz file
        bundle: PathBuf,
        /// Print the result as text or as JSON
        #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
        format: Format,
    },
}

/// `adapter`.
#[derive(Debug, Args)]
#[command(after_help = ADAPTER_EXAMPLE)]
pub struct AdapterArgs {
    /// The file with the prompt: AgentV's `{PROMPT_FILE}`
    #[arg(long, value_name = "FILE", help_heading = "Call")]
    pub prompt_file: PathBuf,
    /// Where the answer goes: AgentV's `{OUTPUT_FILE}`
    #[arg(long, value_name = "FILE", help_heading = "Call")]
    pub output_file: PathBuf,
    /// The test: AgentV's `{EVAL_ID}`
    #[arg(long, allow_hyphen_values = true, help_heading = "Call")]
    pub id: String,
    /// How often AgentV has tried before: its `{ATTEMPT}`
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Call")]
    pub attempt: u32,
    /// The files that the prompt names: AgentV's `{FILES}`
    #[arg(long, value_name = "FILE", num_args = 0.., help_heading = "Call")]
    pub files: Vec<PathBuf>,
    /// Another directory whose files may be attached; may be given more than once
    ///
    /// Files of the repository or directory of the evaluation and of the targets file always may.
    #[arg(long, value_name = "DIR", help_heading = "Call")]
    pub files_root: Vec<PathBuf>,
    /// Calls with the same key belong together [default: those of the same AgentV process]
    ///
    /// For a command that a program other than a shell stands between AgentV and run-evals.
    #[arg(long, value_name = "KEY", help_heading = "Batch")]
    pub together: Option<String>,
    /// How many calls AgentV makes at once, its `--workers`: so many leave together without waiting for more
    #[arg(long, value_name = "N", default_value = "50", help_heading = "Batch")]
    pub workers: std::num::NonZeroU32,
    /// How long fewer calls wait for another one
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "2s", help_heading = "Batch")]
    pub window: Duration,
    /// The local exchange, a git repository [default: .run-evals/exchange.git beside the targets file]
    #[arg(long, value_name = "PATH", help_heading = "Batch")]
    pub exchange: Option<PathBuf>,
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    ///
    /// Name it where tests have workspaces: AgentV starts commands there, and a stranger's file may lie in them.
    #[arg(long, value_name = "FILE", help_heading = "Targets")]
    pub targets: Option<PathBuf>,
    /// The target to call; one that is no runner repository needs `--targets`
    #[arg(long, value_name = "NAME", help_heading = "Targets")]
    pub target: String,
    /// Which GitHub.
    #[command(flatten)]
    pub github: GithubArgs,
    /// How a batch gets there.
    #[command(flatten)]
    pub remote: RemoteArgs,
}

/// Which targets.
#[derive(Debug, Args)]
#[command(next_help_heading = "Targets")]
pub struct TargetArgs {
    /// The targets file [default: the nearest targets.yaml or .agentv/targets.yaml]
    #[arg(long, value_name = "FILE")]
    pub targets: Option<PathBuf>,
    /// The target to call; may be given more than once [default: the suite's, else `default`]
    #[arg(long, value_name = "NAME")]
    pub target: Vec<String>,
}

/// Which batch, and where it lies.
#[derive(Debug, Args)]
#[command(next_help_heading = "Batch")]
pub struct BatchArgs {
    /// The batch's name; the same name and input resume it [default: time and digest]
    #[arg(long, value_name = "ID")]
    pub batch_id: Option<BatchId>,
    /// The local exchange, a git repository
    #[arg(long, value_name = "PATH", default_value = LocalExchange::DEFAULT_PATH)]
    pub exchange: PathBuf,
}

/// How far a run may go.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Calls in flight at once [default: the target's]
    #[arg(long, value_name = "N")]
    pub max_concurrency: Option<std::num::NonZeroU32>,
    /// Stop after calling this many requests
    #[arg(long, value_name = "N")]
    pub max_requests: Option<u64>,
    /// Stop before spending more than this; needs a `price` in the target
    #[arg(long, value_name = "USD", value_parser = parse_budget)]
    pub budget_usd: Option<f64>,
    /// Stop after this long, for example `45m`
    ///
    /// `run` as a step of a dispatched workflow stops after 5 h 45 min, before GitHub ends the job.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub deadline: Option<Duration>,
    /// Call identical requests once
    #[arg(long)]
    pub dedupe: bool,
    /// Keep the vendor's whole answer in each row
    #[arg(long)]
    pub keep_raw: bool,
}

/// How GitHub is reached.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "GitHub")]
pub struct GithubArgs {
    /// GitHub's API; `https://HOST/api/v3` for GitHub Enterprise Server
    #[arg(
        long,
        value_name = "URL",
        env = "GITHUB_API_URL",
        hide_env_values = true,
        default_value = "https://api.github.com"
    )]
    pub github_api_url: String,
    /// A file with the token [default: `GH_TOKEN`, `GITHUB_TOKEN`, then `gh auth token`]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Authenticate as this GitHub App instead of with a token
    #[arg(long, value_name = "ID")]
    pub app_id: Option<String>,
    /// A file with the App's private key [default: the variable `RUN_EVALS_APP_KEY`]
    #[arg(long, value_name = "FILE", requires = "app_id")]
    pub app_key_file: Option<PathBuf>,
}

/// How a batch gets to a runner repository, and what stays there.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "GitHub")]
pub struct RemoteArgs {
    /// How the batch travels to the runner repository
    #[arg(long, value_enum, value_name = "HOW", default_value_t = HandOverChoice::Auto)]
    pub handover: HandOverChoice,
    /// Let prompts and answers lie on the branches of a public repository
    #[arg(long)]
    pub allow_public: bool,
    /// Delete the results branch on GitHub once everything is collected
    #[arg(long)]
    pub delete_results: bool,
    /// How long a run may take to appear after a start whose answer was lost
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s", hide = true)]
    pub grace: Duration,
}

/// Where results go, and in which form.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// The directory for responses.jsonl, summary.json and, of `eval`, scores.jsonl
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print the result as text or as JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// The form of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

fn parse_score(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(score) if (0.0..=1.0).contains(&score) => Ok(score),
        _ => Err("expected a score from 0 to 1, for example `0.8`".to_owned()),
    }
}

fn parse_budget(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(budget) if budget.is_finite() && budget > 0.0 => Ok(budget),
        _ => Err("expected an amount above 0, for example `2.50`".to_owned()),
    }
}
