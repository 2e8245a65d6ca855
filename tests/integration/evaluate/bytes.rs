//! The same commit gives the same bytes, wherever and however it is evaluated.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::stage::{CASES, DATASETS, LIBRARY, Stage, expected};

const REPLICATES: u64 = 10;
const CALLS: u64 = CASES * 3 * REPLICATES;

/// Targets without a network, whose answers depend on the case and the replicate.
fn scripted(stage: &Stage) {
    let mut targets = String::from("targets:\n");
    for (number, model) in ["meadow/quill-large", "meadow/quill-small", "quill-latest"].iter().enumerate() {
        let mut script = String::new();
        for (position, (case, expected)) in expected().into_iter().enumerate() {
            for replicate in 1..=REPLICATES {
                let mut answer = expected.clone();
                let luck = (position as u64 * 7 + replicate * (number as u64 + 2)) % 5;
                match luck {
                    0 => answer["amount"] = json!(replicate),
                    1 => answer["topics"] = Value::Null,
                    _ => {}
                }
                let id = if replicate == 1 { case.clone() } else { format!("{case}#{replicate}") };
                let text =
                    if luck == 4 && number == 2 { "no JSON at all".to_owned() } else { answer.to_string() };
                script += &json!({"id": id, "response": text}).to_string();
                script.push('\n');
            }
        }
        stage.workspace.write(&format!("script-{number}.jsonl"), script);
        writeln!(
            targets,
            "  - name: t{number}\n    provider: mock\n    model: {model}\n    script: script-{number}.jsonl"
        )
        .unwrap();
    }
    stage.workspace.write("targets.yaml", targets);
}

#[test]
fn a_checkout_and_a_commit_elsewhere_give_equal_bytes() {
    let stage = Stage::new();
    scripted(&stage);
    let commit = stage.commit("main");
    stage.evaluate(&["--output", "first", "-q", "--max-concurrency", "1"]).expect(0);

    // Another machine: new clones, a default branch that has moved on, and an explicit commit.
    stage.push(|dir| {
        std::fs::write(dir.join("components/grant-letter-extraction/prompt.md"), "broken\n").unwrap();
    });
    stage.clone_of(LIBRARY, "library-2", &["--depth=1"]);
    stage.clone_of(DATASETS, "datasets-2", &[]);
    let other = ["--library", "library-2", "--datasets", "datasets-2", "--state", "state-2"];
    let api = stage.github.urls().api_url.clone();
    let args = ["evaluate", "grant-letter-extraction", "--token-file", "token.txt", "--github-api-url", &api];
    let more = ["--git-sha", &commit, "--output", "second", "-q", "--max-concurrency", "37"];
    stage.workspace.run(&[&args[..], &other, &more].concat()).expect(0);

    let (first, second) =
        (stage.workspace.read("first/leaderboard.json"), stage.workspace.read("second/leaderboard.json"));
    assert_eq!(first, second);
    let board: Value = serde_json::from_str(&first).unwrap();
    let entries = board["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 3);
    for entry in entries {
        assert_eq!(entry["calls"]["attempted"], CASES * REPLICATES);
        // The replicates really differ.
        let alike = entry["reproducibility"]["score"].as_f64().unwrap();
        assert!(alike < 1.0, "{}", entry["reproducibility"]);
    }
    assert!(entries[2]["calls"]["parse_error"].as_u64().unwrap() > 0, "{}", entries[2]["calls"]);
}

#[test]
fn a_killed_evaluation_resumes_and_pays_only_for_missing_answers() {
    let stage = Stage::new();
    let llm = stage.gateway(&["--latency-ms", "10"]);
    stage.evaluate(&["--output", "whole", "-q"]).expect(0);
    assert_eq!(llm.counter("ok"), CALLS);

    let in_flight = 8;
    let args = stage.args(&["--batch-id", "killed", "--output", "out", "-q", "--max-concurrency", "8"]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut paid = CALLS;
    // In the first model, and in the last.
    for until in [50, 290] {
        let mut child = stage.workspace.command(&args).spawn().unwrap();
        let start = Instant::now();
        while llm.counter("ok") < CALLS + until {
            assert!(start.elapsed() < Duration::from_mins(1), "it never came to that");
            assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        paid += in_flight;
    }
    // The library and the data sets change meanwhile; a started evaluation keeps its commits.
    stage.push(|dir| std::fs::write(dir.join(".evaluator/models.yaml"), "models:\n  - id: other\n").unwrap());
    let library = stage.workspace.path("library");
    super::stage::git(
        &library,
        &["pull", "--quiet", stage.github.git_dir(LIBRARY).to_str().unwrap(), "main"],
    );
    stage.github.put_file(DATASETS, "real/meadow_letters/text/larch-data.md", "Somebody else's letter.\n");
    let datasets = stage.workspace.path("datasets");
    super::stage::git(
        &datasets,
        &["pull", "--quiet", stage.github.git_dir(DATASETS).to_str().unwrap(), "main"],
    );
    let output =
        stage.evaluate(&["--batch-id", "killed", "--output", "out", "--max-concurrency", "8"]).expect(0);
    assert_eq!(stage.workspace.read("out/leaderboard.json"), stage.workspace.read("whole/leaderboard.json"));
    let asked = llm.counter("ok");
    assert!(asked >= 2 * CALLS && asked <= paid + CALLS, "{asked} calls: {}", output.stderr);

    // A complete evaluation makes no calls, and its id cannot be reused for anything else.
    stage.evaluate(&["--batch-id", "killed", "-q"]).expect(0);
    assert_eq!(llm.counter("ok"), asked);
    let output = stage.evaluate(&["--batch-id", "killed", "--replicates", "3", "-q"]).expect(3);
    let commit = &stage.commit("main~1")[..7];
    insta::assert_snapshot!(output.stderr.replace(commit, "<commit>"), @r"
    error: the evaluation `killed` has other inputs: `grant-letter-extraction` at <commit>, 10 replicates

    hint: choose another `--batch-id`, or use the same inputs to resume it
    ");
    assert_eq!(llm.counter("ok"), asked);
}

#[test]
fn an_interrupted_evaluation_says_how_to_resume() {
    let stage = Stage::new();
    let llm = stage.gateway(&["--latency-ms", "20"]);
    let args = stage.args(&["--batch-id", "stopped", "--max-concurrency", "4"]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let child = stage.workspace.command(&args).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while llm.counter("ok") < 20 {
        assert!(start.elapsed() < Duration::from_mins(1), "it never came to that");
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    let error = said.split("error: ").last().unwrap();
    insta::assert_snapshot!(error, @r"
    the evaluation was stopped: the run was interrupted

    hint: add `--batch-id stopped` to the same command to resume
    ");
}

#[test]
fn the_data_sets_come_from_the_commit_not_from_the_working_tree() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let letter = "real/meadow_letters/text/larch-data.md";
    stage.evaluate(&["--replicates", "1", "--output", "first", "-q"]).expect(0);
    let datasets = stage.workspace.path("datasets");
    std::fs::remove_dir_all(&datasets).unwrap();
    stage.clone_of(DATASETS, "datasets", &["--config", "core.autocrlf=true"]);
    assert!(std::fs::read_to_string(datasets.join(letter)).unwrap().contains("\r\n"));
    stage.evaluate(&["--replicates", "1", "--output", "second", "-q"]).expect(0);
    let read = |name: &str| stage.workspace.read(&format!("{name}/leaderboard.json"));
    assert_eq!(read("first"), read("second"));

    // git-lfs content is not fetched: the pointer is not an input.
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0000\nsize 12345\n";
    stage.github.put_file(DATASETS, letter, pointer);
    std::fs::remove_dir_all(&datasets).unwrap();
    stage.clone_of(DATASETS, "datasets", &[]);
    let output = stage.evaluate(&["--replicates", "1", "--output", "third", "-q"]).expect(0);
    let told = "skipped: larch-data: its input is kept by git-lfs, and the commit has only a pointer to it";
    assert!(output.stdout.contains(told), "{}", output.stdout);
    let board: Value = serde_json::from_str(&read("third")).unwrap();
    assert_eq!(
        board["entries"][0]["cases"]["skipped"],
        json!([{"case": "larch-data", "reason": "input_in_lfs"}])
    );
}
