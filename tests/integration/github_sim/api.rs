//! The REST API: dispatches, reads, permissions, limits.

use reqwest::Method;
use serde_json::{Value, json};

use super::{DISPATCHES, REPO, Sim, dispatch};
use crate::support::github::{NewRepo, NewToken, TokenKind};

const RUN: &str = "GET /repos/{owner}/{repo}/actions/runs/{run_id}";

#[test]
fn a_dispatch_returns_the_run_on_request() {
    let sim = Sim::new("exit 0");
    let client = sim.client();
    let details = client.post(DISPATCHES, &dispatch("b1", 1));
    assert_eq!(details.status, 200);
    let id = details.json["workflow_run_id"].as_u64().unwrap();
    assert!(id > u64::from(u32::MAX), "as large as GitHub's");
    assert_eq!(
        details.json["html_url"],
        format!("{}/{REPO}/actions/runs/{id}", sim.github.urls().server_url)
    );

    let mut silent = dispatch("b2", 1);
    silent.as_object_mut().unwrap().remove("return_run_details");
    assert_eq!(
        (client.post(DISPATCHES, &silent).status, client.post(DISPATCHES, &silent).text.len()),
        (204, 0)
    );

    let newer = |body: &Value| {
        let headers = [("x-github-api-version", "2026-03-10"), ("content-type", "application/json")];
        client.send(Method::POST, DISPATCHES, &headers, body.to_string().into_bytes()).unwrap()
    };
    assert_eq!(newer(&silent).status, 200);
    assert_eq!(newer(&dispatch("b3", 1)).message(), "422 \"return_run_details\" is not a permitted key.");
    let runs = sim.github.until(|runs| runs.len() == 4 && runs.iter().all(|run| run.status == "completed"));
    assert_eq!(runs[0].title, "eval b1 0123456789abcdef");
    assert_eq!(runs[0].inputs["results"], "branch:eval-results");
}

#[test]
fn rejected_dispatches_have_githubs_messages_and_start_nothing() {
    let sim = Sim::new("exit 0");
    let client = sim.client();
    sim.github.put_file(REPO, ".github/workflows/push.yml", "on: push\njobs: {}\n");
    sim.github.put_file_on(REPO, "other", "README.md", "nothing");
    let sha = sim.github.git(REPO, &["rev-parse", "main"]);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut body = dispatch("b1", 1);
        change(&mut body);
        body
    };
    let to = |file: &str| DISPATCHES.replace("run-evals.yml", file);
    let mut messages = vec![
        client.post(DISPATCHES, &with(&|body| body["ref"] = json!("nowhere"))).message(),
        client.post(DISPATCHES, &with(&|body| body["ref"] = json!(sha))).message().replace(&sha, "[sha]"),
        client.post(DISPATCHES, &with(&|body| body["ref"] = json!("other"))).message(),
        client.post(DISPATCHES, &with(&|body| body["inputs"]["extra"] = json!("1"))).message(),
        client
            .post(DISPATCHES, &with(&|body| body["inputs"]["batch_id"] = json!("b".repeat(65_536))))
            .message(),
        client.post(DISPATCHES, &with(&|body| body["wait"] = json!(true))).message(),
        client.post(&to("push.yml"), &with(&|body| body["inputs"] = json!({}))).message(),
        client.post(&to("missing.yml"), &dispatch("b1", 1)).message(),
        sim.client_of("stolen").post(DISPATCHES, &dispatch("b1", 1)).message(),
        sim.client_of("").post(DISPATCHES, &dispatch("b1", 1)).message(),
    ];
    sim.github.set_workflow_state(REPO, "run-evals.yml", "disabled_inactivity");
    messages.push(client.post(DISPATCHES, &dispatch("b1", 1)).message());
    sim.github.token("reader", "reader", REPO, &[("actions", "read")]);
    let refused = sim.client_of("reader").post(DISPATCHES, &dispatch("b1", 1));
    assert_eq!(refused.headers["x-accepted-github-permissions"], "actions=write");
    messages.push(refused.message());
    insta::assert_snapshot!(messages.join("\n"), @r#"
    422 No ref found for: nowhere
    422 No ref found for: [sha]
    404 Not Found
    422 Unexpected inputs provided: ["extra"]
    422 inputs are too large.
    422 "wait" is not a permitted key.
    422 Workflow does not have 'workflow_dispatch' trigger
    404 Not Found
    401 Bad credentials
    404 Not Found
    422 Cannot trigger a 'workflow_dispatch' on a disabled workflow
    403 Resource not accessible by personal access token
    "#);
    assert!(sim.github.runs().is_empty());

    let enable = DISPATCHES.replace("dispatches", "enable");
    assert_eq!(client.send(Method::PUT, &enable, &[], Vec::new()).unwrap().status, 204);
    assert_eq!(client.post(DISPATCHES, &dispatch("b1", 1)).status, 200);
    sim.github.finished_run();
}

#[test]
fn an_unchanged_run_does_not_count_against_the_rate_limit() {
    let sim = Sim::new("exit 0");
    let run = sim.dispatch("b1", 1);
    sim.finished(run);
    let client = sim.client();
    let path = format!("/repos/{REPO}/actions/runs/{run}");
    let first = client.get(&path);
    assert_eq!((first.status, first.json["conclusion"].as_str()), (200, Some("success")));
    let (etag, left) = (first.headers["etag"].clone(), first.headers["x-ratelimit-remaining"].clone());
    let again = client.get_with(&path, &[("if-none-match", &etag)]);
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    assert_eq!((&again.headers["etag"], &again.headers["x-ratelimit-remaining"]), (&etag, &left));
    assert_eq!(client.get_with(&path, &[("if-none-match", "W/\"other\"")]).status, 200);
    let counted =
        sim.github.requests().iter().filter(|request| request.route == RUN && request.counted).count();
    assert_eq!((sim.github.calls_of(RUN), counted), (3, 2));
    assert_eq!(sim.github.counted("dispatcher"), 3);
}

#[test]
fn runs_are_listed_newest_first_by_filter_and_page() {
    let sim = Sim::new("exit 0");
    let runs: Vec<u64> = (0..3).map(|number| sim.dispatch(&format!("b{number}"), 1)).collect();
    let client = sim.client();
    let list = |query: &str| {
        let answer = client.get(&format!("/repos/{REPO}/actions/workflows/run-evals.yml/runs?{query}"));
        assert_eq!(answer.status, 200, "{}", answer.text);
        let ids =
            answer.json["workflow_runs"].as_array().unwrap().iter().map(|run| run["id"].as_u64().unwrap());
        (ids.collect::<Vec<u64>>(), answer)
    };
    let (page, answer) = list("per_page=2&event=workflow_dispatch");
    assert_eq!((page, answer.json["total_count"].as_u64()), (vec![runs[2], runs[1]], Some(3)));
    assert!(answer.headers["link"].contains("&page=2>; rel=\"next\""), "{:?}", answer.headers);
    assert_eq!(list("per_page=2&page=2").0, [runs[0]]);
    assert_eq!(list("created=%3E%3D2100-01-01T00:00:00Z").0, Vec::<u64>::new());
    assert_eq!(list("created=%3E%3D2020-01-01T00:00:00Z&actor=dispatcher&branch=main").0.len(), 3);
    assert_eq!(list("event=push").0, Vec::<u64>::new());
    for run in runs {
        sim.finished(run);
    }
    assert_eq!(list("status=success").0.len(), 3);
}

#[test]
fn files_and_refs_match_git() {
    let sim = Sim::new("exit 0");
    let client = sim.client();
    sim.github.put_file(REPO, "targets.yaml", "targets: []\n");
    sim.github.put_file_on(REPO, "eval-results/b1", "results/manifest.json", "{}");
    let raw = |path: &str| {
        client.get_with(
            &format!("/repos/{REPO}/contents/{path}"),
            &[("accept", "application/vnd.github.raw+json")],
        )
    };
    assert_eq!(raw("targets.yaml").text, "targets: []\n");
    assert_eq!(raw("results/manifest.json?ref=eval-results/b1").text, "{}");
    assert_eq!(raw("results/manifest.json").status, 404);
    let file = client.get(&format!("/repos/{REPO}/contents/targets.yaml"));
    assert_eq!(
        (file.json["content"].as_str(), file.json["size"].as_u64()),
        (Some("dGFyZ2V0czogW10K\n"), Some(12))
    );
    assert_eq!(client.get(&format!("/repos/{REPO}/contents/.github")).json[0]["name"], "workflows");

    let found = client.get(&format!("/repos/{REPO}/git/ref/heads/eval-results/b1"));
    assert_eq!(found.json["object"]["sha"], sim.github.git(REPO, &["rev-parse", "eval-results/b1"]));
    let all = client.get(&format!("/repos/{REPO}/git/matching-refs/heads/eval-results/"));
    assert_eq!(all.json.as_array().unwrap().len(), 1);
    let delete = |name: &str| {
        client.send(Method::DELETE, &format!("/repos/{REPO}/git/refs/heads/{name}"), &[], Vec::new())
    };
    assert_eq!(delete("eval-results/b1").unwrap().status, 204);
    assert_eq!(delete("eval-results/b1").unwrap().message(), "422 Reference does not exist");
    assert_eq!(client.get(&format!("/repos/{REPO}/git/ref/heads/eval-results/b1")).status, 404);
}

#[test]
fn private_repositories_are_hidden_from_other_tokens() {
    let sim = Sim::new("exit 0");
    sim.github.repo(&NewRepo { full_name: "acme/open".to_owned(), ..NewRepo::default() });
    let status = |token: &str, path: &str| sim.client_of(token).get(path).status;
    assert_eq!(status("", "/repos/acme/runner"), 404);
    assert_eq!(status("", "/repos/acme/open"), 200);
    assert_eq!(status("bad", "/repos/acme/open"), 401);
    sim.github.token("elsewhere", "other", "acme/open", &[("actions", "read")]);
    assert_eq!(status("elsewhere", "/repos/acme/runner"), 404);
    assert_eq!(status("elsewhere", "/repos/Acme/Open"), 200);
    sim.github.token("narrow", "narrow", REPO, &[("contents", "read")]);
    assert_eq!(status("narrow", "/repos/acme/runner/actions/runs"), 403);
    let grants = [(REPO.to_owned(), std::collections::BTreeMap::new())].into();
    sim.github.new_token(&NewToken {
        token: "classic".into(),
        login: "old".into(),
        kind: TokenKind::Classic,
        grants,
        ..NewToken::default()
    });
    assert_eq!(status("classic", "/repos/acme/runner/actions/runs"), 200);
    assert_eq!(sim.client_of("classic").get("/user").json["login"], "old");
    let rate = sim.client_of("classic").get("/rate_limit");
    assert_eq!(
        (rate.json["rate"]["limit"].as_u64(), rate.json["resources"]["core"]["used"].as_u64()),
        (Some(5000), Some(2))
    );
}

#[test]
fn requests_outside_the_api_description_are_violations() {
    let sim = Sim::new("exit 0");
    let client = sim.client();
    client.get("/repos/acme/runner/actions/runs?display_title=x");
    client.get("/repos/acme/runner/everything");
    client.post(DISPATCHES, &json!({ "inputs": {} }));
    client
        .get_with("/meta", &[("x-github-api-version", "2022-11-28"), ("x-github-api-version", "2026-03-10")]);
    let reasons: Vec<String> =
        sim.github.violations().into_iter().map(|violation| violation.reason).collect();
    insta::assert_snapshot!(reasons.join("\n"), @r#"
    there is no query parameter `display_title`
    `/repos/acme/runner/everything` is none of the routes of the description's extract
    : "ref" is a required property
    the header `x-github-api-version` is there twice
    "#);
    sim.github.forget_violations();
}
