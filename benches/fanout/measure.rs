//! Wall time, CPU time and peak memory of one child process.

use std::fs;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::resource::{UsageWho, getrusage};

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What a process cost.
#[derive(Debug)]
pub(crate) struct Measured {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// From its start to its end.
    pub(crate) wall: Duration,
    /// User and system time, with that of the children it waited for.
    pub(crate) cpu: Duration,
    /// The peak memory of the process itself, in bytes; 0 if the system does not report it.
    pub(crate) peak_memory: u64,
}

/// Runs the command to its end. No other child may be waited for meanwhile: its time would be counted too.
pub(crate) fn measure(command: &mut Command) -> Result<Measured> {
    let cpu_before = cpu_of_children()?;
    let started = Instant::now();
    let mut child =
        command.spawn().with_context(|| format!("cannot start `{}`", command.get_program().display()))?;
    let pid = child.id();
    let ended = AtomicBool::new(false);
    // Memory is watched from another thread, so that the end is noticed at once.
    let (status, wall, peak_memory) = thread::scope(|scope| {
        let watcher = scope.spawn(|| watch_memory(pid, &ended));
        let status = child.wait();
        let wall = started.elapsed();
        ended.store(true, Ordering::Relaxed);
        watcher.thread().unpark();
        (status, wall, watcher.join().unwrap_or(0))
    });
    let cpu = cpu_of_children()?.saturating_sub(cpu_before);
    Ok(Measured { status: status.context("cannot wait for the child")?, wall, cpu, peak_memory })
}

/// The CPU time that a running process has used, in the system's ticks of 10 ms.
pub(crate) fn cpu_of_running(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything; user and system time are the 12th and 13th field behind it.
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: u64 = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(10 * ticks))
}

fn cpu_of_children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot read the CPU time of children")?;
    let microseconds = |time: nix::sys::time::TimeVal| {
        u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap_or_default()
    };
    Ok(Duration::from_micros(microseconds(usage.user_time()) + microseconds(usage.system_time())))
}

/// The kernel keeps the peak; a poll can only miss its growth in the last moments.
fn watch_memory(pid: u32, ended: &AtomicBool) -> u64 {
    let path = format!("/proc/{pid}/status");
    let mut peak = 0;
    while !ended.load(Ordering::Relaxed) {
        if let Some(kibibytes) = fs::read_to_string(&path).ok().as_deref().and_then(high_water_mark) {
            peak = kibibytes * 1024;
        }
        thread::park_timeout(LOOK_EVERY);
    }
    peak
}

fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
