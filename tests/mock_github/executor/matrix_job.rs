//! One matrix job on its own machine, from the queue to its conclusion.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::SemaphorePermit;

use super::console::Console;
use super::environment::{self, Machine};
use super::process::{self, Ended};
use super::{file_commands, quietly, scripts, stopped};
use crate::expression::{self, Context};
use crate::run::{Job, Step, Stop};
use crate::wire::{What, When};
use crate::world::{World, random_uuid};

/// A job to run.
pub(super) struct MatrixJob {
    /// The run.
    pub(super) run: u64,
    /// The job's id.
    pub(super) job: u64,
    /// Its index in the matrix.
    pub(super) index: usize,
    /// Its definition in the file.
    pub(super) definition: Value,
    /// The context for expressions.
    pub(super) context: Context,
}

/// A new job in the queue.
pub(super) fn queued(id: u64, key: &str, name: &str, attempt: u64, definition: &Value) -> Job {
    let of_file =
        definition["steps"].as_array().into_iter().flatten().map(|step| Step::new(&step_name(step)));
    let steps =
        std::iter::once(Step::new("Set up job")).chain(of_file).chain([Step::new("Complete job")]).collect();
    Job {
        id,
        key: key.to_owned(),
        name: name.to_owned(),
        attempt,
        status: "queued",
        conclusion: None,
        created_at: crate::world::now(),
        started_at: None,
        completed_at: None,
        steps,
        log: String::new(),
        annotations: Vec::new(),
        outputs: std::collections::BTreeMap::new(),
        summary: String::new(),
        exit_code: None,
        pid: None,
        backend_id: random_uuid(),
    }
}

/// A job whose condition is false.
pub(super) fn skip(world: &World, run: u64, key: &str) {
    let id = world.lock().new_id();
    world.change(run, |run| {
        let attempt = run.attempt;
        let mut job = queued(id, key, key, attempt, &Value::Null);
        job.steps.clear();
        conclude(&mut job, "skipped");
        run.jobs.push(job);
    });
}

/// Runs a matrix job to its end.
pub(super) async fn run(world: &Arc<World>, matrix_job: MatrixJob) {
    let machine = tokio::select! {
        permit = machine(world, matrix_job.run) => permit,
        () = stopped(world, matrix_job.run) => {
            change(world, &matrix_job, |job| conclude(job, "cancelled"));
            return;
        }
    };
    world.change(matrix_job.run, |run| run.status = "in_progress");
    change(world, &matrix_job, |job| {
        job.status = "in_progress";
        job.started_at = Some(crate::world::now());
        job.steps[0].begin();
    });
    let conclusion = match on_machine(world, &matrix_job).await {
        Ok(conclusion) => conclusion,
        Err(problem) => {
            world.violation(format!("job {} of run {}", matrix_job.job, matrix_job.run), problem);
            "failure"
        }
    };
    drop(machine);
    change(world, &matrix_job, |job| {
        job.pid = None;
        conclude(job, conclusion);
    });
}

/// Waits for a machine.
async fn machine(world: &World, run: u64) -> Option<SemaphorePermit<'_>> {
    let at = world.lock().runs.get(&run).map(|run| run.machine_at)?;
    tokio::time::sleep_until(at.into()).await;
    world.machines.acquire().await.ok()
}

async fn on_machine(world: &Arc<World>, matrix_job: &MatrixJob) -> Result<&'static str, String> {
    let machine = Machine::prepare(world, matrix_job)?;
    change(world, matrix_job, |job| job.steps[0].end("success"));
    let steps = matrix_job.definition["steps"].as_array().cloned().unwrap_or_default();
    let mut conclusion = "success";
    for (number, step) in steps.iter().enumerate() {
        let mut context = machine.context.clone();
        context.failed = conclusion == "failure";
        context.cancelled = conclusion == "cancelled";
        if !expression::holds(step["if"].as_str(), &context)? {
            change(world, matrix_job, |job| job.steps[number + 1].end("skipped"));
            continue;
        }
        change(world, matrix_job, |job| job.steps[number + 1].begin());
        let ended = run_step(world, matrix_job, &machine, step, number).await?;
        change(world, matrix_job, |job| {
            job.steps[number + 1].end(if ended == "timed_out" { "cancelled" } else { ended });
        });
        if conclusion == "success" {
            conclusion = ended;
        }
    }
    machine.revoke(world);
    Ok(conclusion)
}

/// Runs one step: `uses:` the runner or a checkout, or `run:`.
async fn run_step(
    world: &Arc<World>,
    matrix_job: &MatrixJob,
    machine: &Machine,
    step: &Value,
    number: usize,
) -> Result<&'static str, String> {
    let runner = world.options.runner.as_ref().ok_or("there is no `--runner`")?;
    let mut environment = environment::of_step(world, matrix_job, machine, step, number)?;
    let program = match (step["uses"].as_str(), step["run"].as_str()) {
        (Some(action), _) if action.starts_with("actions/checkout@") => {
            scripts::checkout(world, matrix_job, &environment.workspace).await?;
            return Ok("success");
        }
        (Some(action), _) if action.contains("run-evals") || action.starts_with("./") => runner.clone(),
        (Some(action), _) => return Err(format!("`uses: {action}` is not simulated")),
        (None, Some(script)) => scripts::written(script, &mut environment, runner, number)?,
        (None, None) => return Err("a step has neither `uses:` nor `run:`".to_owned()),
    };
    let mut console = Console::new(&environment.secrets);
    let opening = environment::announcement(&step_name(step), &environment);
    let text: String = opening.iter().filter_map(|line| console.line(line)).collect();
    quietly(world, matrix_job.run, |run| append(run.job_mut(matrix_job.job), &text));

    let killed = kill_time(world, matrix_job);
    let (ended, console) = process::run(
        world,
        matrix_job,
        &program,
        &environment,
        console,
        killed.as_ref().map(|(when, _)| when),
    )
    .await?;
    let is_lost = matches!(ended, Ended::Killed) && killed.as_ref().is_some_and(|(_, is_lost)| *is_lost);
    if is_lost {
        machine.lose();
        let message = "The hosted runner lost communication with the server. Anything in your workflow that terminates the runner process, starves it for CPU/Memory, or blocks its network access can cause this error.";
        change(world, matrix_job, |job| job.annotations.push(("failure".to_owned(), message.to_owned())));
        return Ok("failure");
    }
    let commands = file_commands::read(&environment, &console);
    let (conclusion, exit_code, message) = match ended {
        Ended::Exited(0) => ("success", Some(0), None),
        Ended::Exited(code) => {
            ("failure", Some(code), Some(format!("Docker run failed with exit code {code}")))
        }
        Ended::Killed => ("failure", None, Some("Docker run failed with exit code 137".to_owned())),
        Ended::Stopped(code, Stop::TimedOut) => {
            let message = "The job has exceeded the maximum execution time of 6h0m0s".to_owned();
            ("timed_out", code, Some(message))
        }
        Ended::Stopped(code, _) => ("cancelled", code, Some("The operation was canceled.".to_owned())),
    };
    let has_problems = !commands.problems.is_empty();
    change(world, matrix_job, |job| {
        job.exit_code = exit_code;
        job.annotations.extend(console.annotations.iter().cloned());
        job.outputs.extend(commands.outputs);
        job.summary.push_str(&commands.summary);
        for error in commands.problems.into_iter().chain(message) {
            append(Some(job), &console.error(&error));
            job.annotations.push(("failure".to_owned(), error));
        }
    });
    Ok(if has_problems && conclusion == "success" { "failure" } else { conclusion })
}

/// When the matrix job is to be killed, and whether its machine is lost then.
fn kill_time(world: &World, matrix_job: &MatrixJob) -> Option<(When, bool)> {
    let mut state = world.lock();
    let run = state.runs.get_mut(&matrix_job.run)?;
    let is_it = |what: &What| matches!(what, What::JobKilled { shard: wanted, .. } if wanted.is_none_or(|wanted| wanted == matrix_job.index));
    let position = run.faults.iter().position(is_it)?;
    match run.faults.remove(position) {
        What::JobKilled { when, machine_lost, .. } => Some((when, machine_lost)),
        _ => None,
    }
}

fn step_name(step: &Value) -> String {
    let named = step["name"].as_str().map(str::to_owned);
    named.unwrap_or_else(|| {
        format!("Run {}", step["uses"].as_str().or_else(|| step["run"].as_str()).unwrap_or_default())
    })
}

fn change(world: &World, matrix_job: &MatrixJob, change: impl FnOnce(&mut Job)) {
    world.change(matrix_job.run, |run| run.job_mut(matrix_job.job).map(change));
}

/// Adds text to the log of a job.
pub(super) fn append(job: Option<&mut Job>, text: &str) {
    if let Some(job) = job {
        job.log.push_str(text);
    }
}

/// Ends a job, and its steps with it.
pub(super) fn conclude(job: &mut Job, conclusion: &'static str) {
    job.status = "completed";
    job.conclusion = Some(conclusion);
    job.completed_at = Some(crate::world::now());
    for step in job.steps.iter_mut().filter(|step| step.status != "completed") {
        let is_last = step.name == "Complete job" && conclusion != "cancelled";
        step.end(if is_last { "success" } else { "cancelled" });
    }
}
