//! Directories that `eval` did not write.

use super::{many, planets};
use crate::support::Workspace;

#[test]
fn unreadable_results_are_reported_with_file_and_line() {
    let workspace = Workspace::new();
    planets().write(&workspace, "now");
    let good = workspace.read("now/scores.jsonl");
    let told = |scores: &str| {
        workspace.write("now/scores.jsonl", scores);
        let output = workspace.run(&["report", "now", "--html", "x.html"]).expect(3);
        assert_eq!((output.stdout.as_str(), workspace.path("x.html").exists()), ("", false));
        output.stderr
    };
    insta::assert_snapshot!(told(&format!("{good}{{\"id\":\"a\"}}\n")), @r"
    error: invalid row: missing field `test_id`
      --> now/scores.jsonl:13:10

    hint: `eval` writes this file, one JSON object per line: run it again
    ");
    insta::assert_snapshot!(told(&good.replacen("\"score\":1.0", "\"score\":7.5", 1)), @r"
    error: invalid row: `score` is 7.5, expected 0 to 1
      --> now/scores.jsonl:1

    hint: `eval` writes this file, one JSON object per line: run it again
    ");
    insta::assert_snapshot!(told("{\"id\":\"\\u001b[2J\\n::error::x\",\"test_id\":7}\n"), @r"
    error: invalid row: invalid type: integer `7`, expected a string
      --> now/scores.jsonl:1:41

    hint: `eval` writes this file, one JSON object per line: run it again
    ");
    let output = workspace.run(&["report", "nowhere"]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: no results: `nowhere` is neither a directory nor a run

    hint: `run-evals runs` lists the runs; `latest` is the newest
    ");
    workspace.write("now/summary.json", "{");
    let output = workspace.run(&["report", "now"]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: `summary.json` cannot be read: EOF while parsing an object at line 1 column 1
      --> now/summary.json:1:1

    hint: `eval` writes it: run it again, or remove the file
    ");
}

#[test]
fn options_out_of_range_are_reported() {
    let workspace = Workspace::new();
    many(1, 0).write(&workspace, "now");
    let told = |args: &[&str]| workspace.run(&[&["report", "now"], args].concat()).expect(2).stderr;
    insta::assert_snapshot!(told(&["--alpha", "0"]), @r"
    error: invalid value '0' for '--alpha <LEVEL>': expected a level from 0.0001 to 0.5, for example `0.05`

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(told(&["--min-pass-rate", "90"]), @r"
    error: invalid value '90' for '--min-pass-rate <SHARE>': expected a share from 0 to 1, for example `0.9`

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(told(&["--pr-comment"]), @r"
    error: the pull request for `--pr-comment` is unknown

    hint: pass it: `--repo <owner>/<name> --pr <number>`
    ");
}

#[test]
fn an_answer_without_a_score_is_an_error_and_answers_without_any_are_not_graded() {
    let workspace = Workspace::new();
    many(3, 0).write(&workspace, "now");
    let scores = workspace.read("now/scores.jsonl");
    workspace.write(
        "now/scores.jsonl",
        scores.lines().take(2).map(|line| format!("{line}\n")).collect::<String>(),
    );
    let told = workspace.run(&["report", "now"]).expect(5).stdout;
    assert!(told.contains("1 of 3 requests has no response or no score; 1 can be retried"), "{told}");
    std::fs::remove_file(workspace.path("now/scores.jsonl")).unwrap();
    let output = workspace.run(&["report", "now", "--html", "report.html"]).expect(5);
    assert!(output.stdout.ends_with("skipped: nothing was graded\n"), "{}", output.stdout);
    assert_eq!(output.stderr, "warning: `now` has no `scores.jsonl`: nothing was graded\n\n");
    assert!(workspace.read("report.html").contains("nothing was graded"));
}

#[test]
fn targets_with_the_same_name_are_distinguished() {
    let workspace = Workspace::new();
    many(2, 1).write(&workspace, "now");
    for name in ["responses.jsonl", "scores.jsonl"] {
        let rows = workspace.read(&format!("now/{name}"));
        workspace.write(&format!("now/{name}"), format!("{rows}{rows}"));
    }
    let output = workspace.run(&["report", "now", "--format", "json"]).expect(4);
    let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(
        (&json["targets"][0]["target"], &json["targets"][1]["target"]),
        (&"gpt".into(), &"gpt (2)".into())
    );
    assert_eq!(json["requests"]["total"], 4);
}
