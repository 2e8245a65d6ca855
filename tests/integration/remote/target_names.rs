//! Two runner repositories that both call their target `default`: every output has the names that the user chose.

use std::fmt::Write as _;

use serde_json::Value;

use crate::support::github::{MockGithub, NewToken, TOKEN, TokenKind};
use crate::support::{Output, Workspace};

/// The targets of the user, and what the runner of each answers.
const TARGETS: [(&str, &str, &str); 2] = [("right", "acme/one", "four"), ("wrong", "acme/two", "five")];
const TESTS: usize = 12;

struct TwoRunners {
    _github: MockGithub,
    workspace: Workspace,
}

impl TwoRunners {
    fn new() -> Self {
        let github = MockGithub::start();
        let mut targets = "targets:\n".to_owned();
        for (name, repo, answer) in TARGETS {
            github.runner_repo(repo, &[]);
            let own = format!(
                "targets:\n  - name: default\n    provider: mock\n    response: {answer}\n    model: mock-model\n"
            );
            github.put_file(repo, "targets.yaml", own);
            writeln!(
                targets,
                "  - name: {name}\n    provider: github-actions\n    repo: {repo}\n    workflow: run-evals.yml\n    poll_interval: 4s"
            )
            .unwrap();
        }
        // Each repository replaced the rights of the token.
        let rights = [("actions", "write"), ("contents", "write")]
            .map(|(name, right)| (name.to_owned(), right.to_owned()));
        github.new_token(&NewToken {
            token: TOKEN.to_owned(),
            login: "dispatcher".to_owned(),
            kind: TokenKind::Personal,
            grants: TARGETS
                .into_iter()
                .map(|(_, repo, _)| (repo.to_owned(), rights.clone().into()))
                .collect(),
            ..NewToken::default()
        });
        let workspace = github.workspace(TOKEN);
        workspace.write("targets.yaml", targets);
        let tests: String = (0..TESTS)
            .map(|i| {
                format!(
                    "  - {{ id: t{i}, input: What is {i}?, assertions: [{{ type: equals, value: four }}] }}\n"
                )
            })
            .collect();
        workspace.write("s.eval.yaml", format!("tests:\n{tests}"));
        Self { _github: github, workspace }
    }

    /// Evaluates on these targets, in this order.
    fn eval(&self, targets: &[&str], out: &str, more: &[&str]) -> Output {
        let mut args = vec!["eval", "s.eval.yaml", "--output", out, "-q"];
        args.extend(targets.iter().flat_map(|target| ["--target", target]));
        self.workspace.run(&[&args, more].concat())
    }
}

fn names<'r>(rows: &'r [Value], key: &str) -> Vec<&'r str> {
    let mut names: Vec<&str> = rows.iter().map(|row| row[key].as_str().unwrap_or("-")).collect();
    names.dedup();
    names
}

#[test]
fn every_output_has_the_names_that_the_user_chose() {
    let scene = TwoRunners::new();
    let reports =
        ["--agentv-run", "run", "--html", "page.html", "--junit", "junit.xml", "--json", "report.json"];
    let options =
        [&reports[..], &["--replay-out", "replay.jsonl", "--batch-id", "b1", "--fail-on", "never"]].concat();
    scene.eval(&["right", "wrong"], "out", &options).expect(0);
    let workspace = &scene.workspace;
    let responses = workspace.rows("out/responses.jsonl");
    assert_eq!(names(&responses, "target"), ["right", "wrong"]);
    assert_eq!(names(&responses, "runner_target"), ["default"]);
    assert_eq!(names(&workspace.rows("out/scores.jsonl"), "target"), ["right", "wrong"]);
    let summary: Value = serde_json::from_str(&workspace.read("out/summary.json")).unwrap();
    let targets = summary["targets"].as_array().unwrap();
    assert_eq!(
        (names(targets, "target"), names(targets, "runner_target")),
        (vec!["right", "wrong"], vec!["default"])
    );
    assert_eq!(names(&workspace.rows("replay.jsonl"), "source_target"), ["right", "wrong"]);
    assert_eq!(names(&workspace.rows("run/index.jsonl"), "target"), ["right", "wrong"]);
    let report: Value = serde_json::from_str(&workspace.read("report.json")).unwrap();
    assert_eq!(names(report["targets"].as_array().unwrap(), "target"), ["right", "wrong"]);
    for file in ["page.html", "junit.xml"] {
        let text = workspace.read(file);
        assert!(
            text.contains("right") && text.contains("wrong") && !text.contains("default ("),
            "{file}: {text}"
        );
    }

    // Collected again, the responses are the same bytes.
    workspace.run(&["collect", "b1-wrong", "--output", "again", "-q"]).expect(0);
    let again = workspace.read("again/responses.jsonl");
    assert!(workspace.read("out/responses.jsonl").ends_with(&again), "{again}");
}

#[test]
fn a_target_is_compared_with_itself() {
    let scene = TwoRunners::new();
    scene.eval(&["right", "wrong"], "before", &["--fail-on", "never"]).expect(0);
    let now = scene.eval(&["wrong"], "now", &["--baseline", "before", "--json", "report.json"]).expect(0);
    let report: Value = serde_json::from_str(&scene.workspace.read("report.json")).unwrap();
    assert_eq!(report["comparison"]["matched_tests"], TESTS, "{}", now.stdout);
}

#[test]
fn the_responses_of_a_local_target_have_no_runner_target() {
    let workspace = Workspace::new();
    workspace.write("targets.yaml", "targets:\n  - { name: here, provider: mock }\n");
    workspace.write_requests(2);
    workspace
        .run(&["dispatch", "--requests", "requests.jsonl", "--target", "here", "--output", "out", "-q"])
        .expect(0);
    let rows = workspace.rows("out/responses.jsonl");
    assert_eq!((names(&rows, "target"), names(&rows, "runner_target")), (vec!["here"], vec!["-"]));
    assert!(!workspace.read("out/summary.json").contains("runner_target"));
}
