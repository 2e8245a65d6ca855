//! `doctor` on broken set-ups: each is found, with its fix, and nothing is written.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use serde_json::json;

use super::scene::{Account, LOGIN, all_repositories};
use crate::support::github::{
    EnvironmentView, Fault, NewApp, NewRepo, NewToken, TokenKind, What, Wrong, workflow,
};

const WORKFLOW: &str = ".github/workflows/run-evals.yml";
const TARGETS: &str = "targets:\n  - name: gpt\n    provider: openai\n    model: gpt-6-luna\n    api_key: ${{ OPENAI_API_KEY }}\n    \
                       price: { input_per_mtok: 0.10, output_per_mtok: 0.50 }\n";
const POLICY: &str = "allowed_senders: [mona]\nmax_requests: 1000\nmax_budget_usd: 5\n";

/// A set-up to break: the repository, its files, and the dispatcher's side.
struct SetUp {
    repo: NewRepo,
    files: BTreeMap<&'static str, String>,
    /// A branch besides `main`.
    branch: Option<&'static str>,
    workflow_state: Option<&'static str>,
    token: NewToken,
    unknown_token: bool,
    /// Lines of the dispatcher's target.
    lines: Vec<String>,
    /// The version of a GitHub Enterprise Server.
    server: Option<&'static str>,
}

impl SetUp {
    /// A set-up in which nothing is wrong.
    fn healthy(name: &str) -> Self {
        let full_name = format!("acme/{name}");
        let environment = EnvironmentView {
            secrets: BTreeMap::from([("OPENAI_API_KEY".to_owned(), "sk-fake".to_owned())]),
            custom_branch_policies: Some(true),
            branch_policies: vec!["main".to_owned()],
            reviewer: None,
        };
        Self {
            repo: NewRepo {
                full_name: full_name.clone(),
                private: true,
                environments: BTreeMap::from([("run-evals".to_owned(), environment)]),
                protected_branches: vec!["main".to_owned()],
                ..NewRepo::default()
            },
            files: BTreeMap::from([
                (WORKFLOW, workflow()),
                ("targets.yaml", TARGETS.to_owned()),
                (".run-evals.yml", POLICY.to_owned()),
            ]),
            branch: None,
            workflow_state: None,
            token: NewToken {
                kind: TokenKind::Classic,
                grants: all_repositories(&[]),
                ..NewToken::default()
            },
            unknown_token: false,
            lines: vec![
                "provider: github-actions".to_owned(),
                format!("repo: {full_name}"),
                "workflow: run-evals.yml".to_owned(),
                "target: gpt".to_owned(),
            ],
            server: None,
        }
    }

    fn environment(&mut self) -> &mut EnvironmentView {
        self.repo.environments.get_mut("run-evals").unwrap()
    }

    fn edit(&mut self, path: &'static str, from: &str, to: &str) {
        let text = self.files.get_mut(path).unwrap();
        assert!(text.contains(from), "{path} has no {from}");
        *text = text.replace(from, to);
    }

    fn line(&mut self, from: &str, to: &str) {
        self.lines.retain(|line| line != from);
        self.lines.push(to.to_owned());
    }

    /// The exit code and the report. Nothing is written, here or on GitHub.
    fn examine(&self, account: &Account) -> (i32, String) {
        let github = &account.github;
        github.repo(&self.repo);
        let repo = &self.repo.full_name;
        github.put_file(repo, "README.md", "a runner\n");
        for (path, text) in &self.files {
            github.put_file(repo, path, text);
        }
        if let Some(branch) = self.branch {
            github.put_file_on(repo, branch, "README.md", "in the way\n");
        }
        if let Some(state) = self.workflow_state {
            github.set_workflow_state(repo, "run-evals.yml", state);
        }
        let token = format!("gho_{}", repo.replace('/', "_"));
        if !self.unknown_token {
            account.token(&token, &self.token);
        }
        if let Some(version) = self.server {
            let body = json!({ "verifiable_password_authentication": false, "installed_version": version })
                .to_string();
            let answer = Wrong::Status { status: 200, body, headers: BTreeMap::new() };
            let what = What::Answer { route: "GET /meta".to_owned(), after: false, answer };
            github.add_fault(&Fault { what, times: None, skip: 0 });
        }
        let lines: String = self.lines.iter().map(|line| format!("    {line}\n")).collect();
        account.workspace.write("targets.yaml", format!("targets:\n  - name: cloud\n{lines}"));
        let before =
            (account.workspace.tree(), github.settings(repo), github.requests().len(), github.pushes().len());
        let mut command = account.workspace.command(&["doctor"]);
        let output = crate::support::Output::of(command.env("GH_ENTERPRISE_TOKEN", &token));
        assert_eq!(account.writes_since(before.2), [] as [&str; 0], "{repo}");
        assert_eq!((github.pushes().len(), github.settings(repo)), (before.3, before.1), "{repo}");
        assert!(account.workspace.tree() == before.0, "{repo}: something was left behind");
        github.clear_faults();
        assert_eq!(output.stderr, "", "{repo}");
        (output.code.unwrap(), output.stdout)
    }
}

/// A broken set-up: what is broken, and the finding and its fix.
struct Broken {
    name: &'static str,
    breaks: fn(&mut SetUp),
    /// `error` or `warning`.
    level: &'static str,
    finding: &'static str,
    fix: &'static str,
}

#[rustfmt::skip]
const BROKEN: [Broken; 36] = [
    Broken { name: "unknown-token", breaks: |it| it.unknown_token = true, level: "error",
        finding: "Bad credentials", fix: "create a new one" },
    Broken { name: "no-scope", breaks: |it| { it.repo.private = false; it.token.scopes = Some(vec!["gist".to_owned()]); }, level: "error",
        finding: "can only read `acme/no-scope`", fix: "gh api -X PUT repos/acme/no-scope/collaborators/mona -f permission=push" },
    Broken { name: "reader", breaks: |it| it.token.role = Some("read".to_owned()), level: "error",
        finding: "`mona` can only read `acme/reader`", fix: "gh api -X PUT repos/acme/reader/collaborators/mona -f permission=push" },
    Broken { name: "no-repository", breaks: |it| it.line("repo: acme/no-repository", "repo: acme/nowhere"), level: "error",
        finding: "cannot read the repository `acme/nowhere`", fix: "run-evals init runner acme/nowhere" },
    Broken { name: "archived", breaks: |it| it.repo.archived = true, level: "error",
        finding: "`acme/archived` is archived", fix: "unarchive it" },
    Broken { name: "public", breaks: |it| it.repo.private = false, level: "warning",
        finding: "`acme/public` is public", fix: "make it private" },
    Broken { name: "no-actions", breaks: |it| it.repo.actions.enabled = false, level: "error",
        finding: "Actions are disabled in `acme/no-actions`", fix: "gh api -X PUT repos/acme/no-actions/actions/permissions -F enabled=true" },
    Broken { name: "local-actions", breaks: |it| "local_only".clone_into(&mut it.repo.actions.allowed), level: "error",
        finding: "allows only actions of its owner, not `agentv/run-evals@v1`", fix: "allowed_actions=all" },
    Broken { name: "selected-actions", breaks: |it| { "selected".clone_into(&mut it.repo.actions.allowed); it.repo.actions.patterns = vec!["actions/*".to_owned()]; }, level: "error",
        finding: "does not allow the action `agentv/run-evals@v1`", fix: "-f 'patterns_allowed[]=actions/*' -f 'patterns_allowed[]=agentv/run-evals@*'" },
    Broken { name: "pinning", breaks: |it| it.repo.actions.sha_pinning_required = true, level: "error",
        finding: "requires actions that are pinned to a commit", fix: "gh api repos/agentv/run-evals/commits/v1 --jq .sha" },
    Broken { name: "no-workflow", breaks: |it| { it.files.remove(WORKFLOW); }, level: "error",
        finding: "cannot read the workflow `run-evals.yml`", fix: "run-evals init runner acme/no-workflow" },
    Broken { name: "disabled-workflow", breaks: |it| it.workflow_state = Some("disabled_inactivity"), level: "error",
        finding: "is not active: `disabled_inactivity`", fix: "gh workflow enable run-evals.yml --repo acme/disabled-workflow" },
    Broken { name: "old-workflow", breaks: |it| it.edit(WORKFLOW, "      runner_options:", "      options:"), level: "error",
        finding: "does not declare the inputs `runner_options`", fix: "run-evals init runner acme/old-workflow --provider openai --update-workflow" },
    Broken { name: "no-trigger", breaks: |it| it.edit(WORKFLOW, "workflow_dispatch:", "workflow_call:"), level: "error",
        finding: "has no `workflow_dispatch` trigger", fix: "--update-workflow" },
    Broken { name: "not-on-ref", breaks: |it| it.line("", "ref: release"), level: "error",
        finding: "`.github/workflows/run-evals.yml` not found on `release`", fix: "`release` must be a branch or a tag with the workflow on it" },
    Broken { name: "no-release", breaks: |it| it.edit(WORKFLOW, "agentv/run-evals@v1", "agentv/run-evals@v9"), level: "error",
        finding: "`agentv/run-evals@v9`, which does not exist", fix: "gh api repos/agentv/run-evals/tags" },
    Broken { name: "no-targets", breaks: |it| { it.files.remove("targets.yaml"); }, level: "error",
        finding: "`targets.yaml` not found on `main`", fix: "run-evals init runner acme/no-targets" },
    Broken { name: "bad-targets", breaks: |it| it.edit("targets.yaml", "model:", "modle:"), level: "error",
        finding: "unknown key `modle`", fix: "gh browse -R acme/bad-targets targets.yaml" },
    Broken { name: "other-target", breaks: |it| it.line("target: gpt", "target: claude"), level: "error",
        finding: "names the target `claude`, which `targets.yaml` of `acme/other-target` does not have", fix: "set `target` of `cloud` here to one of `gpt`" },
    Broken { name: "no-policy", breaks: |it| { it.files.remove(".run-evals.yml"); }, level: "warning",
        finding: "has no policy", fix: "run-evals init runner acme/no-policy" },
    Broken { name: "bad-policy", breaks: |it| it.edit(".run-evals.yml", "max_requests", "max_request"), level: "error",
        finding: "max_request", fix: "gh browse -R acme/bad-policy .run-evals.yml" },
    Broken { name: "other-sender", breaks: |it| it.edit(".run-evals.yml", "[mona]", "[hubot]"), level: "error",
        finding: "`mona` may not start runs here", fix: "gh browse -R acme/other-sender .run-evals.yml" },
    Broken { name: "no-price", breaks: |it| it.edit("targets.yaml", "    price: { input_per_mtok: 0.10, output_per_mtok: 0.50 }\n", ""), level: "error",
        finding: "`max_budget_usd` of the policy needs a `price` in target `gpt`", fix: "add `price: { input_per_mtok" },
    Broken { name: "other-model", breaks: |it| it.edit(".run-evals.yml", "max_requests: 1000", "allowed_models: [claude-*]"), level: "error",
        finding: "the model `gpt-6-luna` may not be used", fix: "gh browse -R acme/other-model .run-evals.yml" },
    Broken { name: "no-env-line", breaks: |it| it.edit(WORKFLOW, "          OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}\n", ""), level: "error",
        finding: "the workflow does not pass `OPENAI_API_KEY` to the runner", fix: "adds the line `OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}` to `env:`" },
    Broken { name: "no-secret", breaks: |it| it.environment().secrets.clear(), level: "error",
        finding: "no secret `OPENAI_API_KEY`", fix: "gh secret set OPENAI_API_KEY --env run-evals -R acme/no-secret" },
    Broken { name: "repository-secret", breaks: |it| it.repo.secrets = std::mem::take(&mut it.environment().secrets), level: "warning",
        finding: "everyone who can push can read it", fix: "gh secret delete OPENAI_API_KEY -R acme/repository-secret" },
    Broken { name: "no-environment", breaks: |it| { it.repo.secrets = std::mem::take(&mut it.environment().secrets); it.repo.environments.clear(); }, level: "warning",
        finding: "no environment `run-evals`", fix: "run-evals init runner acme/no-environment" },
    Broken { name: "any-branch", breaks: |it| it.environment().custom_branch_policies = None, level: "warning",
        finding: "every branch can use the environment `run-evals`", fix: "run-evals init runner acme/any-branch" },
    Broken { name: "other-branch", breaks: |it| it.environment().branch_policies = vec!["release/*".to_owned()], level: "error",
        finding: "`main` may not use the environment `run-evals`", fix: "gh api -X POST repos/acme/other-branch/environments/run-evals/deployment-branch-policies -f name=main" },
    Broken { name: "reviewer", breaks: |it| it.environment().reviewer = Some(LOGIN.to_owned()), level: "warning",
        finding: "every run waits for an approval", fix: "gh browse -R acme/reviewer --settings" },
    Broken { name: "unprotected", breaks: |it| it.repo.protected_branches.clear(), level: "warning",
        finding: "branch `main` is not protected", fix: "run-evals init runner acme/unprotected" },
    Broken { name: "no-job-environment", breaks: |it| { it.repo.secrets = std::mem::take(&mut it.environment().secrets); it.edit(WORKFLOW, "    environment: run-evals\n", ""); }, level: "warning",
        finding: "the job has no `environment:`", fix: "--update-workflow" },
    Broken { name: "in-the-way", breaks: |it| it.branch = Some("eval-results"), level: "error",
        finding: "the branch `eval-results` is in the way", fix: "gh api -X POST repos/acme/in-the-way/branches/eval-results/rename -f new_name=eval-results-old" },
    Broken { name: "blocking-rule", breaks: |it| it.repo.rulesets = vec![json!({
            "id": 1, "name": "all", "source": "acme/blocking-rule", "enforcement": "active", "target": "branch",
            "conditions": { "ref_name": { "include": ["~ALL"], "exclude": [] } }, "rules": [{ "type": "creation" }] })], level: "error",
        finding: "keep results off `eval-results/…`: `creation`", fix: "gh ruleset list -R acme/blocking-rule" },
    Broken { name: "old-server", breaks: |it| it.server = Some("3.12.4"), level: "warning",
        finding: "GitHub Enterprise Server 3.12.4 is older", fix: "ask its administrator for an upgrade" },
];

#[test]
fn a_healthy_set_up() {
    let account = Account::new();
    let (code, told) = SetUp::healthy("healthy").examine(&account);
    insta::assert_snapshot!(format!("exit {code}\n{told}"), @r"
    exit 0
    cloud (github-actions)
      ok         repository `acme/healthy`, private
      ok         the token of `mona` may start runs and push batches
      ok         workflow `run-evals.yml` on `main`, active
      ok         the workflow takes every input of a dispatch
      ok         Actions are enabled and allow `agentv/run-evals@v1`
      ok         the release `agentv/run-evals@v1` exists
      ok         `targets.yaml`: target `gpt`, provider `openai`, model `gpt-6-luna`
      ok         `.run-evals.yml` allows it
      ok         secret `OPENAI_API_KEY` of the environment
      ok         environment `run-evals`, for `main` only
      ok         branch `main` is protected
      ok         results can go to `eval-results/<batch-id>`
      note       `agentv eval` cannot use this target: it has no `command`
                 hint: for `agentv eval` add `command: /usr/local/bin/run-evals adapter --target cloud --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID} --attempt {ATTEMPT} --files {FILES}`, with the path of your run-evals

    1 target of `targets.yaml`: 1 fine
    ");
}

#[test]
fn every_broken_set_up_is_found_with_its_fix() {
    let account = Account::new();
    let mut wrong = Vec::new();
    for Broken { name, breaks, level, finding, fix } in BROKEN {
        let mut set_up = SetUp::healthy(name);
        breaks(&mut set_up);
        let (code, told) = set_up.examine(&account);
        // The finding is a line of its level, or the second line of one that draws a position.
        let at = told.lines().position(|line| line.contains(finding));
        let lines: Vec<&str> = told.lines().collect();
        let is_level = at.is_some_and(|at| {
            lines[..=at].iter().rev().take(2).any(|line| line.starts_with(&format!("  {level} ")))
        });
        let mut hints =
            told.lines().skip(at.unwrap_or(0)).filter(|line| line.trim_start().starts_with("hint: "));
        let is_fixed = hints.any(|hint| hint.contains(fix));
        let expected = if level == "error" { 3 } else { 0 };
        if !is_level || !is_fixed || code != expected {
            wrong.push(format!("{name}: exit {code}\n{told}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), BROKEN.len(), wrong.join("\n"));
}

#[test]
fn results_as_artifacts_do_not_work_on_a_server() {
    let account = Account::new();
    let mut set_up = SetUp::healthy("server-artifacts");
    set_up.server = Some("3.19.1");
    set_up.line("", "results_artifact: true");
    let (code, told) = set_up.examine(&account);
    assert!(code == 3 && told.contains("`results_artifact: true` fails"), "{told}");
}

#[test]
fn settings_that_the_token_may_not_read_are_a_note() {
    let account = Account::new();
    let mut set_up = SetUp::healthy("dispatcher-only");
    set_up.token = NewToken {
        kind: TokenKind::Personal,
        grants: all_repositories(&[("actions", "write"), ("contents", "write")]),
        ..NewToken::default()
    };
    let (code, told) = set_up.examine(&account);
    assert_eq!(code, 0, "{told}");
    for note in [
        "settings of Actions: not checked",
        "names of the secrets: not checked",
        "GitHub does not report the permissions of",
    ] {
        assert!(
            told.lines().any(|line| line.starts_with("  note ") && line.contains(note)),
            "{note}: {told}"
        );
    }
}

#[test]
fn the_permissions_of_an_app_are_read() {
    let account = Account::new();
    SetUp::healthy("app").examine(&account);
    let grants = |contents: &str| {
        BTreeMap::from([(
            "acme/app".to_owned(),
            BTreeMap::from([
                ("actions".to_owned(), "write".to_owned()),
                ("contents".to_owned(), contents.to_owned()),
            ]),
        )])
    };
    for (id, contents, code, told) in
        [(7, "write", 0, "the GitHub App may start runs"), (8, "read", 3, "the GitHub App lacks Contents")]
    {
        let key = account.github.app(&NewApp { id, grants: grants(contents), token_seconds: None });
        account.workspace.write("app.pem", key);
        let args = ["doctor", "--app-id", &id.to_string(), "--app-key-file", "app.pem"];
        let output = account.workspace.run(&args).expect(code);
        assert!(output.stdout.contains(told), "{}", output.stdout);
    }
}

#[test]
fn announced_shutdowns_of_models_are_warnings() {
    let account = Account::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            assert!(lines.map_while(Result::ok).take_while(|line| !line.is_empty()).count() > 1);
            let body = json!({ "data": [{ "id": "gpt-5-mini", "shutdown_date": "2026-12-11" }, { "id": "gpt-6-luna" }] }).to_string();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
        }
    });
    let target = |name: &str, model: &str| {
        format!(
            "  - name: {name}\n    provider: openai\n    base_url: http://{address}/v1\n    model: {model}\n    api_key: ${{{{ OPENAI_API_KEY }}}}\n"
        )
    };
    account.workspace.write(
        "targets.yaml",
        format!("targets:\n{}{}", target("old", "gpt-5-mini"), target("new", "gpt-6-luna")),
    );
    let mut command = account.workspace.command(&["doctor"]);
    let told =
        crate::support::Output::of(command.env("OPENAI_API_KEY", "sk-fake-1234567890")).expect(0).stdout;
    server.join().unwrap();
    insta::assert_snapshot!(told, @r#"
    old (openai)
      variables  `OPENAI_API_KEY` set
      warning    the provider shuts `gpt-5-mini` down on 2026-12-11
                 hint: `curl -H "Authorization: Bearer $OPENAI_API_KEY" https://api.openai.com/v1/models` lists the models

    new (openai)
      variables  `OPENAI_API_KEY` set
      ok         nothing is missing

    2 targets of `targets.yaml`: 2 fine
    "#);
}
