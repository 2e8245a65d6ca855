//! Runs and jobs, and how GitHub shows them.

use std::collections::BTreeMap;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::shapes;
use crate::wire::{JobView, RunView, What};
use crate::world::{Repo, State, World, shown};

/// Why a run should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Do not stop.
    No,
    /// It was cancelled.
    Cancelled,
    /// It was force-cancelled.
    Forced,
    /// It timed out.
    TimedOut,
}

/// A workflow run.
#[derive(Debug)]
pub(crate) struct Run {
    /// Its number.
    pub(crate) id: u64,
    /// `owner/name`.
    pub(crate) repo: String,
    /// The workflow's number.
    pub(crate) workflow_id: u64,
    /// The workflow's file.
    pub(crate) path: String,
    /// The workflow's name.
    pub(crate) name: String,
    /// Its `run-name`.
    pub(crate) title: String,
    /// Counted by workflow.
    pub(crate) number: u64,
    /// 1, and one more with each re-run.
    pub(crate) attempt: u64,
    /// `queued`, `in_progress`, ….
    pub(crate) status: &'static str,
    /// How it ended.
    pub(crate) conclusion: Option<&'static str>,
    /// The full reference that it runs on.
    pub(crate) reference: String,
    /// The commit.
    pub(crate) sha: String,
    /// Who dispatched it.
    pub(crate) actor: String,
    /// With defaults.
    pub(crate) inputs: BTreeMap<String, String>,
    /// The file at that commit.
    pub(crate) workflow: Value,
    /// `concurrency.group`.
    pub(crate) group: Option<String>,
    /// When it becomes visible.
    pub(crate) visible_at: Instant,
    /// When it was dispatched.
    pub(crate) created_at: Timestamp,
    /// When this attempt began.
    pub(crate) started_at: Timestamp,
    /// When anything of it changed.
    pub(crate) updated_at: Timestamp,
    /// When there is a machine for it.
    pub(crate) machine_at: Instant,
    /// Its faults.
    pub(crate) faults: Vec<What>,
    /// All jobs of all attempts.
    pub(crate) jobs: Vec<Job>,
    /// Its id in the artifact service.
    pub(crate) backend_id: String,
    /// The stop signal for its jobs.
    pub(crate) stop: watch::Sender<Stop>,
}

/// A job of a run.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// Its number.
    pub(crate) id: u64,
    /// Its key in the file.
    pub(crate) key: String,
    /// Its name, with the matrix.
    pub(crate) name: String,
    /// Of which attempt.
    pub(crate) attempt: u64,
    /// `queued`, `in_progress`, `completed`.
    pub(crate) status: &'static str,
    /// How it ended.
    pub(crate) conclusion: Option<&'static str>,
    /// When it was queued.
    pub(crate) created_at: Timestamp,
    /// When it got a machine.
    pub(crate) started_at: Option<Timestamp>,
    /// When it ended.
    pub(crate) completed_at: Option<Timestamp>,
    /// The steps, with status and conclusion.
    pub(crate) steps: Vec<Step>,
    /// The log, as a reader sees it.
    pub(crate) log: String,
    /// Level and message.
    pub(crate) annotations: Vec<(String, String)>,
    /// What its steps set.
    pub(crate) outputs: BTreeMap<String, String>,
    /// What its steps wrote for people.
    pub(crate) summary: String,
    /// What its program ended with.
    pub(crate) exit_code: Option<i32>,
    /// Its process, while there is one.
    pub(crate) pid: Option<u32>,
    /// Its id in the artifact service.
    pub(crate) backend_id: String,
}

/// A step of a job.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// Its name.
    pub(crate) name: String,
    /// Its status.
    pub(crate) status: &'static str,
    /// How it ended.
    pub(crate) conclusion: Option<&'static str>,
    /// When it began.
    pub(crate) started_at: Option<Timestamp>,
    /// When it ended.
    pub(crate) completed_at: Option<Timestamp>,
}

impl Run {
    /// Whether it is complete.
    pub(crate) fn is_over(&self) -> bool {
        self.status == "completed"
    }

    /// Whether it is visible yet.
    pub(crate) fn is_visible(&self) -> bool {
        Instant::now() >= self.visible_at
    }

    /// The branch or tag.
    pub(crate) fn head_branch(&self) -> &str {
        self.reference.trim_start_matches("refs/heads/").trim_start_matches("refs/tags/")
    }

    /// A job by its number.
    pub(crate) fn job_mut(&mut self, id: u64) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    /// The last job of each name, in the order of the names.
    pub(crate) fn latest_jobs(&self) -> Vec<&Job> {
        let mut latest: Vec<&Job> = Vec::new();
        for job in &self.jobs {
            match latest.iter_mut().find(|known| known.name == job.name) {
                Some(known) => *known = job,
                None => latest.push(job),
            }
        }
        latest
    }

    /// As GitHub shows it.
    pub(crate) fn shown(&self, world: &World, repo: &Repo) -> Value {
        let api = format!("{}/repos/{}", world.urls.api_url, self.repo);
        let url = format!("{api}/actions/runs/{}", self.id);
        let actor = shapes::user(world, &self.actor);
        json!({
            "id": self.id,
            // With a `run-name`, GitHub shows that here as well.
            "name": if self.workflow["run-name"].is_string() { &self.title } else { &self.name },
            "node_id": format!("WFR_{}", self.id),
            "check_suite_id": self.id + 1,
            "check_suite_node_id": format!("CS_{}", self.id + 1),
            "head_branch": self.head_branch(),
            "head_sha": self.sha,
            "path": self.path,
            "run_number": self.number,
            "run_attempt": self.attempt,
            "display_title": self.title,
            "event": "workflow_dispatch",
            "status": self.status,
            "conclusion": self.conclusion,
            "workflow_id": self.workflow_id,
            "url": url,
            "html_url": html_url(world, &self.repo, self.id),
            "pull_requests": [],
            "created_at": shown(self.created_at),
            "updated_at": shown(self.updated_at),
            "run_started_at": shown(self.started_at),
            "actor": actor,
            "triggering_actor": actor,
            "jobs_url": format!("{url}/jobs"),
            "logs_url": format!("{url}/logs"),
            "check_suite_url": format!("{api}/check-suites/{}", self.id + 1),
            "artifacts_url": format!("{url}/artifacts"),
            "cancel_url": format!("{url}/cancel"),
            "rerun_url": format!("{url}/rerun"),
            "previous_attempt_url": (self.attempt > 1).then(|| format!("{url}/attempts/{}", self.attempt - 1)),
            "workflow_url": format!("{api}/actions/workflows/{}", self.workflow_id),
            "head_commit": {
                "id": self.sha,
                "tree_id": self.sha,
                "message": "a commit",
                "timestamp": shown(self.created_at),
                "author": { "name": "Somebody", "email": "somebody@example.com" },
                "committer": { "name": "Somebody", "email": "somebody@example.com" },
            },
            "repository": shapes::minimal_repository(world, repo),
            "head_repository": shapes::minimal_repository(world, repo),
        })
    }

    /// As the tests see it.
    pub(crate) fn view(&self, state: &State) -> RunView {
        let view = |job: &Job| JobView {
            id: job.id,
            name: job.name.clone(),
            attempt: job.attempt,
            status: job.status.to_owned(),
            conclusion: job.conclusion.map(str::to_owned),
            exit_code: job.exit_code,
            pid: job.pid,
            log: job.log.clone(),
            outputs: job.outputs.clone(),
            summary: job.summary.clone(),
            annotations: job.annotations.clone(),
        };
        RunView {
            id: self.id,
            repo: self.repo.clone(),
            title: self.title.clone(),
            status: self.status.to_owned(),
            conclusion: self.conclusion.map(str::to_owned),
            attempt: self.attempt,
            inputs: self.inputs.clone(),
            jobs: self.jobs.iter().map(view).collect(),
            artifacts: state.names_of_artifacts(self.id).into_iter().map(str::to_owned).collect(),
        }
    }
}

impl Job {
    /// As GitHub shows it.
    pub(crate) fn shown(&self, world: &World, run: &Run) -> Value {
        let api = format!("{}/repos/{}", world.urls.api_url, run.repo);
        let steps: Vec<Value> = self.steps.iter().zip(1..).map(|(step, number)| step.shown(number)).collect();
        let has_machine = self.started_at.is_some();
        json!({
            "id": self.id,
            "run_id": run.id,
            "workflow_name": run.name,
            "head_branch": run.head_branch(),
            "run_url": format!("{api}/actions/runs/{}", run.id),
            "run_attempt": self.attempt,
            "node_id": format!("CR_{}", self.id),
            "head_sha": run.sha,
            "url": format!("{api}/actions/jobs/{}", self.id),
            "html_url": format!("{}/job/{}", html_url(world, &run.repo, run.id), self.id),
            "status": self.status,
            "conclusion": self.conclusion,
            "created_at": shown(self.created_at),
            "started_at": shown(self.started_at.unwrap_or(self.created_at)),
            "completed_at": self.completed_at.map(shown),
            "name": self.name,
            "steps": steps,
            "check_run_url": format!("{api}/check-runs/{}", self.id),
            "labels": ["ubuntu-latest"],
            "runner_id": has_machine.then_some(self.id),
            "runner_name": has_machine.then(|| format!("GitHub Actions {}", self.id % 1000)),
            "runner_group_id": has_machine.then_some(0),
            "runner_group_name": has_machine.then_some("GitHub Actions"),
        })
    }

    /// Its annotations, as GitHub shows them.
    pub(crate) fn shown_annotations(&self, world: &World, repo: &str) -> Vec<Value> {
        let one = |(level, message): &(String, String)| {
            json!({
                "path": ".github",
                "blob_href": format!("{}/{repo}/blob/main/.github", world.urls.server_url),
                "start_line": 1,
                "start_column": null,
                "end_line": 1,
                "end_column": null,
                "annotation_level": level,
                "title": "",
                "message": message,
                "raw_details": "",
            })
        };
        self.annotations.iter().map(one).collect()
    }
}

impl Step {
    /// A step that has not started.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            status: "queued",
            conclusion: None,
            started_at: None,
            completed_at: None,
        }
    }

    /// Starts it.
    pub(crate) fn begin(&mut self) {
        self.status = "in_progress";
        self.started_at = Some(crate::world::now());
    }

    /// Completes it.
    pub(crate) fn end(&mut self, conclusion: &'static str) {
        let now = crate::world::now();
        self.status = "completed";
        self.conclusion = Some(conclusion);
        self.started_at.get_or_insert(now);
        self.completed_at = Some(now);
    }

    fn shown(&self, number: usize) -> Value {
        json!({
            "name": self.name,
            "status": self.status,
            "conclusion": self.conclusion,
            "number": number,
            "started_at": self.started_at.map(shown),
            "completed_at": self.completed_at.map(shown),
        })
    }
}

/// The web page of a run.
pub(crate) fn html_url(world: &World, repo: &str, run: u64) -> String {
    format!("{}/{repo}/actions/runs/{run}", world.urls.server_url)
}
