//! What `init runner --keyless` prints, copied to a shell as a user does. The vendors' command lines are stand-ins that record their
//! arguments and print ids.

use std::process::Command;

use serde_json::Value;

use super::scene::Account;
use crate::support::Output;

const REPO: &str = "mona/eval-runner";
const VENDOR_CLI: &str = r#"#!/bin/sh
set -eu
number=$(find "$CALLS" -type f | wc -l)
for argument; do printf '%s\0' "$argument"; done > "$CALLS/$(printf %02d "$number")"
case "$*" in
  'sts get-caller-identity '*) echo 123456789012 ;;
  'iam create-role '*) echo arn:aws:iam::123456789012:role/run-evals ;;
  'ad app create '*) echo 11111111-2222-3333-4444-555555555555 ;;
  'account show '*) echo 66666666-7777-8888-9999-000000000000 ;;
  'projects describe '*) echo 987654 ;;
esac
"#;

/// The text between these two.
fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("no {start} in {text}"));
    rest.split_once(end).unwrap_or_else(|| panic!("no {end} in {rest}")).0
}

/// Runs a shell script with the vendors' command lines, and returns the calls of those.
fn paste(account: &Account, script: &str) -> (Output, Vec<Vec<String>>) {
    let workspace = &account.workspace;
    for name in ["aws", "az", "gcloud"] {
        workspace.write_program(&format!("bin/{name}"), VENDOR_CLI);
    }
    std::fs::create_dir_all(workspace.path("calls")).unwrap();
    workspace.write("paste.sh", script);
    let mut command = Command::new("bash");
    workspace.like(command.args(["-euo", "pipefail", "paste.sh"]));
    let path = format!("{}:{}", workspace.path("bin").display(), std::env::var("PATH").unwrap());
    let output = Output::of(command.env("PATH", path).env("CALLS", workspace.path("calls")));
    let mut files: Vec<_> =
        std::fs::read_dir(workspace.path("calls")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let words = |file: &std::path::PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        text.split_terminator('\0').map(ToOwned::to_owned).collect()
    };
    (output, files.iter().map(words).collect())
}

/// The value of an option in the only call that has it.
fn option<'c>(calls: &'c [Vec<String>], name: &str) -> &'c str {
    let mut found = calls.iter().flat_map(|call| call.windows(2)).filter(|pair| pair[0] == name);
    let value = found.next().unwrap_or_else(|| panic!("no {name} in {calls:?}"));
    assert_eq!(found.next(), None, "{name}");
    &value[1]
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn printed_commands_work_as_they_are() {
    for (vendor, more) in [
        ("aws", &[][..]),
        ("azure", &["--base-url", "https://res.openai.azure.com", "--model", "gpt", "--price", "1:2"]),
        ("gcp", &["--id", "project=my-project"]),
    ] {
        let account = Account::new();
        let init = [&["init", "runner", REPO, "--keyless", vendor], more].concat();
        let half = account.workspace.run(&init).expect(0).stdout;
        let subject = between(&half, "known to the vendor by the subject `", "`");
        assert!(subject.ends_with(":environment:run-evals"), "{subject}");
        let script = between(&half, "```sh\n", "```").replace("RESOURCE_ID", "/subscriptions/1/res");
        let (output, calls) = paste(&account, &script);
        let printed = output.expect(0).stdout;
        let ids: Vec<String> = match vendor {
            "aws" => {
                let trust = json(option(&calls, "--assume-role-policy-document"));
                let statement = &trust["Statement"][0];
                let principal = statement["Principal"]["Federated"].as_str().unwrap();
                let issuer =
                    principal.strip_prefix("arn:aws:iam::123456789012:oidc-provider/").unwrap().to_owned();
                assert!(option(&calls, "--url").ends_with(&format!("://{issuer}")), "{calls:?}");
                let equals = &statement["Condition"]["StringEquals"];
                assert_eq!(equals[format!("{issuer}:sub")], subject);
                assert_eq!(equals[format!("{issuer}:aud")], option(&calls, "--client-id-list"));
                let allowed = json(option(&calls, "--policy-document"));
                assert_eq!(
                    allowed["Statement"][0]["Resource"][1],
                    "arn:aws:bedrock:*:123456789012:*inference-profile/*"
                );
                vec![format!("role_arn={}", printed.trim())]
            }
            "azure" => {
                let credential = json(option(&calls, "--parameters"));
                assert_eq!(credential["subject"], subject);
                assert_eq!(credential["audiences"], serde_json::json!(["api://AzureADTokenExchange"]));
                assert_eq!(option(&calls, "--assignee"), "11111111-2222-3333-4444-555555555555");
                printed.split_whitespace().map(ToOwned::to_owned).collect()
            }
            _ => {
                assert!(option(&calls, "--attribute-condition").contains(&format!("sub == '{subject}'")));
                assert_eq!(option(&calls, "--attribute-mapping"), "google.subject=assertion.sub");
                let pool = "projects/987654/locations/global/workloadIdentityPools/github";
                assert_eq!(
                    option(&calls, "--member"),
                    format!("principal://iam.googleapis.com/{pool}/subject/{subject}")
                );
                vec!["project=my-project".to_owned(), printed.trim().to_owned()]
            }
        };
        // The ids go into the command that was printed with them.
        let command = half.rsplit_once("```sh\n").unwrap().1;
        let mut names = ids.iter().map(|id| id.split_once('=').unwrap().0);
        assert!(names.all(|name| command.contains(&format!("--id {name}="))), "{command}");
        let options = ids.iter().flat_map(|id| ["--id", id.as_str()]);
        let more = more.iter().copied().filter(|word| *word != "--id" && !word.starts_with("project="));
        let init: Vec<&str> =
            ["init", "runner", REPO, "--keyless", vendor].into_iter().chain(more).chain(options).collect();
        account.workspace.run(&init).expect(0);
        let checked = account.workspace.run(&["doctor"]).expect(0).stdout;
        assert!(!checked.contains("  error ") && !checked.contains("REPLACE_ME"), "{vendor}: {checked}");
    }
}
