//! The simulated GitHub itself: its responses to plain HTTP and plain git, and how it runs dispatched workflows.

mod api;
mod apps;
mod artifacts;
mod client;
mod faults;
mod git;
mod jobs;
mod stops;

use crate::support::github::{MockGithub, RunView, What, When};
use client::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

const REPO: &str = "acme/runner";
const DISPATCHES: &str = "/repos/acme/runner/actions/workflows/run-evals.yml/dispatches";

/// A server with one repository whose workflow runs a shell script instead of the runner.
struct Sim {
    github: MockGithub,
    dir: TempDir,
}

impl Sim {
    /// The script sees the directory of the test as `$TEST_DIR`.
    fn new(script: &str) -> Self {
        Self::with(script, &[])
    }

    fn with(script: &str, options: &[&str]) -> Self {
        let dir = crate::support::temporary();
        let program = dir.path().join("runner");
        let script = format!("#!/bin/bash\nTEST_DIR={}\n{script}\n", dir.path().display());
        crate::support::write_program(&program, script);
        let options = [&["--runner", program.to_str().unwrap()], options].concat();
        let github = MockGithub::start_with(&options);
        github.runner_repo(REPO, &[("OPENAI_API_KEY", "sk-very-secret")]);
        Self { github, dir }
    }

    /// The dispatcher's own client.
    fn client(&self) -> Client {
        self.client_of(crate::support::github::TOKEN)
    }

    fn client_of(&self, token: &str) -> Client {
        Client::new(&self.github.urls().api_url, token)
    }

    /// Dispatches a batch and returns the id of the run.
    fn dispatch(&self, batch: &str, shards: usize) -> u64 {
        let answer = self.client().post(DISPATCHES, &dispatch(batch, shards));
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json["workflow_run_id"].as_u64().unwrap()
    }

    /// A run, once it is complete.
    fn finished(&self, run: u64) -> RunView {
        let is_over = |runs: &[RunView]| runs.iter().any(|one| one.id == run && one.status == "completed");
        self.github.until(is_over).into_iter().find(|one| one.id == run).unwrap()
    }

    /// Waits until the script has created a file.
    fn wait_for_file(&self, name: &str) {
        let path = self.dir.path().join(name);
        self.github.until(|_| path.exists());
    }

    /// The moment when this many faults exist; the first of them is usually the one that waits.
    fn at_fault(&self, number: usize) -> When {
        let url = format!("{}/faults", self.github.urls().control_url);
        When::Counter { url, pointer: format!("/{}/id", number - 1), at_least: 1 }
    }

    /// One more fault, without any effect.
    fn add_harmless_fault(&self) {
        self.github.fault(What::ArtifactExpired { name: "none".to_owned() });
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap()
    }
}

/// The body of a dispatch with this many shards.
fn dispatch(batch: &str, shards: usize) -> Value {
    let shards: Vec<usize> = (0..shards).collect();
    let inputs = json!({
        "batch_id": batch,
        "dispatch_id": "0123456789abcdef",
        "prompts_artifact": "inline:eA==",
        "batch_sha256": "00",
        "shards": json!(shards).to_string(),
        "results": "branch:eval-results",
        "runner_options": "{}",
    });
    json!({ "ref": "main", "inputs": inputs, "return_run_details": true })
}
