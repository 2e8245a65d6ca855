//! The real AgentV, unmodified, with `provider: github-actions`: the simulated GitHub runs the real runner.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::support::stage::Stage;

/// AgentV, as `.ci/acceptance` installs it.
pub(crate) fn agentv() -> PathBuf {
    std::env::var_os("RUN_EVALS_AGENTV").map(PathBuf::from).expect("RUN_EVALS_AGENTV names AgentV's program")
}

/// A directory with a suite, a local target `echo` and the runner repository `cloud`.
struct Desk {
    stage: Stage,
}

/// What AgentV printed, and its rows by test.
struct Run {
    code: Option<i32>,
    shown: String,
    rows: BTreeMap<String, Value>,
}

impl Desk {
    fn new(llm: &[&str]) -> Self {
        let stage = Stage::with_llm(llm);
        let runtime = stage.workspace.path("runtime");
        std::fs::create_dir(&runtime).unwrap();
        let desk = Self { stage: stage.env("XDG_RUNTIME_DIR", runtime.to_str().unwrap()) };
        desk.targets("", "");
        desk
    }

    /// The targets file: more lines for `cloud`, and more options for the adapter.
    fn targets(&self, more: &str, options: &str) {
        let more: String = more.lines().map(|line| format!("    {}\n", line.trim())).collect();
        self.stage.workspace.write(
            "targets.yaml",
            format!(
                "targets:\n  - name: echo\n    provider: cli\n    command: cp {{PROMPT_FILE}} {{OUTPUT_FILE}}\n  - name: cloud\n    \
                 provider: github-actions\n    repo: acme/runner\n    workflow: run-evals.yml\n    target: llm\n    \
                 poll_interval: 1s\n    timeout: 2m\n    command: >-\n      {} adapter --target cloud --workers 50 --prompt-file \
                 {{PROMPT_FILE}} --output-file {{OUTPUT_FILE}} --id {{EVAL_ID}} --attempt {{ATTEMPT}} {options} --files {{FILES}}\n{more}",
                env!("CARGO_BIN_EXE_run-evals")
            ),
        );
    }

    /// Starts `agentv eval` on `suite.eval.yaml`.
    fn start(&self, target: &str, out: &str, more: &[&str]) -> Child {
        let workspace = &self.stage.workspace;
        let mut command = Command::new(agentv());
        let out = workspace.path(out);
        command.args(["eval", "suite.eval.yaml", "--target", target, "--output", out.to_str().unwrap()]);
        workspace.like(&mut command).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn wait(&self, child: Child, out: &str) -> Run {
        let output = child.wait_with_output().unwrap();
        let shown =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        let index = format!("{out}/index.jsonl");
        assert!(self.stage.workspace.path(&index).exists(), "{shown}");
        let rows = self.stage.workspace.rows(&index);
        let rows = rows.into_iter().map(|row| (row["test_id"].as_str().unwrap().to_owned(), row)).collect();
        Run { code: output.status.code(), shown, rows }
    }

    fn eval(&self, target: &str, out: &str, more: &[&str]) -> Run {
        self.wait(self.start(target, out, more), out)
    }

    /// The process that leads the only batch: it holds the batch's lock.
    fn leader(&self) -> i32 {
        let runtime = self.stage.workspace.path("runtime");
        let entries = walkdir::WalkDir::new(runtime).into_iter().map(Result::unwrap);
        let is_lock = |path: &PathBuf| path.ends_with("lock") && path.to_str().unwrap().contains("/batches/");
        let lock = entries.map(walkdir::DirEntry::into_path).find(is_lock).unwrap();
        let inode = format!(":{} ", std::fs::metadata(lock).unwrap().ino());
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        let held = locks.lines().find(|line| line.contains(&inode) && !line.contains("->")).unwrap();
        held.split_ascii_whitespace().nth(4).unwrap().parse().unwrap()
    }

    /// How many requests each run on GitHub had.
    fn requests_of_runs(&self) -> Vec<u64> {
        let exchange = self.stage.workspace.path(".run-evals/exchange.git/dispatch");
        let records = std::fs::read_dir(exchange).unwrap().map(|entry| entry.unwrap().path());
        let records = records.filter(|path| path.extension().is_some_and(|end| end == "json"));
        let requests = |path: PathBuf| {
            let record: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            record["requests"].as_u64().unwrap()
        };
        records.map(requests).collect()
    }
}

impl Run {
    fn scores(&self) -> BTreeMap<&str, f64> {
        self.rows.iter().map(|(id, row)| (id.as_str(), row["score"].as_f64().unwrap())).collect()
    }
}

/// A suite in which every seventh test fails and every fifth is half right.
fn suite(count: usize, execution: &str) -> String {
    let mut text = format!("name: many\n{execution}tests:\n");
    for n in 0..count {
        let (first, second) =
            (if n % 7 == 0 { "absent" } else { "message" }, if n % 5 == 0 { "absent" } else { "message" });
        let _ = write!(
            text,
            "  - id: case-{n}\n    input: message {n}\n    criteria: echoes\n    assertions:\n      - type: contains\n        \
             value: {first}\n      - type: contains\n        value: {second}\n"
        );
    }
    text
}

#[test]
fn two_hundred_tests_need_few_runs_and_score_as_locally() {
    let desk = Desk::new(&[]);
    desk.stage.workspace.write("suite.eval.yaml", suite(200, ""));
    let local = desk.eval("echo", "local", &["--workers", "50"]);
    let started = Instant::now();
    let cloud = desk.eval("cloud", "cloud", &["--workers", "50"]);
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(cloud.rows.len(), 200, "{}", cloud.shown);
    assert_eq!(cloud.scores(), local.scores());
    let requests = desk.requests_of_runs();
    eprintln!("200 cases, 50 workers: {} runs of {requests:?} cases, {seconds:.1} s", desk.stage.starts());
    assert!(desk.stage.starts() <= 5, "{requests:?}");
    assert_eq!(requests.iter().sum::<u64>(), 200);
    desk.stage.paid_once(200);
    // AgentV reports what the runner measured.
    assert!(cloud.rows["case-1"]["token_usage"]["output"].as_u64().unwrap() > 0);
}

#[test]
fn repeats_are_separate_answers_and_runs_share_nothing() {
    let desk = Desk::new(&[]);
    let execution = "execution:\n  trials:\n    count: 3\n    strategy: mean\n";
    desk.stage.workspace.write("suite.eval.yaml", suite(4, execution));
    let first = desk.eval("cloud", "first", &["--workers", "4"]);
    assert_eq!(first.rows.len(), 4, "{}", first.shown);
    let served = |times: u64| (0..4).map(|n| (format!("message {n}"), times)).collect::<BTreeMap<_, _>>();
    assert_eq!(desk.stage.llm.served(), served(3));
    // The same suite again repeats all calls.
    let second = desk.eval("cloud", "second", &["--workers", "4"]);
    assert_eq!(desk.stage.llm.served(), served(6));
    assert_eq!(second.scores(), first.scores());
}

#[test]
fn a_killed_leader_costs_nothing() {
    let desk = Desk::new(&["--latency-ms", "3000"]);
    desk.stage.workspace.write("suite.eval.yaml", suite(12, ""));
    desk.targets("", "--window 4s");
    let local = desk.eval("echo", "local", &["--workers", "12"]);
    let eval = desk.start("cloud", "cloud", &["--workers", "12"]);
    crate::support::until("the calls to the model", || desk.stage.llm.counter("in_flight") == 12);
    let leader = desk.leader();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(leader), nix::sys::signal::SIGKILL).unwrap();
    let cloud = desk.wait(eval, "cloud");
    assert_eq!(cloud.scores(), local.scores(), "{}", cloud.shown);
    assert!(cloud.rows.values().all(|row| row.get("error").is_none()), "{}", cloud.shown);
    assert_eq!(desk.stage.starts(), 1);
    desk.stage.paid_once(12);
}

/// The suite and the targets of `docs/agentv.md`, with this machine's binary and repository.
#[test]
fn the_example_of_the_docs_works() {
    let desk = Desk::new(&[]);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/agentv");
    for name in ["suite.eval.yaml", "notes.md", "targets.yaml"] {
        let text = std::fs::read_to_string(fixtures.join(name)).unwrap();
        let text = text.replace("/usr/local/bin/run-evals", env!("CARGO_BIN_EXE_run-evals"));
        let text = text.replace("myorg/eval-runner", "acme/runner").replace("target: gpt", "target: llm");
        desk.stage.workspace.write(name, text);
    }
    let run = desk.eval("cloud-eval-runner", "out", &["--workers", "50"]);
    assert_eq!(run.rows.len(), 5, "{}", run.shown);
    assert!(run.scores().values().all(|score| (*score - 1.0).abs() < f64::EPSILON), "{:?}", run.scores());
    assert_eq!(desk.stage.starts(), 1);
    // The file was sent, and its local path was not.
    let root = desk.stage.workspace.root().to_str().unwrap();
    let served = desk.stage.llm.served();
    assert!(served.keys().any(|message| message.contains("called Rosebud")), "{served:?}");
    assert!(served.keys().all(|message| !message.contains(root)), "{served:?}");
}

/// A grader that needs a model can use the runner repository too: no local key is needed. AgentV gives a command
/// only the grader's prompt, so the prompt contains the verdict; the model echoes it.
#[test]
fn a_grader_can_be_a_runner_repository() {
    let desk = Desk::new(&[]);
    let targets = desk.stage.workspace.read("targets.yaml");
    let judge =
        targets.split_once("  - name: cloud\n").unwrap().1.replace("--target cloud", "--target judge");
    let targets = format!("{targets}    grader_target: judge\n  - name: judge\n{judge}");
    desk.stage.workspace.write("targets.yaml", targets);
    let verdict = r#"{"score": 0.75, "assertions": [{"text": "said", "passed": true}]}"#;
    let prompt = format!("Is it said? {{{{ output }}}} Reply with {verdict}");
    let test = format!(
        "    input: message\n    criteria: says it\n    assertions:\n      - name: judged\n        type: llm-grader\n        prompt: '{prompt}'\n"
    );
    desk.stage
        .workspace
        .write("suite.eval.yaml", format!("name: judged\ntests:\n  - id: a\n{test}  - id: b\n{test}"));
    let run = desk.eval("cloud", "out", &["--workers", "2"]);
    assert_eq!(run.scores(), BTreeMap::from([("a", 0.75), ("b", 0.75)]), "{}", run.shown);
    let judged = format!("Is it said? message Reply with {verdict}");
    let served = desk.stage.llm.served();
    assert_eq!(
        served.iter().filter(|(asked, _)| asked.contains(&judged)).map(|(_, times)| times).sum::<u64>(),
        2,
        "{served:?}"
    );
    assert_eq!(desk.requests_of_runs().iter().sum::<u64>(), 4);
}

/// The error that AgentV's row has for the only case.
fn error_row(desk: &Desk) -> String {
    desk.stage.workspace.write("suite.eval.yaml", suite(1, ""));
    let run = desk.eval("cloud", "out", &["--workers", "1"]);
    let row = &run.rows["case-0"];
    assert_eq!(row["execution_status"], "execution_error", "{}", run.shown);
    // 2 is AgentV's exit code for "every case is an error".
    assert_eq!(run.code, Some(2));
    let line = row["error"].as_str().unwrap().to_owned();
    assert!(!line.contains('\n'), "{line}");
    eprintln!("{line}");
    line
}

#[test]
fn a_row_without_an_answer_has_a_hint() {
    let desk = Desk::new(&[]);
    let desk = Desk { stage: desk.stage.env("GH_ENTERPRISE_TOKEN", "github_pat_wrong") };
    let line = error_row(&desk);
    assert!(line.contains("401: Bad credentials (hint: the token is wrong, expired or revoked"), "{line}");

    let desk = Desk::new(&[]);
    let targets = desk.stage.workspace.read("targets.yaml");
    desk.stage
        .workspace
        .write("targets.yaml", targets.replace("workflow: run-evals.yml", "workflow: evals.yml"));
    let line = error_row(&desk);
    assert!(
        line.contains("`.github/workflows/evals.yml` must exist on the default branch of `acme/runner`"),
        "{line}"
    );

    let desk = Desk::new(&[]);
    desk.stage.github.put_file(
        "acme/runner",
        "targets.yaml",
        "targets:\n  - name: gpt\n    provider: mock\n",
    );
    let line = error_row(&desk);
    let told = "`acme/runner` has no target `llm` in its `targets.yaml` (hint: set `target` of the dispatcher's target to one \
                of these: `gpt`)";
    assert!(line.contains("the run ended with `failure`: http://") && line.contains(told), "{line}");
}
