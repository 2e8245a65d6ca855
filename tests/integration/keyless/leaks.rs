//! No token, assertion, signature or request token in any log, row, artifact or error.

use super::{VENDORS, write_target};
use crate::secrets::everything_written;
use crate::support::{MockVendors, REQUEST_TOKEN, Workspace};

/// Asserts that no file and no output contains a secret that the vendors handed out, or a signature that they saw.
fn assert_no_secret(vendors: &MockVendors, workspace: &Workspace, printed: &str) {
    let mut secrets = vendors.secrets();
    assert!(!secrets.is_empty(), "the vendors issued nothing");
    secrets.push(REQUEST_TOKEN.to_owned());
    let encoded: Vec<String> = secrets.iter().map(hex::encode).collect();
    let printed = ("printed".to_owned(), printed.as_bytes().to_vec());
    for (name, bytes) in everything_written(workspace).into_iter().chain([printed]) {
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
