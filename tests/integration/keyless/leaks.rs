//! No token, assertion, signature or request token in any log, row, artifact or error.

use super::runner::{dispatch, runner};
use super::{VENDORS, write_target};
use crate::secrets::everything_written;
use crate::support::stage::REPO;
use crate::support::{MockVendors, REQUEST_TOKEN, Workspace};

/// Asserts that no file and no output contains a secret that the vendors handed out, or a signature that they saw.
fn assert_no_secret(vendors: &MockVendors, workspace: &Workspace, printed: &str) {
    let printed = ("printed".to_owned(), printed.as_bytes().to_vec());
    assert_none_in(vendors, everything_written(workspace).into_iter().chain([printed]));
}

fn assert_none_in(vendors: &MockVendors, texts: impl Iterator<Item = (String, Vec<u8>)>) {
    let mut secrets = vendors.secrets();
    assert!(!secrets.is_empty(), "the vendors saw no secret");
    secrets.push(REQUEST_TOKEN.to_owned());
    let encoded: Vec<String> = secrets.iter().map(hex::encode).collect();
    for (name, bytes) in texts {
        for secret in secrets.iter().chain(&encoded) {
            let found = memchr::memmem::find(&bytes, secret.as_bytes());
            assert!(found.is_none(), "`{}…` is in {name}", &secret[..8]);
        }
        for at in memchr::memmem::find_iter(&bytes, b"Signature=") {
            let signature: Vec<u8> =
                bytes[at + 10..].iter().copied().take_while(u8::is_ascii_hexdigit).collect();
            assert!(signature.is_empty(), "a signature is in {name}");
        }
    }
}

#[test]
fn credentials_reach_only_the_vendor_that_issued_them() {
    let wrong = ["--echo-secrets", "--accepted-subject", "repo:other"];
    let cases: [(&[&str], i32); 4] = [
        (&["--echo-secrets"], 0),
        (&wrong, 5),
        (&["--echo-secrets", "--revoke-at", "3", "--same-jwt"], 5),
        (&["--echo-secrets", "--no-role"], 5),
    ];
    for vendor in VENDORS {
        for (options, exit) in cases {
            // Only one vendor refuses a second use.
            let exit = if options.contains(&"--same-jwt") && vendor != "anthropic" { 0 } else { exit };
            let vendors = MockVendors::start(options);
            let workspace = vendors.job().env("RUN_EVALS_LOG", "trace");
            write_target(
                &workspace,
                &format!("{}\nkeep_raw: true\nmax_concurrency: 3", vendors.target(vendor)),
            );
            workspace.write_requests(3);
            let args =
                ["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out", "-vv"];
            let output = workspace.run(&args).expect(exit);
            assert_no_secret(&vendors, &workspace, &(output.stdout + &output.stderr));
        }
    }
}

/// In a job, the commands that mask a secret are the only lines that contain it, and they go to the log alone.
#[test]
fn masks_go_to_the_log_of_the_job_alone() {
    for vendor in VENDORS {
        let vendors = MockVendors::start(&["--echo-secrets"]);
        let workspace = vendors.job().env("GITHUB_RUN_ID", "7").env("RUN_EVALS_LOG", "trace");
        write_target(&workspace, &format!("{}\nkeep_raw: true", vendors.target(vendor)));
        workspace.write_requests(3);
        let args = ["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out", "-vv"];
        let output = workspace.run(&args).expect(0);
        let is_mask = |line: &&str| line.starts_with("::add-mask::");
        assert!(output.stderr.lines().filter(is_mask).count() >= 3, "{vendor}");
        let others: String = output.stderr.lines().filter(|line| !is_mask(line)).collect();
        assert_no_secret(&vendors, &workspace, &(output.stdout + &others));
    }
}

#[test]
fn static_credentials_of_aws_are_redacted_like_keys() {
    let vendors = MockVendors::start(&["--echo-secrets"]);
    let (id, secret) = ("AKIDSTATIC00000000", "static-secret-access-key-0123456789");
    let workspace = Workspace::new()
        .env("RUN_EVALS_LOG", "trace")
        .env("AWS_ACCESS_KEY_ID", id)
        .env("AWS_SECRET_ACCESS_KEY", secret);
    let keys = "access_key_id: ${{ AWS_ACCESS_KEY_ID }}\nsecret_access_key: ${{ AWS_SECRET_ACCESS_KEY }}\nkeep_raw: true";
    write_target(&workspace, &format!("{}\n{keys}", vendors.bedrock()));
    workspace.write_requests(3);
    let args = ["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out", "-vv"];
    let output = workspace.run(&args).expect(0);
    let printed = output.stdout + &output.stderr;
    assert_no_secret(&vendors, &workspace, &printed);
    for (name, bytes) in
        everything_written(&workspace).into_iter().chain([("printed".to_owned(), printed.into_bytes())])
    {
        for secret in [id, secret] {
            assert!(
                memchr::memmem::find(&bytes, secret.as_bytes()).is_none(),
                "`{}…` is in {name}",
                &secret[..8]
            );
        }
    }
}

/// The logs, summaries, annotations and artifacts of the jobs, the results branch, and what the dispatcher collects.
#[test]
fn nothing_of_a_runner_repository_has_a_secret() {
    for vendor in VENDORS {
        let vendors = MockVendors::start(&["--echo-secrets"]);
        let (github, workspace) = runner(&vendors, vendor);
        let output = dispatch(&workspace).expect(0);
        let script = "git cat-file --batch-all-objects --batch-check='%(objectname) %(objecttype)' | \
                      while read name type; do git cat-file \"$type\" \"$name\"; done";
        let objects = std::process::Command::new("sh")
            .args(["-c", script])
            .current_dir(github.git_dir(REPO))
            .output()
            .unwrap();
        assert!(memchr::memmem::find(&objects.stdout, b"message 3").is_some(), "the results are on a branch");
        let shown = [
            ("the runs".to_owned(), github.everything_shown().into_bytes()),
            ("the repository".to_owned(), objects.stdout),
        ];
        assert_none_in(&vendors, shown.into_iter());
        assert_no_secret(&vendors, &workspace, &(output.stdout + &output.stderr));
    }
}
