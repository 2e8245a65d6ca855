//! SIGHUP reloads files; SIGTERM and SIGINT stop the service.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use super::app::App;
use super::listen::Tls;
use crate::console::signals::reloads_on_hangup;

/// Reloads tokens, networks and the certificate on each SIGHUP, forever.
pub(super) async fn reload_on_hangup(app: Arc<App>, tls: Option<Arc<Tls>>) -> anyhow::Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    reloads_on_hangup();
    while hangups.recv().await.is_some() {
        let all = [Some(&app.tokens.full), app.tokens.read_only.as_ref(), app.trace_tokens.as_ref()];
        for tokens in all.into_iter().flatten() {
            match tokens.reload() {
                Ok(read) => {
                    tracing::info!(tokens = read.len(), "tokens read");
                    if let Some(gateway) = &app.gateway {
                        gateway.hide(read);
                    }
                }
                Err(failure) => tracing::error!("keeping the old tokens: {failure}"),
            }
        }
        if let Err(failure) = app.tokens.check(app.trace_tokens.as_ref()) {
            tracing::error!("this token is read-only: {failure}");
        }
        match app.allowed.reload() {
            Ok(()) => {}
            Err(failure) => tracing::error!("keeping the old list of networks: {failure}"),
        }
        if let Some(tls) = &tls {
            tls.reload();
        }
    }
    Ok(())
}

/// Waits for a stop signal and returns its name.
pub(super) async fn stop_signal() -> anyhow::Result<&'static str> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    crate::console::signals::watched();
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}
