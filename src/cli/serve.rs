//! `serve`: starts the service from the command line.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;

use super::args::ServeArgs;
use super::display::Display;
use crate::config::{Env, TargetsFile};
use crate::engine::inputs;
use crate::model::{Exit, Failure};
use crate::serve::auth::{TokenSource, token_variable};
use crate::serve::{self, Evaluator, ListenOptions, LogOptions, LogTo, Options, TlsFiles};
use crate::skills::evaluate::trust::{self, UntrustedTrees};
use crate::skills::evaluate::{CloneSource, PublishOptions, Update, Workspace, check_repo};
use crate::studio::{self, StudioOptions};
use crate::util::own_dir;

pub(super) async fn serve(args: ServeArgs, verbose: bool, display: &Display) -> anyhow::Result<Exit> {
    let cwd = std::env::current_dir().context("cannot find the working directory")?;
    let untrusted = UntrustedTrees::of(args.skills.library.as_deref(), args.skills.datasets.as_deref());
    let env = inputs::environment_but(&cwd, &cwd, |dir| untrusted.contain(dir))?;
    let log = match (&args.keep.log_dir, args.keep.log_stderr) {
        (_, true) => LogTo::Stderr,
        (dir, false) => {
            let dir = dir.clone().unwrap_or_else(|| args.keep.state.join("log"));
            LogTo::Files { dir, keep_days: args.keep.keep_logs }
        }
    };
    Workspace::check_state(&args.keep.state)?;
    if let LogTo::Files { dir, .. } = &log {
        own_dir::check_entries(dir)?;
    }
    let gateway = super::rollout::gateway(&args, (&cwd, &env), display)?;
    // The page or a gateway can be served without a library.
    let evaluator = match &args.skills.library {
        None if gateway.is_some() || args.page.studio => None,
        _ => Some(evaluator(&args, (&cwd, &untrusted), &env)?),
    };
    let studio = studio_options(&args);
    let trace_tokens = TokenSource::files("--traces-token-file", args.traces.traces_token_file);
    // A gateway alone needs only its own tokens.
    let may_be_none = trace_tokens.is_some() && evaluator.is_none() && studio.is_none();
    let listen = args.listen;
    let options = Options {
        gateway,
        listen: ListenOptions {
            address: listen.listen,
            tls: listen.tls_cert.zip(listen.tls_key).map(|(cert, key)| TlsFiles { cert, key }),
            behind_proxy: listen.behind_proxy,
            most_connections: listen.max_connections as usize,
        },
        tokens: TokenSource {
            option: "--auth-token-file",
            files: args.access.auth_token_file,
            variable: token_variable(env.process()),
            may_be_none,
        },
        read_only_tokens: TokenSource::files("--read-only-token-file", args.access.read_only_token_file),
        trace_tokens,
        allow_from: args.access.allow_from,
        allow_github_actions: args.access.allow_github_actions.then(|| args.github.github_api_url.clone()),
        log: LogOptions { to: log, verbose },
        state: args.keep.state,
        keep_jobs: args.keep.keep_jobs as usize,
        evaluator,
        resume_jobs: args.skills.resume_jobs,
        stop_within: args.skills.stop_within,
    };
    let pages =
        |app: &Arc<serve::App>| studio.map_or_else(Router::new, |options| studio::routes(app, options));
    serve::serve(options, pages, |greeting| display.note(greeting)).await?;
    Ok(Exit::Ok)
}

/// The options of the web page.
fn studio_options(args: &ServeArgs) -> Option<StudioOptions> {
    let page = &args.page;
    // A gateway alone does not include the page.
    let is_asked_for = page.studio
        || args.skills.library.is_some()
        || page.registry.is_some()
        || page.leaderboard.is_some()
        || page.allow_local
        || !page.runs.is_empty();
    (is_asked_for && !page.no_studio).then(|| StudioOptions {
        registry: page.registry.clone(),
        allow_local: page.allow_local,
        leaderboard: page.leaderboard.clone(),
        library: args.skills.library.clone(),
        runs: page.runs.clone(),
        env: Env::from_process(),
    })
}

/// The evaluator. Configuration errors are reported now, not at the first request.
fn evaluator(
    args: &ServeArgs,
    (cwd, untrusted): (&Path, &UntrustedTrees),
    env: &Env,
) -> anyhow::Result<Evaluator> {
    let library = args.skills.library.clone().ok_or_else(|| {
        Failure::new(Exit::Usage, "nothing to serve: no skill library").hint(
            "pass a clone: `--library DIR`; `--studio` serves the page alone, `--traces DIR` a trace gateway",
        )
    })?;
    check_repo(args.results.repo.as_deref())?;
    for dir in [Some(&library), args.skills.datasets.as_ref()].into_iter().flatten() {
        // Its files are not checked yet: damage from a crash is repaired before they are used.
        if crate::git::Worktree::unseen(dir)?.is_none() {
            return Err(Failure::config(format!("`{}` is not a git clone", dir.display()))
                .hint(format!("`git clone URL {}` creates one", dir.display()))
                .into());
        }
    }
    let targets = trust::targets(args.targets.targets.as_deref(), cwd, untrusted)?;
    TargetsFile::load(&targets, &targets)?;
    let source = |dir: std::path::PathBuf| CloneSource { dir, update: Update::Pull };
    let workspace = Workspace {
        library: source(library),
        datasets: args.skills.datasets.clone().map(source),
        targets,
        target_names: args.targets.target.clone(),
        env: env.clone(),
        state: args.keep.state.clone(),
        github: None,
        max_concurrency: args.skills.max_concurrency,
        tell: Arc::new(|text| tracing::warn!("{text}")),
    };
    let results = &args.results;
    let publish = (!results.no_publish).then(|| PublishOptions {
        repo: results.repo.clone(),
        labels: results.label.clone(),
        auto_merge: results.auto_merge,
        identity: results.commit_as.clone(),
        run_url: None,
    });
    let (access, env, is_needed) = (args.github.access(), env.process().clone(), publish.is_some());
    // Created for each job: a client belongs to one runtime, and a token in a file may have been replaced.
    let workspace = move || {
        let tell = Arc::new(|text: &str| tracing::info!("{text}"));
        Ok(Workspace { github: access.optional_client(is_needed, &env, tell)?, ..workspace.clone() })
    };
    workspace()?;
    Ok(Evaluator { workspace: Box::new(workspace), publish, report: results.report_failures })
}
