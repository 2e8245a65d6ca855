//! `eval` over several suites, and over some tests of one.

use crate::support::Workspace;

fn suite(ids: &[&str]) -> String {
    let test = |id: &&str| {
        format!("  - {{ id: {id}, input: {id}, assertions: [{{ type: contains, value: {id} }}] }}\n")
    };
    format!("tests:\n{}", ids.iter().map(test).collect::<String>())
}

fn workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write(
        "targets.yaml",
        "targets:\n  - { name: default, provider: mock }\n  - { name: two, provider: mock }\n",
    );
    workspace.write("a.eval.yaml", suite(&["refund-1", "refund-2", "greeting"]));
    workspace.write("more/b.eval.yaml", suite(&["refund-3", "billing"]));
    workspace.write("more/deep/EVAL.yaml", suite(&["deep"]));
    workspace.write("more/.hidden/c.eval.yaml", "tests: nonsense\n");
    workspace.write("empty/readme.md", "");
    workspace
}

fn ids(workspace: &Workspace, dir: &str) -> Vec<String> {
    let rows = workspace.rows(&format!("{dir}/responses.jsonl"));
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_directory_means_all_its_suites() {
    let workspace = workspace();
    let output = workspace.run(&["eval", "a.eval.yaml", "more", "-o", "out"]).expect(0);
    let suites: Vec<&str> = output.stderr.lines().filter(|line| line.starts_with("suite ")).collect();
    assert_eq!(
        suites,
        ["suite 1 of 3: a.eval.yaml", "suite 2 of 3: more/b.eval.yaml", "suite 3 of 3: more/deep/EVAL.yaml"]
    );
    assert_eq!(ids(&workspace, "out/a"), ["refund-1", "refund-2", "greeting"]);
    assert_eq!(ids(&workspace, "out/more-b"), ["refund-3", "billing"]);
    assert_eq!(ids(&workspace, "out/more-deep-EVAL"), ["deep"]);
    workspace.run(&["eval", "."]).expect(0);
    let runs = workspace.run(&["runs", "--format", "json"]).expect(0);
    let runs: Vec<serde_json::Value> = serde_json::from_str(&runs.stdout).unwrap();
    assert_eq!(runs.len(), 6);
}

#[test]
fn the_worst_suite_decides_the_exit_code() {
    let workspace = workspace();
    workspace.write("more/b.eval.yaml", suite(&["x"]).replace("value: x", "value: y"));
    workspace.run(&["eval", ".", "--fail-on", "threshold", "--threshold", "0.8"]).expect(4);
    // Every suite is read before the first call.
    workspace.write("more/deep/EVAL.yaml", "tests: nonsense\n");
    let before = workspace.run(&["runs"]).stdout;
    workspace.run(&["eval", "."]).expect(3);
    assert_eq!(workspace.run(&["runs"]).stdout, before);
}

#[test]
fn a_filter_chooses_tests_by_id() {
    let workspace = workspace();
    workspace
        .run(&["eval", "a.eval.yaml", "--filter", "refund-*", "--trials", "2", "-t", "two", "-o", "out"])
        .expect(0);
    assert_eq!(ids(&workspace, "out"), ["refund-1", "refund-1#2", "refund-2", "refund-2#2"]);
    assert_eq!(workspace.rows("out/responses.jsonl")[0]["target"], "two");
    let output = workspace.run(&["eval", ".", "--filter", "*ill*", "-o", "all"]).expect(0);
    assert!(output.stderr.contains("suite 1 of 1: more/b.eval.yaml"), "{}", output.stderr);
    // Only the tests that ran are graded again.
    let output = workspace.run(&["grade", "out", "--fail-on", "never"]).expect(0);
    assert_eq!(output.stderr, "");
}

#[test]
fn a_filter_without_a_match_names_the_tests() {
    let workspace = workspace();
    let message = |args: &[&str]| workspace.run(args).expect(2).stderr;
    insta::assert_snapshot!(message(&["eval", "a.eval.yaml", "--filter", "refnd-1"]), @r"
    error: no test matches `--filter refnd-1`

    hint: did you mean `refund-1`?
    ");
    insta::assert_snapshot!(message(&["eval", "a.eval.yaml", "--filter", "Refund"]), @r"
    error: no test matches `--filter Refund`

    hint: did you mean `refund-1`, `refund-2`?
    ");
    insta::assert_snapshot!(message(&["eval", ".", "--filter", "zzz"]), @r"
    error: no test matches `--filter zzz`

    hint: the tests are `refund-1`, `refund-2`, `greeting`, `refund-3`, `billing`, `deep`
    ");
    insta::assert_snapshot!(message(&["eval", "a.eval.yaml", "--filter", "[x"]), @r"
    error: `--filter [x` is not a glob: unclosed character class; missing ']'

    hint: `*` matches any text, as in `--filter 'refund-*'`
    ");
    insta::assert_snapshot!(workspace.run(&["eval", "empty"]).expect(3).stderr, @r"
    error: no suite in `empty`: it has no `*.eval.yaml` and no `EVAL.yaml`

    hint: pass a suite, or a directory that has one
    ");
    insta::assert_snapshot!(message(&["eval", ".", "--batch-id", "b1"]), @r"
    error: `--batch-id` supports only one suite

    hint: name one suite
    ");
    assert!(message(&["eval", "a.eval.yaml", "--trials", "0"]).contains("expected a number from 1 to 1000"));
    assert!(!workspace.path(".run-evals").exists());
}
