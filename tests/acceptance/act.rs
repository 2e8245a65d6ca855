//! The whole chain, with only github.com simulated: the dispatcher without a key, the templates as users copy them, run by
//! act, our container, a provider that requires the key, results over git and artifacts, and the dispatcher again.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::support::github::{MockGithub, NewRepo, RunView, TOKEN, workflow};
use crate::support::stage::{content, runner_targets};
use crate::support::{MockLlm, Workspace, tls_model};

const RUNNER: &str = "myorg/eval-runner";
const KEY: &str = "sk-acceptance-5f1c8e07b3a94d26";
/// How long a chain of workflows may take.
const PATIENCE: Duration = Duration::from_mins(5);
const SUITE: &str = "quickstart/suite.eval.yaml";
/// The caller of the reusable workflow, as users copy it.
const CALLER: &str = include_str!("../../workflows/run-evals-caller.yml");
/// The dispatcher's command for the runner repository; the tests add to it.
const CLOUD: &str = "targets:
  - name: cloud-eval-runner
    provider: github-actions
    repo: myorg/eval-runner
    workflow: run-evals.yml
    target: llm
    poll_interval: 1s
    timeout: 5m
";

#[test]
fn an_inline_batch() {
    let chain = Chain::start();
    let rows = chain.eval(CLOUD, &[]);
    chain.check(&rows, "inline:", 1);
    assert_eq!(chain.results_files().len(), 1, "one checkpoint is enough for a short run");
}

#[test]
fn a_batch_on_a_branch_in_three_shards() {
    let chain = Chain::start();
    let rows = chain.eval(&format!("{CLOUD}    shards: 3\n"), &["--handover", "branch"]);
    chain.check(&rows, "branch:myorg/eval-runner/eval-batch/", 3);
    let files = chain.results_files();
    for shard in ["shard-000", "shard-001", "shard-002"] {
        assert!(files.iter().any(|file| file.contains(shard)), "{files:?}");
    }
    let branches =
        chain.github.git(RUNNER, &["for-each-ref", "--format=%(refname:short)", "refs/heads/eval-batch"]);
    assert_eq!(branches, "", "the hand-over branch is deleted after a complete collection");
}

#[test]
fn results_as_artifacts() {
    let chain = Chain::start();
    let rows = chain.eval(&format!("{CLOUD}    results_artifact: true\n    shards: 2\n"), &[]);
    let run = chain.check(&rows, "inline:", 2);
    assert!(run.artifacts.len() >= 2, "{:?}", run.artifacts);
    assert!(run.artifacts.iter().all(|name| name.starts_with("eval-results-")), "{:?}", run.artifacts);
    let branches =
        chain.github.git(RUNNER, &["for-each-ref", "--format=%(refname:short)", "refs/heads/eval-results"]);
    assert_eq!(branches, "");
}

/// A runner repository that calls `.github/workflows/runner.yml`, with the caller that is documented.
#[test]
fn a_runner_that_calls_the_reusable_workflow() {
    let chain = Chain::start();
    chain.github.put_file(RUNNER, ".github/workflows/run-evals.yml", CALLER);
    let rows = chain.eval(&format!("{CLOUD}    shards: 2\n"), &[]);
    chain.check(&rows, "inline:", 2);
}

/// What the lines under `secrets:` are for: the same caller without them gets no key.
#[test]
fn a_caller_of_the_reusable_workflow_that_passes_no_secret() {
    let chain = Chain::start();
    let (caller, _) = CALLER.split_once("    secrets:").unwrap();
    chain.github.put_file(RUNNER, ".github/workflows/run-evals.yml", caller);
    chain.dispatcher.write("targets.yaml", CLOUD);
    let args =
        ["eval", SUITE, "--targets", "targets.yaml", "--target", "cloud-eval-runner", "--output", "out"];
    let output = chain.dispatcher.run(&args).expect(5);
    let told = "`api_key` needs the environment variable `OPENAI_API_KEY`, which is not set";
    assert!(output.stderr.contains(told), "{}", output.stderr);
    assert_eq!(chain.llm.counter("ok"), 0);
}

/// GitHub and the model have certificates of private CAs, which the image does not know: one comes as a variable of the step, as the
/// comment of the template says, the other with the target.
#[test]
fn a_runner_behind_private_cas() {
    let _turn = one_at_a_time();
    let (model, model_ca) = tls_model();
    let github = MockGithub::start_with(&["--tls", "--executor", &executor()]);
    let ca_file = github.urls().ca_file.clone().unwrap();
    let ca = std::fs::read_to_string(&ca_file).unwrap();
    github.repo(&NewRepo {
        full_name: RUNNER.to_owned(),
        private: true,
        secrets: [("OPENAI_API_KEY".to_owned(), KEY.to_owned())].into(),
        variables: [("RUN_EVALS_CA".to_owned(), ca)].into(),
        ..NewRepo::default()
    });
    github.token(TOKEN, "dispatcher", RUNNER, &[("actions", "write"), ("contents", "write")]);
    github.put_file(RUNNER, "certs/model.pem", model_ca);
    let dispatcher = github.workspace(TOKEN).env("SSL_CERT_FILE", &ca_file);
    dispatcher.write_requests(2);
    dispatcher.write("targets.yaml", CLOUD);
    let dispatch = |variable: &str, target: &str, out: &str, code: i32| {
        let key = "          OPENAI_API_KEY:";
        let template = workflow();
        assert!(template.contains("add `RUN_EVALS_CA: ${{ vars.RUN_EVALS_CA }}` to `env`"), "{template}");
        let edited = template.replacen(key, &format!("{variable}{key}"), 1);
        github.put_file(RUNNER, ".github/workflows/run-evals.yml", edited);
        github.put_file(RUNNER, "targets.yaml", runner_targets(&model, target));
        let args =
            ["dispatch", "--requests", "requests.jsonl", "--target", "cloud-eval-runner", "--output", out];
        dispatcher.run(&[&args[..], &["--handover", "branch", "--batch-id", out]].concat()).expect(code);
        dispatcher.rows(&format!("{out}/responses.jsonl"))
    };
    let variable = "          RUN_EVALS_CA: ${{ vars.RUN_EVALS_CA }}\n";
    let rows = dispatch(variable, "ca_file: certs/model.pem", "trusted", 0);
    assert_eq!(rows.iter().map(content).collect::<Vec<_>>(), ["message 0", "message 1"]);

    let rows = dispatch(variable, "max_retries: 0", "model", 5);
    let untrusted = |row: &Value| row["error"]["message"].as_str().unwrap().contains("certificate");
    assert!(rows.iter().all(untrusted), "the image trusts the model without its CA: {rows:?}");
    dispatch("", "ca_file: certs/model.pem", "github", 5);
    let runs = github.runs();
    assert_eq!(runs.last().unwrap().conclusion.as_deref(), Some("failure"));
    assert!(
        log(runs.last().unwrap()).contains("git does not trust the certificate of"),
        "{}",
        log(runs.last().unwrap())
    );
}

/// Suites and keys in one repository: the template for pull requests, edited as its comments say, runs the dispatcher in our
/// container, too, and hands the batch over as an artifact of its own run.
#[test]
fn a_batch_as_an_artifact_of_the_workflow_that_dispatches() {
    let chain = Chain::start();
    let targets = format!("{CLOUD}{}", chain.runner_target());
    chain.github.put_file(RUNNER, "targets.yaml", &targets);
    for (name, content) in suite_files() {
        chain.github.put_file(RUNNER, &format!("evals/{name}"), content);
    }
    chain.github.put_file(RUNNER, ".github/workflows/dispatch.yml", dispatch_template());
    chain.start_workflow("dispatch.yml");
    let runs = chain.finished_runs();
    let [dispatch, run] = &runs[..] else { panic!("{runs:#?}") };
    assert_eq!(dispatch.conclusion.as_deref(), Some("success"), "{}\n{}", log(dispatch), log(run));
    assert!(log(dispatch).contains("answered=16"), "{}", log(dispatch));
    assert!(dispatch.artifacts[0].starts_with("batch-"), "{:?}", dispatch.artifacts);

    // Another machine, which knows only the id of the batch.
    chain.dispatcher.write("targets.yaml", &targets);
    let args = ["--targets", "targets.yaml", "--target", "cloud-eval-runner", "--output", "out"];
    chain.dispatcher.run(&[&["collect", &run.inputs["batch_id"]], &args[..]].concat()).expect(0);
    let rows = chain.dispatcher.rows("out/responses.jsonl");
    chain.check_run(run, &rows, "artifact:myorg/eval-runner/", 1);
    chain.check_log(dispatch, &rows);
}

/// act names containers after workflow and job, so two runs of the same workflow would stop each other's containers.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits until no other test uses act.
pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program that runs workflows with act.
fn executor() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acceptance/run-act");
    path.into_os_string().into_string().unwrap()
}

/// Everything that takes part.
struct Chain {
    github: MockGithub,
    llm: MockLlm,
    dispatcher: Workspace,
    _turn: MutexGuard<'static, ()>,
}

impl Chain {
    fn start() -> Self {
        let turn = one_at_a_time();
        let llm = MockLlm::start(&["--require-key", KEY]);
        let github = MockGithub::start_with(&["--executor", &executor()]);
        github.runner_repo(RUNNER, &[("OPENAI_API_KEY", KEY)]);
        let dispatcher = github.workspace(TOKEN);
        copy_suite(&dispatcher);
        let chain = Self { github, llm, dispatcher, _turn: turn };
        chain.github.put_file(RUNNER, "targets.yaml", format!("targets:\n{}", chain.runner_target()));
        chain
    }

    /// The target with the key.
    fn runner_target(&self) -> String {
        let target =
            "name: llm, provider: openai-compatible, model: mock-model, api_key: '${{ OPENAI_API_KEY }}'";
        format!("  - {{ {target}, base_url: '{}' }}\n", self.llm.base_url())
    }

    /// As a user does with GitHub's button.
    fn start_workflow(&self, file: &str) {
        let url =
            format!("{}/repos/{RUNNER}/actions/workflows/{file}/dispatches", self.github.urls().api_url);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let request = reqwest::Client::new().post(url).bearer_auth(TOKEN).header("user-agent", "acceptance");
        let request = request.header("content-type", "application/json").body(r#"{"ref":"main"}"#);
        let answer = runtime.block_on(request.send()).unwrap();
        assert_eq!(answer.status(), 204);
    }

    /// All runs, once they are complete. A run that waits for another one is not.
    fn finished_runs(&self) -> Vec<RunView> {
        let start = Instant::now();
        loop {
            let runs = self.github.runs();
            if runs.iter().all(|run| run.status == "completed") {
                return runs;
            }
            assert!(start.elapsed() < PATIENCE, "it takes too long: {runs:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The responses that `eval` collects, with a command that has no key.
    fn eval(&self, targets: &str, more: &[&str]) -> Vec<Value> {
        self.dispatcher.write("targets.yaml", targets);
        let args =
            ["eval", SUITE, "--targets", "targets.yaml", "--target", "cloud-eval-runner", "--output", "out"];
        let output = self.dispatcher.run(&[&args, more].concat());
        if output.code != Some(0) {
            for run in self.github.runs() {
                eprintln!("{}: {:?}\n{}", run.title, run.conclusion, log(&run));
            }
        }
        output.expect(0);
        self.dispatcher.rows("out/responses.jsonl")
    }

    /// Checks that one run served all shards, that the rows equal those of a local run, and that the log shows no secret.
    fn check(&self, rows: &[Value], hand_over: &str, shards: usize) -> RunView {
        let mut runs = self.github.runs();
        assert_eq!(runs.len(), 1);
        let run = runs.remove(0);
        self.check_run(&run, rows, hand_over, shards);
        run
    }

    fn check_run(&self, run: &RunView, rows: &[Value], hand_over: &str, shards: usize) {
        assert_eq!(run.conclusion.as_deref(), Some("success"));
        assert!(run.inputs["prompts_artifact"].starts_with(hand_over), "{}", run.inputs["prompts_artifact"]);
        let served: Vec<usize> = serde_json::from_str(&run.inputs["shards"]).unwrap();
        assert_eq!(served, (0..shards).collect::<Vec<_>>());
        assert_eq!(self.llm.counter("ok"), rows.len() as u64, "each request was called once");
        assert_eq!(without_time(&as_of_runner(rows)), without_time(&self.local_rows()));
        self.check_log(run, rows);
    }

    /// The responses of a run on this machine, with the key.
    fn local_rows(&self) -> Vec<Value> {
        let local = Workspace::new().env("OPENAI_API_KEY", KEY);
        copy_suite(&local);
        local.write("targets.yaml", format!("targets:\n{}", self.runner_target()));
        let args = ["eval", SUITE, "--targets", "targets.yaml", "--target", "llm", "--output", "out"];
        local.run(&args).expect(0);
        local.rows("out/responses.jsonl")
    }

    fn check_log(&self, run: &RunView, rows: &[Value]) {
        let shown = log(run);
        assert!(shown.contains("agentv/run-evals@v1") && shown.contains("Job succeeded"), "{shown}");
        assert!(!shown.contains(KEY), "the key is in the log");
        assert!(!self.github.everything_shown().contains(KEY));
        // The provider echoes the question, so the answers are the prompts.
        for row in rows {
            let prompt = row["output"][0]["content"].as_str().unwrap();
            assert!(!shown.contains(prompt), "a prompt is in the log: {prompt}");
            let encoded = STANDARD.encode(prompt);
            assert!(
                !shown.contains(encoded.trim_end_matches('=')),
                "a prompt is in the log as base64: {prompt}"
            );
        }
        let hand_over = run.inputs.get("prompts_artifact").map(String::as_str).unwrap_or_default();
        if let Some(batch) = hand_over.strip_prefix("inline:") {
            assert!(!shown.contains(&batch[..64]), "the batch is in the log");
        }
    }

    /// What is on the results branch besides the manifest.
    fn results_files(&self) -> Vec<String> {
        let branch =
            self.github.git(RUNNER, &["for-each-ref", "--format=%(refname)", "refs/heads/eval-results"]);
        let files = self.github.git(RUNNER, &["ls-tree", "-r", "--name-only", &branch]);
        assert!(files.lines().any(|file| file == "results/manifest.json"), "{files}");
        files.lines().filter(|file| file.ends_with(".jsonl")).map(str::to_owned).collect()
    }
}

/// `workflows/dispatch.yml`, edited for a suite and keys in one repository.
fn dispatch_template() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("workflows/dispatch.yml");
    let template = std::fs::read_to_string(path).unwrap();
    let edits = [
        ("      contents: read # the checkout\n", "      actions: write\n      contents: write\n"),
        ("          output: results\n", "          output: results\n          handover: artifact\n"),
        (
            "        env:\n          RUN_EVALS_TOKEN: ${{ secrets.RUN_EVALS_TOKEN }} # EDIT 3; the workflow's own token makes the comment\n",
            "",
        ),
    ];
    edits.iter().fold(template, |text, (from, to)| {
        assert!(text.contains(from), "the template has no {from:?}");
        text.replace(from, to)
    })
}

fn copy_suite(workspace: &Workspace) {
    for (name, content) in suite_files() {
        workspace.write(&format!("quickstart/{name}"), content);
    }
}

/// The files of a suite, with their names.
fn suite_files() -> Vec<(String, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/evals/quickstart");
    let files = walkdir::WalkDir::new(&dir).into_iter().map(Result::unwrap);
    let files = files.filter(|entry| entry.file_type().is_file() && entry.file_name() != "targets.yaml");
    files
        .map(|entry| {
            let name = entry.path().strip_prefix(&dir).unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

fn log(run: &RunView) -> String {
    run.jobs.iter().map(|job| job.log.as_str()).collect()
}

fn without_time(rows: &[Value]) -> Vec<Value> {
    let mut rows = rows.to_vec();
    for row in &mut rows {
        row.as_object_mut().unwrap().remove("duration_ms");
    }
    rows
}

/// The rows of a run on GitHub as a local run writes them: under the runner's own target.
fn as_of_runner(rows: &[Value]) -> Vec<Value> {
    let mut rows = rows.to_vec();
    for row in &mut rows {
        assert_eq!(row["target"], "cloud-eval-runner");
        let runner_target = row.as_object_mut().unwrap().shift_remove("runner_target").unwrap();
        row["target"] = runner_target;
    }
    rows
}
