//! A running service, ended with the test.

use std::ops::Deref;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::http::{self, Answer};
use crate::evaluate::stage::{SKILL, Stage};
use crate::support::power::Disk;
use crate::support::{Server, Workspace, until};

/// A valid token.
pub(super) const OURS: &str = "c0ffee00c0ffee00c0ffee00c0ffee00";

pub(super) struct Service(Server);

impl Service {
    /// On the clones of a stage, with the token `OURS` in `tokens`.
    pub(super) fn start(stage: &Stage, more: &[&str]) -> Self {
        stage.workspace.write_private("tokens", OURS);
        Self::spawn(&stage.workspace, &args(&stage.github.urls().api_url, more))
    }

    /// On any clone, without GitHub and without models.
    pub(super) fn bare(workspace: &Workspace, more: &[&str]) -> Self {
        workspace.write_private("tokens", OURS);
        Self::spawn(workspace, &bare_args(more))
    }

    pub(super) fn spawn(workspace: &Workspace, args: &[&str]) -> Self {
        Self::of(&mut workspace.command(args))
    }

    /// The service started by a command.
    pub(super) fn of(command: &mut Command) -> Self {
        Self(Server::start(command))
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[("Authorization", &bearer(OURS))], b"")
    }

    pub(super) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        http::send(&self.address, &http::request(method, path, headers, body)).expect("an answer")
    }

    /// Requests an evaluation.
    pub(super) fn submit(&self, body: &Value) -> Answer {
        self.ask("POST", "/evaluate", &job_headers(&bearer(OURS)), body.to_string().as_bytes())
    }

    /// Requests one evaluation of the stage's skill and returns the job.
    pub(super) fn accepted(&self, replicates: u32) -> String {
        let answer = self.submit(&json!({"skill_name": SKILL, "replicates": replicates}));
        answer.expect(202)["job_id"].as_str().unwrap().to_owned()
    }

    pub(super) fn job(&self, id: &str) -> Value {
        self.get(&format!("/jobs/{id}")).expect(200)
    }

    /// The job, once it meets a condition.
    pub(super) fn until(&self, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        until("the state of the job", || {
            last = self.job(id);
            is_so(&last)
        });
        last
    }

    /// The job, once it has ended in this state.
    pub(super) fn ended(&self, id: &str, state: &str) -> Value {
        let job = self.until(id, |job| !["queued", "running"].contains(&job["state"].as_str().unwrap()));
        assert_eq!(job["state"], state, "{job:#}");
        job
    }

    pub(super) fn is_busy(&self) -> bool {
        self.ask("GET", "/health", &[], b"").expect(200)["busy"].as_bool().unwrap()
    }

    /// Cuts the power of its disk, and kills it.
    pub(super) fn cut(mut self, disk: &Disk) {
        disk.cut(&mut self.0.child);
    }

    /// Sends a signal and returns the exit code.
    pub(super) fn stop(mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        let mut status = None;
        until("the end of the service", || {
            status = self.0.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Deref for Service {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

pub(super) fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

pub(super) fn job_headers(bearer: &str) -> [(&str, &str); 2] {
    [("Authorization", bearer), ("Content-Type", "application/json")]
}

/// A directory with a clone and a targets file: the minimum for a service.
pub(super) fn bare_workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("library/README.md", "empty\n");
    crate::evaluate::stage::git(
        &workspace.path("library"),
        &["init", "--quiet", "--initial-branch=main", "."],
    );
    crate::evaluate::stage::commit_all(&workspace.path("library"), "Begin");
    workspace.write_target("http://127.0.0.1:9/v1", "");
    workspace
}

/// The options of a service with everything; `more` overrides some.
pub(super) fn args<'a>(api_url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let defaults = [
        ["--listen", "127.0.0.1:0"],
        ["--auth-token-file", "tokens"],
        ["--state", "state"],
        ["--library", "library"],
        ["--datasets", "datasets"],
        ["--token-file", "token.txt"],
        ["--github-api-url", api_url],
    ];
    let defaults = defaults.into_iter().filter(|[name, _]| !more.contains(name)).flatten();
    ["serve"].into_iter().chain(defaults).chain(more.iter().copied()).collect()
}

/// The options of a service without GitHub; `more` overrides some.
pub(super) fn bare_args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let defaults = [
        ["--listen", "127.0.0.1:0"],
        ["--auth-token-file", "tokens"],
        ["--state", "state"],
        ["--library", "library"],
    ];
    let defaults = defaults.into_iter().filter(|[name, _]| !more.contains(name)).flatten();
    ["serve", "--no-publish"].into_iter().chain(defaults).chain(more.iter().copied()).collect()
}

/// The lines of the log.
pub(super) fn log(workspace: &Workspace) -> Vec<Value> {
    let mut files: Vec<_> =
        std::fs::read_dir(workspace.path("state/log")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let text: String = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}
