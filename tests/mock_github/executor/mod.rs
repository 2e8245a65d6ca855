//! Runs dispatched workflows: the jobs of the file in order, each matrix job in its own process.
//!
//! `plan` reads jobs and matrices, `called` those of called workflows, `matrix_job` runs one of them, `environment` defines its environment, `process` starts and stops its program, `scripts` are `run:` steps and checkouts,
//! `console` is its log, `file_commands` its outputs and summary; `external` hands whole runs to another program instead.

mod called;
mod console;
mod environment;
mod external;
mod file_commands;
mod matrix_job;
mod plan;
mod process;
mod scripts;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::faults::moment;
use crate::run::{Run, Stop};
use crate::wire::What;
use crate::workflow_file;
use crate::world::{State, World};

/// Longer than any test.
const NEVER: Duration = Duration::from_hours(24);

/// Starts a run that was just created.
pub(crate) fn start(world: &Arc<World>, run: u64) {
    tokio::spawn(drive(Arc::clone(world), run, false));
}

/// Starts the next attempt of a run.
pub(crate) fn rerun(world: &Arc<World>, run: u64, only_failed: bool) {
    world.change(run, |run| {
        run.attempt += 1;
        run.status = "queued";
        run.conclusion = None;
        run.started_at = crate::world::now();
        run.machine_at = Instant::now();
        run.stop.send_replace(Stop::No);
    });
    tokio::spawn(drive(Arc::clone(world), run, only_failed));
}

/// Kills every remaining process.
pub(crate) fn end_all(world: &World) {
    let state = world.lock();
    for pid in state.runs.values().flat_map(|run| &run.jobs).filter_map(|job| job.pid) {
        process::kill_group(pid);
    }
}

async fn drive(world: Arc<World>, id: u64, only_failed: bool) {
    enter_group(&world, id).await;
    let conclusion = conclude(&world, id, only_failed).await;
    world.change(id, |run| {
        run.status = "completed";
        run.conclusion = Some(conclusion);
    });
    leave_group(&world, id);
}

async fn conclude(world: &Arc<World>, id: u64, only_failed: bool) -> &'static str {
    let (faults, is_cancelled) = {
        let mut state = world.lock();
        let Some(run) = state.runs.get_mut(&id) else { return "failure" };
        let (own, rest) = std::mem::take(&mut run.faults)
            .into_iter()
            .partition(|what| !matches!(what, What::JobKilled { .. }));
        run.faults = rest;
        (own, *run.stop.borrow() != Stop::No)
    };
    if is_cancelled {
        return "cancelled";
    }
    let mut watchers = Watchers::default();
    for fault in faults {
        match fault {
            What::StartupFailure => return "startup_failure",
            What::NeverStarts => wait_for_machine(world, id, NEVER),
            What::SlowQueue { seconds } => wait_for_machine(world, id, Duration::from_secs_f64(seconds)),
            What::RunCancelled { when } => watchers.stop_at(world, id, when, Stop::Cancelled),
            What::RunTimesOut { when } => watchers.stop_at(world, id, when, Stop::TimedOut),
            _ => {}
        }
    }
    if world.options.executor.is_some() {
        return external::run(world, id).await;
    }
    match plan::run(world, id, only_failed).await {
        Ok(()) => conclusion(world, id),
        Err(problem) => {
            world.violation(format!("run {id}"), problem);
            "startup_failure"
        }
    }
}

/// Leaves the jobs of a run in the queue for this long.
fn wait_for_machine(world: &World, id: u64, wait: Duration) {
    quietly(world, id, |run| run.machine_at = Instant::now() + wait);
}

/// The combined conclusion of the jobs.
fn conclusion(world: &World, id: u64) -> &'static str {
    let state = world.lock();
    let Some(run) = state.runs.get(&id) else { return "failure" };
    let conclusions: Vec<&str> = run.latest_jobs().iter().filter_map(|job| job.conclusion).collect();
    if conclusions.contains(&"timed_out") {
        "timed_out"
    } else if conclusions.contains(&"cancelled") || *run.stop.borrow() != Stop::No {
        "cancelled"
    } else if conclusions.contains(&"failure") {
        "failure"
    } else {
        "success"
    }
}

/// Waits until the run is to be stopped.
pub(crate) async fn stopped(world: &World, id: u64) {
    let receiver = world.lock().runs.get(&id).map(|run| run.stop.subscribe());
    if let Some(mut receiver) = receiver {
        let _ = receiver.wait_for(|stop| *stop != Stop::No).await;
    }
}

/// Tasks that end with the run.
#[derive(Default)]
struct Watchers(Vec<tokio::task::JoinHandle<()>>);

impl Watchers {
    fn stop_at(&mut self, world: &Arc<World>, id: u64, when: crate::wire::When, why: Stop) {
        let world = Arc::clone(world);
        self.0.push(tokio::spawn(async move {
            moment(&world, id, &when).await;
            if let Some(run) = world.lock().runs.get(&id) {
                run.stop.send_replace(why);
            }
        }));
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

fn group_of(state: &State, id: u64) -> Option<(String, String)> {
    state.runs.get(&id).and_then(|run| run.group.clone().map(|group| (run.repo.to_lowercase(), group)))
}

/// How many runs may wait in a concurrency group with `queue: max`; GitHub cancels the next one.
const QUEUE: usize = 100;

/// Waits for the run's turn in its concurrency group. One runs and one waits, and a newer one takes its place; with `queue: max` up to
/// 100 wait, in order.
async fn enter_group(world: &World, id: u64) {
    {
        let mut state = world.lock();
        let Some(key) = group_of(&state, id) else { return };
        let queues = state.runs.get(&id).is_some_and(|run| workflow_file::queues(&run.workflow));
        let group = state.groups.entry(key).or_default();
        if group.running.is_none() {
            group.running = Some(id);
            return;
        }
        let cancelled: Vec<u64> = match queues {
            true if group.pending.len() == QUEUE => vec![id],
            true => Vec::new(),
            false => group.pending.drain(..).collect(),
        };
        if !cancelled.contains(&id) {
            group.pending.push_back(id);
        }
        for run in cancelled.iter().filter_map(|id| state.runs.get(id)) {
            run.stop.send_replace(Stop::Cancelled);
        }
        if let Some(run) = state.runs.get_mut(&id) {
            run.status = "pending";
        }
    }
    world.changed.notify_waiters();
    let is_next =
        |state: &State| group_of(state, id).and_then(|key| state.groups.get(&key)?.running) == Some(id);
    tokio::select! {
        () = world.until(is_next) => {}
        () = stopped(world, id) => {}
    }
}

fn leave_group(world: &World, id: u64) {
    let mut state = world.lock();
    if let Some(key) = group_of(&state, id)
        && let Some(group) = state.groups.get_mut(&key)
    {
        group.pending.retain(|run| *run != id);
        if group.running == Some(id) {
            group.running = group.pending.pop_front();
        }
    }
    drop(state);
    world.changed.notify_waiters();
}

/// Changes a run without notifying waiters: log output is not a change.
fn quietly(world: &World, id: u64, change: impl FnOnce(&mut Run)) {
    if let Some(run) = world.lock().runs.get_mut(&id) {
        change(run);
    }
}
