//! Against the real service: TLS with its own CA, a token, one job at a time, and results that a sweep finds again.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::SERVE_TOKEN;
use crate::evaluate::stage::{LIBRARY, SKILL, Stage};
use crate::support::{Output, Server};

/// The service with a certificate of its own.
fn serve(stage: &Stage) -> Server {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    stage.serve(&made.cert.pem(), &made.signing_key.serialize_pem(), SERVE_TOKEN)
}

/// Runs a command as a user who knows the service and reads the library.
fn run(stage: &Stage, service: &Server, args: &[&str]) -> Output {
    let step =
        stage.github.workspace(crate::evaluate::stage::TOKEN).env("RUN_EVALS_SERVE_TOKEN", SERVE_TOKEN);
    step.write("ca.pem", stage.workspace.read("cert.pem"));
    step.run(&[args, &["--url", &format!("https://{}", service.address), "--ca-file", "ca.pem"]].concat())
}

fn outcome(output: &Output) -> Value {
    serde_json::from_str::<Value>(&output.stdout).unwrap()["components"][0].clone()
}

#[test]
fn a_bumped_skill_is_evaluated_once() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let service = serve(&stage);
    let before = stage.commit("main");
    let prompt = format!("components/{SKILL}/prompt.md");
    let text = stage.file("main", &prompt);
    let line = text.lines().find(|line| line.starts_with("version:")).unwrap();
    stage.github.put_file(LIBRARY, &prompt, text.replace(line, "version: 99.1.0"));
    let bump = stage.commit("main");
    let push = [
        "trigger",
        "--repo",
        LIBRARY,
        "--before",
        &before,
        "--after",
        &bump,
        "--replicates",
        "1",
        "--format",
        "json",
    ];
    let fired = outcome(&run(&stage, &service, &push).expect(0));
    assert_eq!((&fired["skill"], &fired["git_sha"]), (&Value::from(SKILL), &Value::from(bump.as_str())));
    assert!(fired["job_id"].as_str().unwrap().starts_with("job-"), "{fired:#}");

    // Until it is merged, the sweep finds it as a job or as a pull request, and never requests it again.
    let sweep = ["sweep", "--repo", LIBRARY, "--replicates", "1", "--pause", "50ms", "--format", "json"];
    let started = Instant::now();
    loop {
        let found = outcome(&run(&stage, &service, &sweep).expect(0));
        match found["outcome"].as_str().unwrap() {
            "running" => {}
            "proposed" => break,
            other => panic!("{other}: {found:#}"),
        }
        assert!(started.elapsed() < Duration::from_mins(2), "it never ends");
    }
    assert_eq!(stage.github.pulls().len(), 1);
    let branch = stage.github.pulls()[0].head.clone();
    stage.github.git(LIBRARY, &["update-ref", "refs/heads/main", &format!("refs/heads/{branch}")]);
    assert_eq!(outcome(&run(&stage, &service, &sweep).expect(0))["outcome"], "merged");

    let output = run(&stage, &service, &["trigger", "no-such-skill"]).expect(1);
    assert!(output.stderr.contains("the service returned 404"), "{}", output.stderr);
    let output = run(&stage, &service, &["trigger", SKILL, "--git-sha", "0123456"]).expect(1);
    assert!(output.stderr.contains("the service returned 422"), "{}", output.stderr);
}

#[test]
fn an_untrusted_certificate_gets_no_token() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let service = serve(&stage);
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    stage.workspace.write("cert.pem", other.cert.pem());
    let output = run(&stage, &service, &["trigger", SKILL]).expect(1);
    insta::assert_snapshot!(output.stderr, @r"
    error: `grant-letter-extraction` was not evaluated: invalid peer certificate: BadSignature

    hint: check the address, the network and the proxy variables; a certificate of your own CA is trusted with `--ca-file` or the variable `RUN_EVALS_SERVE_CA`
    ");
}
