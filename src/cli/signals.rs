//! SIGINT and SIGTERM ask the run to stop; a second one ends the process at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::display;

/// A receiver that changes when the process is asked to stop.
pub(super) fn stop_requested() -> anyhow::Result<watch::Receiver<bool>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (sender, receiver) = watch::channel(false);
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
            display::stderr("stopping: waiting up to 2 s for calls in flight; once more to stop at once\n");
            if sender.send(true).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}
