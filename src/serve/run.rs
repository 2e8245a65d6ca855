//! From the options to a service that answers, until it is told to stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum_server::Handle;

use super::app::App;
use super::auth::{AllowList, SlowDown, TokenSource, Tokens};
use super::listen::{ListenOptions, Listener};
use super::log::LogOptions;
use super::{log, router, signals};
use crate::rollout::gateway::Gateway;

/// How long requests that are being answered may still take at the end.
const LAST_ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// All that an operator decides.
#[derive(Debug)]
pub struct Options {
    /// The port.
    pub listen: ListenOptions,
    /// The tokens.
    pub tokens: TokenSource,
    /// The file with the networks that may connect.
    pub allow_from: Option<PathBuf>,
    /// The log.
    pub log: LogOptions,
    /// The trace gateway, where there is one.
    pub gateway: Option<Arc<Gateway>>,
}

/// Serves until SIGTERM or SIGINT; `started` is told the address once the port is open.
pub async fn serve(options: Options, started: impl FnOnce(&str, &App)) -> anyhow::Result<()> {
    if let Some(gateway) = options.gateway.clone() {
        tokio::spawn(gateway.keep_tidy());
    }
    let app = Arc::new(App {
        gateway: options.gateway,
        tokens: Tokens::load(options.tokens)?,
        slow_down: SlowDown::default(),
        allowed: AllowList::load(options.allow_from)?,
        behind_proxy: options.listen.behind_proxy,
        is_https: options.listen.tls.is_some() || options.listen.behind_proxy,
    });
    let listener = Listener::bind(&options.listen)?;
    log::start(&options.log)?;
    let (url, tls) = (listener.url()?, listener.tls());
    started(&url, &app);
    tracing::info!(url, version = env!("CARGO_PKG_VERSION"), tokens = app.tokens.count(), "started");

    let handle = Handle::new();
    let answering = tokio::spawn(listener.serve(router(Arc::clone(&app)), handle.clone()));
    if let Some(tls) = tls.clone() {
        tokio::spawn(tls.follow());
    }
    tokio::spawn(signals::reload_on_hangup(Arc::clone(&app), tls));

    let signal = signals::told_to_stop().await?;
    tracing::info!(signal, "stopping");
    handle.graceful_shutdown(Some(LAST_ANSWERS_WITHIN));
    answering.await??;
    tracing::info!("stopped");
    Ok(())
}
