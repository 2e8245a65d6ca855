//! The program of a step: started in its own process group, logged line by line, and stopped as GitHub stops it.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::console::Console;
use super::environment::StepEnvironment;
use super::matrix_job::{MatrixJob, append};
use super::{quietly, stopped};
use crate::faults::moment;
use crate::run::Stop;
use crate::wire::When;
use crate::world::World;

/// How long GitHub waits after SIGINT, and after SIGTERM.
const AFTER_INTERRUPT: f64 = 7.5;
const AFTER_TERMINATE: f64 = 2.5;

/// How a program ended.
pub(super) enum Ended {
    /// By itself, or by a signal that was not ours (then 128 or more).
    Exited(i32),
    /// Killed without warning.
    Killed,
    /// Stopped on request.
    Stopped(Option<i32>, Stop),
}

/// Runs a program to its end.
pub(super) async fn run(
    world: &Arc<World>,
    matrix_job: &MatrixJob,
    program: &Path,
    environment: &StepEnvironment,
    console: Console,
    kill_at: Option<&When>,
) -> Result<(Ended, Console), String> {
    // A shell ignores signals for what it starts in the background, and a program cannot undo that by itself.
    let mut command = Command::new("/usr/bin/env");
    command.arg("--default-signal=INT,TERM").arg(program);
    command.env_clear().envs(&environment.variables).current_dir(&environment.workspace);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child =
        command.spawn().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let pid = child.id();
    world.change(matrix_job.run, |run| {
        if let Some(job) = run.job_mut(matrix_job.job) {
            job.pid = pid;
        }
    });
    let console = Arc::new(Mutex::new(console));
    let readers = [
        listen(world, matrix_job, &console, child.stdout.take()),
        listen(world, matrix_job, &console, child.stderr.take()),
    ];
    let killed = async {
        match kill_at {
            Some(when) => moment(world, matrix_job.run, when).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        status = child.wait() => status.map_or(Ended::Killed, |status| Ended::Exited(code(status))),
        () = stopped(world, matrix_job.run) => stop(world, matrix_job, &mut child).await,
        () = killed => {
            if let Some(pid) = pid {
                kill_group(pid);
            }
            let _ = child.wait().await;
            Ended::Killed
        }
    };
    // A container ends with its first process, together with all other processes in it.
    if let Some(pid) = pid {
        kill_group(pid);
    }
    for reader in readers {
        let _ = reader.await;
    }
    let console = std::mem::take(&mut *console.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((ended, console))
}

/// SIGINT, some seconds, SIGTERM, some seconds, SIGKILL.
async fn stop(world: &World, matrix_job: &MatrixJob, child: &mut Child) -> Ended {
    let why = world.lock().runs.get(&matrix_job.run).map_or(Stop::Cancelled, |run| *run.stop.borrow());
    let Some(pid) = child.id() else { return Ended::Stopped(None, why) };
    if why != Stop::Forced {
        for (signal, seconds) in [(Signal::SIGINT, AFTER_INTERRUPT), (Signal::SIGTERM, AFTER_TERMINATE)] {
            // Only the first process of the container gets it.
            let _ = kill(process(pid), signal);
            if let Ok(Ok(status)) = tokio::time::timeout(world.simulated(seconds), child.wait()).await {
                return Ended::Stopped(status.code(), why);
            }
        }
    }
    kill_group(pid);
    let _ = child.wait().await;
    Ended::Stopped(None, why)
}

/// Kills a process and all its children at once.
pub(super) fn kill_group(pid: u32) {
    let _ = killpg(process(pid), Signal::SIGKILL);
}

fn process(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX))
}

fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Adds the output of the program to the log, line by line.
fn listen(
    world: &Arc<World>,
    matrix_job: &MatrixJob,
    console: &Arc<Mutex<Console>>,
    stream: Option<impl AsyncRead + Unpin + Send + 'static>,
) -> JoinHandle<()> {
    let (world, console, run, job) = (Arc::clone(world), Arc::clone(console), matrix_job.run, matrix_job.job);
    tokio::spawn(async move {
        let Some(stream) = stream else { return };
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line).await, Ok(length) if length > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
            line.clear();
            let shown = console.lock().unwrap_or_else(PoisonError::into_inner).line(&text);
            if let Some(shown) = shown {
                quietly(&world, run, |run| append(run.job_mut(job), &shown));
            }
        }
    })
}
