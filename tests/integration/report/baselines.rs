//! Where a baseline is found, when it fails the command, and how it is updated.

use std::process::Command;

use super::{many, planets, workspace};
use crate::support::{Came, Results, Workspace};

fn git(workspace: &Workspace, args: &[&str]) {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
    let output =
        Command::new("git").args(identity).args(args).current_dir(workspace.root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_gate_fails_on_the_selected_condition() {
    let workspace = workspace(&many(40, 12), &many(40, 0));
    let code = |more: &[&str]| workspace.run(&[&["report", "now"], more].concat()).code.unwrap();
    assert_eq!(code(&["--baseline", "before"]), 4);
    assert_eq!(code(&["--baseline", "before", "--fail-on", "threshold"]), 4);
    assert_eq!(code(&["--baseline", "before", "--fail-on", "incomplete"]), 0);
    assert_eq!(code(&["--baseline", "before", "--fail-on", "incomplete,regression"]), 4);
    assert_eq!(code(&["--baseline", "before", "--fail-on", "never"]), 0);
    assert_eq!(code(&["--baseline", "before", "--fail-on", "never,regression"]), 0);
    assert_eq!(code(&["--baseline", "now"]), 0, "no worse than itself, whatever fails");
    assert_eq!(code(&[]), 4, "without a baseline every test must pass");
    assert_eq!(code(&["--min-pass-rate", "0.7"]), 0);
    assert_eq!(code(&["--min-pass-rate", "0.71"]), 4);
    assert_eq!(code(&["--baseline", "now", "--min-pass-rate", "0.71"]), 4, "what is asked for counts");
}

#[test]
fn a_comparison_without_common_tests_is_reported() {
    let workspace = workspace(&many(3, 0), &planets());
    let output = workspace.run(&["report", "now", "--baseline", "before"]).expect(5);
    let verdict = "error: nothing was compared: the baseline has none of the graded tests\n";
    assert!(output.stdout.ends_with(verdict), "{}", output.stdout);
    assert!(output.stdout.contains("0 tests in both, 3 added, 6 removed"), "{}", output.stdout);
    assert_eq!(output.stderr, "");
}

#[test]
fn the_significance_level_decides_what_is_a_regression() {
    // Six of six differences are worse: a chance of one in 64.
    let workspace = workspace(&many(40, 6), &many(40, 0));
    let code = |alpha: &str| {
        workspace.run(&["report", "now", "--baseline", "before", "--alpha", alpha]).code.unwrap()
    };
    assert_eq!((code("0.05"), code("0.01")), (4, 0));
}

#[test]
fn incomplete_results_are_exit_code_5() {
    let with = |retryable: bool| Results::new("s").test("a", &[Came::Nothing { retryable }]);
    let workspace = workspace(&with(false), &many(1, 0));
    workspace.run(&["report", "now"]).expect(5);
    workspace.run(&["report", "now", "--fail-on", "threshold"]).expect(4);
}

#[test]
fn a_baseline_can_be_a_directory_a_run_or_a_commit() {
    let workspace = workspace(&many(40, 12), &many(40, 0));
    git(&workspace, &["init", "-q", "-b", "main"]);
    git(&workspace, &["add", "before"]);
    git(&workspace, &["commit", "-qm", "Baseline"]);
    git(&workspace, &["tag", "v1"]);
    std::fs::rename(workspace.path("before"), workspace.path("elsewhere")).unwrap();
    many(40, 0).write(&workspace, ".run-evals/results/20260101-000000-00000000");
    let json = |baseline: &str| {
        let output = workspace.run(&["report", "now", "--baseline", baseline, "--format", "json"]).expect(4);
        let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(json["comparison"]["matched_tests"], 40, "{baseline}");
        json["comparison"]["targets"][0]["pass_rate"]["worse"].clone()
    };
    for baseline in ["elsewhere", "main:before", "v1:/before/", "HEAD:before", "20260101-000000-00000000"] {
        assert_eq!(json(baseline), 12, "{baseline}");
    }
    let run =
        workspace.run(&["report", "now", "--baseline", "20260101-000000-00000000", "--bless"]).expect(2);
    insta::assert_snapshot!(run.stderr, @r"
    error: `--bless` cannot move `20260101-000000-00000000`: it is a run

    hint: bless a separate directory
    ");
    let commit = workspace.run(&["report", "now", "--baseline", "main:before", "--bless"]).expect(2);
    insta::assert_snapshot!(commit.stderr, @r"
    error: `--bless` cannot move `main:before`: it is a commit

    hint: bless a directory, and commit it
    ");
    // A separate branch with the results at its root, used from a subfolder.
    git(&workspace, &["checkout", "-q", "--orphan", "baselines"]);
    git(&workspace, &["rm", "-rqf", "--cached", "."]);
    for name in ["responses.jsonl", "scores.jsonl", "summary.json"] {
        std::fs::copy(workspace.path("elsewhere").join(name), workspace.path(name)).unwrap();
        git(&workspace, &["add", name]);
    }
    git(&workspace, &["commit", "-qm", "Baseline"]);
    assert_eq!(json("baselines"), 12);
}

#[test]
fn a_missing_baseline_is_reported_with_the_legal_forms() {
    let workspace = workspace(&many(2, 0), &many(2, 0));
    let told = |args: &[&str], code: i32| {
        let output = workspace.run(&[&["report", "now"], args].concat()).expect(code);
        assert_eq!(output.stdout, "");
        output.stderr
    };
    insta::assert_snapshot!(told(&["--baseline", "nowhere"], 3), @r"
    error: no baseline `nowhere`

    hint: a baseline is a results directory, the id of a run in `.run-evals/results`, or `<ref>` or `<ref>:<folder>` of this git repository; `--bless` makes a directory
    ");
    insta::assert_snapshot!(told(&["--baseline", "main:evals"], 3), @r"
    error: no baseline `main:evals`

    hint: `<ref>` must be known here (`git fetch` brings it) and `<folder>`, from the root of the repository, must have a `scores.jsonl`; a baseline is a results directory, the id of a run in `.run-evals/results`, or `<ref>` or `<ref>:<folder>` of this git repository; `--bless` makes a directory
    ");
    insta::assert_snapshot!(told(&["--baseline", "now/scores.jsonl"], 3), @r"
    error: the baseline `now/scores.jsonl` is not a directory

    hint: a baseline is a results directory, the id of a run in `.run-evals/results`, or `<ref>` or `<ref>:<folder>` of this git repository; `--bless` makes a directory
    ");
    std::fs::remove_file(workspace.path("before/scores.jsonl")).unwrap();
    insta::assert_snapshot!(told(&["--baseline", "before"], 3), @r"
    error: the baseline `before` has no `scores.jsonl`

    hint: only graded results can be compared with
    ");
    insta::assert_snapshot!(told(&["--bless"], 2), @r"
    error: the following required arguments were not provided:
      --baseline <BASELINE>

    Usage: run-evals report --baseline <BASELINE> --bless <RESULTS>

    For more information, try '--help'.
    ");
}

#[test]
fn only_bless_updates_a_baseline() {
    let workspace = workspace(&many(40, 12), &many(40, 0));
    let read = || workspace.read("before/scores.jsonl");
    let old = read();
    workspace.run(&["report", "now", "--baseline", "before"]).expect(4);
    assert_eq!(read(), old);
    let blessed = workspace.run(&["report", "now", "--baseline", "before", "--bless"]).expect(0);
    assert!(
        blessed.stdout.contains("worse than the baseline"),
        "what is accepted is reported: {}",
        blessed.stdout
    );
    assert_eq!(blessed.stderr, "the baseline is now these results: before\n");
    assert_eq!(read(), workspace.read("now/scores.jsonl"));
    workspace.run(&["report", "now", "--baseline", "before"]).expect(0);
    // The first one creates the directory and its parents.
    workspace.run(&["report", "now", "--baseline", "evals/baseline", "--bless"]).expect(0);
    assert_eq!(workspace.read("evals/baseline/summary.json"), workspace.read("now/summary.json"));
    let left: Vec<_> = std::fs::read_dir(workspace.path("evals")).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing is left over: {left:?}");
}

#[test]
fn bless_refuses_to_lose_results() {
    let open = Results::new("s").test("a", &[Came::Nothing { retryable: true }]);
    let workspace = workspace(&open, &many(2, 0));
    planets().write(&workspace, "planets");
    workspace.write("mixed/README.md", "mine");
    let tree = workspace.tree();
    let told = |results: &str, baseline: &str, code: i32| {
        let args = ["report", results, "--baseline", baseline, "--bless", "--fail-on", "never", "-q"];
        let output = workspace.run(&args);
        let stderr = output.expect(code).stderr;
        assert!(workspace.tree() == tree, "something has changed");
        stderr
    };
    insta::assert_snapshot!(told("now", "before", 5), @"error: the baseline was not changed: 1 of 1 requests can be retried");
    insta::assert_snapshot!(told("planets", "planets", 2), @r"
    error: `planets` is the results directory itself

    hint: choose another directory for the baseline
    ");
    insta::assert_snapshot!(told("planets", "mixed", 3), @r"
    error: no results: `mixed` has no `responses.jsonl`

    hint: pass the directory that `eval` printed, or the one given to `--output`
    ");
    many(2, 0).write(&workspace, "mixed");
    let tree = workspace.tree();
    let output = workspace
        .run(&["report", "planets", "--baseline", "mixed", "--bless", "--fail-on", "never", "-q"])
        .expect(2);
    assert!(workspace.tree() == tree);
    insta::assert_snapshot!(output.stderr, @r"
    error: `mixed` has `README.md`, which is not part of a baseline

    hint: `--bless` replaces the whole directory: give the baseline a separate one
    ");
}

#[test]
fn two_targets_of_one_run_are_compared() {
    let results = (0..40).fold(Results::new("models"), |results, test| {
        let came = |passes: bool| if passes { Came::To(1.0, "right") } else { Came::To(0.0, "wrong") };
        let id = format!("t{test:02}");
        results.test_on("old", &id, &[came(true)]).test_on("new", &id, &[came(test >= 12)])
    });
    let workspace = workspace(&results, &many(1, 0));
    let told = |args: &[&str], code: i32| workspace.run(&[&["report", "now"], args].concat()).expect(code);
    let output = told(&["--target", "new", "--baseline-target", "old"], 4).stdout;
    assert!(output.contains("against old of now: 40 tests in both, 0 added, 0 removed"), "{output}");
    assert!(output.contains("pass rate  100.0 % → 70.0 %"), "{output}");
    assert!(output.contains("failed: worse than the baseline"), "{output}");
    assert!(!output.contains("\nold"), "only the chosen target: {output}");
    // The same with the baseline named, in either direction, and for all targets at once.
    let named = told(&["--target", "new", "--baseline", "now", "--baseline-target", "old"], 4).stdout;
    assert_eq!(named, output);
    told(&["--target", "old", "--baseline-target", "new"], 0);
    let all = told(&["--baseline-target", "old", "--format", "json"], 4).stdout;
    let all: serde_json::Value = serde_json::from_str(&all).unwrap();
    assert_eq!(
        all["comparison"]["targets"].as_array().unwrap().len(),
        1,
        "a target is not compared with itself"
    );
    assert_eq!(all["comparison"]["targets"][0]["target"], "new");
    insta::assert_snapshot!(told(&["--target", "newer"], 3).stderr, @r"
    error: `now` has no target `newer`

    hint: it has `old`, `new`
    ");
    insta::assert_snapshot!(told(&["--target", "old", "--baseline-target", "old"], 3).stderr, @r"
    error: `now` has no target to compare with `old`

    hint: compare with another run: `--baseline RUN`
    ");
}
