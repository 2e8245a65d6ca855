//! The comment on a pull request, on the simulated GitHub.

use std::collections::BTreeMap;

use super::{many, planets, workspace};
use crate::support::github::{MockGithub, NewRepo, NewToken, TokenKind, What, Wrong};
use crate::support::{Output, Workspace};

const REPO: &str = "acme/app";
const CREATE: &str = "POST /repos/{owner}/{repo}/issues/{issue_number}/comments";

struct PullRequest {
    github: MockGithub,
    workspace: Workspace,
}

impl PullRequest {
    fn new() -> Self {
        let github = MockGithub::start();
        github.repo(&NewRepo { full_name: REPO.to_owned(), private: true, ..NewRepo::default() });
        github.token("github_pat_bot", "robot", REPO, &[("pull_requests", "write")]);
        let workspace = workspace(&planets(), &many(3, 0));
        Self { github, workspace }
    }

    fn comment_as(&self, token: &str, results: &str) -> Output {
        let mut command = self.workspace.command(&[
            "report",
            results,
            "--fail-on",
            "never",
            "--pr-comment",
            "--repo",
            REPO,
            "--pr",
            "7",
            "--github-api-url",
            &self.github.urls().api_url,
        ]);
        Output::of(command.env("GH_ENTERPRISE_TOKEN", token))
    }

    fn comment(&self, results: &str) -> String {
        self.comment_as("github_pat_bot", results).expect(0).stderr
    }
}

#[test]
fn a_suite_has_one_comment_that_is_updated() {
    let scene = PullRequest::new();
    assert!(scene.comment("now").starts_with("comment made: http"));
    assert!(scene.comment("now").starts_with("comment left as it is: "));
    let scores = scene.workspace.read("now/scores.jsonl").replace("\"score\":0.2", "\"score\":0.9");
    scene.workspace.write("now/scores.jsonl", scores.replace("\"failed\"", "\"passed\""));
    assert!(scene.comment("now").starts_with("comment updated: "));
    assert!(scene.comment("before").starts_with("comment made: "), "another suite has another comment");
    let comments = scene.github.comments();
    let seen: Vec<_> =
        comments.iter().map(|comment| (comment.number, comment.login.as_str(), comment.updates)).collect();
    assert_eq!(seen, [(7, "robot", 1), (7, "robot", 0)]);
    assert!(comments[0].body.starts_with("<!-- run-evals suite "), "{}", comments[0].body);
    assert_ne!(comments[0].body.lines().next(), comments[1].body.lines().next());
}

#[test]
fn a_long_comment_is_truncated_to_githubs_limit() {
    let scene = PullRequest::new();
    many(3000, 3000).write(&scene.workspace, "now");
    scene.comment("now");
    let body = &scene.github.comments()[0].body;
    assert!((50_000..65_536).contains(&body.len()), "{}", body.len());
    assert!(body.contains("more tests that did not pass are left out"), "{body}");
}

#[test]
fn a_comment_of_another_author_is_left_alone() {
    let scene = PullRequest::new();
    scene.github.token("github_pat_mallory", "mallory", REPO, &[("pull_requests", "write")]);
    scene.comment_as("github_pat_mallory", "now").expect(0);
    assert!(scene.comment("now").starts_with("comment made: "));
    // A job does not know its own name: any bot's comment counts as its own, but no person's does.
    let grants = [(REPO.to_owned(), [("pull_requests".to_owned(), "write".to_owned())].into())].into();
    let login = "github-actions[bot]".to_owned();
    scene.github.new_token(&NewToken {
        token: "ghs_job".to_owned(),
        login,
        kind: TokenKind::Job,
        grants,
        ..NewToken::default()
    });
    for expected in ["comment made: ", "comment left as it is: "] {
        assert!(scene.comment_as("ghs_job", "now").expect(0).stderr.starts_with(expected));
    }
    let logins: Vec<_> =
        scene.github.comments().into_iter().map(|comment| (comment.login, comment.updates)).collect();
    assert_eq!(
        logins,
        [("mallory".to_owned(), 0), ("robot".to_owned(), 0), ("github-actions[bot]".to_owned(), 0)]
    );
}

#[test]
fn a_lost_response_does_not_create_a_second_comment() {
    let scene = PullRequest::new();
    scene.github.fault(What::Answer { route: CREATE.to_owned(), after: true, answer: Wrong::Dropped });
    assert!(scene.comment("now").contains("comment made: "));
    let bad_gateway = Wrong::Status { status: 502, body: String::new(), headers: BTreeMap::new() };
    scene.github.fault(What::Answer { route: CREATE.to_owned(), after: false, answer: bad_gateway });
    assert!(scene.comment("before").contains("comment made: "));
    assert_eq!(scene.github.comments().len(), 2);
}

#[test]
fn a_missing_permission_to_comment_is_explained_after_the_verdict() {
    let scene = PullRequest::new();
    scene.github.token("github_pat_reader", "reader", REPO, &[("pull_requests", "read")]);
    let told = scene.comment_as("github_pat_reader", "now").expect(1);
    assert!(
        told.stdout.contains("error:\n  2 of 12 requests"),
        "the report is there all the same: {}",
        told.stdout
    );
    insta::assert_snapshot!(told.stderr, @r"
    error: cannot comment on pull request 7 of `acme/app`: GitHub returned 403: Resource not accessible by personal access token

    hint: a fine-grained token needs access to `acme/app` with the repository permission `pull_requests=write`
    ");
    let mut command =
        scene.workspace.command(&["report", "now", "--pr-comment", "--repo", REPO, "--pr", "7"]);
    command
        .args(["--github-api-url", &scene.github.urls().api_url])
        .env("GH_ENTERPRISE_TOKEN", "github_pat_reader");
    assert_eq!(command.output().unwrap().status.code(), Some(5));
    let missing = scene
        .workspace
        .command(&["report", "now", "--fail-on", "never", "--pr-comment", "--repo", REPO, "--pr", "12"])
        .args(["--github-api-url", &scene.github.urls().api_url])
        .env("GH_ENTERPRISE_TOKEN", "github_pat_bot")
        .output()
        .unwrap();
    insta::assert_snapshot!(String::from_utf8(missing.stderr).unwrap(), @r"
    error: cannot comment on pull request 12 of `acme/app`: GitHub returned 404: Not Found

    hint: check `--repo` and `--pr`; GitHub also returns this for anything that the token may not see: a fine-grained token needs access to `acme/app` with the repository permission `Pull requests: write`
    ");
}
