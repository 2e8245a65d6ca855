//! The everyday session: `init`, `eval`, `grade`, `runs`, `open`, `clean` and `cancel`.

use serde_json::Value;

use crate::support::stage::{REPO, Stage};
use crate::support::{Output, Workspace, until};

fn runs(workspace: &Workspace) -> Vec<Value> {
    serde_json::from_str(&workspace.run(&["runs", "--format", "json"]).expect(0).stdout).unwrap()
}

#[test]
fn the_first_session() {
    let workspace = Workspace::new();
    workspace.run(&["init"]).expect(0);
    let first = workspace.run(&["eval", "--fail-on", "threshold"]);
    let suite = workspace.read("suite.eval.yaml");
    let failed = |dir: &str| {
        let rows = workspace.rows(&format!("{dir}/scores.jsonl"));
        rows.iter().filter(|row| row["status"] == "failed").count()
    };
    let listed = runs(&workspace);
    let dir = listed[0]["results"].as_str().unwrap().to_owned();
    assert_eq!(first.code == Some(0), failed(&dir) == 0, "{}", first.stdout);
    let responses = workspace.read(&format!("{dir}/responses.jsonl"));
    // An assertion that no response satisfies.
    let edited = suite.replacen(
        "assertions:",
        "assertions:\n      - { type: contains, value: nowhere-to-be-found }",
        1,
    );
    assert_ne!(edited, suite);
    workspace.write("suite.eval.yaml", edited);
    workspace.run(&["grade", "--fail-on", "threshold"]).expect(4);
    assert!(failed(&dir) > 0);
    assert_eq!(workspace.read(&format!("{dir}/responses.jsonl")), responses);
    assert_eq!(runs(&workspace)[0]["verdict"], "failed");
    assert_eq!(runs(&workspace).len(), 1, "graded in place");
}

#[test]
fn runs_are_listed_and_found() {
    let workspace = Workspace::new();
    assert_eq!(workspace.run(&["runs"]).expect(0).stderr, "no runs yet; `run-evals eval` creates one\n");
    workspace.write("targets.yaml", "targets: [{ name: default, provider: mock }]\n");
    workspace
        .write("s.eval.yaml", "tests: [{ id: a, input: x, assertions: [{ type: contains, value: x }] }]\n");
    workspace.run(&["eval", "--batch-id", "first"]).expect(0);
    workspace.run(&["eval", "--batch-id", "second", "-o", "elsewhere"]).expect(0);
    let listed = runs(&workspace);
    let names: Vec<_> = listed.iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert_eq!(names, ["second", "first"]);
    assert_eq!(listed[0]["results"], "elsewhere");
    assert_eq!((&listed[0]["verdict"], &listed[0]["targets"][0]), (&"passed".into(), &"default".into()));
    let table = workspace.run(&["runs"]).expect(0).stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("RUN     DATE") && lines[1].starts_with("second  20"), "{table}");
    assert!(lines[1].contains("  s  ") && lines[1].contains("  passed"), "{table}");

    for named in ["latest", "first", "elsewhere"] {
        workspace.run(&["report", named]).expect(0);
        workspace.run(&["report", "first", "--baseline", named]).expect(0);
    }
    let unknown = workspace.run(&["report", "secnd"]).expect(3);
    assert!(unknown.stderr.contains("did you mean `second`?"), "{}", unknown.stderr);
}

#[test]
fn a_run_from_the_future_is_not_the_latest() {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", "targets: [{ name: default, provider: mock }]\n");
    workspace
        .write("s.eval.yaml", "tests: [{ id: a, input: x, assertions: [{ type: contains, value: x }] }]\n");
    workspace.run(&["eval", "--batch-id", "shipped"]).expect(0);
    workspace.run(&["eval", "--batch-id", "mine"]).expect(0);
    let file = ".run-evals/results/shipped/run.json";
    let mut record: Value = serde_json::from_str(&workspace.read(file)).unwrap();
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(30);
    // Also one that lies so little ahead that it could be another clock.
    for at in [soon.to_string().as_str(), "2999-01-01T00:00:00Z"] {
        record["at"] = at.into();
        workspace.write(file, record.to_string());
        let listed = runs(&workspace);
        let names: Vec<_> = listed.iter().map(|run| run["run"].as_str().unwrap()).collect();
        assert_eq!(names, ["mine", "shipped"], "{at}");
    }
    let opened = workspace.env("BROWSER", "true").run(&["open", "latest"]).expect(0);
    assert!(opened.stdout.contains("results/mine/"), "{}", opened.stdout);
}

#[test]
fn the_list_of_runs_fits_a_narrow_terminal() {
    let workspace = Workspace::new();
    let long = "a-target-with-a-long-name";
    workspace.write("targets.yaml", format!("targets: [{{ name: {long}, provider: mock }}]\n"));
    workspace.write(
        "a-suite-with-a-long-name.eval.yaml",
        "tests: [{ id: a, input: x, assertions: [{ type: contains, value: x }] }]\n",
    );
    workspace.run(&["eval", "--target", long]).expect(0);
    for columns in [40, 60, 80, 120] {
        let mut command = workspace.command(&["runs"]);
        let table = Output::of(command.env("COLUMNS", columns.to_string())).expect(0).stdout;
        let widest = table.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns, "{columns}: {table}");
        // The whole id, which other commands take.
        let id = runs(&workspace)[0]["run"].as_str().unwrap().to_owned();
        assert!(table.contains(&id) && table.contains("passed"), "{columns}: {table}");
    }
}

#[test]
fn open_uses_the_browser_or_prints_the_path() {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", "targets: [{ name: default, provider: mock }]\n");
    workspace
        .write("s.eval.yaml", "tests: [{ id: a, input: x, assertions: [{ type: contains, value: x }] }]\n");
    workspace.run(&["eval", "--batch-id", "b1"]).expect(0);
    let output = workspace.run(&["open"]).expect(0);
    assert_eq!(output.stdout, ".run-evals/results/b1/report.html\n");
    assert!(output.stderr.contains("could not open a browser: no display found"), "{}", output.stderr);
    assert!(workspace.read(".run-evals/results/b1/report.html").contains("</html>"));
    let program = workspace.write_program("bin/browser", "#!/bin/sh\necho \"$@\" > opened\n");
    let browser = format!("{} --new %s", program.display());
    let workspace = workspace.env("BROWSER", &browser);
    assert_eq!(workspace.run(&["open", "b1"]).expect(0).stderr, "");
    let opened = workspace.read("opened");
    assert!(opened.starts_with("--new /") && opened.ends_with("/b1/report.html\n"), "{opened}");
}

#[test]
fn clean_lists_first_and_deletes_only_its_own() {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", "targets: [{ name: default, provider: mock }]\n");
    workspace
        .write("s.eval.yaml", "tests: [{ id: a, input: x, assertions: [{ type: contains, value: x }] }]\n");
    for id in ["b1", "b2"] {
        workspace.run(&["eval", "--batch-id", id]).expect(0);
    }
    workspace.run(&["eval", "--batch-id", "out", "-o", "out"]).expect(0);
    workspace.write(".run-evals/results/b2/notes.txt", "mine");
    assert_eq!(workspace.run(&["clean"]).expect(0).stderr, "nothing to delete\n", "all of it is new");

    let broken = "targets: [{ name: default, provider: mock, error_rate: 1, max_retries: 0 }]\n";
    workspace.write("targets.yaml", broken);
    workspace.run(&["eval", "--batch-id", "broken", "-o", "broken", "--no-grade"]).expect(5);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let before = workspace.tree();
    let listed = workspace.run(&["clean", "--older-than", "1s"]).expect(0);
    insta::assert_snapshot!(listed.stdout, @r"
    results .run-evals/results/b2
    results .run-evals/results/b1
    batch b1
    batch b2
    batch out
    ");
    insta::assert_snapshot!(listed.stderr, @r"
    kept: batch `broken`: not completely collected (`--unfinished` deletes it)
    nothing was deleted; `--yes` deletes these
    ");
    let files = |tree: &std::collections::BTreeMap<std::path::PathBuf, Option<Vec<u8>>>| tree.len();
    assert_eq!(files(&workspace.tree()), files(&before));
    let deleted = workspace.run(&["clean", "--older-than", "1s", "--yes"]).expect(0);
    assert!(deleted.stderr.contains("`notes.txt` is not a file of run-evals"), "{}", deleted.stderr);
    assert!(!workspace.path(".run-evals/results/b1").exists());
    assert_eq!(workspace.read(".run-evals/results/b2/notes.txt"), "mine");
    assert!(workspace.path("out/responses.jsonl").exists(), "a directory of the user");
    let collected = workspace.run(&["collect", "b1"]).expect(3);
    assert!(collected.stderr.contains("no batch `b1`"), "{}", collected.stderr);
    let again = workspace.run(&["clean", "--older-than", "1s", "--unfinished", "--yes"]).expect(0);
    assert_eq!(again.stdout, "batch broken\n");
}

#[test]
fn clean_deletes_branches_of_the_runner_repository() {
    let stage = Stage::new();
    stage.workspace.write_requests(2);
    stage.dispatch(&["--handover", "branch"]).expect(0);
    let branches =
        || stage.github.git(REPO, &["for-each-ref", "--format=%(refname:short)", "refs/heads/eval-results"]);
    assert_eq!(branches().trim(), "eval-results/b1");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let listed = stage.workspace.run(&["clean", "--older-than", "1s", "--yes"]).expect(0);
    assert_eq!(
        listed.stdout,
        "batch b1\nbranch eval-batch/b1 of acme/runner, if it still exists\nbranch eval-results/b1 of acme/runner\n"
    );
    assert_eq!(branches().trim(), "");
    assert_eq!(stage.workspace.run(&["clean", "--older-than", "0s"]).expect(0).stderr, "nothing to delete\n");
}

#[test]
fn cancel_ends_the_workflow_run_once() {
    let stage = Stage::with_llm(&["--latency-ms", "20000"]);
    stage.workspace.write_requests(3);
    stage.dispatch(&["--no-wait"]).expect(0);
    until("a call", || stage.llm.counter("requests") > 0);
    let first = stage.workspace.run(&["cancel", "b1"]).expect(0);
    assert!(first.stderr.contains("cancelled: http"), "{}", first.stderr);
    assert!(first.stderr.contains("`run-evals collect b1` collects its responses"), "{}", first.stderr);
    let run = stage.github.finished_run();
    assert_eq!(run.conclusion.as_deref(), Some("cancelled"));
    let second = stage.workspace.run(&["cancel", "b1"]).expect(0);
    assert!(second.stderr.contains("has no unfinished workflow run"), "{}", second.stderr);
    stage.workspace.run(&["collect", "b1", "-o", "out"]).expect(5);
    let local = stage.workspace.run(&["cancel", "b2"]).expect(3);
    insta::assert_snapshot!(local.stderr, @r"
    error: batch `b2` was not dispatched to a runner repository from here

    hint: a run here is stopped with Ctrl-C; `--target NAME` finds a batch that another machine dispatched
    ");
}
