//! `init runner --keyless`: the repository's half is written, the vendor's half is printed, and no secret is requested.

use super::scene::Account;
use crate::support::github::NewRepo;

const REPO: &str = "mona/eval-runner";
/// What each vendor needs besides its name.
const VENDORS: [(&str, &[&str]); 7] = [
    ("openai", &[]),
    ("anthropic", &[]),
    ("azure", &["--base-url", "https://res.openai.azure.com", "--model", "gpt", "--price", "1:2"]),
    ("aws", &[]),
    ("gcp", &["--id", "project=my-project"]),
    ("bedrock", &[]),
    ("vertex", &["--id", "project=my-project"]),
];

fn args<'a>(vendor: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["init", "runner", REPO, "--keyless", vendor], more].concat()
}

#[test]
fn every_vendor_gets_a_repository_without_a_secret() {
    for (vendor, more) in VENDORS {
        let account = Account::new();
        let output = account.workspace.run(&args(vendor, more)).expect(0);
        let settings = account.settings(REPO);
        assert!(settings.secrets.is_empty() && settings.environments["run-evals"].secrets.is_empty());
        let workflow = account.file(REPO, ".github/workflows/run-evals.yml");
        assert_eq!(workflow, include_str!("../../../workflows/run-evals-keyless.yml").trim_end(), "{vendor}");
        let policy = account.file(REPO, ".run-evals.yml");
        assert!(policy.contains("keyless: required"), "{policy}");
        let targets = account.file(REPO, "targets.yaml");
        assert!(targets.contains("REPLACE_ME") && targets.contains("github_oidc:"), "{targets}");
        assert!(!targets.contains("api_key"), "{targets}");
        for part in [":environment:run-evals", "/_services/token", "REPLACE_ME", "--id "] {
            assert!(output.stdout.contains(part), "{vendor}: no {part} in {}", output.stdout);
        }
        assert!(output.stdout.contains("repo:mona@"), "{}", output.stdout);
        // What the vendor has yet to give is named before anything is exchanged.
        let told = account.workspace.run(&["doctor"]).expect(3).stdout;
        assert!(told.contains("without the placeholder `REPLACE_ME`"), "{told}");
        // A second run writes nothing and prints the same half.
        let position = account.github.requests().len();
        let second = account.workspace.run(&args(vendor, more)).expect(0);
        assert_eq!(account.writes_since(position), [] as [&str; 0]);
        assert_eq!(second.stdout, output.stdout);
    }
}

#[test]
fn ids_replace_the_placeholders_and_then_nothing_is_wrong() {
    let account = Account::new();
    account.workspace.run(&args("aws", &[])).expect(0);
    let role = "role_arn=arn:aws:iam::123456789012:role/run-evals";
    let output = account.workspace.run(&args("aws", &["--id", role])).expect(0);
    assert!(output.stderr.contains("replaced  file `targets.yaml`"), "{}", output.stderr);
    let targets = account.file(REPO, "targets.yaml");
    assert!(
        targets.contains("        role_arn: \"arn:aws:iam::123456789012:role/run-evals\"\n"),
        "{targets}"
    );
    let told = account.workspace.run(&["doctor"]).expect(0).stdout;
    assert!(!told.contains("  error ") && !told.contains("  warning "), "{told}");
    let position = account.github.requests().len();
    account.workspace.run(&args("aws", &["--id", role])).expect(0);
    assert_eq!(account.writes_since(position), [] as [&str; 0]);
}

#[test]
fn a_dry_run_prints_both_halves_and_changes_nothing() {
    let account = Account::new();
    let position = account.github.requests().len();
    let output = account.workspace.run(&args("gcp", &["--id", "project=p-1", "--dry-run"])).expect(0);
    for part in ["keyless: required", "mona@OWNER_ID/eval-runner@REPOSITORY_ID", "gcloud iam"] {
        assert!(output.stdout.contains(part), "no {part} in {}", output.stdout);
    }
    assert_eq!(account.writes_since(position), [] as [&str; 0]);
    assert!(account.github.settings(REPO).is_none());
}

#[test]
fn a_repository_with_a_key_keeps_its_files_and_shows_what_is_left() {
    let account = Account::new();
    account.init(REPO, &[]).expect(0);
    let before = account.file(REPO, "targets.yaml");
    let output = account.workspace.run(&args("openai", &[])).expect(0);
    for part in ["`id-token: write`", "target with `auth`", "`keyless: required`"] {
        assert!(output.stderr.contains(part), "no {part} in {}", output.stderr);
    }
    assert_eq!(account.file(REPO, "targets.yaml"), before);
    account.workspace.run(&args("openai", &["--update-workflow"])).expect(0);
    let workflow = account.file(REPO, ".github/workflows/run-evals.yml");
    assert!(workflow.contains("id-token: write") && workflow.contains("OPENAI_API_KEY:"), "{workflow}");
    // The last step is to remove the key, unless another target still needs it.
    let unused = "the workflow passes the secret `OPENAI_API_KEY`, and `auth` of `gpt` needs none";
    let delete = format!("`gh secret delete OPENAI_API_KEY --env run-evals -R {REPO}`");
    let keyless = "  - name: gpt\n    provider: openai\n    model: m\n    price: { input_per_mtok: 1, output_per_mtok: 1 }\n    \
                   auth: { github_oidc: { identity_provider_id: idp_1, service_account_id: sa_1 } }\n";
    let other = "  - name: other\n    provider: openai\n    model: m\n    api_key: ${{ OPENAI_API_KEY }}\n";
    for (more, is_unused) in [("", true), (other, false)] {
        account.github.put_file(REPO, "targets.yaml", format!("targets:\n{keyless}{more}"));
        let told = account.workspace.run(&["doctor"]).expect(0).stdout;
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!([unused, delete.as_str()].map(|part| told.contains(part)), [is_unused; 2], "{told}");
    }
}

#[test]
fn mistakes_create_nothing() {
    let account = Account::new();
    for (more, told) in [
        (&["--keyless", "mistral"][..], "`--keyless` takes one of openai, anthropic, azure, aws, gcp"),
        (&["--keyless", "gcp"], "add `--id project=…`"),
        (&["--keyless", "aws", "--id", "client_id=x"], "`--id` takes one of region, role_arn"),
        (&["--keyless", "aws", "--id", "role_arn=$(id)"], "a value has letters"),
        (&["--keyless", "aws", "--id", "region=x\n::error::y"], "a value has letters"),
        (&["--keyless", "openai", "--provider", "openai"], "cannot be used with"),
        (&["--keyless", "openai", "--no-secret"], "cannot be used with"),
        (&["--provider", "bedrock"], "`--keyless aws` needs none"),
    ] {
        let all = [&["init", "runner", REPO][..], more].concat();
        let output = account.workspace.run(&all).expect(2);
        assert!(output.stderr.contains(told), "{more:?}: {}", output.stderr);
        assert!(account.github.settings(REPO).is_none());
    }
    account.github.account("mona", "free");
    let free = account.workspace.run(&args("openai", &[])).expect(3);
    assert!(free.stderr.contains("everyone who can push"), "{}", free.stderr);
    assert!(account.github.settings(REPO).is_none());
}

#[test]
fn a_branch_name_cannot_smuggle_a_command_into_the_printed_ones() {
    let account = Account::new();
    let branch = "x$(id)";
    account.github.repo(&NewRepo {
        full_name: REPO.to_owned(),
        private: true,
        default_branch: Some(branch.to_owned()),
        ..NewRepo::default()
    });
    let output = account.workspace.run(&args("gcp", &["--id", "project=p"])).expect(3);
    assert!(output.stderr.contains("not safe in commands"), "{}", output.stderr);
}
