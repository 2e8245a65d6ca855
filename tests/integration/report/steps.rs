//! As a step of a workflow: summary, outputs, annotations at the lines of the suite, the pull request of the event.

use super::{many, planets, workspace};
use crate::support::github::{MockGithub, NewRepo};
use crate::support::{Results, Workspace};

/// A workspace in which every command runs as a step.
fn step(now: &Results) -> Workspace {
    let mut workspace = workspace(now, &many(1, 0)).env("GITHUB_ACTIONS", "true");
    for name in ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"] {
        let path = workspace.path(name).display().to_string();
        workspace = workspace.env(name, &path);
    }
    let root = workspace.root().display().to_string();
    workspace.env("GITHUB_WORKSPACE", &root)
}

#[test]
fn annotations_point_to_the_lines_of_the_tests() {
    let workspace = step(&planets());
    let output = workspace.run(&["report", "now"]).expect(5);
    insta::assert_snapshot!(output.stderr, @r#"
    ::error file=suite.eval.yaml,line=27,title=error%3A mars::mars error: no response (server, HTTP 503): overloaded
    ::error file=suite.eval.yaml,line=19,title=failed%3A earth::earth failed: mentions: does not contain `earth`: "The moon."
    ::warning file=suite.eval.yaml,line=11,title=flaky%3A venus::venus flaky: 1 of 2 trials passed; mentions: does not contain `venus`: "No idea."
    "#);
    let summary = workspace.read("GITHUB_STEP_SUMMARY");
    assert!(summary.starts_with("### ❌ <code>planets</code>: error\n"), "{summary}");
    let outputs = workspace.read("GITHUB_OUTPUT");
    let value = |name: &str| {
        let begin = outputs.lines().position(|line| line.starts_with(&format!("{name}<<"))).unwrap();
        outputs.lines().nth(begin + 1).unwrap().to_owned()
    };
    assert_eq!(
        (value("verdict"), value("passed"), value("score"), value("results-path")),
        ("error".into(), "2".into(), "0.520000".into(), "now".into())
    );
}

#[test]
fn no_more_annotations_than_github_shows() {
    let workspace = step(&many(40, 25));
    let output = workspace.run(&["report", "now"]).expect(4);
    let errors: Vec<&str> = output.stderr.lines().filter(|line| line.starts_with("::error")).collect();
    assert_eq!(errors.len(), 10, "{}", output.stderr);
    assert_eq!(errors[9], "::error title=run-evals::16 more tests did not pass: see the summary");
}

#[test]
fn a_truncated_summary_says_what_is_left_out() {
    let workspace = step(&many(6000, 6000));
    workspace.run(&["report", "now"]).expect(4);
    let summary = workspace.read("GITHUB_STEP_SUMMARY");
    assert!((600 << 10..1 << 20).contains(&summary.len()), "{}", summary.len());
    let last = "more tests that did not pass are left out: the limit is 700 KiB.\n\n</details>\n";
    assert!(summary.ends_with(last), "{}", &summary[summary.len() - 300..]);
}

#[test]
fn the_pull_request_comes_from_the_event() {
    let github = MockGithub::start();
    github.repo(&NewRepo { full_name: "acme/app".to_owned(), ..NewRepo::default() });
    github.token("github_pat_bot", "robot", "acme/app", &[("pull_requests", "write")]);
    let workspace = step(&planets()).env("GITHUB_REPOSITORY", "acme/app").env("GITHUB_RUN_ID", "42");
    let workspace = workspace
        .env("GITHUB_SERVER_URL", "https://github.example")
        .env("GH_ENTERPRISE_TOKEN", "github_pat_bot");
    let event = workspace.path("event.json").display().to_string();
    let workspace = workspace.env("GITHUB_EVENT_PATH", &event).env("GITHUB_API_URL", &github.urls().api_url);
    let args = ["report", "now", "--fail-on", "never", "--pr-comment"];
    for (event, number) in [
        (r#"{"pull_request":{"number":3}}"#, Some(3)),
        (r#"{"issue":{"number":4,"pull_request":{"url":"x"}}}"#, Some(4)),
        (r#"{"issue":{"number":5}}"#, None),
        (r#"{"ref":"refs/heads/main"}"#, None),
    ] {
        workspace.write("event.json", event);
        let before = github.comments().len();
        let told = workspace.run(&args).expect(0).stderr;
        let comments = github.comments();
        assert_eq!(comments.get(before).map(|comment| comment.number), number, "{event}: {told}");
        if number.is_none() {
            assert!(told.contains("the workflow does not run for a pull request"), "{told}");
        }
    }
    let body = &github.comments()[0].body;
    assert!(
        body.ends_with(
            "<a href=\"https://github.example/acme/app/actions/runs/42\">The run</a> has the whole report.\n"
        ),
        "{body}"
    );
}
