//! Runs and jobs: list, read, logs, cancel and rerun.

use std::io::Write as _;
use std::sync::Arc;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use jiff::Timestamp;
use serde_json::{Value, json};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::api::{Asked, Call, InRepo, Named, Numbered};
use crate::auth::allow;
use crate::executor;
use crate::reply::{Query, Refused, Reply, found, json_response, ok, page};
use crate::results_service;
use crate::run::{Run, Stop};
use crate::workflows;
use crate::world::{Repo, World};

/// GitHub's limit for filtered lists.
const MOST_LISTED: usize = 1000;
const MOST_ATTEMPTS: u64 = 51;

/// The routes.
pub(crate) fn routes() -> axum::Router<Arc<World>> {
    const RUN: &str = "/repos/{owner}/{repo}/actions/runs/{run}";
    axum::Router::new()
        .route("/repos/{owner}/{repo}/actions/runs", get(list))
        .route("/repos/{owner}/{repo}/actions/workflows/{workflow}/runs", get(list_of_workflow))
        .route(RUN, get(one))
        .route(&format!("{RUN}/jobs"), get(jobs))
        .route(&format!("{RUN}/attempts/{{attempt}}/jobs"), get(jobs_of_attempt))
        .route(&format!("{RUN}/logs"), get(logs))
        .route(&format!("{RUN}/cancel"), post(cancel))
        .route(&format!("{RUN}/force-cancel"), post(force_cancel))
        .route(&format!("{RUN}/rerun"), post(rerun))
        .route(&format!("{RUN}/rerun-failed-jobs"), post(rerun_failed))
        .route("/repos/{owner}/{repo}/actions/jobs/{job}", get(job))
        .route("/repos/{owner}/{repo}/actions/jobs/{job}/logs", get(job_log))
        .route("/repos/{owner}/{repo}/check-runs/{job}/annotations", get(annotations))
}

async fn list(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    listed(&world, &repo, None, &asked)
}

async fn list_of_workflow(Call { world, asked }: Call, Path((owner, name, key)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    let (_, workflow) = workflows::find(&world, &repo, &key).await?;
    listed(&world, &repo, Some(workflow.id), &asked)
}

fn listed(world: &World, repo: &Repo, workflow: Option<u64>, asked: &Asked) -> Reply {
    let filter = Filter::of(&asked.query)?;
    let state = world.lock();
    let full_name = repo.full_name();
    let is_here = |run: &&Run| {
        run.repo == full_name
            && workflow.is_none_or(|id| run.workflow_id == id)
            && run.is_visible()
            && filter.takes(run)
    };
    // Newest first.
    let all: Vec<&Run> = state.runs.values().rev().filter(is_here).collect();
    let most = if filter.is_any { MOST_LISTED } else { usize::MAX };
    let (items, headers) = page(&all[..all.len().min(most)], &asked.query, &asked.url);
    let shown: Vec<Value> = items.iter().map(|run| run.shown(world, repo)).collect();
    let mut response = ok(&json!({ "total_count": all.len(), "workflow_runs": shown }));
    response.headers_mut().extend(headers);
    Ok(response)
}

/// The filter of a list request.
struct Filter<'q> {
    query: &'q Query,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    is_any: bool,
}

impl<'q> Filter<'q> {
    fn of(query: &'q Query) -> Result<Self, Refused> {
        let names = ["actor", "branch", "event", "status", "created", "check_suite_id", "head_sha"];
        let is_any = names.iter().any(|name| query.get(name).is_some());
        let (from, to) = match query.get("created") {
            Some(text) => range(text).ok_or_else(|| Refused::new(422, "Invalid created parameter"))?,
            None => (None, None),
        };
        Ok(Self { query, from, to, is_any })
    }

    fn takes(&self, run: &Run) -> bool {
        let is = |name: &str, value: &str| self.query.get(name).is_none_or(|wanted| wanted == value);
        // GitHub stores whole seconds.
        let created = run.created_at.as_second();
        let status = self.query.get("status");
        is("actor", &run.actor)
            && is("branch", run.head_branch())
            && is("event", "workflow_dispatch")
            && is("head_sha", &run.sha)
            && status.is_none_or(|status| run.status == status || run.conclusion == Some(status))
            && self.from.is_none_or(|from| created >= from.as_second())
            && self.to.is_none_or(|to| created <= to.as_second())
    }
}

/// `>=a`, `>a`, `<=b`, `<b`, `a..b` or a moment; `*` is open.
fn range(text: &str) -> Option<(Option<Timestamp>, Option<Timestamp>)> {
    let moment = |text: &str| -> Option<Option<Timestamp>> {
        if text == "*" {
            return Some(None);
        }
        let full = if text.len() == 10 { format!("{text}T00:00:00Z") } else { text.to_owned() };
        full.parse().ok().map(Some)
    };
    if let Some((from, to)) = text.split_once("..") {
        return Some((moment(from)?, moment(to)?));
    }
    let (operator, rest) = text.split_at(text.find(|c: char| c.is_ascii_digit())?);
    let moment = moment(rest)?;
    let second = jiff::SignedDuration::from_secs(1);
    Some(match operator {
        ">=" => (moment, None),
        ">" => (moment.map(|moment| moment + second), None),
        "<=" => (None, moment),
        "<" => (None, moment.map(|moment| moment - second)),
        "" => (moment, moment),
        _ => return None,
    })
}

/// Accesses a visible run.
fn with_run<T>(world: &World, repo: &Repo, id: u64, look: impl FnOnce(&Run) -> T) -> Result<T, Refused> {
    let state = world.lock();
    let run = state.runs.get(&id).filter(|run| run.repo == repo.full_name() && run.is_visible());
    run.map(look).ok_or_else(Refused::not_found)
}

async fn one(Call { world, asked }: Call, Path((owner, name, run)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    with_run(&world, &repo, run, |run| run.shown(&world, &repo)).map(|shown| ok(&shown))
}

async fn jobs(Call { world, asked }: Call, Path((owner, name, run)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    let wants_all = asked.query.get("filter") == Some("all");
    let all = with_run(&world, &repo, run, |run| {
        let jobs = if wants_all { run.jobs.iter().collect() } else { run.latest_jobs() };
        jobs.into_iter().map(|job| job.shown(&world, run)).collect::<Vec<Value>>()
    })?;
    Ok(job_page(&all, &asked))
}

async fn jobs_of_attempt(
    Call { world, asked }: Call,
    Path((owner, name, run, attempt)): Path<(String, String, u64, u64)>,
) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    let all = with_run(&world, &repo, run, |run| {
        let jobs = run.jobs.iter().filter(|job| job.attempt == attempt);
        jobs.map(|job| job.shown(&world, run)).collect::<Vec<Value>>()
    })?;
    Ok(job_page(&all, &asked))
}

fn job_page(all: &[Value], asked: &Asked) -> Response {
    let (items, headers) = page(all, &asked.query, &asked.url);
    let mut response = ok(&json!({ "total_count": all.len(), "jobs": items }));
    response.headers_mut().extend(headers);
    response
}

/// Accesses a job of a visible run.
fn with_job<T>(
    world: &World,
    repo: &Repo,
    id: u64,
    look: impl FnOnce(&Run, &crate::run::Job) -> T,
) -> Result<T, Refused> {
    let state = world.lock();
    let mut runs = state.runs.values().filter(|run| run.repo == repo.full_name() && run.is_visible());
    let found = runs.find_map(|run| run.jobs.iter().find(|job| job.id == id).map(|job| (run, job)));
    found.map(|(run, job)| look(run, job)).ok_or_else(Refused::not_found)
}

async fn job(Call { world, asked }: Call, Path((owner, name, job)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    with_job(&world, &repo, job, |run, job| job.shown(&world, run)).map(|shown| ok(&shown))
}

async fn annotations(Call { world, asked }: Call, Path((owner, name, job)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "checks", "read")?;
    let all = with_job(&world, &repo, job, |run, job| job.shown_annotations(&world, &run.repo))?;
    Ok(ok(&Value::Array(all)))
}

/// The log of a completed job; GitHub has none before.
async fn job_log(Call { world, asked }: Call, Path((owner, name, job)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    let log = with_job(&world, &repo, job, |_, job| (job.status == "completed").then(|| job.log.clone()))?;
    let log = log.ok_or_else(Refused::not_found)?;
    let address = results_service::offer(&world, log.into_bytes(), "text/plain; charset=utf-8");
    Ok(found(&address))
}

/// The logs of a completed run, zipped: one file per job, and one per step in a folder.
async fn logs(Call { world, asked }: Call, Path((owner, name, run)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    let jobs: Option<Vec<(String, String)>> = with_run(&world, &repo, run, |run| {
        run.is_over()
            .then(|| run.latest_jobs().into_iter().map(|job| (job.name.clone(), job.log.clone())).collect())
    })?;
    let jobs = jobs.ok_or_else(Refused::not_found)?;
    let zipped = zipped(&jobs).map_err(|error| Refused::new(500, error.to_string()))?;
    Ok(found(&results_service::offer(&world, zipped, "application/zip")))
}

fn zipped(jobs: &[(String, String)]) -> zip::result::ZipResult<Vec<u8>> {
    let mut writer = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (index, (name, log)) in jobs.iter().enumerate() {
        let name = name.replace('/', "");
        for path in [format!("{index}_{name}.txt"), format!("{name}/2_Run.txt")] {
            writer.start_file(path, SimpleFileOptions::default())?;
            writer.write_all(log.as_bytes())?;
        }
    }
    Ok(writer.finish()?.into_inner())
}

async fn cancel(Call { world, asked }: Call, Path((owner, name, run)): Numbered) -> Reply {
    stop(&world, (&owner, &name, run), &asked, Stop::Cancelled)
}

async fn force_cancel(Call { world, asked }: Call, Path((owner, name, run)): Numbered) -> Reply {
    stop(&world, (&owner, &name, run), &asked, Stop::Forced)
}

fn stop(world: &World, (owner, name, run): (&str, &str, u64), asked: &Asked, why: Stop) -> Reply {
    let repo = allow(world, &asked.caller, owner, name, "actions", "write")?;
    let was_running = with_run(world, &repo, run, |run| {
        if !run.is_over() {
            run.stop.send_replace(why);
        }
        !run.is_over()
    })?;
    if was_running {
        Ok(json_response(StatusCode::ACCEPTED, &json!({})))
    } else {
        Err(Refused::new(409, "Cannot cancel a workflow run that is completed."))
    }
}

async fn rerun(Call { world, asked }: Call, Path((owner, name, run)): Numbered) -> Reply {
    again(&world, (&owner, &name, run), &asked, false)
}

async fn rerun_failed(Call { world, asked }: Call, Path((owner, name, run)): Numbered) -> Reply {
    again(&world, (&owner, &name, run), &asked, true)
}

fn again(
    world: &Arc<World>,
    (owner, name, run): (&str, &str, u64),
    asked: &Asked,
    only_failed: bool,
) -> Reply {
    let repo = allow(world, &asked.caller, owner, name, "actions", "write")?;
    let (is_over, has_failed, attempt) = with_run(world, &repo, run, |run| {
        let has_failed = run.jobs.is_empty()
            || run.latest_jobs().iter().any(|job| !matches!(job.conclusion, Some("success" | "skipped")));
        (run.is_over(), has_failed, run.attempt)
    })?;
    if !is_over {
        return Err(Refused::new(403, "This workflow is already running"));
    }
    if only_failed && !has_failed || attempt >= MOST_ATTEMPTS {
        return Err(Refused::new(403, "This workflow run cannot be retried"));
    }
    executor::rerun(world, run, only_failed);
    Ok(json_response(StatusCode::CREATED, &json!({})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_dates_are_read() {
        let moment = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let ten = "2026-09-01T10:00:00Z";
        assert_eq!(range(">=2026-09-01T10:00:00Z"), Some((moment(ten), None)));
        assert_eq!(range("2026-09-01..*"), Some((moment("2026-09-01T00:00:00Z"), None)));
        assert_eq!(range("<2026-09-01T10:00:01+00:00"), Some((None, moment(ten))));
        assert_eq!(range(ten), Some((moment(ten), moment(ten))));
        assert_eq!((range("yesterday"), range("~2026-09-01")), (None, None));
    }
}
