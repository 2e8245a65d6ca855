//! `dispatch --agentv-batch`, called as AgentV calls it: once for all tests, then once per test if that failed.

use std::path::PathBuf;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::stage::{Stage, content};
use crate::support::{Output, Workspace, until};

const FINE: &str = r"
tests:
  - { id: a, input: message a, criteria: repeats it }
  - { id: b-1, input: message b, criteria: repeats it }
  - { id: 'c d', input: message c, criteria: repeats it }
";

/// The second test has no message for the model to echo.
const ONE_FAILS: &str = r"
tests:
  - { id: a, input: message a, criteria: repeats it }
  - { id: fails, input: [{ role: system, content: be brief }], criteria: repeats it }
";

/// A runner repository, and the calls that AgentV makes for the suite.
struct SuiteCalls {
    stage: Stage,
}

impl SuiteCalls {
    fn new(suite: &str) -> Self {
        Self::on(Stage::new(), suite)
    }

    fn on(stage: Stage, suite: &str) -> Self {
        let runtime = stage.workspace.path("runtime");
        std::fs::create_dir(&runtime).unwrap();
        let stage = stage.env("XDG_RUNTIME_DIR", runtime.to_str().unwrap());
        stage.workspace.write("evals/s.eval.yaml", suite);
        // The targets are above the suite, in the same repository.
        for dir in ["tmp", ".git"] {
            std::fs::create_dir(stage.workspace.path(dir)).unwrap();
        }
        Self { stage }
    }

    fn workspace(&self) -> &Workspace {
        &self.stage.workspace
    }

    /// A call as AgentV makes it: in the directory of the suite, with the path of an output file.
    fn call(&self, file: &str, more: &[&str]) -> (Output, PathBuf) {
        let file = self.workspace().path("tmp").join(file);
        let args = ["dispatch", "--agentv-batch", "s.eval.yaml", "--target", "cloud"];
        let args = [&args, &["--output-file", file.to_str().unwrap()][..], more].concat();
        let mut command = self.workspace().command(&args);
        let output = Output::of(command.current_dir(self.workspace().path("evals")));
        assert_eq!(output.stdout, "", "stdout is for data");
        (output, file)
    }

    /// The call for all tests, and the rows it wrote.
    fn batch(&self, code: i32) -> (String, Vec<Value>) {
        let (output, file) = self.call("agentv-batch-1763369000000-x1y2z3a.jsonl", &[]);
        let output = output.expect(code);
        let rows = std::fs::read_to_string(file).unwrap_or_default();
        (
            self.normalized(&output.stderr),
            rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        )
    }

    /// The call for one test, and what it wrote.
    fn test(&self, id: &str, code: i32) -> (String, Value) {
        let (output, file) = self.call(&format!("agentv-{id}-1763369000000-x1y2z3a.json"), &[]);
        let output = output.expect(code);
        (
            self.normalized(&output.stderr),
            serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap(),
        )
    }

    /// The error of a call for one test without an answer: one line, the same on stderr and in the file.
    fn failure(&self, id: &str, code: i32) -> String {
        let (output, file) = self.call(&format!("agentv-{id}-1763369000000-x1y2z3a.json"), &[]);
        let output = output.expect(code);
        let line = output.stderr.strip_suffix('\n').unwrap();
        assert!(!line.contains('\n'), "{line}");
        let left: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(left, json!({ "error": line }));
        self.normalized(line)
    }

    fn normalized(&self, text: &str) -> String {
        let address = self.stage.github.urls().server_url.trim_start_matches("http://").to_owned();
        let root = self.workspace().root().to_str().unwrap().to_owned();
        text.replace(&address, "[github]").replace(&root, "[dir]")
    }
}

#[test]
fn one_run_answers_all_tests() {
    let scene = SuiteCalls::new(FINE);
    let (told, rows) = scene.batch(0);
    assert_eq!(told, "");
    let answers: Vec<(&str, &str)> =
        rows.iter().map(|row| (row["id"].as_str().unwrap(), content(row))).collect();
    assert_eq!(answers, [("a", "message a"), ("b-1", "message b"), ("c d", "message c")]);
    let keys: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "output", "token_usage", "duration_ms"]);
    assert_eq!(scene.stage.starts(), 1);
    scene.stage.paid_once(3);
    // Not in the directory where AgentV runs the command.
    assert!(scene.workspace().path(".run-evals/exchange.git").is_dir());
    assert!(!scene.workspace().path("evals/.run-evals").exists());
}

#[test]
fn a_failed_test_is_reported_by_its_own_call() {
    let scene = SuiteCalls::new(ONE_FAILS);
    let (told, rows) = scene.batch(5);
    assert_snapshot!(told, @"1 of 2 tests have no response, first `fails`: the call failed (bad_request, HTTP 400): `messages` has no user message");
    assert_eq!(rows.len(), 2, "a failure is a row, never a hole");
    assert_eq!(content(&rows[0]), "message a");
    assert!(rows[1]["text"].as_str().unwrap().starts_with("Error: "), "{}", rows[1]);
    assert_eq!(rows[1]["error"]["status"], 400);
    // AgentV considers the batch failed and calls for each test, as often as it likes.
    for _ in 0..2 {
        let (told, answer) = scene.test("a", 0);
        assert_eq!((told.as_str(), content(&answer)), ("", "message a"));
    }
    for _ in 0..2 {
        let line = scene.failure("fails", 5);
        assert_eq!(line, "the call failed (bad_request, HTTP 400): `messages` has no user message");
    }
    assert_eq!(scene.stage.starts(), 1);
    scene.stage.paid_once(1);
}

#[test]
fn the_test_id_can_be_passed_as_an_option() {
    let scene = SuiteCalls::new(ONE_FAILS);
    scene.batch(5);
    let (output, file) = scene.call("elsewhere.json", &["--id", "a"]);
    output.expect(0);
    let answer: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(content(&answer), "message a");
    let (output, _) = scene.call("elsewhere.json", &[]);
    assert_snapshot!(scene.normalized(&output.expect(2).stderr), @"cannot determine the test for `elsewhere.json` (hint: add `--id {EVAL_ID}` to the command)");
    let (output, _) = scene.call("elsewhere.txt", &[]);
    assert_snapshot!(scene.normalized(&output.expect(2).stderr), @"`--output-file elsewhere.txt` is neither AgentV's `.jsonl` of a batch nor its `.json` of a test (hint: write `--output-file {OUTPUT_FILE}` without anything around it)");
}

#[test]
fn a_failed_batch_is_reported_for_every_test() {
    let scene = SuiteCalls::on(Stage::new().env("GH_ENTERPRISE_TOKEN", "github_pat_wrong"), FINE);
    let (told, rows) = scene.batch(1);
    assert!(rows.is_empty());
    assert_snapshot!(told, @"cannot read the repository `acme/runner`: GitHub returned 401: Bad credentials (hint: the token is wrong, expired or revoked: create a new one; on GitHub Enterprise Server it must be a token of that server)");
    let before = scene.stage.github.requests().len();
    for test in ["a", "b-1", "c d"] {
        assert_eq!(format!("{}\n", scene.failure(test, 1)), told);
    }
    assert_eq!(scene.stage.github.requests().len(), before, "nothing is tried again");
}

#[test]
fn in_a_github_step_no_mask_command_is_printed_into_the_results() {
    let secret = "sk-known-to-the-step-0123456789";
    let stage =
        Stage::new().env("GITHUB_ACTIONS", "true").env("GITHUB_RUN_ID", "7").env("OPENAI_API_KEY", secret);
    let scene = SuiteCalls::on(stage.env("GH_ENTERPRISE_TOKEN", "github_pat_wrong"), FINE);
    let (told, _) = scene.batch(1);
    assert_eq!(told.lines().count(), 1, "{told}");
    for hidden in [secret, "github_pat_wrong", "::"] {
        assert!(!told.contains(hidden), "{told}");
    }
    assert_eq!(format!("{}\n", scene.failure("a", 1)), told);
}

#[test]
fn a_failed_run_is_reported_for_every_test() {
    let scene = SuiteCalls::new(FINE);
    scene.stage.github.put_file(crate::support::stage::REPO, "targets.yaml", "targets: []\n");
    let (told, rows) = scene.batch(5);
    assert_eq!(rows.len(), 3);
    assert!(
        told.starts_with(
            "3 of 3 tests have no response, first `a`: no answer: the run ended with `failure`: "
        ),
        "{told}"
    );
    let line = scene.failure("c d", 5);
    assert!(told.ends_with(&format!("{line}\n")), "{line}");
    assert_eq!(scene.stage.starts(), 1);
}

#[test]
fn a_suite_with_trials_is_not_batched() {
    let scene = SuiteCalls::new(&format!("execution: {{ trials: {{ count: 3 }} }}\n{FINE}"));
    // AgentV does not request a batch for it.
    assert_snapshot!(scene.failure("a", 3), @"AgentV requested the test `a` without a batch: it makes none without `provider_batching: true`, and none for a suite with `trials`; `run-evals adapter` is the command for those");
    let (told, rows) = scene.batch(3);
    assert!(rows.is_empty());
    assert_snapshot!(told, @"`s` has `trials`, for which AgentV makes no batch: it requests each test separately (hint: `run-evals adapter` is the command for those)");
    assert_eq!(scene.stage.starts(), 0);
}

#[test]
fn an_unknown_test_is_an_error() {
    let scene = SuiteCalls::new(FINE);
    scene.batch(0);
    assert_snapshot!(scene.failure("other", 3), @"`s.eval.yaml` has no test `other`: AgentV runs another suite than its target's command names");
}

#[test]
fn a_changed_suite_needs_a_new_batch() {
    let scene = SuiteCalls::new(FINE);
    scene.batch(0);
    scene.workspace().write("evals/s.eval.yaml", format!("{FINE}  - {{ id: new, input: x, criteria: y }}\n"));
    assert!(scene.failure("a", 3).contains("without a batch: it makes none"));
    assert_eq!(scene.batch(0).1.len(), 4);
    assert_eq!(scene.stage.starts(), 2);
}

#[test]
fn a_call_for_one_test_waits_for_the_batch() {
    let scene = SuiteCalls::on(Stage::with_llm(&["--latency-ms", "3000"]), FINE);
    let file = scene.workspace().path("tmp/agentv-batch-1763369000000-x1y2z3a.jsonl");
    let args = ["dispatch", "--agentv-batch", "s.eval.yaml", "--target", "cloud", "--output-file"];
    let mut command = scene.workspace().command(&[&args[..], &[file.to_str().unwrap()]].concat());
    let mut batch = command.current_dir(scene.workspace().path("evals")).spawn().unwrap();
    until("the run", || scene.stage.starts() == 1);
    let (_, answer) = scene.test("a", 0);
    assert_eq!(content(&answer), "message a");
    assert!(batch.wait().unwrap().success());
    assert_eq!(scene.stage.starts(), 1);
    scene.stage.paid_once(3);
}

#[test]
fn a_killed_batch_says_how_to_collect() {
    let scene = SuiteCalls::on(Stage::with_llm(&["--latency-ms", "5000"]), FINE);
    let file = scene.workspace().path("tmp/agentv-batch-1763369000000-x1y2z3a.jsonl");
    let args = ["dispatch", "--agentv-batch", "s.eval.yaml", "--target", "cloud", "--output-file"];
    let mut command = scene.workspace().command(&[&args[..], &[file.to_str().unwrap()]].concat());
    let mut batch = command.current_dir(scene.workspace().path("evals")).spawn().unwrap();
    let looks = || scene.stage.github.calls_of("GET /repos/{owner}/{repo}/actions/runs/{run_id}");
    until("a look at the run", || looks() > 0);
    batch.kill().unwrap();
    batch.wait().unwrap();
    let line = scene.failure("a", 5);
    let id = line.split("collect ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_snapshot!(line.replace(&id, "[batch]"), @"the batch was killed before its results arrived; `run-evals collect [batch] --exchange [dir]/.run-evals/exchange.git` collects its responses");
    let exchange = scene.workspace().path(".run-evals/exchange.git");
    let args = ["collect", &id, "--exchange", exchange.to_str().unwrap(), "--output", "out", "-q"];
    scene.workspace().run(&args).expect(0);
    assert_eq!(scene.workspace().rows("out/responses.jsonl").len(), 3);
    scene.stage.paid_once(3);
}

#[test]
fn the_command_line_is_checked() {
    let scene = SuiteCalls::new(FINE);
    let refused = |args: &[&str]| scene.workspace().run(&[&["dispatch"], args].concat()).expect(2).stderr;
    assert_snapshot!(refused(&["--agentv-batch", "evals/s.eval.yaml"]), @"the following required arguments were not provided: --output-file <FILE> (hint: `run-evals dispatch --help` shows how)");
    assert_snapshot!(refused(&["--agentv-batch", "--requests", "r.jsonl", "--output-file", "x.jsonl"]), @"the argument '--agentv-batch' cannot be used with '--requests <FILE>' (hint: `run-evals dispatch --help` shows how)");
    assert_snapshot!(refused(&["evals/s.eval.yaml", "--output-file", "x.jsonl"]), @r"
    error: the following required arguments were not provided:
      --agentv-batch

    Usage: run-evals dispatch [OPTIONS] <SUITE>
           run-evals dispatch [OPTIONS] --requests <FILE>
           run-evals dispatch [OPTIONS] --resume <BATCH>
           run-evals dispatch [OPTIONS] --agentv-batch <SUITE> --output-file <FILE>

    For more information, try '--help'.
    ");
}
