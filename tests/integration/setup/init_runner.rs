//! `init runner` on an empty account, on an existing repository, twice, and on a Free plan.

use std::fmt::Write as _;

use insta::assert_snapshot;

use super::scene::{Account, KEY};
use crate::support::github::NewRepo;

const REPO: &str = "mona/eval-runner";

#[test]
fn an_empty_account_gets_a_complete_runner_repository() {
    let account = Account::new();
    let output = account.init(REPO, &[]).expect(0);
    assert_eq!(output.stdout, "");
    assert_snapshot!(output.stderr, @r"
    created   repository `mona/eval-runner`, private
    added     file `.github/workflows/run-evals.yml`
    added     file `targets.yaml`
    added     file `.run-evals.yml`
    created   environment `run-evals`, restricted to branches
    allowed   environment `run-evals` for `main` only
    set       secret `OPENAI_API_KEY` of the environment `run-evals`
    protected branch `main`: changes need a pull request and an approval, except by admins
    wrote     target `cloud-eval-runner` in `targets.yaml` here

    next: run-evals eval SUITE --target cloud-eval-runner
    check: run-evals doctor --target cloud-eval-runner
    ");
    let settings = account.settings(REPO);
    assert!(settings.private && settings.secrets.is_empty());
    let environment = &settings.environments["run-evals"];
    assert_eq!(environment.secrets["OPENAI_API_KEY"], KEY);
    assert_eq!(
        (environment.custom_branch_policies, &environment.branch_policies[..]),
        (Some(true), &["main".to_owned()][..])
    );
    assert_eq!(settings.rulesets.len(), 1);
    assert_snapshot!(account.file(REPO, ".run-evals.yml"), @r"
    # What batches may do, whatever they ask for. Limits are per workflow run.
    allowed_senders: [mona]
    max_requests: 1000
    max_budget_usd: 5
    ");
    assert_snapshot!(account.workspace.read("targets.yaml"), @r"
    targets:
      - name: cloud-eval-runner
        provider: github-actions
        repo: mona/eval-runner
        workflow: run-evals.yml
        target: gpt # one of the runner's own targets
    ");
    assert!(account.file(REPO, "targets.yaml").contains("model: gpt-6-luna"));
    // What it made has nothing to complain about.
    let told = account.workspace.run(&["doctor"]).expect(0).stdout;
    assert!(
        !["warning", "error", "unknown"].iter().any(|word| told.contains(&format!("  {word} "))),
        "{told}"
    );
}

#[test]
fn a_second_run_changes_nothing_and_needs_no_key() {
    let account = Account::new();
    account.init(REPO, &[]).expect(0);
    let (settings, head, local) =
        (account.settings(REPO), account.github.git(REPO, &["rev-parse", "main"]), account.workspace.tree());
    let position = account.github.requests().len();
    let second = account.workspace.run(&["init", "runner", REPO, "--provider", "openai"]).expect(0);
    assert_snapshot!(second.stderr, @r"
    kept      repository `mona/eval-runner`
    kept      file `.github/workflows/run-evals.yml`
    kept      file `targets.yaml`
    kept      file `.run-evals.yml`
    kept      environment `run-evals`, restricted to branches
    kept      environment `run-evals` for `main` only
    kept      secret `OPENAI_API_KEY` of the environment `run-evals`
    kept      branch `main`: changes need a pull request and an approval, except by admins
    kept      target `cloud-eval-runner` in `targets.yaml` here

    next: run-evals eval SUITE --target cloud-eval-runner
    check: run-evals doctor --target cloud-eval-runner
    ");
    assert_eq!(account.writes_since(position), [] as [&str; 0]);
    assert_eq!(account.settings(REPO), settings);
    assert_eq!(account.github.git(REPO, &["rev-parse", "main"]), head);
    assert!(account.workspace.tree() == local);
}

#[test]
fn an_existing_repository_keeps_its_files_and_gets_the_rest() {
    let account = Account::new();
    account.github.repo(&NewRepo { full_name: REPO.to_owned(), private: true, ..NewRepo::default() });
    let targets =
        "targets:\n  - name: mine\n    provider: openai\n    model: gpt-6-sol\n    api_key: ${{ MY_KEY }}\n";
    account.github.put_file(REPO, "targets.yaml", targets);
    account.github.put_file(REPO, ".run-evals.yaml", "allowed_senders: [mona, hubot]\n");
    let output = account.init(REPO, &[]).expect(0);
    assert_snapshot!(output.stderr, @r"
    kept      repository `mona/eval-runner`
    added     file `.github/workflows/run-evals.yml`
    kept      file `targets.yaml`
    kept      file `.run-evals.yaml`
    created   environment `run-evals`, restricted to branches
    allowed   environment `run-evals` for `main` only
    set       secret `MY_KEY` of the environment `run-evals`
    protected branch `main`: changes need a pull request and an approval, except by admins
    wrote     target `cloud-eval-runner` in `targets.yaml` here

    next: run-evals eval SUITE --target cloud-eval-runner
    check: run-evals doctor --target cloud-eval-runner
    ");
    assert_eq!(account.file(REPO, "targets.yaml"), targets.trim_end());
    assert!(
        account
            .file(REPO, ".github/workflows/run-evals.yml")
            .contains("          MY_KEY: ${{ secrets.MY_KEY }}\n")
    );
    assert!(account.workspace.read("targets.yaml").contains("target: mine"));
}

#[test]
fn an_empty_existing_repository_is_completed() {
    let account = Account::new();
    account.github.repo(&NewRepo { full_name: REPO.to_owned(), private: true, ..NewRepo::default() });
    account.init(REPO, &[]).expect(0);
    account.workspace.run(&["doctor"]).expect(0);
}

#[test]
fn an_old_workflow_is_replaced_on_request_only() {
    let account = Account::new();
    account.init(REPO, &[]).expect(0);
    let path = ".github/workflows/run-evals.yml";
    let good = account.file(REPO, path);
    let old = good.replace("      runner_options:", "      options:").replace("OPENAI_API_KEY", "OLD_KEY");
    account.github.put_file(REPO, path, format!("{old}\n"));
    account.init(REPO, &[]).expect(0);
    assert_eq!(account.file(REPO, path), old);
    // What the targets file says needs no option, whatever the provider.
    let other = ["init", "runner", REPO, "--provider", "openai-compatible"];
    account.workspace.run(&other).expect(0);
    let output = account.init(REPO, &["--update-workflow"]).expect(0);
    assert!(output.stderr.contains("replaced  file `.github/workflows/run-evals.yml`"), "{}", output.stderr);
    let new = account.file(REPO, path);
    assert!(new.contains("OLD_KEY: ${{ secrets.OLD_KEY }}\n          OPENAI_API_KEY:"), "{new}");
    let position = account.github.requests().len();
    account.init(REPO, &["--update-workflow"]).expect(0);
    assert_eq!(account.writes_since(position), [] as [&str; 0]);
}

#[test]
fn a_dry_run_prints_every_step_and_changes_nothing() {
    let account = Account::new();
    let position = account.github.requests().len();
    let output =
        account.workspace.run(&["init", "runner", REPO, "--provider", "anthropic", "--dry-run"]).expect(0);
    let steps: Vec<&str> =
        output.stdout.lines().filter(|line| !line.starts_with("   ") && !line.is_empty()).collect();
    assert_snapshot!(steps.join("\n"), @r"
    create    repository `mona/eval-runner`, private
    add       file `.github/workflows/run-evals.yml`
    add       file `targets.yaml`
    add       file `.run-evals.yml`
    create    environment `run-evals`, restricted to branches
    allow     environment `run-evals` for `the default branch` only
    set       secret `ANTHROPIC_API_KEY` of the environment `run-evals`
    protect   branch `the default branch`: changes need a pull request and an approval, except by admins
    write     target `cloud-eval-runner` in `targets.yaml` here
    ");
    assert!(output.stdout.contains("            allowed_senders: [mona]\n"), "{}", output.stdout);
    assert!(output.stdout.contains("model: claude-haiku-5-5"), "{}", output.stdout);
    assert_eq!(account.writes_since(position), [] as [&str; 0]);
    assert!(account.github.settings(REPO).is_none() && account.workspace.tree().len() == 1);
}

#[test]
fn a_free_plan_needs_consent_to_a_repository_secret() {
    let account = Account::new();
    account.github.account("mona", "free");
    let refused = account.init(REPO, &[]).expect(3);
    assert_snapshot!(refused.stderr, @r"
    error: GitHub Free has no environments and no branch rules in private repositories. The key becomes a secret of the repository: everyone who can push to `mona/eval-runner` can read it and change the policy.

    hint: `--repository-secret` accepts that; a paid plan or `--public` avoids it; `--no-secret` leaves the key to you
    ");
    assert!(account.github.settings(REPO).is_none(), "something was created");
    let accepted = account.init(REPO, &["--repository-secret"]).expect(0);
    assert!(accepted.stderr.starts_with("warning: GitHub Free has no environments"), "{}", accepted.stderr);
    assert!(
        accepted.stderr.contains("set       secret `OPENAI_API_KEY` of the repository"),
        "{}",
        accepted.stderr
    );
    let settings = account.settings(REPO);
    assert_eq!(settings.secrets["OPENAI_API_KEY"], KEY);
    assert!(settings.private && settings.environments.is_empty() && settings.rulesets.is_empty());
    let position = account.github.requests().len();
    account.init(REPO, &["--repository-secret"]).expect(0);
    assert_eq!(account.writes_since(position), [] as [&str; 0]);
}

#[test]
fn a_public_repository_of_a_free_plan_has_everything() {
    let account = Account::new();
    account.github.account("mona", "free");
    account.init(REPO, &["--public"]).expect(0);
    let settings = account.settings(REPO);
    assert!(!settings.private && settings.secrets.is_empty() && settings.rulesets.len() == 1);
}

#[test]
fn an_existing_private_repository_of_a_free_organization_is_recognized() {
    let account = Account::new();
    account.github.account("acme", "free");
    account.github.repo(&NewRepo { full_name: "acme/r".to_owned(), private: true, ..NewRepo::default() });
    let position = account.github.requests().len();
    account.init("acme/r", &[]).expect(3);
    assert_eq!(account.writes_since(position), [] as [&str; 0]);
}

#[test]
fn the_key_can_be_left_to_the_user() {
    let account = Account::new();
    let output =
        account.workspace.run(&["init", "runner", REPO, "--provider", "openai", "--no-secret"]).expect(0);
    let left = "\nleft      secret `OPENAI_API_KEY` of the environment `run-evals` to you: `gh secret set OPENAI_API_KEY --env run-evals -R \
                mona/eval-runner`\n";
    assert!(output.stderr.contains(left), "{}", output.stderr);
    assert!(account.settings(REPO).environments["run-evals"].secrets.is_empty());
}

#[test]
fn mistakes_create_nothing() {
    let account = Account::new();
    let mut told = String::new();
    for (args, key) in [
        (&["init", "runner", "eval-runner", "--provider", "openai"][..], KEY),
        (&["init", "runner", REPO, "--provider", "gpt"], KEY),
        (&["init", "runner", REPO, "--provider", "openai", "--model", "gpt-6-sol"], KEY),
        (&["init", "runner", REPO, "--provider", "openai"], ""),
        (&["init", "runner", REPO, "--provider", "openai"], "one\ntwo\n"),
    ] {
        let output = super::scene::with_stdin(&mut account.workspace.command(args), key);
        writeln!(told, "exit {}\n{}", output.code.unwrap(), output.stderr).unwrap();
        assert!(account.github.settings(REPO).is_none());
    }
    assert_snapshot!(told, @"
    exit 3
    error: `eval-runner` is not a repository

    hint: write the repository as `<owner>/<name>`

    exit 2
    error: unknown provider `gpt`

    hint: `--provider` takes one of openai, anthropic, gemini, azure, openai-compatible, openrouter, mock

    exit 2
    error: the price of `gpt-6-sol` is unknown, and the runner's budget needs it

    hint: add `--price INPUT:OUTPUT` in US dollars per million tokens, such as `--price 0.10:0.50`

    exit 2
    error: no value for `OPENAI_API_KEY`

    hint: type it at the prompt or pipe it into this command; `--no-secret` leaves it to `gh secret set`

    exit 2
    error: the value for `OPENAI_API_KEY` has several lines

    hint: enter only the key
    ");
}
