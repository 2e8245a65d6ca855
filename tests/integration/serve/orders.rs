//! What is answered to orders and to everything else.

use serde_json::json;

use super::service::{OURS, Service, bare_workspace, bearer, order_headers};
use crate::evaluate::stage::{SKILL, Stage};

#[test]
fn what_cannot_be_an_order_is_refused_with_the_reason() {
    let workspace = bare_workspace();
    let service = Service::bare(&workspace, &[]);
    let bodies = [
        r#"{"skill_name": "../x"}"#,
        r#"{"skill_name": "a", "git_sha": "--upload-pack=touch /tmp/x"}"#,
        r#"{"skill_name": "a", "replicates": 0}"#,
        r#"{"skill_name": "a", "replicates": -1}"#,
        r#"{"skill_name": "a", "replicates": 1000000000}"#,
        r#"{"skill_name": "a", "replicates": 2.5}"#,
        r#"{"skill_name": "a", "replicates": "3"}"#,
        r#"{"replicates": 3}"#,
        r#"{"skill_name": "a", "callback": "http://127.0.0.1/"}"#,
        r#"["a"]"#,
        r#"{"skill_name": "a""#,
        "\u{1f}",
    ];
    let told: String = bodies
        .iter()
        .map(|body| {
            let answer = service.ask("POST", "/evaluate", &order_headers(&bearer(OURS)), body.as_bytes());
            format!("{body}\n  {} {}\n", answer.status, answer.json()["error"].as_str().unwrap())
        })
        .collect();
    insta::assert_snapshot!(told.replace('\u{1f}', "[1f]"), @"");
    let large = format!(r#"{{"skill_name": "{}"}}"#, "a".repeat(20_000));
    let answer = service.ask("POST", "/evaluate", &order_headers(&bearer(OURS)), large.as_bytes());
    assert_eq!(answer.expect(413)["error"], "the body is larger than 16384 bytes");
    let form = [("Authorization", &*bearer(OURS)), ("Content-Type", "application/x-www-form-urlencoded")];
    let answer = service.ask("POST", "/evaluate", &form, b"skill_name=a");
    assert_eq!(answer.expect(415)["error"], "the body must be `application/json`");
    assert!(!service.is_busy());
    assert_eq!(service.get("/jobs").expect(200), json!({"jobs": []}));
}

#[test]
fn other_paths_and_methods_are_answered_in_json() {
    let workspace = bare_workspace();
    let service = Service::bare(&workspace, &[]);
    let ask = |method: &str, path: &str| {
        let answer = service.ask(method, path, &[("Authorization", &bearer(OURS))], b"");
        let allow = answer.header("allow").map(|allow| format!(" allow: {allow}")).unwrap_or_default();
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        format!("{method} {path}: {} {}{allow}\n", answer.status, answer.json()["error"].as_str().unwrap())
    };
    let told: String = [
        ("GET", "/"),
        ("GET", "/evaluate"),
        ("DELETE", "/jobs"),
        ("POST", "/jobs/job-1"),
        ("PUT", "/health"),
        ("GET", "/jobs/"),
        ("GET", "/jobs/nope"),
        ("GET", "/jobs/job-20260101t000000z-00000000"),
        ("GET", "/jobs/..%2f..%2fetc%2fpasswd"),
        ("GET", "/jobs/%ff"),
        ("POST", "/evaluate/"),
        ("PROPFIND", "/health"),
    ]
    .into_iter()
    .map(|(method, path)| ask(method, path))
    .collect();
    insta::assert_snapshot!(told, @"");
}

#[test]
fn an_unknown_skill_is_told_at_once_and_the_place_is_free() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let service = Service::start(&stage, &[]);
    let answer = service.order(&json!({"skill_name": "grant-letter-extractor"})).expect(404);
    let commit = stage.commit("main");
    insta::assert_snapshot!(answer["error"].as_str().unwrap().replace(&commit[..7], "[sha7]"), @"");
    assert!(!service.is_busy());
    assert_eq!(service.get("/jobs").expect(200), json!({"jobs": []}));
    let answer = service.order(&json!({"skill_name": SKILL, "git_sha": "0123456789"})).expect(422);
    insta::assert_snapshot!(answer["error"].as_str().unwrap(), @"");
    assert!(!service.is_busy());
}
