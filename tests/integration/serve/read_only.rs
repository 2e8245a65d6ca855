//! Read-only tokens: they see everything and change nothing, through the API and through the studio.

use nix::sys::signal::Signal;

use super::service::{OURS, Service, args, bare_workspace, bearer, job_headers, log};
use crate::evaluate::stage::{CASES, SKILL, Stage};
use crate::studio::visitor::Visitor;
use crate::support::until;

const READER: &str = "5eefeed05eefeed05eefeed05eefeed0";
const REFUSED: &str = "this token is read-only";
const WITH_READER: [&str; 2] = ["--read-only-token-file", "readers"];

fn signed_in(service: &Service, token: &str) -> Visitor {
    let mut visitor = Visitor::new(&service.address);
    visitor.sign_in(token).expect(303);
    visitor
}

/// Every route of the service that changes something.
fn acts(id: &str) -> Vec<(&'static str, String)> {
    let api = [("POST", "/evaluate".to_owned()), ("POST", format!("/jobs/{id}/cancel"))];
    let strange = ["PUT", "PATCH", "DELETE", "OPTIONS", "POST"];
    let strange = strange.map(|method| (method, format!("/jobs/{id}")));
    api.into_iter().chain(strange).collect()
}

#[test]
fn a_read_only_token_changes_nothing_while_a_job_runs() {
    let stage = Stage::new();
    let llm = stage.gateway(&["--latency-ms", "100"]);
    stage.workspace.write_private("readers", READER);
    stage.workspace.write("benchmarks.yaml", "benchmarks: []\n");
    let more = ["--max-concurrency", "2", "--report-failures", "none", "--registry", "benchmarks.yaml"];
    let service = Service::start(&stage, &[&more[..], &WITH_READER].concat());
    let id = service.accepted(1);
    let token = bearer(READER);

    // It sees what the other token sees.
    for path in ["/jobs", &format!("/jobs/{id}")] {
        assert_eq!(service.ask("GET", path, &[("Authorization", &token)], b"").status, 200, "{path}");
    }
    for (method, path) in acts(&id) {
        let body = format!(r#"{{"skill_name": "{SKILL}", "replicates": 1}}"#);
        let answer = service.ask(method, &path, &job_headers(&token), body.as_bytes());
        assert_eq!(answer.expect(403)["error"], REFUSED, "{method} {path}");
    }

    let (reader, writer) = (signed_in(&service, READER), signed_in(&service, OURS));
    let pages = [
        "/studio/jobs",
        "/studio/benchmarks",
        "/studio/leaderboard",
        "/studio/runs",
        &format!("/studio/jobs/{id}"),
    ];
    for path in pages {
        let page = reader.get(path).expect(200).body;
        assert!(page.contains(">Read-only<"), "{path}");
        // The only form is the one that signs out.
        assert_eq!(
            page.matches("<form").count() - page.matches("method=\"get\"").count(),
            1,
            "{path}: {page}"
        );
        assert!(!writer.get(path).expect(200).body.contains(">Read-only<"), "{path}");
    }
    assert!(writer.get("/studio/jobs").body.contains("action=\"/studio/jobs\""));
    assert!(writer.get(&format!("/studio/jobs/{id}")).body.contains("/cancel\""));
    reader.get(&format!("/studio/live/jobs/{id}")).expect(200);

    let (own, stolen) = (reader.csrf(), writer.csrf());
    let forms = [
        "/studio/jobs".to_owned(),
        format!("/studio/jobs/{id}/cancel"),
        "/studio/benchmarks/x/sync".to_owned(),
        "/studio/benchmarks/sync".to_owned(),
    ];
    for path in &forms {
        for csrf in [&own, &stolen] {
            let answer =
                reader.post(path, &[], &[("csrf", csrf), ("skill_name", SKILL), ("replicates", "1")]);
            assert!(answer.expect(403).body.contains("this session is read-only"), "{path}");
        }
        // The header of the other kind of token does not help a session, and the other way round.
        let with_header = reader.post(path, &[("Authorization", &bearer(OURS))], &[("csrf", &own)]);
        with_header.expect(403);
    }
    // Only the first cookie counts: a second one of a writer adds nothing.
    let both = Visitor {
        cookie: Some(format!("{}; {}", reader.cookie.clone().unwrap(), writer.cookie.clone().unwrap())),
        ..reader.clone()
    };
    both.post(&forms[1], &[], &[("csrf", &stolen)]).expect(403);
    let job = service.ended(&id, "completed");
    assert_eq!(job["cancel_requested"], false);
    assert_eq!(llm.counter("ok"), CASES * 3, "one job ran, to its end");
    assert_eq!(service.get("/jobs").expect(200)["jobs"].as_array().unwrap().len(), 1);
    // It can sign out.
    reader.press("/studio/logout").expect(303);
    reader.get("/studio/jobs").expect(303);
    writer.get("/studio/jobs").expect(200);
}

/// Tokens that move between the files: a session keeps the role that it was signed in with, or ends.
#[test]
fn a_read_only_session_never_becomes_a_writer() {
    let workspace = bare_workspace();
    workspace.write_private("readers", READER);
    workspace.write("benchmarks.yaml", "benchmarks: []\n");
    let service = Service::bare(&workspace, &[&["--registry", "benchmarks.yaml"][..], &WITH_READER].concat());
    let (reader, writer) = (signed_in(&service, READER), signed_in(&service, OURS));
    let old = reader.csrf();
    let order = |visitor: &Visitor, csrf: &str| {
        visitor.post("/studio/jobs", &[], &[("csrf", csrf), ("skill_name", "nothing")]).status
    };
    assert_eq!((order(&reader, &old), order(&writer, &writer.csrf())), (403, 404));

    // The token is promoted: its read-only session ends, and is never one that may act.
    let next = "0123456789abcdef0123456789abcdef";
    workspace.write_private("readers", next);
    workspace.write_private("tokens", &format!("{OURS}\n{READER}\n"));
    service.signal(Signal::SIGHUP);
    until("the session is over", || reader.get("/studio/jobs").status == 303);
    assert_eq!(order(&reader, &old), 303, "it leads to the sign-in page");
    let promoted = signed_in(&service, READER);
    assert_eq!(order(&promoted, &promoted.csrf()), 404, "signed in anew, it may order");

    // And back: what it was signed in as is over.
    workspace.write_private("readers", READER);
    workspace.write_private("tokens", OURS);
    service.signal(Signal::SIGHUP);
    until("the session is over", || promoted.get("/studio/jobs").status == 303);
    let demoted = signed_in(&service, READER);
    assert_eq!(order(&demoted, &demoted.csrf()), 403);

    // In both files after a reload: it may only look, and so may its sessions.
    workspace.write_private("tokens", &format!("{OURS}\n{READER}\n"));
    service.signal(Signal::SIGHUP);
    let warned = || {
        log(&workspace)
            .iter()
            .any(|line| line["message"].as_str().is_some_and(|text| text.contains("also a token")))
    };
    until("the warning", warned);
    assert_eq!(order(&demoted, &demoted.csrf()), 403);
    let answer = service.ask("POST", "/evaluate", &job_headers(&bearer(READER)), b"{}");
    assert_eq!(answer.expect(403)["error"], REFUSED);
    assert_eq!(order(&writer, &writer.csrf()), 404, "nothing has changed for the others");
}

#[test]
fn a_token_is_of_one_kind() {
    let workspace = bare_workspace();
    workspace.write_private("tokens", &format!("{OURS}\n{READER}\n"));
    workspace.write_private("readers", READER);
    let serve =
        ["serve", "--no-publish", "--listen", "127.0.0.1:0", "--state", "state", "--library", "library"];
    let with = |more: &[&str]| workspace.run(&[&serve[..], &WITH_READER, more].concat());
    insta::assert_snapshot!(with(&["--auth-token-file", "tokens"]).expect(3).stderr, @"
    error: a read-only token is also a token of `--auth-token-file`

    hint: give readers a separate token: generate one with `openssl rand -hex 32`
    ");
    // A read-only token is not enough to start the service.
    insta::assert_snapshot!(with(&[]).expect(3).stderr, @"
    error: no token for clients

    hint: pass a file with `--auth-token-file`, or set `RUN_EVALS_SERVE_TOKEN`; generate one with `openssl rand -hex 32`
    ");
    workspace.write_private("readers", "short");
    workspace.write_private("tokens", OURS);
    insta::assert_snapshot!(with(&["--auth-token-file", "tokens"]).expect(3).stderr, @"
    error: token 1 in `readers` has 5 characters, at least 32 are needed

    hint: generate one with `openssl rand -hex 32`
    ");
}

/// The trace gateway spends money and keeps traces: a reader may only read them.
#[test]
fn a_read_only_token_makes_no_call_through_the_trace_gateway() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    stage.workspace.write_private("readers", READER);
    stage.workspace.write_private("tokens", OURS);
    let api = &stage.github.urls().api_url;
    let more = ["--traces", "traces", "--trace-upstream", "mindrouter", "--read-only-token-file", "readers"];
    let service = Service::spawn(&stage.workspace, &args(api, &more));
    let token = bearer(READER);
    let path = "/rollout_id/a/invocation_id/b/experiment_id/c/run_id/d/row_id/e/chat/completions";
    let before = llm.counter("requests");
    for path in [path, "/v1/logs", "/logs"] {
        let answer = service.ask("POST", path, &job_headers(&token), b"{}");
        assert_eq!(answer.expect(403)["error"], REFUSED, "{path}");
    }
    assert_ne!(service.ask("GET", "/v1/status", &[("Authorization", &token)], b"").status, 403);
    assert_eq!(llm.counter("requests"), before);
}
