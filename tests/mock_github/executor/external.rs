//! Runs that another program executes as a whole, for example one that starts `act`.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::process::Command;

use super::environment;
use super::matrix_job::{self, MatrixJob};
use super::{process, quietly, stopped};
use crate::expression::Context;
use crate::world::World;

/// Runs the program once; its exit code is the conclusion.
pub(super) async fn run(world: &Arc<World>, id: u64) -> &'static str {
    match try_run(world, id).await {
        Ok(conclusion) => conclusion,
        Err(problem) => {
            world.violation(format!("run {id}"), problem);
            "failure"
        }
    }
}

async fn try_run(world: &Arc<World>, id: u64) -> Result<&'static str, String> {
    let program = world.options.executor.as_ref().ok_or("there is no `--executor`")?;
    let machine_at = world.lock().runs.get(&id).map(|run| run.machine_at).ok_or("the run is gone")?;
    tokio::select! {
        () = tokio::time::sleep_until(machine_at.into()) => {}
        () = stopped(world, id) => return Ok("cancelled"),
    }
    let job = world.lock().new_id();
    world.change(id, |run| {
        run.status = "in_progress";
        let attempt = run.attempt;
        let mut queued = matrix_job::queued(job, "workflow", "workflow", attempt, &Value::Null);
        queued.status = "in_progress";
        queued.started_at = Some(crate::world::now());
        run.jobs.push(queued);
    });
    let definition = {
        let state = world.lock();
        let jobs =
            state.runs.get(&id).and_then(|run| run.workflow["jobs"].as_object().cloned()).unwrap_or_default();
        jobs.into_iter().next().map(|(_, job)| job).unwrap_or_default()
    };
    let matrix_job = MatrixJob { run: id, job, index: 0, definition, context: Context::default() };
    let dir = world.options.dir.join("executions").join(format!("{id}-{job}"));
    fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
    let environment::Facts { event, mut variables, .. } = environment::facts(world, &matrix_job, &dir)?;
    let token = environment::issue_token(world, &matrix_job);
    variables.insert("GITHUB_TOKEN".to_owned(), token.clone());
    let description = {
        let state = world.lock();
        let run = state.runs.get(&id).ok_or("the run is gone")?;
        let repo = state.repos.get(&run.repo.to_lowercase()).ok_or("the repository does not exist")?;
        json!({
            "env": variables,
            "secrets": repo.secrets,
            "variables": repo.variables,
            "workflow": run.path,
            "sha": run.sha,
            "git_dir": repo.bare.dir,
            "ca_file": world.urls.ca_file,
        })
    };
    for (name, value) in [("event.json", event), ("env.json", description)] {
        fs::write(dir.join(name), value.to_string()).map_err(|error| error.to_string())?;
    }
    let log = dir.join("log");
    let file = fs::File::create(&log).map_err(|error| error.to_string())?;
    let copy = file.try_clone().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg(&dir).stdin(Stdio::null()).stdout(file).stderr(copy).process_group(0).kill_on_drop(true);
    let mut child =
        command.spawn().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let pid = child.id();
    quietly(world, id, |run| run.jobs.iter_mut().filter(|one| one.id == job).for_each(|one| one.pid = pid));
    let (conclusion, code) = tokio::select! {
        status = child.wait() => match status.ok().and_then(|status| status.code()) {
            Some(0) => ("success", Some(0)),
            code => ("failure", code),
        },
        () = stopped(world, id) => {
            if let Some(pid) = pid {
                process::kill_group(pid);
            }
            let _ = child.wait().await;
            ("cancelled", None)
        }
    };
    world.lock().tokens.remove(&token);
    let text = fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    world.change(id, |run| {
        if let Some(job) = run.job_mut(job) {
            job.log = text;
            job.pid = None;
            job.exit_code = code;
            matrix_job::conclude(job, conclusion);
        }
    });
    Ok(conclusion)
}
