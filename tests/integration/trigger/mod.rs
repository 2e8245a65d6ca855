//! `trigger` and `sweep`: a skill library on the simulated GitHub, and a service that records its requests.

mod bumps;
mod history;
mod range;
mod real;
mod requests;
mod service;
mod sweeping;

use std::path::Path;

use history::{History, REPO};
use serde_json::{Value, json};
use service::Recorder;

use crate::support::github::MockGithub;
use crate::support::{Output, Workspace};

/// The token that reads the library.
const TOKEN: &str = "github_pat_library_reader";
/// The token for the service.
const SERVE_TOKEN: &str = "serve-token-0123456789abcdef0123456789abcdef";

/// A library, a service, and a client of both.
struct Trigger {
    github: MockGithub,
    service: Recorder,
    workspace: Workspace,
}

impl Trigger {
    fn new(history: &History) -> Self {
        let github = MockGithub::start();
        history.store(&github);
        let permissions = [("contents", "read"), ("pull_requests", "read")];
        github.token(TOKEN, "reader", REPO, &permissions);
        let workspace = github.workspace(TOKEN).env("RUN_EVALS_SERVE_TOKEN", SERVE_TOKEN);
        Self { github, service: Recorder::start(), workspace }
    }

    /// Runs a command with the address of the service.
    fn run(&self, args: &[&str]) -> Output {
        let url = self.service.url();
        self.workspace.run(&[args, &["--url", &url]].concat())
    }

    /// Triggers for an explicit push.
    fn push(&self, before: &str, after: &str) -> Output {
        self.run(&["trigger", "--repo", REPO, "--before", before, "--after", after])
    }

    /// The requests that the service got: skill and commit.
    fn fired(&self) -> Vec<(String, String)> {
        let orders = self.service.job_requests();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        orders.iter().map(|order| (text(&order["skill_name"]), text(&order["git_sha"]))).collect()
    }

    fn sweep(&self, more: &[&str]) -> Output {
        self.run(&[&["sweep", "--repo", REPO, "--pause", "20ms"], more].concat())
    }
}

/// The event file of a push.
fn event(path: &Path, git_ref: &str, before: &str, after: &str) {
    let event = json!({ "ref": git_ref, "before": before, "after": after });
    std::fs::write(path, event.to_string()).unwrap();
}
