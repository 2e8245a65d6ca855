//! What the process is told: SIGHUP reads files again, SIGTERM and SIGINT stop.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};

use super::app::App;
use super::listen::Tls;

/// Reads tokens, networks and the certificate again at each SIGHUP, for ever.
pub(super) async fn reload_on_hangup(app: Arc<App>, tls: Option<Arc<Tls>>) -> anyhow::Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    while hangups.recv().await.is_some() {
        for tokens in [Some(&app.tokens), app.trace_tokens.as_ref()].into_iter().flatten() {
            match tokens.reload() {
                Ok(read) => {
                    tracing::info!(tokens = read.len(), "tokens read");
                    if let Some(gateway) = &app.gateway {
                        gateway.hide(read);
                    }
                }
                Err(failure) => tracing::error!("the old tokens stay valid: {failure}"),
            }
        }
        match app.allowed.reload() {
            Ok(()) => {}
            Err(failure) => tracing::error!("the old list of networks stays: {failure}"),
        }
        if let Some(tls) = &tls {
            tls.reload();
        }
    }
    Ok(())
}

/// Ends when the process is told to stop, and says by which signal.
pub(super) async fn told_to_stop() -> anyhow::Result<&'static str> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}
