//! `init`: writes a first project, or sets up a runner repository. Files that exist are never changed.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::args::{InitArgs, InitCommand, InitRunnerArgs};
use super::display::Display;
use super::github;
use crate::config::keyless::Vendor;
use crate::console::stdout;
use crate::model::{Exit, Failure, PROVIDERS, ProviderKind, printable};
use crate::setup::{self, Keyless, ModelChoice, RunnerPlan};
use crate::util::path::quoted;
use crate::util::process_env::ProcessEnv;
use crate::util::regular_file;

const SUITE: &str = "suite.eval.yaml";
const IGNORE: &str = ".gitignore";
/// Results, and the exchange with prompts and responses.
const IGNORED: &str = ".run-evals/";

pub(super) async fn init(args: InitArgs, display: &Display) -> anyhow::Result<Exit> {
    match args.command {
        Some(InitCommand::Runner(args)) => Box::pin(runner(*args, display)).await,
        None => project(&args, display),
    }
}

async fn runner(args: InitRunnerArgs, display: &Display) -> anyhow::Result<Exit> {
    let (provider, keyless) = choice(&args)?;
    let client = github::client(&args.github, &ProcessEnv::read(), display)?;
    let plan = RunnerPlan {
        model: ModelChoice { model: args.model, base_url: args.base_url, price: args.price },
        repo: args.repo,
        provider,
        keyless,
        public: args.public,
        senders: args.allow_sender,
        repository_secret: args.repository_secret,
        no_secret: args.no_secret,
        update_workflow: args.update_workflow,
        targets_file: args.targets,
        target: args.target,
        dry_run: args.dry_run,
    };
    if let Some(steps) = setup::init_runner(&client, &plan, display).await? {
        stdout(&steps)?;
    }
    Ok(Exit::Ok)
}

/// The provider, and the vendor that trusts the jobs instead of a stored key.
fn choice(args: &InitRunnerArgs) -> Result<(&'static ProviderKind, Option<Keyless>), Failure> {
    let Some(name) = &args.keyless else {
        let name = args.provider.as_deref().unwrap_or_default();
        let provider = ProviderKind::find(name).filter(|kind| setup::is_supported(kind));
        return Ok((provider.ok_or_else(|| unknown_provider(name))?, None));
    };
    let found = Vendor::find(name).and_then(|vendor| Some((ProviderKind::find(vendor.provider())?, vendor)));
    let Some((provider, vendor)) = found else {
        let known: Vec<&str> = Vendor::ALL.iter().map(|(name, _)| *name).collect();
        let failure = Failure::new(Exit::Usage, format!("`{}` exchanges no identities", printable(name)));
        return Err(failure.hint(format!("`--keyless` takes one of {}", known.join(", "))));
    };
    Ok((provider, Some(Keyless::new(vendor, args.id.clone())?)))
}

fn unknown_provider(name: &str) -> Failure {
    if let Some(vendor) = Vendor::of_provider(name) {
        let message = format!("`init runner` stores no key of `{name}`");
        let hint = format!("`--keyless {}` needs none", vendor.name());
        return Failure::new(Exit::Usage, message).hint(hint);
    }
    let known = PROVIDERS.iter().filter(|kind| setup::is_supported(kind));
    let known: Vec<&str> = known.map(|kind| kind.name).collect();
    let failure = Failure::new(Exit::Usage, format!("there is no provider `{}`", printable(name)));
    failure.hint(format!("`--provider` takes one of {}", known.join(", ")))
}

fn project(args: &InitArgs, display: &Display) -> anyhow::Result<Exit> {
    let dir = &args.dir;
    if dir.is_file() {
        return Err(Failure::new(Exit::Usage, format!("`{}` is a file, not a directory", dir.display()))
            .hint("name the directory of the project, for example `run-evals init evals`")
            .into());
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot create the directory `{}`", dir.display()))?;
    let is_here = dir == Path::new(".");
    let at = |name: &str| if is_here { PathBuf::from(name) } else { dir.join(name) };
    let suite = write_new(&at(SUITE), include_str!("suite.eval.yaml"), display)?;
    write_new(&at("targets.yaml"), include_str!("targets.yaml"), display)?;
    if !write_new(&at(IGNORE), &format!("{IGNORED}\n"), display)? && !ignores_state(&at(IGNORE)) {
        display.note(&format!("        add a line `{IGNORED}`: it holds prompts and responses"));
    }
    let inside = if is_here { String::new() } else { format!("cd {} && ", quoted(dir)) };
    let suite = if suite { "" } else { " SUITE" };
    display.note(&format!("\nnext: {inside}run-evals eval{suite}"));
    Ok(Exit::Ok)
}

/// Whether the file was written; one that exists, as a link too, is kept.
fn write_new(path: &Path, text: &str, display: &Display) -> anyhow::Result<bool> {
    let shown = path.display();
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).with_context(|| format!("cannot write `{shown}`"))?;
            display.note(&format!("wrote   {shown}"));
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            display.note(&format!("kept    {shown} (it exists)"));
            Ok(false)
        }
        Err(error) => Err(error).with_context(|| format!("cannot write `{shown}`")),
    }
}

fn ignores_state(path: &Path) -> bool {
    let text = regular_file::read_to_string(path, regular_file::SETTINGS).unwrap_or_default();
    text.lines().any(|line| line.trim().trim_matches('/') == IGNORED.trim_matches('/'))
}
