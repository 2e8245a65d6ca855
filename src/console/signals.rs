//! SIGINT and SIGTERM request a stop. A second one ends a local run at once; for a run on GitHub, its
//! watcher decides. A command that does not watch for signals ends at once, with its git processes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Whether the command watches for signals itself.
static WATCHED: AtomicBool = AtomicBool::new(false);
/// Whether SIGHUP reloads files.
static RELOADS: AtomicBool = AtomicBool::new(false);

/// Terminates git processes on drop, when the command ends.
#[derive(Debug)]
pub struct Processes;

impl Processes {
    /// From here on, an unwatched signal terminates the git processes before this one.
    pub fn watch() -> Self {
        crate::git::enable_watchdog();
        let (ready, is_ready) = mpsc::sync_channel(1);
        // A separate thread, because some commands block the runtime's only thread.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let _ = runtime.map(|runtime| runtime.block_on(end_at_signal(ready)));
        });
        // The command may start git only when the handlers are installed. A thread that fails drops its sender.
        let _ = is_ready.recv();
        Self
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        crate::git::end_all();
    }
}

async fn end_at_signal(ready: mpsc::SyncSender<()>) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut quit = signal(SignalKind::quit())?;
    // `nohup` makes the process ignore hangups, and a handler would undo that.
    let mut hangup = if ignores_hangups() { None } else { Some(signal(SignalKind::hangup())?) };
    let _ = ready.send(());
    loop {
        let hung_up = async {
            match &mut hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        let code = tokio::select! {
            _ = interrupt.recv() => 130,
            _ = terminate.recv() => 143,
            // These end every command at once, as they would without a handler.
            _ = quit.recv() => end(131),
            _ = hung_up => if RELOADS.load(Ordering::SeqCst) { continue } else { end(129) },
        };
        if !WATCHED.load(Ordering::SeqCst) {
            end(code);
        }
    }
}

/// Whether the parent process made this one ignore SIGHUP. Known on Linux; elsewhere hangups stay as they are.
fn ignores_hangups() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return true };
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is signal 1, SIGHUP.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_none_or(|mask| mask & 1 == 1)
}

/// Marks that the command reloads its files on SIGHUP.
pub fn reloads_on_hangup() {
    RELOADS.store(true, Ordering::SeqCst);
}

/// Marks that the command watches for signals itself.
pub fn watched() {
    WATCHED.store(true, Ordering::SeqCst);
}

/// Exits at once, and terminates git processes.
pub fn end(code: i32) -> ! {
    crate::git::end_all_at_signal();
    #[expect(clippy::exit, reason = "a signal asked for it")]
    std::process::exit(code)
}

/// A receiver that changes on a stop request; `say` receives a message for the user.
pub fn stop_requested(say: impl Fn(&str) + Send + 'static) -> anyhow::Result<watch::Receiver<bool>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    watched();
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        let mut asked = false;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if asked {
                // Every response is already in the journal.
                end(130);
            }
            asked = true;
            say("stopping: waiting up to 2 s for calls in flight; once more to stop at once");
            if sender.send(true).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// A receiver that counts stop requests, without any other effect.
pub fn interrupts() -> anyhow::Result<watch::Receiver<u32>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    watched();
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

/// A receiver that changes on the first stop request and ignores later ones. GitHub cancels a job with
/// SIGINT, then SIGTERM some seconds later, while the final rows are being saved.
pub fn stop_once() -> anyhow::Result<watch::Receiver<bool>> {
    Ok(stop_at_first(interrupts()?))
}

/// A receiver that changes on the first stop request of a counter.
pub fn stop_at_first(mut interrupts: watch::Receiver<u32>) -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        if interrupts.wait_for(|count| *count > 0).await.is_ok() {
            let _ = sender.send(true);
            // Receivers would treat a dropped sender as a stop.
            sender.closed().await;
        }
    });
    receiver
}
