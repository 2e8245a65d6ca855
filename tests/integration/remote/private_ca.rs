//! GitHub Enterprise Server and a model behind certificates of private CAs.

use crate::support::github::MockGithub;
use crate::support::stage::{REPO, Stage, content, runner_targets};
use crate::support::{Workspace, tls_model};

/// A GitHub behind a private CA whose runner gets these certificates as the variable of the step.
fn stage(step_ca: impl FnOnce(&str) -> String) -> Stage {
    let github = MockGithub::start_with(&["--tls", "--runner", env!("CARGO_BIN_EXE_run-evals")]);
    let file = github.urls().ca_file.clone().unwrap();
    let pem = step_ca(&std::fs::read_to_string(&file).unwrap());
    let stage = Stage::on(github, &[], &[("RUN_EVALS_CA", &pem)]).env("SSL_CERT_FILE", &file);
    stage.workspace.write_requests(3);
    stage
}

/// What the only job of the finished run says.
fn log(stage: &Stage) -> String {
    let run = stage.github.finished_run();
    run.jobs.iter().map(|job| job.log.clone()).collect()
}

#[test]
fn the_runner_trusts_the_ca_of_its_step_and_that_of_its_target() {
    let (url, certificate) = tls_model();
    let stage = stage(ToOwned::to_owned);
    // On the default branch, in a folder beside the targets file.
    stage.github.put_file(REPO, "certs/model.pem", &certificate);
    stage.github.put_file(REPO, "targets.yaml", runner_targets(&url, "ca_file: certs/model.pem"));
    stage.dispatch(&["--handover", "branch"]).expect(0);
    stage.all_answered(3);

    // Without the target's CA the model is not trusted, though GitHub is.
    stage.github.put_file(REPO, "targets.yaml", runner_targets(&url, "max_retries: 0"));
    stage
        .workspace
        .run(&["dispatch", "--requests", "requests.jsonl", "--target", "cloud", "--output", "not"])
        .expect(5);
    let rows = stage.workspace.rows("not/responses.jsonl");
    assert!(
        rows.iter().all(|row| row["error"]["message"].as_str().unwrap().contains("certificate")),
        "{rows:?}"
    );
}

#[test]
fn the_ca_of_the_step_serves_the_models_too() {
    let (url, certificate) = tls_model();
    let stage = stage(|github| format!("{github}\n{certificate}"));
    stage.github.put_file(REPO, "targets.yaml", runner_targets(&url, ""));
    stage.dispatch(&[]).expect(0);
    stage.all_answered(3);
}

#[test]
fn a_runner_without_the_ca_says_how_to_pass_it() {
    let stage = stage(|_| String::new());
    stage.dispatch(&["--handover", "branch"]).expect(5);
    let log = log(&stage);
    let server = &stage.github.urls().server_url;
    assert!(log.contains(&format!("git does not trust the certificate of `{server}/{REPO}.git`")), "{log}");
    assert!(log.contains("set `RUN_EVALS_CA` in `env` of each job"), "{log}");
}

#[test]
fn unusable_certificates_are_reported_before_a_call() {
    let stage = stage(|_| "hello".to_owned());
    stage.dispatch(&["--handover", "inline"]).expect(5);
    let log = log(&stage);
    assert!(log.contains("the variable `RUN_EVALS_CA` has no certificate in PEM format"), "{log}");
}

#[test]
fn a_runner_reads_the_ca_from_its_default_branch_alone() {
    let stage = Stage::new();
    stage.workspace.write_requests(1);
    stage.github.put_file(REPO, "empty.pem", "no certificate");
    let mut problems = String::new();
    for (batch, file) in [
        ("b1", "missing.pem"),
        ("b2", "/etc/ssl/certs/ca-certificates.crt"),
        ("b3", "../x.pem"),
        ("b4", "empty.pem"),
    ] {
        stage.runner_target(&format!("ca_file: {file}"));
        let args = [
            "dispatch",
            "--requests",
            "requests.jsonl",
            "--target",
            "cloud",
            "--output",
            "out",
            "--batch-id",
            batch,
        ];
        stage.workspace.run(&args).expect(5);
        let mut jobs = stage.github.runs().into_iter().flat_map(|run| run.jobs);
        let refused = jobs.rfind(|job| job.exit_code == Some(3)).unwrap();
        let said = refused.annotations.iter().find_map(|(_, text)| text.strip_prefix("run-evals: ")).unwrap();
        problems.extend(
            said.lines()
                .filter(|line| line.contains("`ca_file`") || line.starts_with("hint"))
                .map(|line| format!("{line}\n")),
        );
    }
    insta::assert_snapshot!(problems, @r"
    `ca_file`: `missing.pem` is not a file of the runner repository's default branch
    hint: commit the file there, and name it by its path without variables, relative to this file
    `ca_file`: `/etc/ssl/certs/ca-certificates.crt` is not a file of the runner repository's default branch
    hint: commit the file there, and name it by its path without variables, relative to this file
    `ca_file`: `../x.pem` is not a file of the runner repository's default branch
    hint: commit the file there, and name it by its path without variables, relative to this file
    `ca_file`: `empty.pem` has no certificate in PEM format
    hint: the file has the certificates of the CA in PEM format, which begin with `-----BEGIN CERTIFICATE-----`
    ");
    assert_eq!(stage.llm.counter("requests"), 0);
}

#[test]
fn a_local_target_has_a_ca_file_beside_the_targets_file() {
    let (url, certificate) = tls_model();
    let workspace = Workspace::new();
    workspace.write_requests(2);
    workspace.write_target(&url, "ca_file: ca.pem");
    let output = workspace.dispatch(&[]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: `ca_file`: `ca.pem` cannot be read: No such file or directory (os error 2)
      --> targets.yaml:6:14
       |
     6 |     ca_file: ca.pem
       |              ^^^^^^

    hint: the file has the certificates of the CA in PEM format, which begin with `-----BEGIN CERTIFICATE-----`
    ");
    workspace.write("ca.pem", "no certificate");
    let output = workspace.dispatch(&[]).expect(3);
    insta::assert_snapshot!(output.stderr, @r"
    error: `ca_file`: `ca.pem` has no certificate in PEM format
      --> targets.yaml:6:14
       |
     6 |     ca_file: ca.pem
       |              ^^^^^^

    hint: the file has the certificates of the CA in PEM format, which begin with `-----BEGIN CERTIFICATE-----`
    ");
    workspace.write("ca.pem", certificate);
    workspace.dispatch(&[]).expect(0);
    let rows = workspace.rows("out/responses.jsonl");
    assert_eq!(rows.iter().map(content).collect::<Vec<_>>(), ["message 0", "message 1"]);
}

#[test]
fn run_names_a_ca_file() {
    let (url, certificate) = tls_model();
    let workspace = Workspace::new();
    workspace.write_requests(2);
    // Nothing listens there, so that the batch stays.
    workspace.write_target("http://127.0.0.1:1/v1", "max_retries: 0");
    workspace.dispatch(&["--batch-id", "b1"]).expect(5);
    workspace.write_target(&url, "");
    let run = |more: &[&str]| workspace.run(&[&["run", "--batch-id", "b1", "-q"], more].concat());
    insta::assert_snapshot!(run(&["--ca-file", "ca.pem"]).expect(3).stderr, @r"
    error: cannot read the CA file `ca.pem`: No such file or directory (os error 2)

    hint: in a step without a checkout, put the certificates into the variable `RUN_EVALS_CA`
    ");
    workspace.write("ca.pem", "no certificate");
    insta::assert_snapshot!(run(&["--ca-file", "ca.pem"]).expect(3).stderr, @r"
    error: the CA file `ca.pem` has no certificate in PEM format

    hint: certificates in PEM format begin with `-----BEGIN CERTIFICATE-----`
    ");
    workspace.write("ca.pem", certificate);
    run(&["--ca-file", "ca.pem"]).expect(0);
}
