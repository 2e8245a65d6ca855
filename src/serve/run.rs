//! Runs the service from its options until it is stopped.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum_server::Handle;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use super::app::App;
use super::auth::{Access, AllowList, GithubNetworks, Role, Throttle, TokenSource, Tokens};
use super::evaluation::Evaluator;
use super::jobs::{ServiceJob, Slot, Store};
use super::listen::{ListenOptions, Listener};
use super::log::{LogOptions, LogTo};
use super::{log, router, signals, worker};
use crate::model::Failure;
use crate::rollout::gateway::Gateway;
use crate::util::figures::counted;

/// How long requests in progress may take at shutdown.
const LAST_ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// Older interrupted jobs are not resumed: after a weekend they are still wanted, after a month probably not.
const RESUMED_WITHIN: SignedDuration = SignedDuration::from_hours(72);

/// The operator's options.
#[derive(Debug)]
pub struct Options {
    /// The port.
    pub listen: ListenOptions,
    /// The tokens.
    pub tokens: TokenSource,
    /// Read-only tokens.
    pub read_only_tokens: Option<TokenSource>,
    /// Tokens for the trace gateway only.
    pub trace_tokens: Option<TokenSource>,
    /// The file with the networks that may connect.
    pub allow_from: Option<PathBuf>,
    /// GitHub's API, if Actions runners may connect.
    pub allow_github_actions: Option<String>,
    /// The log.
    pub log: LogOptions,
    /// The trace gateway, if there is one.
    pub gateway: Option<Arc<Gateway>>,
    /// The directory for jobs.
    pub state: PathBuf,
    /// The most jobs that are kept.
    pub keep_jobs: usize,
    /// Runs evaluations; `None` to run none.
    pub evaluator: Option<Evaluator>,
    /// Whether interrupted jobs are resumed.
    pub resume_jobs: bool,
    /// How long a job may take to stop.
    pub stop_within: Duration,
}

/// Serves the API and `pages` until SIGTERM or SIGINT; `started` gets the address and the settings once the port is open.
pub async fn serve(
    options: Options,
    pages: impl FnOnce(&Arc<App>) -> Router<Arc<App>>,
    started: impl FnOnce(&str),
) -> anyhow::Result<()> {
    let (full, mut shown) = Tokens::load(options.tokens, Role::Full)?;
    let mut load = |source: Option<TokenSource>, role| -> Result<Option<Tokens>, Failure> {
        let Some(source) = source else { return Ok(None) };
        let (tokens, more) = Tokens::load(source, role)?;
        shown.extend(more);
        Ok(Some(tokens))
    };
    let tokens = Access { full, read_only: load(options.read_only_tokens, Role::ReadOnly)? };
    let trace_tokens = load(options.trace_tokens, Role::Full)?;
    tokens.check(trace_tokens.as_ref())?;
    let open = |api_url: String| GithubNetworks::open(&api_url, &options.state);
    let github_networks = options.allow_github_actions.map(open).transpose()?;
    let allowed = AllowList::load(options.allow_from, github_networks.clone())?;
    let listener = Listener::bind(&options.listen)?;
    log::start(&options.log)?;
    if let Some(gateway) = options.gateway.clone() {
        gateway.hide(shown);
        tokio::spawn(gateway.keep_tidy());
    }
    let app = Arc::new(App {
        gateway: options.gateway,
        tokens,
        trace_tokens,
        slow_down: Throttle::default(),
        strangers: Throttle::default(),
        allowed,
        behind_proxy: options.listen.behind_proxy,
        is_https: options.listen.tls.is_some() || options.listen.behind_proxy,
        jobs: Store::open(&options.state, options.keep_jobs)?,
        evaluator: options.evaluator.map(Arc::new),
        slot: Slot::default(),
        reporting: tokio::sync::Mutex::default(),
        stop: watch::Sender::new(false),
        working: watch::Sender::new(0),
    });
    if let Some(networks) = github_networks {
        let wait = networks.refresh().await;
        tokio::spawn(networks.follow(wait));
    }
    let mut interrupted = app.jobs.interrupted_since(Timestamp::now() - RESUMED_WITHIN);
    let (url, tls) = (listener.url()?, listener.tls());
    started(&greeting(&url, &app, &options.log.to));
    let (version, tokens, interrupted_jobs) =
        (env!("CARGO_PKG_VERSION"), app.tokens.full.count(), interrupted.len());
    let read_only_tokens = app.tokens.read_only.as_ref().map(Tokens::count);
    tracing::info!(url, version, tokens, read_only_tokens, interrupted_jobs, "started");

    let handle = Handle::new();
    let answering = tokio::spawn(listener.serve(router(Arc::clone(&app), pages(&app)), handle.clone()));
    if let Some(tls) = tls.clone() {
        tokio::spawn(tls.follow());
    }
    tokio::spawn(signals::reload_on_hangup(Arc::clone(&app), tls));
    if let Some(evaluator) = app.evaluator.clone() {
        if !options.resume_jobs {
            interrupted.clear();
        }
        let mut crashed = app.jobs.found_open();
        crashed.retain(|job| !interrupted.iter().any(|resumed| resumed.job_id == job.job_id));
        tokio::spawn(worker::report(Arc::clone(&app), Arc::clone(&evaluator), crashed));
        tokio::spawn(worker::resume(Arc::clone(&app), evaluator, interrupted));
    }

    let signal = signals::stop_signal().await?;
    tracing::info!(signal, "stopping");
    stop_working(&app, options.stop_within).await?;
    handle.graceful_shutdown(Some(LAST_ANSWERS_WITHIN));
    answering.await??;
    tracing::info!("stopped");
    Ok(())
}

/// Where the service listens, who may connect, and where the log is.
fn greeting(url: &str, app: &App, log: &LogTo) -> String {
    let counted = |count: usize, word: &str| counted(count as u64, word);
    let (full, read_only) = app.tokens.count();
    let mut text = format!("listening on {url}\n  access: {}", counted(full, "token"));
    if read_only > 0 {
        text = format!("{text}, {read_only} read-only");
    }
    if let Some(tokens) = &app.trace_tokens {
        text = format!("{text}, {} for traces only", tokens.count());
    }
    match app.allowed.count() {
        Some(count) => text = format!("{text}, from {}", counted(count, "network")),
        None => text.push_str(", from anywhere"),
    }
    match log {
        LogTo::Files { dir, keep_days } => {
            format!("{text}\n  log: {}, kept {}", dir.display(), counted(*keep_days as usize, "day"))
        }
        LogTo::Stderr => text,
    }
}

/// Accepts no more jobs, and lets the running one save its responses.
async fn stop_working(app: &Arc<App>, within: Duration) -> anyhow::Result<()> {
    app.slot.close();
    app.stop.send_replace(true);
    let mut working = app.working.subscribe();
    let done = tokio::select! {
        done = tokio::time::timeout(within, working.wait_for(|count| *count == 0)) => done.is_ok(),
        again = signals::stop_signal() => {
            tracing::warn!(signal = again?, "second stop signal");
            false
        }
    };
    if !done {
        tracing::warn!("the job did not stop in time");
    }
    let open = app.jobs.all().into_iter().filter(|job| job.state.is_open());
    let interrupted: Vec<ServiceJob> = open.filter_map(|job| app.jobs.interrupt(&job.job_id)).collect();
    if let Some(evaluator) = app.evaluator.clone() {
        let report = worker::report(Arc::clone(app), evaluator, interrupted);
        if tokio::time::timeout(LAST_ANSWERS_WITHIN, report).await.is_err() {
            tracing::error!("reporting the interrupted job to GitHub timed out");
        }
    }
    Ok(())
}
