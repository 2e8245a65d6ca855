//! Ends remote git commands even if this process is killed with SIGKILL: they have a token in their environment.
//!
//! The watchdog is this program again, started with [`ARGUMENT`]. It reads the process groups of running commands
//! from a pipe. When the pipe closes, its parent has ended, and it terminates the groups that are left.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::process::terminate;

/// The only argument of a watchdog. It is not a command for users.
pub const ARGUMENT: &str = "__end-git-processes";

/// The pipe to the watchdog, once it is needed; `None` where it cannot be started.
static PIPE: OnceLock<Option<Mutex<ChildStdin>>> = OnceLock::new();
static ENABLED: OnceLock<()> = OnceLock::new();

/// Lets this process start a watchdog. Only `main` may: elsewhere the running program is another one.
pub fn enable() {
    let _ = ENABLED.set(());
}

/// Guards a process group until [`release`].
pub(super) fn guard(group: i32) {
    if ENABLED.get().is_some() {
        send(PIPE.get_or_init(start).as_ref(), '+', group);
    }
}

/// The process group has ended.
pub(super) fn release(group: i32) {
    if let Some(pipe) = PIPE.get() {
        send(pipe.as_ref(), '-', group);
    }
}

fn send(pipe: Option<&Mutex<ChildStdin>>, sign: char, group: i32) {
    if let Some(pipe) = pipe {
        let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(pipe, "{sign}{group}");
    }
}

fn start() -> Option<Mutex<ChildStdin>> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    // A group of its own: Ctrl-C is for its parent. No environment: it needs none, and must not keep secrets.
    command.arg(ARGUMENT).env_clear().process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = command.spawn().inspect_err(|error| tracing::debug!("no watchdog for git: {error}"));
    started.ok()?.stdin.take().map(Mutex::new)
}

/// The watchdog itself: returns when its parent has ended and no guarded process is left.
pub fn watch() {
    let mut groups = BTreeSet::new();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(signed) = line.parse::<i32>() else { continue };
        if signed > 0 {
            groups.insert(signed);
        } else {
            groups.remove(&-signed);
        }
    }
    terminate(&groups);
}
