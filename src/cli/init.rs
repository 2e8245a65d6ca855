//! `init`: writes a first project, or sets up a runner repository. Files that exist are never changed.

use super::args::{InitArgs, InitCommand, InitRunnerArgs};
use super::display::Display;
use crate::console::stdout;
use crate::model::Exit;
use crate::setup::{self, ModelChoice, RunnerPlan};
use crate::util::process_env::ProcessEnv;

pub(super) async fn init(args: InitArgs, display: &Display) -> anyhow::Result<Exit> {
    match args.command {
        Some(InitCommand::Runner(args)) => Box::pin(runner(*args, display)).await,
        None => setup::init_project(&args.dir, display).map(|()| Exit::Ok),
    }
}

async fn runner(args: InitRunnerArgs, display: &Display) -> anyhow::Result<Exit> {
    let (provider, keyless) =
        setup::choose_provider(args.provider.as_deref(), args.keyless.as_deref(), args.id)?;
    let client = args.github.client(&ProcessEnv::read(), display)?;
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
