//! A dispatcher without any key, a runner repository with one, and a model behind it.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::github::{MockGithub, TOKEN};
use super::{MockLlm, Output, Workspace};

/// The repository that holds the key.
pub(crate) const REPO: &str = "acme/runner";
/// The key, which only the model may ever see.
pub(crate) const KEY: &str = "sk-proj-never-to-be-seen-0123456789";

/// The whole chain from a suite to its answers.
pub(crate) struct Stage {
    pub(crate) github: MockGithub,
    pub(crate) llm: MockLlm,
    pub(crate) workspace: Workspace,
}

impl Stage {
    /// A model that answers at once.
    pub(crate) fn new() -> Self {
        Self::with_llm(&[])
    }

    /// A model with these options.
    pub(crate) fn with_llm(options: &[&str]) -> Self {
        Self::with(options, &[])
    }

    /// A model with these options, and a runner whose machines have these variables.
    pub(crate) fn with(options: &[&str], machine_env: &[(&str, &str)]) -> Self {
        Self::on(MockGithub::start(), options, machine_env)
    }

    /// The same on this GitHub.
    pub(crate) fn on(github: MockGithub, options: &[&str], machine_env: &[(&str, &str)]) -> Self {
        let llm = MockLlm::start(options);
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        github.runner_repo_on(REPO, &[("OPENAI_API_KEY", KEY)], machine_env.iter().map(pair).collect());
        github.put_file(REPO, "targets.yaml", runner_targets(&llm.base_url(), ""));
        let workspace = github.workspace(TOKEN);
        let stage = Self { github, llm, workspace };
        stage.target("");
        stage
    }

    /// The same with another variable for the dispatcher.
    pub(crate) fn env(self, name: &str, value: &str) -> Self {
        Self { workspace: self.workspace.env(name, value), ..self }
    }

    /// The runner's own target `llm`, with additional lines.
    pub(crate) fn runner_target(&self, more: &str) {
        self.github.put_file(REPO, "targets.yaml", runner_targets(&self.llm.base_url(), more));
    }

    /// `Re-run failed jobs`, as a user clicks it.
    pub(crate) fn rerun_failed_jobs(&self, run_id: u64) {
        let route = format!("repos/{REPO}/actions/runs/{run_id}/rerun-failed-jobs");
        let url = format!("{}/{route}", self.github.urls().api_url);
        let bearer = format!("Authorization: Bearer {TOKEN}");
        let curl = Command::new("curl")
            .args(["-fsS", "-o", "/dev/null", "-X", "POST", "-H", &bearer, &url])
            .status()
            .unwrap();
        assert!(curl.success());
    }

    /// The dispatcher's target `cloud`, with additional lines.
    pub(crate) fn target(&self, more: &str) {
        Self::write_target(&self.workspace, REPO, more);
    }

    /// The same for any workspace and repository; a line replaces one with the same key.
    pub(crate) fn write_target(workspace: &Workspace, repo: &str, more: &str) {
        let mut lines = vec![
            "provider: github-actions".to_owned(),
            format!("repo: {repo}"),
            "workflow: run-evals.yml".to_owned(),
            "target: llm".to_owned(),
            "poll_interval: 4s".to_owned(),
            "timeout: 90s".to_owned(),
        ];
        for line in more.lines().map(str::trim) {
            let key = line.split(':').next().unwrap_or_default();
            lines.retain(|known| known.split(':').next() != Some(key));
            lines.push(line.to_owned());
        }
        let lines: String = lines.iter().map(|line| format!("    {line}\n")).collect();
        workspace.write("targets.yaml", format!("targets:\n  - name: cloud\n{lines}"));
    }

    /// The arguments of a dispatch of `requests.jsonl` as the batch `b1` to the directory `out`.
    pub(crate) fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
        Self::args_to("out", more)
    }

    /// The same to another directory.
    pub(crate) fn args_to<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let batch = ["dispatch", "--requests", "requests.jsonl", "--target", "cloud", "--batch-id", "b1"];
        [&batch, &["--output", out][..], more].concat()
    }

    /// Dispatches `requests.jsonl` as the batch `b1` and waits.
    pub(crate) fn dispatch(&self, more: &[&str]) -> Output {
        self.workspace.run(&Self::args(more))
    }

    /// The same in the background.
    pub(crate) fn spawn(&self, more: &[&str]) -> Child {
        let mut command: Command = self.workspace.command(&Self::args(more));
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Checks the responses: every request once, in order, answered with its own message.
    pub(crate) fn all_answered(&self, count: usize) {
        let rows = self.workspace.rows("out/responses.jsonl");
        assert_eq!(rows.len(), count);
        for (index, row) in rows.iter().enumerate() {
            assert_eq!(row["id"], format!("r{index}"));
            assert_eq!(content(row), format!("message {index}"), "{row}");
        }
    }

    /// Checks that nothing was paid for twice.
    pub(crate) fn paid_once(&self, count: usize) {
        let served = self.llm.served();
        assert_eq!(served.len(), count);
        assert!(served.values().all(|times| *times == 1), "paid twice: {served:?}");
    }

    /// How many runs GitHub was asked to start.
    pub(crate) fn starts(&self) -> usize {
        self.github.calls_of("POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches")
    }
}

/// The runner's own target `llm`, with additional lines.
pub(crate) fn runner_targets(base_url: &str, more: &str) -> String {
    let more: String = more.lines().map(|line| format!("    {}\n", line.trim())).collect();
    format!(
        "targets:\n  - name: llm\n    provider: openai-compatible\n    base_url: {base_url}\n    model: mock-model\n    \
         api_key: ${{{{ OPENAI_API_KEY }}}}\n{more}"
    )
}

/// The text of an answer.
pub(crate) fn content(row: &Value) -> &str {
    row["output"][0]["content"].as_str().unwrap_or_default()
}
