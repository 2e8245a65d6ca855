//! Running git processes. None of them outlives this process.
//!
//! Each leads a process group: Ctrl-C does not reach it, so an interrupted run can still save its results,
//! and its helpers end with it. Dropping a process terminates it; [`end_all`] terminates all.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};

use super::watchdog;

/// Time to remove temporary files and locks after SIGTERM.
const CLEAN_UP: Duration = Duration::from_millis(700);
const POLL: Duration = Duration::from_millis(5);

/// The running processes, and whether more may start.
#[derive(Debug, Default)]
struct Processes {
    groups: BTreeSet<i32>,
    ending: bool,
    /// Whether a signal is ending this process. Threads must not report how their git process ended.
    is_signaled: bool,
}

static PROCESSES: Mutex<Processes> =
    Mutex::new(Processes { groups: BTreeSet::new(), ending: false, is_signaled: false });

#[derive(Debug)]
pub(super) struct Running {
    child: Option<Child>,
    group: i32,
}

impl Running {
    /// `is_remote`: it has a token in its environment, and must not outlive this process at all.
    pub(super) fn start(command: &mut Command, is_remote: bool) -> io::Result<Self> {
        // Held during the start, so that `end_all` does not miss a starting process.
        let mut processes = processes();
        if processes.is_signaled {
            drop(processes);
            wait_for_exit();
        }
        if processes.ending {
            return Err(io::Error::other("run-evals is stopping"));
        }
        let child = command.process_group(0).spawn()?;
        let group = i32::try_from(child.id()).unwrap_or_default();
        processes.groups.insert(group);
        if is_remote {
            watchdog::guard(group);
        }
        Ok(Self { child: Some(child), group })
    }

    pub(super) fn id(&self) -> i32 {
        self.group
    }

    pub(super) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.as_mut()?.stdin.take()
    }

    pub(super) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.as_mut()?.stdout.take()
    }

    pub(super) fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.as_mut()?.stderr.take()
    }

    pub(super) fn wait(&mut self) -> io::Result<ExitStatus> {
        let child = self.child.as_mut().ok_or_else(|| io::Error::other("it was waited for"))?;
        let status = child.wait()?;
        self.forget();
        if processes().is_signaled {
            wait_for_exit();
        }
        Ok(status)
    }

    /// Reads its output and waits for its exit.
    pub(super) fn output(mut self) -> io::Result<Output> {
        // Keep the process in the guard: a panic or an interrupt must terminate it.
        let (stdout, stderr) = (self.take_stdout(), self.take_stderr());
        let told = thread::spawn(move || read(stderr));
        let printed = read(stdout);
        let told = told.join().map_err(|_| io::Error::other("cannot read its stderr"))?;
        let status = self.wait()?;
        Ok(Output { status, stdout: printed?, stderr: told? })
    }

    /// Terminates the process and its helpers.
    pub(super) fn end(&mut self) -> io::Result<ExitStatus> {
        signal(self.group, Signal::TERM);
        let until = Instant::now() + CLEAN_UP;
        while !has_ended(self.group) && Instant::now() < until {
            thread::sleep(POLL);
        }
        self.kill()
    }

    /// Kills a process that writes nothing.
    pub(super) fn kill(&mut self) -> io::Result<ExitStatus> {
        // Also its helpers, if it has exited by itself.
        signal(self.group, Signal::KILL);
        self.wait()
    }

    fn forget(&mut self) {
        self.child = None;
        processes().groups.remove(&self.group);
        watchdog::release(self.group);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.is_some() {
            let _ = self.end();
        }
    }
}

/// Terminates every git process on a signal; the caller exits next. Threads that wait for git block until
/// then, because they would report the termination as a git error.
pub fn end_all_at_signal() {
    processes().is_signaled = true;
    end_all();
}

fn wait_for_exit() -> ! {
    loop {
        thread::park();
    }
}

/// Terminates every git process, and lets no more start.
pub fn end_all() {
    let groups = {
        let mut processes = processes();
        processes.ending = true;
        processes.groups.clone()
    };
    terminate(&groups);
}

/// Terminates process groups, with time to clean up.
pub(super) fn terminate(groups: &BTreeSet<i32>) {
    for group in groups {
        signal(*group, Signal::TERM);
    }
    let until = Instant::now() + CLEAN_UP;
    while !groups.iter().all(|group| has_ended(*group)) && Instant::now() < until {
        thread::sleep(POLL);
    }
    for group in groups {
        signal(*group, Signal::KILL);
    }
}

fn read(pipe: Option<impl io::Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes))?;
    Ok(bytes)
}

fn signal(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        let _ = kill_process_group(group, signal);
    }
}

/// Whether a child has exited, reaped or not. A process of another parent has ended when its group is gone.
fn has_ended(id: i32) -> bool {
    let Some(id) = Pid::from_raw(id) else { return true };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(WaitId::Pid(id), options) {
        Ok(status) => status.is_some(),
        Err(Errno::CHILD) => test_kill_process_group(id).is_err(),
        Err(_) => true,
    }
}

fn processes() -> MutexGuard<'static, Processes> {
    PROCESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_dropped_process_ends_with_its_helpers() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!; wait"]).stdout(Stdio::piped());
        let mut running = Running::start(&mut command, false).unwrap();
        let mut line = String::new();
        let mut stdout = io::BufReader::new(running.take_stdout().unwrap());
        io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        let helper: i32 = line.trim().parse().unwrap();
        drop(running);
        let until = Instant::now() + Duration::from_secs(20);
        while rustix::process::test_kill_process(Pid::from_raw(helper).unwrap()).is_ok() && is_live(helper) {
            assert!(Instant::now() < until, "the helper lives on");
            thread::sleep(POLL);
        }
    }

    /// It may be a zombie.
    fn is_live(id: i32) -> bool {
        std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }
}
