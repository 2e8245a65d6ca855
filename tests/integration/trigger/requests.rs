//! What is sent to the service, once, and how its response is reported.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::history::names;
use super::{SERVE_TOKEN, Trigger, bumps};

const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

fn stage() -> Trigger {
    Trigger::new(&bumps::before())
}

#[test]
fn a_skill_is_requested_without_any_call_to_github() {
    let stage = stage();
    let output = stage.run(&["trigger", "alpha", "--replicates", "3", "--git-sha", "ABCDEF0"]).expect(0);
    insta::assert_snapshot!(output.stdout, @"fired      alpha  -  abcdef0  job-1");
    assert_eq!(output.stderr, "");
    assert_eq!(
        stage.service.job_requests(),
        [json!({"skill_name": "alpha", "replicates": 3, "git_sha": "abcdef0"})]
    );
    let headers = stage.service.state().requests[0].1.join("\n").to_lowercase();
    assert!(headers.contains(&format!("authorization: bearer {SERVE_TOKEN}")), "{headers}");
    assert_eq!(stage.github.requests().len(), 0);
    stage.service.state().jobs.clear();
    stage.run(&["trigger", "beta"]).expect(0);
    assert_eq!(stage.service.job_requests()[1], json!({"skill_name": "beta", "replicates": 10}));
}

#[test]
fn a_busy_service_fails_the_step_and_is_called_once() {
    let stage = stage();
    stage.run(&["trigger", "alpha"]).expect(0);
    let output = stage.run(&["trigger", "beta"]).expect(6);
    insta::assert_snapshot!(output.stdout, @"busy       beta  -  newest   the service has been evaluating `alpha` since 2026-11-17T03:17:00Z");
    insta::assert_snapshot!(output.stderr, @r"
    error: `beta` was not evaluated: the service has been evaluating `alpha` since 2026-11-17T03:17:00Z

    hint: it runs one evaluation at a time: `run-evals sweep` requests missing ones
    ");
    assert_eq!(stage.service.job_requests().len(), 2);
}

#[test]
fn every_rejection_fails_the_step_and_has_a_hint() {
    let stage = stage();
    let mut told = String::new();
    for (status, body) in [
        (400, r#"{"error":"replicates: a whole number from 1 to 100"}"#),
        (401, r#"{"error":"no valid token"}"#),
        (403, r#"{"error":"this address is not allowed"}"#),
        (404, r#"{"error":"no skill `alpha`"}"#),
        (413, r#"{"error":"larger than 64 KiB"}"#),
        (422, r#"{"error":"the commit is not on the default branch"}"#),
        (429, r#"{"error":"slow down"}"#),
        (503, r#"{"error":"cannot pull: connection refused"}"#),
        (503, r#"{"error":"cannot pull\n  caused by: no space left\nhint: free some space"}"#),
        (500, ""),
        (502, "<html><body>Bad Gateway</body></html>"),
        (200, r#"{"job_id":"job-1"}"#),
        (202, r#"{"job":1}"#),
        (302, ""),
        (307, ""),
    ] {
        stage.service.answer(status, body);
        let output = stage.run(&["trigger", "alpha"]).expect(1);
        told.push_str(&output.stderr);
    }
    assert_eq!(stage.service.job_requests().len(), 15, "each once, and no redirect is followed");
    insta::assert_snapshot!(told, @r#"
    error: `alpha` was not evaluated: the service returned 400: replicates: a whole number from 1 to 100

    hint: the address may not belong to `run-evals serve` of this version

    error: `alpha` was not evaluated: the service returned 401: no valid token

    hint: the service rejected this token: set `RUN_EVALS_SERVE_TOKEN` to the one the service was started with

    error: `alpha` was not evaluated: the service returned 403: this address is not allowed

    hint: the service accepts only certain addresses: add this machine's to its list

    error: `alpha` was not evaluated: the service returned 404: no skill `alpha`

    hint: the default branch of the library does not have this component, or this is not the service's address

    error: `alpha` was not evaluated: the service returned 413: larger than 64 KiB

    hint: the address may not belong to `run-evals serve` of this version

    error: `alpha` was not evaluated: the service returned 422: the commit is not on the default branch

    error: `alpha` was not evaluated: the service returned 429: slow down

    hint: too many attempts with a wrong token: wait, and fix the token

    error: `alpha` was not evaluated: the service returned 503: cannot pull: connection refused

    hint: the service could not update its clones: see its log

    error: `alpha` was not evaluated: the service returned 503: cannot pull caused by: no space left

    hint: free some space

    error: `alpha` was not evaluated: the service returned 500: no reason given

    hint: the service or its proxy failed: see its log

    error: `alpha` was not evaluated: the service returned 502: a web page instead of a reason

    hint: the service or its proxy failed: see its log

    error: `alpha` was not evaluated: the service returned 200: {"job_id":"job-1"}

    hint: the address may not belong to `run-evals serve` of this version

    error: `alpha` was not evaluated: the service returned 202: the response names no job

    hint: the address may not belong to `run-evals serve` of this version

    error: `alpha` was not evaluated: the service returned 302: no reason given

    hint: redirects are not followed: use the service's own address

    error: `alpha` was not evaluated: the service returned 307: no reason given

    hint: redirects are not followed: use the service's own address
    "#);
}

#[test]
fn responses_cannot_inject_workflow_commands_or_show_the_token() {
    let stage = stage();
    let evil = json!({ "error": format!("\u{1b}[2J\n::error::x {SERVE_TOKEN} {}", "y".repeat(900)) });
    stage.service.answer(422, &evil.to_string());
    let output = stage.run(&["trigger", "alpha"]).expect(1);
    assert!(!output.stderr.contains(SERVE_TOKEN) && !output.stdout.contains(SERVE_TOKEN));
    assert!(output.stderr.contains(r"\u{1b}[2J ::error::x *** yyy"), "{}", output.stderr);
    assert!(output.stderr.len() < 900, "{}", output.stderr);
    stage.service.answer(422, &"z".repeat(100_000));
    let output = stage.run(&["trigger", "alpha"]).expect(1);
    insta::assert_snapshot!(output.stderr, @r"
    error: `alpha` was not evaluated: the response is larger than 64 KiB

    hint: the service may have started it anyway: check its list of jobs
    ");
}

#[test]
fn the_token_is_sent_nowhere_else() {
    let stage = stage();
    let run = |args: &[&str]| stage.workspace.run(&[&["trigger", "alpha"], args].concat());
    insta::assert_snapshot!(run(&["--url", "http://evaluator.example.org"]).expect(2).stderr, @r"
    error: the address of the service must be `https`: over `http`, others on the network could read the token

    hint: such as `https://evaluator.example.org`
    ");
    let url = stage.service.url();
    let output = stage
        .workspace
        .command(&["trigger", "alpha", "--url", &url])
        .env_remove("RUN_EVALS_SERVE_TOKEN")
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @r"
    error: no token for the service

    hint: set `RUN_EVALS_SERVE_TOKEN`, or pass a file with `--auth-token-file`
    ");
    let output = stage
        .workspace
        .command(&["trigger", "alpha", "--url", &url])
        .env_remove("RUN_EVALS_SERVE_TOKEN")
        .env("MINDROUTER_EVAL_WEBHOOK_TOKEN", SERVE_TOKEN)
        .output();
    assert_eq!(output.unwrap().status.code(), Some(0), "the other name of the variable");
    stage.service.state().jobs.clear();
    // A proxy on the way to this machine would see it.
    let output = stage
        .workspace
        .command(&["trigger", "alpha", "--url", &url])
        .env("HTTP_PROXY", "http://127.0.0.1:1")
        .env("http_proxy", "http://127.0.0.1:1")
        .output();
    assert_eq!(output.unwrap().status.code(), Some(0));
    stage.workspace.write("ca.pem", "no certificate");
    insta::assert_snapshot!(run(&["--url", "https://127.0.0.1:1", "--ca-file", "ca.pem"]).expect(3).stderr, @r"
    error: the certificates of the service's CA are not in PEM format

    hint: they begin with `-----BEGIN CERTIFICATE-----`; set them with `--ca-file` or `RUN_EVALS_SERVE_CA`
    ");
    stage.workspace.write("token", format!("{SERVE_TOKEN}\n"));
    stage.service.state().jobs.clear();
    let output = stage
        .workspace
        .command(&["trigger", "alpha", "--url", &url, "--auth-token-file", "token"])
        .env_remove("RUN_EVALS_SERVE_TOKEN")
        .output();
    assert_eq!(output.unwrap().status.code(), Some(0));
}

#[test]
fn a_silent_service_times_out_and_the_unknown_outcome_is_reported() {
    let stage = stage();
    let refused = stage.workspace.run(&["trigger", "alpha", "--url", "http://127.0.0.1:1"]).expect(1);
    insta::assert_snapshot!(refused.stderr, @r#"
    error: `alpha` was not evaluated: Connection refused (os error 111)

    hint: check the address, the network and the proxy variables; a certificate of your own CA is trusted with `--ca-file` or the variable `RUN_EVALS_SERVE_CA`
    "#);
    // Accepts the connection and does not respond.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let begun = Instant::now();
    let silent = stage.workspace.run(&["trigger", "alpha", "--url", &url, "--timeout", "300ms"]).expect(1);
    assert!(begun.elapsed() < Duration::from_secs(20));
    insta::assert_snapshot!(silent.stderr, @r"
    error: `alpha` was not evaluated: no response in time

    hint: the service may have started it anyway: check its list of jobs
    ");
}

#[test]
fn invalid_names_are_never_sent() {
    let stage = stage();
    for args in [
        &["trigger", "../x"][..],
        &["trigger", "alpha", "--git-sha", "--upload-pack=x"],
        &["trigger", "alpha", "--git-sha=--upload-pack=x"],
        &["trigger", "alpha", "--replicates", "0"],
        &["trigger", "alpha", "--replicates", "1000000000"],
        &["trigger", "--git-sha", SHA],
        &["trigger", "alpha", "--after", SHA],
        &["trigger", "--before", SHA],
    ] {
        stage.run(args).expect(2);
    }
    assert_eq!(stage.service.state().requests.len(), 0);
}

#[test]
fn a_step_writes_a_summary() {
    let stage = Trigger::new(&bumps::thirty(bumps::before()));
    let names = names(&stage.github);
    let run = |files: (&str, &str)| {
        let url = stage.service.url();
        let (before, after) = (names.of("before"), names.of("and again"));
        let mut command =
            stage.workspace.command(&["trigger", "--url", &url, "--before", before, "--after", after]);
        command
            .env("GITHUB_ACTIONS", "true")
            .env("GITHUB_RUN_ID", "7")
            .env("GITHUB_REPOSITORY", super::REPO)
            .env("GITHUB_SERVER_URL", "https://github.com");
        command
            .env("GITHUB_STEP_SUMMARY", stage.workspace.path(files.0))
            .env("GITHUB_OUTPUT", stage.workspace.path(files.1));
        command.output().unwrap()
    };
    let output = run(("summary.md", "outputs"));
    assert_eq!(output.status.code(), Some(6));
    let mut summary = stage.workspace.read("summary.md");
    for (skill, commit) in bumps::expected(&names) {
        summary =
            summary.replace(&commit, &format!("<{skill}>")).replace(&commit[..7], &format!("<{skill}>"));
    }
    let ends = (names.of("before"), names.of("and again"));
    summary = summary.replace(&ends.0[..7], "<before>").replace(&ends.1[..7], "<after>");
    insta::assert_snapshot!(summary, @r#"
    ### Skill evaluations of this push

    | component | version | commit | outcome | |
    | --- | --- | --- | --- | --- |
    | <code>alpha</code> | 1.0.0 → 1.1.1 | [<alpha>](https://github.com/meadow/prompt-library/commit/<alpha>) | fired | <code>job&#45;1</code> |
    | <code>eta</code> | 1.9.0 → 1.10.0 | [<eta>](https://github.com/meadow/prompt-library/commit/<eta>) | **busy** | <code>the service has been evaluating &#96;alpha&#96; since 2026&#45;11&#45;17T03&#58;17&#58;00Z</code> |
    | <code>gamma</code> | 0.9.0 → 2.0.0 | [<gamma>](https://github.com/meadow/prompt-library/commit/<gamma>) | **busy** | <code>the service has been evaluating &#96;alpha&#96; since 2026&#45;11&#45;17T03&#58;17&#58;00Z</code> |
    | <code>lambda</code> | 0.1.0 (new) | [<lambda>](https://github.com/meadow/prompt-library/commit/<lambda>) | **busy** | <code>the service has been evaluating &#96;alpha&#96; since 2026&#45;11&#45;17T03&#58;17&#58;00Z</code> |
    | <code>omicron&#45;two</code> | 1.0.0 (new) | [<omicron-two>](https://github.com/meadow/prompt-library/commit/<omicron-two>) | **busy** | <code>the service has been evaluating &#96;alpha&#96; since 2026&#45;11&#45;17T03&#58;17&#58;00Z</code> |
    | <code>pi</code> | 1.0.0 → 1.1.0 | [<pi>](https://github.com/meadow/prompt-library/commit/<pi>) | **busy** | <code>the service has been evaluating &#96;alpha&#96; since 2026&#45;11&#45;17T03&#58;17&#58;00Z</code> |
    | <code>tau</code> | 1.2.0 (new) | [<tau>](https://github.com/meadow/prompt-library/commit/<tau>) | **busy** | <code>the service has been evaluating &#96;alpha&#96; since 2026&#45;11&#45;17T03&#58;17&#58;00Z</code> |
    | <code>theta</code> | 1.0.0 → 1.1.0 | [<theta>](https://github.com/meadow/prompt-library/commit/<theta>) | **busy** | <code>the service has been evaluating &#96;alpha&#96; since 2026&#45;11&#45;17T03&#58;17&#58;00Z</code> |
    | <code>zeta</code> | 1.0.0 → 1.1.0 | [<zeta>](https://github.com/meadow/prompt-library/commit/<zeta>) | **busy** | <code>the service has been evaluating &#96;alpha&#96; since 2026&#45;11&#45;17T03&#58;17&#58;00Z</code> |

    It runs one evaluation at a time: `run-evals sweep` requests missing ones.

    <sub><before>..<after>, 3 other prompts changed; 36 requests to GitHub</sub>
    "#);
    let outputs = stage.workspace.read("outputs");
    assert!(
        outputs.contains("job-id<<") && outputs.contains("\njob-1\n") && outputs.contains("\nalpha\n"),
        "{outputs}"
    );
    let stderr = String::from_utf8(output.stderr).unwrap();
    let errors = stderr.lines().filter(|line| line.starts_with("::error title=run-evals::")).count();
    assert_eq!(errors, 8, "{stderr}");
    assert!(stderr.contains(&format!("::add-mask::{SERVE_TOKEN}")), "{stderr}");
    let told: Value = json!(stage.service.job_requests().len());
    assert_eq!(told, 9);
}
