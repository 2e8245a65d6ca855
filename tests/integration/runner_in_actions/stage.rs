//! What the runner tests do with a stage: batches dispatched by hand.

use std::collections::BTreeMap;

use base64::Engine as _;
use run_evals::testing::{Auth, Client, ClientOptions, Dispatched};
use run_evals::testing::{Digest, RemoteResults, Secret};
use run_evals::testing::{DispatchInputs, Handover, RunnerOptions};
use serde_json::{Value, json};

use crate::support::Forgery;
use crate::support::github::{JobView, MockGithub, RunView, TOKEN, workflow};
use crate::support::stage::runner_targets;
pub(super) use crate::support::stage::{KEY, REPO, Stage};

impl Stage {
    /// Frequent checkpoints, and only four concurrent calls, so that there is time for several.
    pub(super) fn with_checkpoints(llm: &[&str]) -> Self {
        let stage = Self::impatient(llm);
        stage.runner_target("max_concurrency: 4");
        stage
    }

    /// Machines whose waits are short and whose checkpoints are frequent.
    pub(super) fn impatient(llm: &[&str]) -> Self {
        Self::with(llm, &[("RUN_EVALS_CLOCK_FACTOR", "0.005")])
    }

    /// The same on a GitHub with these options.
    pub(super) fn impatient_on(github: &[&str], llm: &[&str]) -> Self {
        let runner = ["--runner", env!("CARGO_BIN_EXE_run-evals")];
        let github = MockGithub::start_with(&[&runner, github].concat());
        Self::on(github, llm, &[("RUN_EVALS_CLOCK_FACTOR", "0.005")])
    }

    /// Another target `llm` on the default branch.
    pub(super) fn targets(&self, base_url: &str, more: &str) {
        self.github.put_file(REPO, "targets.yaml", runner_targets(base_url, more));
    }

    /// Changes the workflow on the default branch.
    pub(super) fn workflow(&self, change: impl FnOnce(&str) -> String) {
        let changed = change(&workflow());
        assert_ne!(changed, workflow());
        self.github.put_file(REPO, ".github/workflows/run-evals.yml", changed);
    }

    pub(super) fn policy(&self, text: &str) {
        self.github.put_file(REPO, ".run-evals.yml", text);
    }

    /// Starts a run with these inputs.
    pub(super) fn start(&self, inputs: &DispatchInputs) -> u64 {
        let mut inputs = inputs.clone();
        inputs.dispatch_id = fastrand::u64(..).into();
        self.start_raw(&inputs.to_inputs())
    }

    /// Starts a run with arbitrary inputs.
    pub(super) fn start_raw(&self, inputs: &BTreeMap<String, String>) -> u64 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let options = ClientOptions {
                api_url: self.github.urls().api_url.clone(),
                auth: Auth::Token(Secret::new(TOKEN)),
                notify: None,
                ca_pem: Vec::new(),
            };
            let client = Client::new(options).unwrap();
            match client.dispatch(REPO, "run-evals.yml", "main", inputs).await.unwrap() {
                Dispatched::Started { run_id, .. } => run_id,
                other => panic!("{other:?}"),
            }
        })
    }

    /// The run of these inputs, once it is complete.
    pub(super) fn run(&self, inputs: &DispatchInputs) -> RunView {
        let id = self.start(inputs);
        self.finished(id, 1)
    }

    /// A run, once an attempt of it is complete.
    pub(super) fn finished(&self, id: u64, attempt: u64) -> RunView {
        let over = |run: &RunView| run.id == id && run.attempt == attempt && run.status == "completed";
        let runs = self.github.until(|runs| runs.iter().any(over));
        let run = runs.into_iter().find(over).unwrap();
        let shown = serde_json::to_string(&run.jobs).unwrap();
        assert!(!shown.contains(KEY), "the key is shown: {shown}");
        run
    }

    /// Reruns the failed jobs of a run.
    pub(super) fn rerun(&self, id: u64) -> RunView {
        self.rerun_failed_jobs(id);
        self.finished(id, 2)
    }

    /// The message of the only shard of a run that must not have made any call.
    pub(super) fn refused(&self, inputs: &DispatchInputs) -> String {
        let calls = self.llm.counter("requests");
        let run = self.run(inputs);
        let job = only_job(&run);
        assert_eq!(job.exit_code, Some(3), "{}", job.log);
        assert_eq!(self.llm.counter("requests"), calls, "a call was made");
        let [error] = &errors(job)[..] else { panic!("{:?}", job.annotations) };
        error.clone()
    }

    /// All rows on the results branch of `b1`, by the index of their request.
    pub(super) fn rows(&self) -> Vec<Value> {
        let branch = "eval-results/b1";
        let files = self.github.git(REPO, &["ls-tree", "-r", "--name-only", branch]);
        let mut rows = Vec::new();
        for file in files
            .lines()
            .filter(|file| std::path::Path::new(file).extension().is_some_and(|end| end == "jsonl"))
        {
            let text = self.github.git(REPO, &["cat-file", "blob", &format!("{branch}:{file}")]);
            rows.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
        rows.sort_by_key(|row| row["index"].as_u64().unwrap());
        rows
    }

    /// Whether the repository has a branch.
    pub(super) fn has_branch(&self, name: &str) -> bool {
        !self.github.git(REPO, &["for-each-ref", &format!("refs/heads/{name}")]).is_empty()
    }

    /// A file of the results branch of `b1`, as JSON.
    pub(super) fn json(&self, path: &str) -> Value {
        let text = self.github.git(REPO, &["cat-file", "blob", &format!("eval-results/b1:{path}")]);
        serde_json::from_str(&text).unwrap()
    }

    /// The subjects of the commits of the results branch of `b1`, the newest first.
    pub(super) fn subjects(&self) -> String {
        self.github.git(REPO, &["log", "--format=%s", "eval-results/b1"])
    }
}

/// A batch `b1` with this many requests and shards.
pub(super) fn batch(requests: usize, shards: u32) -> Vec<u8> {
    let ask = |i: usize| json!({"id": format!("r{i}"), "messages": [{"role": "user", "content": format!("prompt {i}")}]});
    let lines: Vec<Value> = (0..requests).map(ask).collect();
    Forgery::of(&lines).set("shards", shards).pack()
}

/// Inputs that hand this archive over inline, to this many shards.
pub(super) fn inline(archive: &[u8], shards: u32) -> DispatchInputs {
    DispatchInputs {
        batch_id: "b1".parse().unwrap(),
        dispatch_id: 0.into(),
        handover: Handover::Inline(base64::engine::general_purpose::STANDARD.encode(archive)),
        batch_sha256: Digest::of(archive),
        shards: (0..shards).collect(),
        results: RemoteResults::Branch("eval-results".to_owned()),
        runner_options: RunnerOptions::default(),
    }
}

/// The shard jobs of a run, without the job that gathers them.
pub(super) fn shard_jobs(run: &RunView) -> Vec<&JobView> {
    run.jobs.iter().filter(|job| job.name.starts_with("shard ")).collect()
}

pub(super) fn only_job(run: &RunView) -> &JobView {
    let [job] = shard_jobs(run)[..] else { panic!("{:#?}", run.jobs) };
    job
}

/// The exit codes of the shards.
pub(super) fn exit_codes(run: &RunView) -> Vec<Option<i32>> {
    shard_jobs(run).iter().map(|job| job.exit_code).collect()
}

/// The error annotations printed by the program itself.
pub(super) fn errors(job: &JobView) -> Vec<String> {
    annotations(job, "failure")
}

/// The warning annotations printed by the program itself.
pub(super) fn warnings(job: &JobView) -> Vec<String> {
    annotations(job, "warning")
}

fn annotations(job: &JobView, level: &str) -> Vec<String> {
    let text = |(found, text): &(String, String)| {
        text.strip_prefix("run-evals: ").filter(|_| found == level).map(ToOwned::to_owned)
    };
    job.annotations.iter().filter_map(text).collect()
}
