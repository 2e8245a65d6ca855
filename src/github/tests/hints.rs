//! The message for each response of GitHub.

use std::collections::BTreeMap;

use super::server::{Server, answer, empty, json};
use super::{REPO, client_with, impatient, shown};
use crate::github::{ApiError, Auth, Client};
use crate::model::Secret;

const FINE_GRAINED: &str = "github_pat_0123";

async fn dispatch(client: &Client) -> ApiError {
    client.dispatch(REPO, "run-evals.yml", "main", &BTreeMap::new()).await.unwrap_err()
}

/// The message for this response to a dispatch with this token.
async fn told(token: &str, status: u16, message: &str) -> String {
    let body = serde_json::json!({"message": message, "documentation_url": "https://docs.github.com/rest"})
        .to_string();
    let server = Server::start(move |_, _| json(status, &body)).await;
    let (client, _) = client_with(&server.url, Auth::Token(Secret::new(token)), impatient());
    let text = shown(&dispatch(&client).await.into_failure());
    assert_eq!(server.seen().len(), 1);
    text
}

#[tokio::test]
async fn every_rejection_of_a_dispatch_has_a_hint() {
    let told = async |status, message| told(FINE_GRAINED, status, message).await;
    insta::assert_snapshot!(told(404, "Not Found").await, @r"
    Config: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 404: Not Found
    hint: the file `.github/workflows/run-evals.yml` must exist on the default branch of `acme/runner` (copy `workflows/run-evals.yml` there), and the token must see the repository: a fine-grained token needs access to `acme/runner` with the repository permission `Actions: write`
    ");
    insta::assert_snapshot!(told(401, "Bad credentials").await, @r"
    Failure: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 401: Bad credentials
    hint: the token is wrong, expired or revoked: create a new one; on GitHub Enterprise Server it must be a token of that server
    ");
    insta::assert_snapshot!(told(422, "No ref found for: 0123abc").await, @r"
    Config: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 422: No ref found for: 0123abc
    hint: `ref` must be a branch or a tag of `acme/runner`; a commit's SHA is not accepted
    ");
    insta::assert_snapshot!(told(422, "Workflow does not have 'workflow_dispatch' trigger").await, @r"
    Config: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 422: Workflow does not have 'workflow_dispatch' trigger
    hint: `.github/workflows/run-evals.yml` has no `on: workflow_dispatch` at that `ref`: copy `workflows/run-evals.yml` there, or correct `workflow` or `ref` of the target
    ");
    insta::assert_snapshot!(told(422, "Unexpected inputs provided: [\"results\"]").await, @r#"
    Config: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 422: Unexpected inputs provided: ["results"]
    hint: the runner repo's workflow is older than this run-evals: copy `workflows/run-evals.yml` again
    "#);
    insta::assert_snapshot!(told(422, "Required input 'batch' not provided").await, @r"
    Config: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 422: Required input 'batch' not provided
    hint: the runner repo's workflow is older than this run-evals: copy `workflows/run-evals.yml` again
    ");
    insta::assert_snapshot!(told(422, "Provided value '' for input 'debug' not in the list of allowed values").await, @r"
    Config: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 422: Provided value '' for input 'debug' not in the list of allowed values
    hint: the runner repo's workflow is older than this run-evals: copy `workflows/run-evals.yml` again
    ");
    insta::assert_snapshot!(told(422, "Cannot trigger a 'workflow_dispatch' on a disabled workflow").await, @r"
    Config: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 422: Cannot trigger a 'workflow_dispatch' on a disabled workflow
    hint: enable it on the Actions page of `acme/runner`, or with `gh workflow enable run-evals.yml --repo acme/runner`
    ");
    insta::assert_snapshot!(told(422, "you may only define up to 10 `inputs` for a `workflow_dispatch` event").await, @r"
    Config: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 422: you may only define up to 10 `inputs` for a `workflow_dispatch` event
    hint: `.github/workflows/run-evals.yml` declares too many inputs: copy `workflows/run-evals.yml` again
    ");
    insta::assert_snapshot!(told(422, "inputs are too large.").await, @r"
    Config: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 422: inputs are too large.
    hint: the inputs of a workflow are limited to 65,535 characters: use `--handover branch` or `--handover artifact`
    ");
    insta::assert_snapshot!(told(422, "failed to parse workflow: (Line: 3, Col: 1): Unexpected value").await, @r"
    Config: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 422: failed to parse workflow: (Line: 3, Col: 1): Unexpected value
    hint: open `.github/workflows/run-evals.yml` of `acme/runner` on GitHub: its page shows what is wrong with the file
    ");
    insta::assert_snapshot!(told(409, "Conflict").await, @r"
    Failure: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 409: Conflict
    hint: none
    ");
}

#[tokio::test]
async fn every_kind_of_token_has_a_hint_for_the_permission() {
    insta::assert_snapshot!(told(FINE_GRAINED, 403, "Resource not accessible by personal access token").await, @r"
    Failure: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 403: Resource not accessible by personal access token
    hint: a fine-grained token needs access to `acme/runner` with the repository permission `Actions: write`
    ");
    insta::assert_snapshot!(told("ghp_0123", 403, "Must have admin rights to Repository.").await, @r"
    Failure: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 403: Must have admin rights to Repository.
    hint: a classic token needs the scope `repo`, and its owner must have write access to `acme/runner`
    ");
    insta::assert_snapshot!(told("ghs_0123", 403, "Resource not accessible by integration").await, @r"
    Failure: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 403: Resource not accessible by integration
    hint: a job's `GITHUB_TOKEN` needs `permissions: actions: write` and reaches only its own repository; for another one use a fine-grained token or a GitHub App
    ");
    insta::assert_snapshot!(told("v1.0123", 403, "Forbidden").await, @r"
    Failure: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 403: Forbidden
    hint: a fine-grained token needs access to `acme/runner` with the repository permission `Actions: write`; a classic token needs the scope `repo`, and its owner must have write access to `acme/runner`; a job's `GITHUB_TOKEN` needs `permissions: actions: write` and reaches only its own repository; for another one use a fine-grained token or a GitHub App; a GitHub App needs the repository permission `Actions: write` (accepted by the owner of `acme/runner`), with `acme/runner` among its installation's repositories
    ");
    insta::assert_snapshot!(told("ghp_0123", 403, "Resource protected by organization SAML enforcement. You must grant your token access").await, @r"
    Failure: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 403: Resource protected by organization SAML enforcement. You must grant your token access
    hint: the organization requires single sign-on: authorize the token for it (Configure SSO in the token's settings)
    ");
    insta::assert_snapshot!(told("ghp_0123", 403, "Although you appear to have the correct authorization credentials, the `acme` organization has an IP allow list enabled, and your IP address is not permitted to access this resource.").await, @r"
    Failure: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 403: Although you appear to have the correct authorization credentials, the `acme` organization has an IP allow list enabled, and your IP address is not permitted to access this resource.
    hint: the organization has an IP allow list: run this from an allowed address, or add this one
    ");
    insta::assert_snapshot!(told("ghp_0123", 403, "Repository was archived so is read-only.").await, @r"
    Failure: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 403: Repository was archived so is read-only.
    hint: an archived repository runs no workflows: unarchive it or choose another
    ");
    insta::assert_snapshot!(told("ghs_0123", 403, "This installation has been suspended").await, @r"
    Failure: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 403: This installation has been suspended
    hint: the installation of the GitHub App is suspended: an owner can resume it in its settings
    ");
}

#[tokio::test]
async fn the_permissions_that_github_names_are_shown() {
    let server = Server::start(|_, _| {
        json(403, r#"{"message":"Resource not accessible by personal access token"}"#)
            .header("x-accepted-github-permissions", "actions=write")
    })
    .await;
    let (client, _) = client_with(&server.url, Auth::Token(Secret::new(FINE_GRAINED)), impatient());
    insta::assert_snapshot!(shown(&dispatch(&client).await.into_failure()), @r"
    Failure: cannot start the workflow `run-evals.yml` of `acme/runner`: GitHub returned 403: Resource not accessible by personal access token
    hint: a fine-grained token needs access to `acme/runner` with the repository permission `actions=write`
    ");
}

#[tokio::test]
async fn a_foreign_page_is_reported() {
    let server = Server::start(|_, _| answer(403, "text/html", "<html>Blocked by the firewall</html>")).await;
    let (client, _) = client_with(&server.url, Auth::Token(Secret::new(FINE_GRAINED)), impatient());
    insta::assert_snapshot!(shown(&dispatch(&client).await.into_failure()), @r"
    Failure: cannot start the workflow `run-evals.yml` of `acme/runner`: got 403 with a web page instead of a response of GitHub's API
    hint: the response is not from GitHub's API: check `--github-api-url` (`https://<host>/api/v3` on GitHub Enterprise Server), `HTTPS_PROXY` and `NO_PROXY`
    ");
}

#[tokio::test]
async fn the_missing_resource_is_named() {
    let server = Server::start(|_, _| json(404, r#"{"message":"Not Found","status":"404"}"#)).await;
    let (client, _) = client_with(&server.url, Auth::Token(Secret::new(FINE_GRAINED)), impatient());
    let error = client.repository(REPO).await.unwrap_err();
    assert!(error.is_not_found());
    insta::assert_snapshot!(shown(&error.into_failure()), @r"
    Config: cannot read the repository `acme/runner`: GitHub returned 404: Not Found
    hint: check the name; GitHub also returns this for anything that the token may not see: a fine-grained token needs access to `acme/runner` with the repository permission `Metadata: read`
    ");
    insta::assert_snapshot!(shown(&client.workflow(REPO, "run-evals.yml").await.unwrap_err().into_failure()), @r"
    Config: cannot read the workflow `run-evals.yml` of `acme/runner`: GitHub returned 404: Not Found
    hint: the file `.github/workflows/run-evals.yml` must exist on the default branch of `acme/runner` (copy `workflows/run-evals.yml` there), and the token must see the repository: a fine-grained token needs access to `acme/runner` with the repository permission `Actions: read`
    ");
    insta::assert_snapshot!(shown(&client.run(REPO, 42, None).await.unwrap_err().into_failure()), @r"
    Failure: cannot read the run 42 of `acme/runner`: GitHub returned 404: Not Found
    hint: it was deleted, or belongs to another repository
    ");
    insta::assert_snapshot!(shown(&client.jobs(REPO, 42).await.unwrap_err().into_failure()), @r"
    Failure: cannot list the jobs of the run 42 of `acme/runner`: GitHub returned 404: Not Found
    hint: it was deleted, or belongs to another repository
    ");
    insta::assert_snapshot!(shown(&client.job_log_tail(REPO, 7, 5).await.unwrap_err().into_failure()), @r"
    Failure: cannot read the log of the job 7 of `acme/runner`: GitHub returned 404: Not Found
    hint: it was deleted, or belongs to another repository
    ");
    insta::assert_snapshot!(shown(&client.artifacts(REPO, 42).await.unwrap_err().into_failure()), @r"
    Failure: cannot list the artifacts of the run 42 of `acme/runner`: GitHub returned 404: Not Found
    hint: it does not exist, or the token may not see it: a fine-grained token needs access to `acme/runner` with the repository permission `Actions: read`
    ");
    insta::assert_snapshot!(shown(&client.cancel_run(REPO, 42).await.unwrap_err().into_failure()), @r"
    Failure: cannot cancel the run 42 of `acme/runner`: GitHub returned 404: Not Found
    hint: it was deleted, or belongs to another repository
    ");
    let none = client.find_runs(REPO, "run-evals.yml", "eval b1 x", jiff::Timestamp::UNIX_EPOCH).await;
    insta::assert_snapshot!(shown(&none.unwrap_err().into_failure()), @r"
    Failure: cannot list the runs of `run-evals.yml` in `acme/runner`: GitHub returned 404: Not Found
    hint: it was deleted, or belongs to another repository
    ");
}

#[tokio::test]
async fn reads_name_their_own_permission() {
    let server =
        Server::start(|_, _| json(403, r#"{"message":"Resource not accessible by integration"}"#)).await;
    let (client, _) = client_with(&server.url, Auth::Token(Secret::new("ghs_1")), impatient());
    insta::assert_snapshot!(shown(&client.artifacts(REPO, 42).await.unwrap_err().into_failure()), @r"
    Failure: cannot list the artifacts of the run 42 of `acme/runner`: GitHub returned 403: Resource not accessible by integration
    hint: a job's `GITHUB_TOKEN` needs `permissions: actions: read` and reaches only its own repository; for another one use a fine-grained token or a GitHub App
    ");
    insta::assert_snapshot!(shown(&client.file(REPO, "a/b.yaml", "main").await.unwrap_err().into_failure()), @r"
    Failure: cannot read `a/b.yaml` of `acme/runner`: GitHub returned 403: Resource not accessible by integration
    hint: a job's `GITHUB_TOKEN` needs `permissions: contents: read` and reaches only its own repository; for another one use a fine-grained token or a GitHub App
    ");
}

#[tokio::test]
async fn the_text_of_a_response_is_data() {
    let long = "z".repeat(5000);
    let hostile = format!("::error::\u{1b}[2J\nhi {long}");
    let text = told(FINE_GRAINED, 409, &hostile).await;
    assert!(text.contains(r"GitHub returned 409: ::error::\u{1b}[2J\nhi zzz"), "{text}");
    assert!(text.contains("z…\n") && text.len() < 600, "{text}");

    let replies = [
        (
            json(
                422,
                r#"{"message":"Validation Failed","errors":[{"message":"first"},"second",{"code":"c"}]}"#,
            ),
            "422: Validation Failed: first: second",
        ),
        (answer(400, "text/plain", "no\tgood"), r"400: no\tgood"),
        (answer(418, "text/html", "short"), "got 418 with a web page instead of a response of GitHub's API"),
        (empty(405), "GitHub returned 405"),
    ];
    for (reply, expected) in replies {
        let server = Server::script(vec![reply]).await;
        let (client, _) = client_with(&server.url, Auth::Token(Secret::new(FINE_GRAINED)), impatient());
        let error = dispatch(&client).await.to_string();
        assert!(error.ends_with(expected), "{error}");
    }
}
