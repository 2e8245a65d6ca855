//! A runner repository, a model, and somebody who dispatches batches by hand.

use std::collections::BTreeMap;

use base64::Engine as _;
use run_evals::github::{Auth, Client, ClientOptions, Dispatched};
use run_evals::model::{Digest, DispatchInputs, HandOver, RemoteResults, RunnerOptions, Secret};
use serde_json::{Value, json};

use crate::support::github::{JobView, MockGithub, NewRepo, RunView, TOKEN};
use crate::support::{Forgery, MockLlm};

pub(super) const REPO: &str = "myorg/eval-runner";
pub(super) const KEY: &str = "sk-fake-key-of-the-runner-0001";

pub(super) struct Stage {
    pub(super) github: MockGithub,
    pub(super) llm: MockLlm,
}

impl Stage {
    /// A repository whose target `llm` is a server with these options. Runs end before their first checkpoint.
    pub(super) fn new(llm: &[&str]) -> Self {
        Self::with_machine(llm, &[])
    }

    /// The same with a checkpoint every moment, and four calls at once so that there is time for some.
    pub(super) fn with_checkpoints(llm: &[&str]) -> Self {
        let stage = Self::with_machine(llm, &[("RUN_EVALS_CHECKPOINT_SECONDS", "0.3")]);
        stage.targets(&stage.llm.base_url(), "    max_concurrency: 4\n");
        stage
    }

    fn with_machine(llm: &[&str], machine: &[(&str, &str)]) -> Self {
        let llm = MockLlm::start(llm);
        let github = MockGithub::start();
        let machine = machine.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        github.repo(&NewRepo {
            full_name: REPO.to_owned(),
            private: true,
            secrets: [("OPENAI_API_KEY".to_owned(), KEY.to_owned())].into(),
            machine_env: machine.collect(),
            ..NewRepo::default()
        });
        let workflow = include_str!("../../../workflows/run-evals.yml");
        github.put_file(REPO, ".github/workflows/run-evals.yml", workflow);
        github.token(TOKEN, "dispatcher", REPO, &[("actions", "write"), ("contents", "write")]);
        let stage = Self { github, llm };
        stage.targets(&stage.llm.base_url(), "");
        stage
    }

    /// Another target `llm` on the default branch.
    pub(super) fn targets(&self, base_url: &str, more: &str) {
        let text = format!(
            "targets:\n  - name: llm\n    provider: openai-compatible\n    base_url: {base_url}\n    api_key: ${{{{ OPENAI_API_KEY }}}}\n    model: mock-model\n{more}"
        );
        self.github.put_file(REPO, "targets.yaml", text);
    }

    pub(super) fn policy(&self, text: &str) {
        self.github.put_file(REPO, ".run-evals.yml", text);
    }

    /// Starts a run with these inputs.
    pub(super) fn dispatch(&self, inputs: &DispatchInputs) -> u64 {
        let mut inputs = inputs.clone();
        inputs.dispatch_id = fastrand::u64(..).into();
        self.dispatch_raw(&inputs.to_inputs())
    }

    /// Starts a run with whatever somebody sends.
    pub(super) fn dispatch_raw(&self, inputs: &BTreeMap<String, String>) -> u64 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let options = ClientOptions {
                api_url: self.github.urls().api_url.clone(),
                auth: Auth::Token(Secret::new(TOKEN)),
                notify: None,
            };
            let client = Client::new(options).unwrap();
            match client.dispatch(REPO, "run-evals.yml", "main", inputs).await.unwrap() {
                Dispatched::Started { run_id, .. } => run_id,
                other => panic!("{other:?}"),
            }
        })
    }

    /// The run of these inputs, once it is over.
    pub(super) fn run(&self, inputs: &DispatchInputs) -> RunView {
        let id = self.dispatch(inputs);
        self.finished(id, 1)
    }

    /// A run, once an attempt of it is over.
    pub(super) fn finished(&self, id: u64, attempt: u64) -> RunView {
        let over = |run: &RunView| run.id == id && run.attempt == attempt && run.status == "completed";
        let runs = self.github.until(|runs| runs.iter().any(over));
        let run = runs.into_iter().find(over).unwrap();
        let shown = serde_json::to_string(&run.jobs).unwrap();
        assert!(!shown.contains(KEY), "the key is shown: {shown}");
        run
    }

    /// Runs the failed jobs of a run again.
    pub(super) fn rerun(&self, id: u64) -> RunView {
        let url = format!("{}/repos/{REPO}/actions/runs/{id}/rerun-failed-jobs", self.github.urls().api_url);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let status = runtime.block_on(async {
            let client = reqwest::Client::new();
            let request = client.post(url).bearer_auth(TOKEN).header("User-Agent", "test");
            request.send().await.unwrap().status()
        });
        assert!(status.is_success(), "{status}");
        self.finished(id, 2)
    }

    /// What the only leg of a run that must have called nothing says.
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
        for file in files.lines().filter(|file| file.ends_with(".jsonl.gz")) {
            let mut git = std::process::Command::new("git");
            git.arg("--git-dir").arg(self.github.git_dir(REPO)).args(["cat-file", "blob"]);
            let packed = git.arg(format!("{branch}:{file}")).output().unwrap().stdout;
            let mut text = String::new();
            std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed.as_slice()), &mut text)
                .unwrap();
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

/// A batch `b1` of so many requests in so many shards.
pub(super) fn batch(requests: usize, shards: u32) -> Vec<u8> {
    let ask = |i: usize| json!({"id": format!("r{i}"), "messages": [{"role": "user", "content": format!("prompt {i}")}]});
    let lines: Vec<Value> = (0..requests).map(ask).collect();
    Forgery::of(&lines).says("shards", shards).pack()
}

/// Inputs that hand this archive over in the dispatch itself, to as many legs.
pub(super) fn inline(archive: &[u8], legs: u32) -> DispatchInputs {
    DispatchInputs {
        batch_id: "b1".parse().unwrap(),
        dispatch_id: 0.into(),
        prompts_artifact: HandOver::Inline(base64::engine::general_purpose::STANDARD.encode(archive)),
        batch_sha256: Digest::of(archive),
        shards: (0..legs).collect(),
        results: RemoteResults::Branch("eval-results".to_owned()),
        runner_options: RunnerOptions::default(),
    }
}

/// The legs of a run, without the job that gathers them.
pub(super) fn legs(run: &RunView) -> Vec<&JobView> {
    run.jobs.iter().filter(|job| job.name.starts_with("shard ")).collect()
}

pub(super) fn only_job(run: &RunView) -> &JobView {
    let [job] = legs(run)[..] else { panic!("{:#?}", run.jobs) };
    job
}

/// How the legs ended.
pub(super) fn exit_codes(run: &RunView) -> Vec<Option<i32>> {
    legs(run).iter().map(|job| job.exit_code).collect()
}

/// The error annotations that the program itself made.
pub(super) fn errors(job: &JobView) -> Vec<String> {
    annotations(job, "failure")
}

/// The warning annotations that the program itself made.
pub(super) fn warnings(job: &JobView) -> Vec<String> {
    annotations(job, "warning")
}

fn annotations(job: &JobView, level: &str) -> Vec<String> {
    let text = |(found, text): &(String, String)| {
        text.strip_prefix("run-evals: ").filter(|_| found == level).map(ToOwned::to_owned)
    };
    job.annotations.iter().filter_map(text).collect()
}
