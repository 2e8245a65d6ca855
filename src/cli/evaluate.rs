//! `evaluate`: evaluates a skill with the models of its library, on this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use super::args::{EvaluateArgs, Format, PublishArgs};
use super::display::Display;
use crate::config::Env;
use crate::console::{self, actions, signals};
use crate::engine::{self, inputs};
use crate::github::Client;
use crate::model::{BatchId, Exit, Failure};
use crate::skills::evaluate::trust::{self, UntrustedTrees};
use crate::skills::evaluate::{
    self, CloneSource, EvaluationRequest, EvaluationResult, Progress, PublishOptions, Published, Update,
    Workspace, pull_request_body, render_text,
};
use crate::util::own_dir;
use crate::util::process_env::ProcessEnv;

/// Reads, calls, scores and publishes.
pub(super) async fn evaluate(args: EvaluateArgs, display: &Display) -> anyhow::Result<Exit> {
    evaluate::check_repo(args.publish.repo.as_deref())?;
    let cwd = std::env::current_dir().context("cannot find the working directory")?;
    let library = args.library.as_deref().unwrap_or(Path::new("."));
    let untrusted = UntrustedTrees::of(Some(library), args.datasets.as_deref());
    let env = inputs::environment_but(&cwd, &cwd, |dir| untrusted.contain(dir))?;
    // For the library, which may be private, and for the pull request.
    let access = args.github.access();
    let client = access.optional_client(args.publish.open_pr, env.process(), Arc::new(display.say()))?;
    let targets = trust::targets(args.targets.targets.as_deref(), &cwd, &untrusted)?;
    let workspace = workspace(&args, targets, &env, client.clone(), display)?;
    let order = EvaluationRequest::new(args.skill.clone(), args.replicates, args.git_sha.clone());
    let order = evaluate::resumed(order, &workspace, args.batch_id.as_ref())?;
    let checkout = evaluate::check_out(&workspace, &order).await.map_err(Failure::from)?;
    if let Some(warning) = checkout.check_branch(args.publish.open_pr)? {
        display.warning(&warning);
    }
    if let (Some(client), true) = (&client, args.publish.open_pr) {
        let options = publish_options(&args.publish, env.process());
        evaluate::may_publish(&checkout, client, &options).await.map_err(Failure::from)?;
    }
    let id = match args.batch_id.clone() {
        Some(id) => id,
        None => checkout.new_id()?,
    };
    display.note(&format!(
        "evaluating `{}` {} at {}; `--batch-id {id}` resumes it",
        checkout.skill.name,
        checkout.skill.version,
        checkout.prompt_commit().short()
    ));
    let stop = signals::stop_requested(display.say())?;
    let now = std::cell::Cell::new(Progress::default());
    let work = evaluate::run(&workspace, &checkout, &id, |progress| now.set(progress.calls), stop);
    let view = || engine::Progress {
        name: checkout.skill.name.to_string(),
        done: now.get().done,
        total: now.get().total,
        state: "calls of all models".to_owned(),
    };
    let evaluated = Box::pin(engine::observe(display, view, work)).await;
    let evaluated = evaluated.map_err(|failure| resumable(failure, &id))?;
    if let Some(dir) = &args.output {
        evaluate::write_files(dir, &evaluated)?;
    }
    display.warnings(&evaluated.warnings);
    let published = match (&client, args.publish.open_pr) {
        (Some(client), true) => {
            let options = publish_options(&args.publish, env.process());
            match evaluate::publish(&workspace, &evaluated, client, &options).await {
                Ok(published) => Some(published),
                Err(failure) => {
                    // Show what was paid for anyway.
                    tell(&args, &evaluated, None)?;
                    return Err(Failure::from(failure).into());
                }
            }
        }
        _ => None,
    };
    let unopened = published.as_ref().is_some_and(|published| tell_published(published, display));
    tell(&args, &evaluated, published.as_ref())?;
    Ok(match evaluated.calls.failed {
        _ if unopened => Exit::Failure,
        0 if evaluated.failed.is_empty() => Exit::Ok,
        _ => Exit::Incomplete,
    })
}

fn workspace(
    args: &EvaluateArgs,
    targets: PathBuf,
    env: &Env,
    github: Option<Client>,
    display: &Display,
) -> anyhow::Result<Workspace> {
    let source = |dir: &Path| CloneSource { dir: dir.to_path_buf(), update: Update::Leave };
    let display = display.clone();
    Workspace::check_state(&args.state)?;
    std::fs::create_dir_all(&args.state)
        .with_context(|| format!("cannot make `{}`", args.state.display()))?;
    own_dir::ignore_by_git(&args.state)?;
    Ok(Workspace {
        library: source(args.library.as_deref().unwrap_or(Path::new("."))),
        datasets: args.datasets.as_deref().map(source),
        targets,
        target_names: args.targets.target.clone(),
        env: env.clone(),
        state: args.state.clone(),
        github,
        max_concurrency: args.max_concurrency,
        tell: Arc::new(move |text| display.warning(text)),
    })
}

fn resumable(failure: evaluate::Failure, id: &BatchId) -> Failure {
    let stopped = failure.is_stopped();
    let failure = Failure::from(failure);
    if stopped {
        failure.hint(format!("add `--batch-id {id}` to the same command to resume"))
    } else {
        failure
    }
}

fn publish_options(args: &PublishArgs, env: &ProcessEnv) -> PublishOptions {
    PublishOptions {
        repo: args.repo.clone(),
        labels: args.label.clone(),
        auto_merge: args.auto_merge,
        identity: args.commit_as.clone(),
        run_url: actions::run_url(env),
    }
}

/// Prints where the results are. Returns whether a requested pull request is missing.
fn tell_published(published: &Published, display: &Display) -> bool {
    match (&published.pull_request_url, &published.branch) {
        (Some(url), _) => display.note(&format!("pull request: {}", crate::model::printable(url))),
        (None, Some(_)) => {
            for warning in &published.warnings {
                console::error(warning);
            }
            return true;
        }
        (None, None) => {
            display.note("the leaderboard already has the same entries");
        }
    }
    display.warnings(&published.warnings);
    false
}

fn tell(
    args: &EvaluateArgs,
    evaluated: &EvaluationResult,
    published: Option<&Published>,
) -> anyhow::Result<()> {
    match args.format {
        Format::Json => console::json(&evaluate::render_json(evaluated, published)?)?,
        Format::Text => console::stdout(&render_text(evaluated))?,
    }
    let (branch, url) = published
        .map_or((None, None), |published| (published.branch.clone(), published.pull_request_url.clone()));
    actions::outputs(&[
        ("batch-id", evaluated.id.to_string()),
        ("results-branch", branch.unwrap_or_default()),
        ("pull-request", url.unwrap_or_default()),
        ("results-path", args.output.as_ref().map(|dir| dir.display().to_string()).unwrap_or_default()),
        ("answered", evaluated.calls.answered.to_string()),
        ("failed", evaluated.calls.failed.to_string()),
        ("cost-usd", evaluated.calls.cost_usd.map(|cost| format!("{cost:.6}")).unwrap_or_default()),
    ])?;
    if actions::is_step() {
        actions::step_summary(&format!("### {}\n\n{}", evaluated.skill, pull_request_body(evaluated, None)))?;
    }
    Ok(())
}
