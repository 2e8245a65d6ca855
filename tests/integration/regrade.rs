//! `grade`: new scores for the responses of an earlier run, without a call of the model under test.

use crate::support::{MockLlm, Output, Workspace};

const SUITE: &str = "tests:\n  - { id: a, input: message one, assertions: [{ type: contains, value: one }] }\n  \
                     - { id: b, input: message two, assertions: [{ type: contains, value: three }] }\n";

fn workspace(llm: &MockLlm) -> Workspace {
    let workspace = Workspace::new();
    workspace.write_target(&llm.base_url(), "");
    let targets = workspace.read("targets.yaml").replace("name: llm", "name: default");
    workspace.write("targets.yaml", targets);
    workspace.write("suite.eval.yaml", SUITE);
    workspace
}

fn statuses(workspace: &Workspace, dir: &str) -> Vec<String> {
    let rows = workspace.rows(&format!("{dir}/scores.jsonl"));
    rows.iter()
        .map(|row| format!("{} {}", row["id"].as_str().unwrap(), row["status"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_changed_assertion_makes_no_model_call() {
    let llm = MockLlm::start(&[]);
    let workspace = workspace(&llm);
    let eval = ["eval", "--batch-id", "b1", "--fail-on", "never"];
    workspace.run(&eval).expect(0);
    let dir = ".run-evals/results/b1";
    assert_eq!(statuses(&workspace, dir), ["a passed", "b failed"]);
    let responses = workspace.read(&format!("{dir}/responses.jsonl"));
    assert_eq!(llm.counter("requests"), 2);

    workspace
        .write("suite.eval.yaml", format!("# a line more\n{}", SUITE.replace("value: three", "value: two")));
    for results in [&["grade"][..], &["grade", "latest"], &["grade", "b1"], &["grade", dir]] {
        workspace.run(&[results, &["--fail-on", "never"]].concat()).expect(0);
        assert_eq!(statuses(&workspace, dir), ["a passed", "b passed"]);
    }
    assert_eq!(llm.counter("requests"), 2, "no call");
    assert_eq!(workspace.read(&format!("{dir}/responses.jsonl")), responses);
    let places = workspace.rows(&format!("{dir}/tests.jsonl"));
    assert_eq!(places[0]["line"], 3, "where the tests are now: {places:?}");
    let summary: serde_json::Value =
        serde_json::from_str(&workspace.read(&format!("{dir}/summary.json"))).unwrap();
    assert_eq!(summary["targets"][0]["batch_id"], "b1");
    assert_eq!(summary["targets"][0]["answered"], 2);

    // The batch has the same id and digest: its assertions are not part of it.
    workspace.run(&eval).expect(0);
    assert_eq!(llm.counter("requests"), 2, "the same batch");
}

#[test]
fn the_key_of_the_model_under_test_is_not_needed() {
    let llm = MockLlm::start(&[]);
    let workspace = workspace(&llm);
    workspace.run(&["eval", "--fail-on", "never"]).expect(0);
    std::fs::remove_file(workspace.path("targets.yaml")).unwrap();
    workspace.run(&["grade", "--fail-on", "never"]).expect(0);
    workspace.write(
        "suite.eval.yaml",
        SUITE.replace("type: contains, value: three", "type: llm-grader, prompt: Good?"),
    );
    workspace.write(
        "targets.yaml",
        "targets:\n  - { name: default, provider: openai, model: m, api_key: '${{ NO_SUCH_KEY }}', grader_target: judge }\n  \
         - { name: judge, provider: mock, response: '{\"score\": 1}' }\n",
    );
    workspace.run(&["grade", "--fail-on", "never", "-q", "-o", "out"]).expect(0);
    assert_eq!(statuses(&workspace, "out"), ["a passed", "b passed"]);
    assert_eq!(llm.counter("requests"), 2);
}

/// A suite that two LLM graders judge, on a server that counts their calls. The model `bad` gives no readable grade.
fn judged() -> (Workspace, MockLlm) {
    let workspace = Workspace::new();
    let bad = r#"{"model": "bad", "content": "no grade"}"#;
    workspace.write("answers.jsonl", format!("{bad}\n{}\n", r#"{"content": "{\"score\": 1}"}"#));
    let judge = MockLlm::start(&["--answers", workspace.path("answers.jsonl").to_str().unwrap()]);
    let at = judge.base_url();
    let model = |name: &str, model: &str| {
        format!("  - {{ name: {name}, provider: openai-compatible, base_url: '{at}', model: {model} }}\n")
    };
    let tested = "targets:\n  - { name: default, provider: mock, grader_target: judge }\n";
    workspace.write("targets.yaml", format!("{tested}{}{}", model("judge", "m"), model("other", "m")));
    workspace.write(
        "suite.eval.yaml",
        "tests:\n  - { id: a, input: one, assertions: [{ type: llm-grader, prompt: 'First?' }] }\n  \
         - { id: b, input: two, assertions: [{ type: llm-grader, prompt: 'Second?' }] }\n",
    );
    (workspace, judge)
}

#[test]
fn only_changed_graders_are_called() {
    let (workspace, judge) = judged();
    let calls = || judge.counter("requests");
    let grade =
        |more: &[&str]| -> Output { workspace.run(&[&["grade", "-q", "--fail-on", "never"], more].concat()) };
    workspace.run(&["eval", "-q", "--fail-on", "never"]);
    assert_eq!(calls(), 2);
    grade(&[]);
    assert_eq!(calls(), 2, "both grades are known");

    let suite = workspace.read("suite.eval.yaml");
    workspace.write("suite.eval.yaml", suite.replace("Second?", "Third?"));
    grade(&[]);
    assert_eq!(calls(), 3, "one prompt has changed");
    workspace.write("suite.eval.yaml", &suite);
    grade(&[]);
    assert_eq!(calls(), 3, "the earlier grades are still known");

    grade(&["--grader-target", "other"]);
    assert_eq!(calls(), 5, "another target grades for itself");
    grade(&["--grader-target", "other"]);
    grade(&[]);
    assert_eq!(calls(), 5);

    grade(&["--ask-again", "a"]);
    assert_eq!(calls(), 6);
    grade(&[]);
    assert_eq!(calls(), 6, "the second grade counts from now on");
    grade(&["--ask-again", "unreadable"]);
    assert_eq!(calls(), 6, "all grades could be read");
    grade(&["--ask-again", "all"]);
    assert_eq!(calls(), 8);

    let targets = workspace.read("targets.yaml");
    workspace.write("targets.yaml", targets.replace("model: m }", "model: bad }"));
    grade(&[]).expect(0);
    assert_eq!(calls(), 12, "another model under the same name, which is asked twice about each test");
    grade(&[]);
    assert_eq!(calls(), 12, "an unreadable grade is a grade");
    grade(&["--ask-again", "unreadable"]);
    assert_eq!(calls(), 16);

    let unknown = grade(&["--ask-again", "c"]).expect(2);
    assert!(unknown.stderr.contains("`--ask-again c`: the suite has no such test"), "{}", unknown.stderr);
}

#[test]
fn changes_of_the_suite_are_reported() {
    let llm = MockLlm::start(&[]);
    let workspace = workspace(&llm);
    workspace.run(&["eval", "--fail-on", "never"]).expect(0);
    let more = "  - { id: c, input: x, assertions: [{ type: contains, value: x }] }\n";
    workspace.write("suite.eval.yaml", format!("{}{more}", SUITE.replace("message one", "message 1")));
    let output = workspace.run(&["grade", "--fail-on", "never"]).expect(0);
    insta::assert_snapshot!(output.stderr, @r"
    warning: the input of `a` has changed since the run: the response answers the earlier input; `run-evals eval` calls the model again

    warning: `c` has no response in this run; `run-evals eval` calls the model
    ");
    workspace.write("suite.eval.yaml", SUITE.replace("id: b", "id: bee"));
    let output = workspace.run(&["grade", "--fail-on", "never"]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: the run has responses of `b`, which `suite.eval.yaml` does not have

    hint: pass the suite with `--suite`; `--output DIR` writes the scores of the other tests to another directory
    ");
    let output = workspace.run(&["grade", "--fail-on", "never", "-o", "out"]).expect(0);
    assert!(output.stderr.contains("the responses of `b` are left out"), "{}", output.stderr);
    assert_eq!(statuses(&workspace, "out"), ["a passed"]);
}

#[test]
fn mistakes_name_the_way_out() {
    let workspace = Workspace::new();
    let output = workspace.run(&["grade"]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: no runs in this directory yet

    hint: `run-evals eval` creates one
    ");
    let output = workspace.run(&["grade", "nowhere"]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: no results: `nowhere` is neither a directory nor a run

    hint: `run-evals runs` lists the runs; `latest` is the newest
    ");
    workspace.write("old/responses.jsonl", "");
    let output = workspace.run(&["grade", "old"]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: no run: `old` has no readable `run.json`

    hint: pass a results directory of `run-evals eval`, or a run from `run-evals runs`
    ");
    workspace.run(&["init"]).expect(0);
    workspace.run(&["eval", "--fail-on", "never"]).expect(0);
    std::fs::rename(workspace.path("suite.eval.yaml"), workspace.path("moved.eval.yaml")).unwrap();
    let output = workspace.run(&["grade"]).expect(3);
    assert!(
        output.stderr.contains("cannot find the suite `suite.eval.yaml` of the run"),
        "{}",
        output.stderr
    );
    workspace.run(&["grade", "--suite", "moved.eval.yaml", "--fail-on", "never"]).expect(0);
}

#[test]
fn results_from_elsewhere_do_not_choose_the_suite() {
    let llm = MockLlm::start(&[]);
    let workspace = workspace(&llm);
    let mark = workspace.path("was-run");
    workspace.run(&["eval", "suite.eval.yaml", "--output", "out"]).expect(4);
    // Results from an artifact, with their own suite.
    std::fs::rename(workspace.path("out"), workspace.path("art")).unwrap();
    let mut record: serde_json::Value = serde_json::from_str(&workspace.read("art/run.json")).unwrap();
    record["suite"] = "art/evil.eval.yaml".into();
    workspace.write("art/run.json", record.to_string());
    let command = format!("[\"touch\", \"{}\"]", mark.display());
    workspace.write(
        "art/evil.eval.yaml",
        format!("tests:\n  - {{id: a, input: x, assertions: [{{type: code-grader, command: {command}}}]}}\n"),
    );
    let stderr = workspace.run(&["grade", "art"]).expect(3).stderr;
    assert!(stderr.contains("hint: pass the suite with `--suite FILE`"), "{stderr}");
    // A directory called `latest` is not the newest run.
    std::fs::rename(workspace.path("art"), workspace.path("latest")).unwrap();
    workspace.run(&["grade"]).expect(3);
    assert!(!mark.exists());
}
