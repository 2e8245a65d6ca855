//! Responses to job requests and to everything else.

use serde_json::json;

use super::service::{OURS, Service, args, bare_workspace, bearer, job_headers};
use crate::evaluate::stage::{SKILL, Stage};

#[test]
fn invalid_requests_are_rejected_with_the_reason() {
    let workspace = bare_workspace();
    let service = Service::bare(&workspace, &[]);
    let bodies = [
        r#"{"skill_name": "../x"}"#,
        r#"{"skill_name": "a", "git_sha": "--upload-pack=touch /tmp/x"}"#,
        r#"{"skill_name": "a", "replicates": 0}"#,
        r#"{"skill_name": "a", "replicates": -1}"#,
        r#"{"skill_name": "a", "replicates": 1000000000}"#,
        r#"{"skill_name": "a", "replicates": 2.5}"#,
        r#"{"skill_name": "a", "replicates": "3.5"}"#,
        r#"{"replicates": 3}"#,
        r#"{"skill_name": "a", "callback": "http://127.0.0.1/"}"#,
        r#"["a"]"#,
        r#"{"skill_name": "a""#,
        "\u{1f}",
    ];
    let told: String = bodies
        .iter()
        .map(|body| {
            let answer = service.ask("POST", "/evaluate", &job_headers(&bearer(OURS)), body.as_bytes());
            format!("{body}\n  {} {}\n", answer.status, answer.json()["error"].as_str().unwrap())
        })
        .collect();
    insta::assert_snapshot!(told.replace('\u{1f}', "[1f]"), @r#"
    {"skill_name": "../x"}
      422 `skill_name`: the name of a skill has 1 to 100 characters of `a-z`, `0-9`, `.`, `_` and `-`, begins with a letter or digit, and has no `..`
    {"skill_name": "a", "git_sha": "--upload-pack=touch /tmp/x"}
      422 `git_sha`: a commit is named by 7 to 40 hexadecimal digits
    {"skill_name": "a", "replicates": 0}
      422 `replicates`: a whole number from 1 to 100
    {"skill_name": "a", "replicates": -1}
      422 `replicates`: a whole number from 1 to 100
    {"skill_name": "a", "replicates": 1000000000}
      422 `replicates`: a whole number from 1 to 100
    {"skill_name": "a", "replicates": 2.5}
      422 `replicates`: a whole number from 1 to 100
    {"skill_name": "a", "replicates": "3.5"}
      422 `replicates`: a whole number from 1 to 100
    {"replicates": 3}
      422 `skill_name` is missing
    {"skill_name": "a", "callback": "http://127.0.0.1/"}
      422 unknown key `callback`; legal are `skill_name`, `replicates`, `git_sha`
    ["a"]
      422 the body must be an object: `{"skill_name": …}`
    {"skill_name": "a"
      400 the body is not JSON: EOF while parsing an object at line 1 column 18
    [1f]
      400 the body is not JSON: expected value at line 1 column 1
    "#);
    let large = format!(r#"{{"skill_name": "{}"}}"#, "a".repeat(20_000));
    let answer = service.ask("POST", "/evaluate", &job_headers(&bearer(OURS)), large.as_bytes());
    assert_eq!(answer.expect(413)["error"], "the body is larger than 16384 bytes");
    let form = [("Authorization", &*bearer(OURS)), ("Content-Type", "application/x-www-form-urlencoded")];
    let answer = service.ask("POST", "/evaluate", &form, b"skill_name=a");
    assert_eq!(answer.expect(415)["error"], "the body must be `application/json`");
    assert!(!service.is_busy());
    assert_eq!(service.get("/jobs").expect(200), json!({"jobs": []}));
}

#[test]
fn other_paths_and_methods_get_json_errors() {
    let workspace = bare_workspace();
    let service = Service::bare(&workspace, &["--no-studio"]);
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
    insta::assert_snapshot!(told, @r#"
    GET /: 404 nothing at `/`
    GET /evaluate: 405 this path accepts POST allow: POST
    DELETE /jobs: 405 this path accepts GET, HEAD allow: GET, HEAD
    POST /jobs/job-1: 405 this path accepts GET, HEAD allow: GET, HEAD
    PUT /health: 405 this path accepts GET, HEAD allow: GET, HEAD
    GET /jobs/: 404 nothing at `/jobs/`
    GET /jobs/nope: 404 no job `nope`
    GET /jobs/job-20260101t000000z-00000000: 404 no job `job-20260101t000000z-00000000`
    GET /jobs/..%2f..%2fetc%2fpasswd: 404 no job `../../etc/passwd`
    GET /jobs/%ff: 404 no job ``
    POST /evaluate/: 404 nothing at `/evaluate/`
    PROPFIND /health: 405 this path accepts GET, HEAD allow: GET, HEAD
    "#);
}

#[test]
fn an_unknown_skill_is_rejected_at_once_and_the_service_stays_free() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let service = Service::start(&stage, &[]);
    let answer = service.submit(&json!({"skill_name": "grant-letter-extractor"})).expect(404);
    let commit = stage.commit("main");
    insta::assert_snapshot!(answer["error"].as_str().unwrap().replace(&commit[..7], "[sha7]"), @r"
    no skill `grant-letter-extractor` in the library at [sha7]: `components/grant-letter-extractor/prompt.md` not found
    hint: did you mean `grant-letter-extraction`?
    ");
    assert!(!service.is_busy());
    assert_eq!(service.get("/jobs").expect(200), json!({"jobs": []}));
    let answer = service.submit(&json!({"skill_name": SKILL, "git_sha": "0123456789"})).expect(422);
    let server = &stage.github.urls().server_url;
    insta::assert_snapshot!(answer["error"].as_str().unwrap().replace(server, "[github]"), @r#"
    `0123456789` is not part of the history of `main` at `[github]/meadow/skills.git`
    hint: use a commit of the default branch, with at least 7 digits
    "#);
    assert!(!service.is_busy());
}

#[test]
fn a_skill_without_a_case_that_can_run_is_refused_with_the_reason() {
    let stage = Stage::new();
    let llm = stage.gateway(&[]);
    let service = Service::start(&stage, &[]);
    let no_cases = service.submit(&json!({"skill_name": "travel-summary"})).expect(422);
    assert!(!service.is_busy());
    assert_eq!(service.get("/jobs").expect(200), json!({"jobs": []}), "there is no job that fails later");
    drop(service);
    let api = stage.github.urls().api_url.clone();
    let args = args(&api, &["--no-publish"]);
    let at = args.iter().position(|arg| *arg == "--datasets").unwrap();
    let service = Service::spawn(&stage.workspace, &[&args[..at], &args[at + 2..]].concat());
    let no_input = service.submit(&json!({"skill_name": "call-checklist"})).expect(422);
    let told = [no_cases, no_input].map(|answer| answer["error"].as_str().unwrap().to_owned());
    insta::assert_snapshot!(told.join("\n---\n"), @r"
    `travel-summary` has no cases
    hint: a case is a folder of `evals/cases` with `input.md` or `input.json`, and `expected.json` or `expected.md`
    ---
    no case of `call-checklist` can be run: `lost-file`: its input is in the data sets, and there is no clone of them; `open-call`: its input is in the data sets, and there is no clone of them; `private-scan`: it has no input; `scanned-file`: its input is in the data sets, and there is no clone of them; `two-texts`: it has no input; `unanswered`: it has no expected answer
    hint: a case is a folder of `evals/cases` with `input.md` or `input.json`, and `expected.json` or `expected.md`
    ");
    assert_eq!(llm.counter("requests"), 0);
}

/// A step that builds its JSON from inputs sends strings only, and empty ones for unset inputs.
#[test]
fn strings_of_a_shell_step_are_an_order() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let service = Service::start(&stage, &["--no-publish"]);
    let answer = service.submit(&json!({"skill_name": SKILL, "replicates": "2", "git_sha": ""}));
    let id = answer.expect(202)["job_id"].as_str().unwrap().to_owned();
    let job = service.ended(&id, "completed");
    assert_eq!((&job["replicates"], &job["git_sha"]), (&json!(2), &json!(null)));
}
