//! SIGINT and SIGTERM ask the work to stop. A second one ends a run here at once; what it does to a run on GitHub is up to
//! whoever watches that.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::display::Display;

/// A receiver that changes when the process is asked to stop.
pub(super) fn stop_requested(display: &Display) -> anyhow::Result<watch::Receiver<bool>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (sender, receiver) = watch::channel(false);
    let display = display.clone();
    tokio::spawn(async move {
        let mut asked = false;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if asked {
                // Everything that has arrived is in the journal already.
                #[expect(clippy::exit, reason = "the user asked twice")]
                std::process::exit(130);
            }
            asked = true;
            display.note("stopping: waiting up to 2 s for calls in flight; once more to stop at once");
            if sender.send(true).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// A receiver that counts how often the process was asked to stop; nothing else happens.
pub(super) fn interrupts() -> anyhow::Result<watch::Receiver<u32>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (sender, receiver) = watch::channel(0);
    tokio::spawn(async move {
        while !sender.is_closed() {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            sender.send_modify(|count| *count += 1);
        }
    });
    Ok(receiver)
}

/// A receiver that changes when the process is asked to stop; further requests change nothing. GitHub cancels a job with
/// SIGINT, and with SIGTERM some seconds later, while the last rows are still on their way.
pub(super) fn stop_once() -> anyhow::Result<watch::Receiver<bool>> {
    Ok(stop_at_first(interrupts()?))
}

/// A receiver that changes at the first request to stop that another one counts.
pub(super) fn stop_at_first(mut interrupts: watch::Receiver<u32>) -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        if interrupts.wait_for(|count| *count > 0).await.is_ok() {
            let _ = sender.send(true);
            // The receivers would take a sender that is gone for a reason to end.
            sender.closed().await;
        }
    });
    receiver
}
