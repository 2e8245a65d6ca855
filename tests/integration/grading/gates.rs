//! The exit code and every report agree.

use serde_json::Value;

use super::workspace;
use crate::support::{Output, Workspace};

const HALF: &str = "name: half
tests:
  - id: right
    input: Jupiter
    criteria: names it
    assertions: [{ type: contains, value: Jupiter }]
  - id: wrong
    input: Pluto
    criteria: names it
    assertions: [{ type: contains, value: Saturn }]
";

const UNKNOWN: &str = "name: unknown
tests:
  - id: a
    input: Jupiter
    criteria: names it
    assertions: [{ type: skill-trigger, skill: x }]
";

fn eval(workspace: &Workspace, more: &[&str]) -> Output {
    let args = ["eval", "s.eval.yaml", "--output", "out", "--json", "r.json", "--markdown", "r.md", "-q"];
    workspace.run(&[&args, more].concat())
}

#[test]
fn exit_code_and_verdict_agree() {
    let workspace = workspace(HALF);
    for (more, code, word) in [
        (&[][..], 4, "failed"),
        (&["--threshold", "0.8"], 4, "failed"),
        (&["--threshold", "0.8", "--min-pass-rate", "0.5"], 0, "passed"),
        (&["--min-pass-rate", "0.6"], 4, "failed"),
        (&["--threshold", "0.8", "--fail-on", "never"], 0, "failed"),
        (&["--fail-on", "incomplete"], 0, "failed"),
        (&["--threshold", "0"], 0, "passed"),
    ] {
        eval(&workspace, more).expect(code);
        let verdict: Value = serde_json::from_str(&workspace.read("r.json")).unwrap();
        assert_eq!(verdict["verdict"], word, "{more:?}");
        let summary: Value = serde_json::from_str(&workspace.read("out/summary.json")).unwrap();
        assert_eq!(summary["verdict"], word, "{more:?}");
        let heading = workspace.read("r.md").lines().next().unwrap().to_owned();
        assert!(heading.ends_with(&format!("<code>half</code>: {word}")), "{more:?}: {heading}");
    }
}

#[test]
fn a_gate_without_scores_does_not_pass() {
    let workspace = workspace(UNKNOWN);
    let ignoring = "--ignore-unknown-graders";
    let told = eval(&workspace, &[ignoring]).expect(5).stdout;
    assert!(told.ends_with("skipped: nothing was graded\n"), "{told}");
    let summary: Value = serde_json::from_str(&workspace.read("out/summary.json")).unwrap();
    assert_eq!(summary["verdict"], "skipped");
    assert!(workspace.read("r.md").contains("<code>unknown</code>: skipped"), "{}", workspace.read("r.md"));
    eval(&workspace, &[ignoring, "--fail-on", "never"]).expect(0);
    for more in [&[ignoring, "--threshold", "0.5"][..], &[ignoring, "--min-pass-rate", "0"]] {
        eval(&workspace, more).expect(5);
    }
    let told = eval(&workspace, &[ignoring, "--baseline", "base", "--bless"]).expect(5).stderr;
    assert!(told.contains("these results have no scores"), "{told}");
    assert!(!workspace.path("base").exists());
}

#[test]
fn contradictory_options_are_rejected_before_any_call() {
    let workspace = workspace(HALF);
    eval(&workspace, &[]).expect(4);
    let before = workspace.read("out/scores.jsonl");
    let refused = |more: &[&str]| eval(&workspace, more).expect(2).stderr;
    insta::assert_snapshot!(refused(&["--baseline", "out"]), @r"
    error: `--output` is the baseline: it would be overwritten, and compared with itself

    hint: choose another `--output`; `--bless` updates a baseline
    ");
    insta::assert_snapshot!(refused(&["--no-grade", "--agentv-run", "run"]), @r"
    error: `--agentv-run` needs scores

    hint: remove `--no-grade`: AgentV's rows need scores
    ");
    insta::assert_snapshot!(refused(&["--fail-on", "regression"]), @r"
    error: `--fail-on regression` needs a baseline

    hint: pass one with `--baseline`
    ");
    insta::assert_snapshot!(refused(&["--pr-comment"]), @r"
    error: the pull request for `--pr-comment` is unknown

    hint: pass it: `--repo <owner>/<name> --pr <number>`
    ");
    assert_eq!(workspace.read("out/scores.jsonl"), before);
}

#[test]
fn an_undecidable_schema_is_an_error_and_not_a_pass() {
    let suite = r#"tests:
  - id: a
    input: '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"'
    criteria: fits
    assertions:
      - { type: is-json, negate: true, schema: { type: string, pattern: "^(?=a)(a|aa)+(?!b)$" } }
"#;
    let workspace = workspace(suite);
    eval(&workspace, &[]).expect(5);
    assert_eq!(workspace.rows("out/scores.jsonl")[0]["status"], "error");
}

#[test]
fn weights_that_overflow_are_rejected() {
    let heavy = HALF.replace("value: Jupiter }", "value: Jupiter, weight: 1.0e308 }");
    let told = eval(&workspace(&heavy), &[]).expect(3).stderr;
    assert!(told.contains("`weight`: expected a number from 0 to 1e12"), "{told}");
}
