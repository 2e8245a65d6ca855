//! The same results through every report: one verdict, in the same words, with the same numbers.

use roxmltree::Document;
use serde_json::{Value, json};

use crate::studio::scene::Scene;
use crate::support::Workspace;
use crate::support::github::{MockGithub, NewRepo};

const REPO: &str = "acme/app";

const SUITE: &str = "name: planets
execution: { target: mock, trials: { count: 2, strategy: mean } }
tests:
  - { id: good, input: x, assertions: [{ type: contains, value: yes }] }
  - { id: flaky, input: x, assertions: [{ type: contains, value: yes }] }
  - { id: bad, input: x, assertions: [{ type: contains, value: yes }] }
  - { id: gone, input: x, assertions: [{ type: contains, value: yes }] }
";

/// How a run ends, and its tests by outcome: all, passed, flaky, failed, error.
struct Expected {
    verdict: &'static str,
    exit: i32,
    tests: [u64; 5],
    score: &'static str,
}

/// A step of a workflow that runs for pull request 3.
struct Step {
    scene: Scene,
    github: MockGithub,
}

impl Step {
    /// The responses of the mock, by request.
    fn new(answers: &[(&str, &str)]) -> Self {
        let github = MockGithub::start();
        github.repo(&NewRepo { full_name: REPO.to_owned(), ..NewRepo::default() });
        github.token("github_pat_bot", "robot", REPO, &[("pull_requests", "write")]);
        let scene = Scene::new();
        scene.workspace.write("suite.eval.yaml", SUITE);
        scene
            .workspace
            .write("targets.yaml", "targets:\n  - { name: mock, provider: mock, script: script.jsonl }\n");
        let line = |(id, text): &(&str, &str)| match *text {
            "" => json!({"id": id, "status": 400, "error": "no such parameter"}),
            text => json!({"id": id, "response": text}),
        };
        let lines: String = answers.iter().map(|answer| format!("{}\n", line(answer))).collect();
        scene.workspace.write("script.jsonl", lines);
        scene.workspace.write("event.json", r#"{"pull_request":{"number":3}}"#);
        Self { scene, github }
    }

    /// Runs a command as a step. Returns its exit code and stdout.
    fn run(&self, args: &[&str]) -> (i32, String) {
        let workspace = &self.scene.workspace;
        for name in ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"] {
            workspace.write(name, "");
        }
        let mut command = workspace.command(args);
        command
            .env("GITHUB_ACTIONS", "true")
            .env("GITHUB_OUTPUT", workspace.path("GITHUB_OUTPUT"))
            .env("GITHUB_STEP_SUMMARY", workspace.path("GITHUB_STEP_SUMMARY"))
            .env("GITHUB_EVENT_PATH", workspace.path("event.json"))
            .env("GITHUB_REPOSITORY", REPO)
            .env("GITHUB_SERVER_URL", "https://github.example")
            .env("GITHUB_RUN_ID", "42")
            .env("GITHUB_API_URL", &self.github.urls().api_url)
            .env("GH_ENTERPRISE_TOKEN", "github_pat_bot");
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    }
}

fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let from = text.find(before).unwrap_or_else(|| panic!("no {before:?} in {text}")) + before.len();
    let length = text[from..].find(after).unwrap_or_else(|| panic!("no {after:?} in {text}"));
    &text[from..from + length]
}

fn output(workspace: &Workspace, name: &str) -> String {
    let outputs = workspace.read("GITHUB_OUTPUT");
    let begin = outputs.lines().position(|line| line.starts_with(&format!("{name}<<")));
    let begin = begin.unwrap_or_else(|| panic!("no output `{name}`: {outputs}"));
    outputs.lines().nth(begin + 1).unwrap().to_owned()
}

fn counts(tests: &Value) -> Vec<u64> {
    ["total", "passed", "flaky", "failed", "errors"].map(|name| tests[name].as_u64().unwrap()).to_vec()
}

const FILES: [&str; 8] = ["--html", "r.html", "--junit", "r.xml", "--json", "r.json", "--markdown", "r.md"];

impl Expected {
    /// The reports that `eval` and `report` have in common.
    fn check(&self, step: &Step, what: &str, (exit, stdout): &(i32, String)) {
        let Self { verdict, tests: [all, passed, flaky, failed, errors], score, .. } = *self;
        let workspace = &step.scene.workspace;
        assert_eq!(*exit, self.exit, "{what}: {stdout}");
        // Terminal.
        let totals = stdout.lines().rev().find(|line| line.contains(" passed")).unwrap();
        assert!(totals.starts_with(&format!("{passed} of {all} passed")), "{what}: {stdout}");
        for (count, word) in [(flaky, "flaky"), (failed, "failed"), (errors, "error")] {
            assert_eq!(totals.contains(&format!("{count} {word}")), count > 0, "{what}: {totals}");
        }
        assert!(stdout.lines().any(|line| line.starts_with(verdict)), "{what}: {stdout}");
        // Step summary, markdown and pull request comment.
        let summary = workspace.read("GITHUB_STEP_SUMMARY");
        let heading = summary.lines().next().unwrap();
        assert!(heading.ends_with(&format!("<code>planets</code>: {verdict}")), "{what}: {summary}");
        assert_eq!(summary.matches("| --- |").count(), 1, "{what}: one table: {summary}");
        let row = summary.lines().find(|line| line.starts_with("| <code>mock</code>")).unwrap();
        assert!(row.contains(&format!("| {passed} of {all} |")), "{what}: {row}");
        assert_eq!(workspace.read("r.md"), summary, "{what}");
        let comments = step.github.comments();
        let [comment] = &comments[..] else { panic!("{what}: {} comments", comments.len()) };
        let (_, body) = comment.body.split_once('\n').unwrap();
        assert!(body.starts_with(summary.trim_end()), "{what}: {body}");
        // HTML.
        let page = workspace.read("r.html");
        assert_eq!(
            between(between(&page, "<header>", "</header>"), "<p class=\"badge", "</p>").split('>').nth(1),
            Some(verdict)
        );
        assert!(page.contains(&format!("<dt>passed</dt><dd><b>{passed} of {all}</b>")), "{what}");
        // JUnit.
        let xml = workspace.read("r.xml");
        let document = Document::parse(&xml).unwrap();
        let number = |name: &str| document.root_element().attribute(name).unwrap().parse::<u64>().unwrap();
        assert_eq!(
            [number("tests"), number("failures"), number("errors")],
            [all, failed + flaky, errors],
            "{what}"
        );
        // JSON.
        let json: Value = serde_json::from_str(&workspace.read("r.json")).unwrap();
        assert_eq!(json["verdict"], verdict, "{what}");
        assert_eq!(counts(&json["tests"]), self.tests, "{what}");
        // Outputs of the step.
        for (name, value) in [
            ("verdict", verdict.to_owned()),
            ("tests", all.to_string()),
            ("passed", passed.to_string()),
            ("flaky", flaky.to_string()),
            ("failed", failed.to_string()),
            ("errors", errors.to_string()),
            ("score", score.to_owned()),
        ] {
            assert_eq!(output(workspace, name), value, "{what}: {name}");
        }
    }
}

fn run(answers: &[(&str, &str)], expected: &Expected) {
    let step = Step::new(answers);
    let eval =
        [&["eval", "suite.eval.yaml", "--output", "runs/nightly", "-q", "--pr-comment"], &FILES[..]].concat();
    expected.check(&step, "eval", &step.run(&eval));
    let workspace = &step.scene.workspace;
    let page = workspace.read("r.html");
    assert_eq!(workspace.read("runs/nightly/report.html"), page, "the page beside the results");
    let summary: Value = serde_json::from_str(&workspace.read("runs/nightly/summary.json")).unwrap();
    assert_eq!(summary["verdict"], expected.verdict);
    assert_eq!(counts(&summary["tests"]), expected.tests);
    assert_eq!(counts(&summary["targets"][0]["tests"]), expected.tests);
    let report = [&["report", "runs/nightly", "--pr-comment"], &FILES[..]].concat();
    expected.check(&step, "report", &step.run(&report));
    assert_eq!(step.github.comments()[0].updates, 0, "the comment of `eval` is that of `report`");
    // What fails the command does not change the verdict.
    let never = Expected { exit: 0, ..*expected };
    let what = [&report[..], &["--fail-on", "never"]].concat();
    let (exit, stdout) = step.run(&what);
    assert_eq!(exit, 0, "{stdout}");
    assert!(stdout.lines().any(|line| line.starts_with(never.verdict)), "{stdout}");
    assert_eq!(output(workspace, "verdict"), never.verdict);
    // The pages of the studio.
    let studio = step.scene.start(&[]);
    let visitor = studio.visitor();
    let list = visitor.get("/studio/runs").expect(200).body;
    let word = between(&list, "class=\"badge\"", "</span>").split('>').nth(1).unwrap().to_lowercase();
    assert_eq!(word, expected.verdict);
    let [all, passed, ..] = expected.tests;
    assert!(list.contains(&format!("{passed} of {all} passed")), "{list}");
    let path = between(&list, "class=\"name\" href=\"", "\"");
    let frame = visitor.get(path).expect(200).body;
    assert!(frame.contains("<a href=\"/studio/runs\">Runs</a>"), "a way back to the list: {frame}");
    let shown = visitor.get(between(&frame, "<iframe class=\"report\" src=\"", "\"")).expect(200).body;
    assert_eq!(shown, workspace.read("runs/nightly/report.html"));
}

const GOOD: [(&str, &str); 2] = [("good", "yes"), ("good#2", "yes")];

#[test]
fn failed_tests_have_one_verdict_everywhere() {
    let others = [
        ("flaky", "yes"),
        ("flaky#2", "no"),
        ("bad", "no"),
        ("bad#2", "no"),
        ("gone", "no"),
        ("gone#2", "no"),
    ];
    let expected = Expected { verdict: "failed", exit: 4, tests: [4, 1, 1, 2, 0], score: "0.375000" };
    run(&[&GOOD[..], &others].concat(), &expected);
}

#[test]
fn missing_responses_have_one_verdict_everywhere() {
    let others =
        [("flaky", "yes"), ("flaky#2", "no"), ("bad", "no"), ("bad#2", "no"), ("gone", ""), ("gone#2", "")];
    let expected = Expected { verdict: "error", exit: 5, tests: [4, 1, 1, 1, 1], score: "0.375000" };
    run(&[&GOOD[..], &others].concat(), &expected);
}

#[test]
fn passed_tests_have_one_verdict_everywhere() {
    let yes = ["flaky", "flaky#2", "bad", "bad#2", "gone", "gone#2"].map(|id| (id, "yes"));
    let expected = Expected { verdict: "passed", exit: 0, tests: [4, 4, 0, 0, 0], score: "1.000000" };
    run(&[&GOOD[..], &yes].concat(), &expected);
}
