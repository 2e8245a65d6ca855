//! Keyless authentication, through the binary, against strict simulated vendors.

mod faults;
mod leaks;
mod refusals;
mod runner;
mod setup;

use crate::support::{MockVendors, Output, Workspace};

const VENDORS: [&str; 6] = ["openai", "anthropic", "azure", "bedrock", "vertex", "vertex-claude"];

/// Writes the target `llm` with these lines.
fn write_target(workspace: &Workspace, lines: &str) {
    let lines: String = lines.lines().map(|line| format!("    {line}\n")).collect();
    workspace.write("targets.yaml", format!("targets:\n  - name: llm\n{lines}"));
}

/// A job that has dispatched this many requests to a vendor.
fn dispatched(vendors: &MockVendors, vendor: &str, more: &str, requests: usize) -> (Workspace, Output) {
    let workspace = vendors.job();
    write_target(&workspace, &format!("{}\n{more}", vendors.target(vendor)));
    workspace.write_requests(requests);
    let output = workspace.dispatch(&[]);
    (workspace, output)
}

/// Every request was answered with its own message, and none was paid twice.
fn assert_answered(vendors: &MockVendors, workspace: &Workspace, requests: usize) {
    let rows = workspace.rows("out/responses.jsonl");
    assert_eq!(rows.len(), requests);
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(row["output"][0]["content"], format!("message {number}"), "{row}");
    }
    let served = vendors.served();
    assert_eq!(served.len(), requests);
    assert!(served.values().all(|count| *count == 1), "{served:?}");
}

/// The message of the only kind of error in the rows.
fn error_of(workspace: &Workspace) -> String {
    let rows = workspace.rows("out/responses.jsonl");
    let row = rows.iter().find(|row| !row["error"].is_null()).unwrap_or_else(|| panic!("no error: {rows:?}"));
    format!("{}: {}", row["error"]["kind"].as_str().unwrap(), row["error"]["message"].as_str().unwrap())
}

#[test]
fn every_vendor_accepts_the_identity_of_the_job() {
    for vendor in VENDORS {
        let vendors = MockVendors::start(&[]);
        let (workspace, output) = dispatched(&vendors, vendor, "", 20);
        output.expect(0);
        assert_answered(&vendors, &workspace, 20);
        assert_eq!((vendors.counter("minted"), vendors.counter("exchanges")), (1, 1), "{vendor}");
        assert_eq!(vendors.counter("rejected"), 0, "{vendor}");
    }
}

#[test]
fn bedrock_accepts_static_credentials() {
    let vendors = MockVendors::start(&[]);
    let workspace = Workspace::new()
        .env("AWS_ACCESS_KEY_ID", "AKIDSTATIC00000000")
        .env("AWS_SECRET_ACCESS_KEY", "static-secret-access-key-0123456789");
    let keys = "access_key_id: ${{ AWS_ACCESS_KEY_ID }}\nsecret_access_key: ${{ AWS_SECRET_ACCESS_KEY }}\nsession_token: ${{ AWS_SESSION_TOKEN }}";
    write_target(&workspace, &format!("{}\n{keys}", vendors.bedrock()));
    workspace.write_requests(5);
    workspace.dispatch(&[]).expect(0);
    assert_answered(&vendors, &workspace, 5);
    assert_eq!(vendors.counter("exchanges"), 0);
}

#[test]
fn a_check_of_the_targets_shows_the_identity() {
    let vendors = MockVendors::start(&[]);
    let workspace = vendors.job();
    write_target(&workspace, &vendors.target("azure"));
    let output = workspace.run(&["doctor"]).expect(0);
    let told = "Microsoft Entra accepts the job: subject `repo:myorg@1001/eval-runner@2002:environment:run-evals`, \
                audience `api://AzureADTokenExchange`, environment `run-evals`, repository_id `2002`, \
                job_workflow_ref `myorg/eval-runner/.github/workflows/run-evals.yml@refs/heads/main`; its token lives 3600 s";
    assert!(output.stdout.replace('\n', " ").contains(told), "{}", output.stdout);
    workspace.run(&["doctor", "--offline"]).expect(0);
    assert_eq!(vendors.counter("exchanges"), 1);
    // The list of OpenAI's models needs the token, too.
    write_target(&workspace, &vendors.target("openai"));
    let output = workspace.run(&["doctor"]).expect(0);
    assert!(output.stdout.contains("OpenAI accepts the job"), "{}", output.stdout);
}
