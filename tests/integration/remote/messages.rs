//! Mistakes on the way to GitHub: the full message of each, and nothing started, locally or on GitHub.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use insta::assert_snapshot;

use super::runner_repo::{ALL, RunnerRepo};
use crate::support::github::{Fault, NewApp, NewRepo, TOKEN, What, Wrong, workflow};
use crate::support::stage::Stage;

const WORKFLOW: &str = ".github/workflows/run-evals.yml";

/// A private repository with a token that has these permissions.
fn permitted(name: &str, permissions: &[(&str, &str)]) -> RunnerRepo {
    let scene = RunnerRepo::empty(name, &NewRepo { private: true, ..NewRepo::default() }, permissions);
    scene.put(WORKFLOW, workflow());
    scene
}

/// The message of a dispatch with this workflow file.
fn with_workflow(name: &str, text: &str) -> String {
    let scene = RunnerRepo::new(name);
    scene.put(WORKFLOW, text);
    scene.refused(&[])
}

/// A directory for `PATH` with git and nothing else.
fn only_git(scene: &RunnerRepo) -> String {
    let folder = scene.workspace.path("bin");
    std::fs::create_dir(&folder).unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let git = std::env::split_paths(&path).map(|folder| folder.join("git")).find(|git| git.is_file());
    symlink(git.unwrap(), folder.join("git")).unwrap();
    folder.to_str().unwrap().to_owned()
}

#[test]
fn no_token() {
    let scene = RunnerRepo::new("no-token").env("GH_ENTERPRISE_TOKEN", "");
    let path = only_git(&scene);
    let scene = scene.env("PATH", &path);
    assert_snapshot!(scene.refused(&[]), @r"
    exit 3
    error: no GitHub token for `[github]`: no `--token-file`, no `token` input, no `GH_ENTERPRISE_TOKEN`, no `GITHUB_ENTERPRISE_TOKEN`, and `gh` is not installed

    hint: set `GH_ENTERPRISE_TOKEN` to a token of `[github]`, or sign in with `gh auth login --hostname [github]`
    ");
    let scene = scene.env("GH_TOKEN", "github_pat_for_github_com");
    assert_snapshot!(scene.refused(&[]), @"
    exit 3
    error: no GitHub token for `[github]`: no `--token-file`, no `token` input, no `GH_ENTERPRISE_TOKEN`, no `GITHUB_ENTERPRISE_TOKEN`, and `gh` is not installed; `GH_TOKEN` is set, but is sent to github.com and `*.ghe.com` only

    hint: set `GH_ENTERPRISE_TOKEN` to a token of `[github]`, or sign in with `gh auth login --hostname [github]`
    ");
}

#[test]
fn an_invalid_token() {
    let scene = RunnerRepo::new("wrong-token").env("GH_ENTERPRISE_TOKEN", "github_pat_wrong");
    assert_snapshot!(scene.refused(&[]), @r"
    exit 1
    error: cannot read the repository `acme/wrong-token`: GitHub returned 401: Bad credentials

    hint: the token is wrong, expired or revoked: create a new one; on GitHub Enterprise Server it must be a token of that server
    ");
}

#[test]
fn a_missing_token_file() {
    assert_snapshot!(RunnerRepo::new("token-file").refused(&["--token-file", "gone"]), @r"
    exit 3
    error: cannot read the token file `gone`: No such file or directory (os error 2)

    hint: `--token-file` takes a file that contains only the token
    ");
}

#[test]
fn an_inaccessible_repository() {
    let scene = RunnerRepo::new("seen");
    scene.target("repo: acme/unseen");
    assert_snapshot!(scene.refused(&[]), @r"
    exit 3
    error: cannot read the repository `acme/unseen`: GitHub returned 404: Not Found

    hint: check the name; GitHub also returns this for anything that the token may not see: a fine-grained token needs access to `acme/unseen` with the repository permission `Metadata: read`
    ");
}

#[test]
fn an_inaccessible_repository_of_one_of_several_targets() {
    let scene = RunnerRepo::new("several");
    let text = scene.workspace.read("targets.yaml").replace(&scene.repo, "acme/unseen");
    scene.workspace.write("targets.yaml", format!("{text}  - name: here\n    provider: mock\n"));
    let told = scene.refused(&["--target", "here"]);
    assert!(told.contains("error: cannot read the repository `acme/unseen`"), "{told}");
}

#[test]
fn a_missing_workflow() {
    let scene = RunnerRepo::new("no-workflow");
    scene.target("workflow: evals.yml");
    assert_snapshot!(scene.refused(&[]), @r"
    exit 3
    error: cannot read the workflow `evals.yml` of `acme/no-workflow`: GitHub returned 404: Not Found

    hint: the file `.github/workflows/evals.yml` must exist on the default branch of `acme/no-workflow` (copy `workflows/run-evals.yml` there), and the token must see the repository: a fine-grained token needs access to `acme/no-workflow` with the repository permission `Actions: read`
    ");
}

#[test]
fn a_workflow_missing_on_the_ref() {
    let scene = RunnerRepo::empty("not-on-ref", &NewRepo { private: true, ..NewRepo::default() }, &ALL);
    scene.github.put_file_on(&scene.repo, "old", "README.md", "nothing yet");
    scene.put(WORKFLOW, workflow());
    scene.target("ref: old");
    assert_snapshot!(scene.refused(&[]), @r"
    exit 3
    error: `.github/workflows/run-evals.yml` not found on `old` of `acme/not-on-ref`

    hint: `old` must be a branch or a tag with the workflow on it; the default branch, `main`, needs it as well
    ");
}

#[test]
fn a_missing_ref() {
    let scene = RunnerRepo::new("no-ref");
    scene.target("ref: nowhere");
    assert_snapshot!(scene.refused(&[]), @r"
    exit 3
    error: `.github/workflows/run-evals.yml` not found on `nowhere` of `acme/no-ref`

    hint: `nowhere` must be a branch or a tag with the workflow on it; the default branch, `main`, needs it as well
    ");
}

#[test]
fn a_ref_that_is_a_commit() {
    // The file can be read at a commit, but no workflow can be started there: by then, the batch is on its branch.
    let scene = RunnerRepo::new("commit");
    let commit = scene.github.git(&scene.repo, &["rev-parse", "main"]);
    scene.target(&format!("ref: {commit}"));
    assert_snapshot!(scene.refused(&["--handover", "branch"]), @r"
    exit 3
    error: cannot start the workflow `run-evals.yml` of `acme/commit`: GitHub returned 422: No ref found for: [commit]

    hint: `ref` must be a branch or a tag of `acme/commit`; a commit's SHA is not accepted
    ");
    let pushes = scene.github.pushes();
    let pushed: Vec<_> = pushes.iter().filter(|push| push.repo == scene.repo).collect();
    assert_eq!(pushed.len(), 2, "there and back: {pushed:?}");
}

#[test]
fn a_disabled_workflow() {
    let scene = RunnerRepo::new("disabled");
    scene.github.set_workflow_state(&scene.repo, "run-evals.yml", "disabled_manually");
    assert_snapshot!(scene.refused(&[]), @r"
    exit 3
    error: the workflow `run-evals.yml` of `acme/disabled` is not active: `disabled_manually`

    hint: enable it: `gh workflow enable run-evals.yml --repo acme/disabled`
    ");
    scene.github.set_workflow_state(&scene.repo, "run-evals.yml", "disabled_inactivity");
    assert_snapshot!(scene.refused(&[]), @r"
    exit 3
    error: the workflow `run-evals.yml` of `acme/disabled` is not active: `disabled_inactivity`

    hint: enable it: `gh workflow enable run-evals.yml --repo acme/disabled`
    ");
}

#[test]
fn a_workflow_without_the_trigger() {
    let text = "on: push\njobs:\n  run:\n    runs-on: ubuntu-latest\n    steps: []\n";
    assert_snapshot!(with_workflow("no-trigger", text), @r"
    exit 3
    error: `.github/workflows/run-evals.yml` of `acme/no-trigger` cannot be dispatched: it has no `workflow_dispatch` trigger

    hint: copy `workflows/run-evals.yml` of this version of run-evals to the runner repository again
    ");
}

#[test]
fn a_workflow_of_an_older_version() {
    let text = workflow().replace("      runner_options:", "      options:");
    assert_snapshot!(with_workflow("older", &text), @r"
    exit 3
    error: `.github/workflows/run-evals.yml` of `acme/older` does not declare the inputs `runner_options`

    hint: copy `workflows/run-evals.yml` of this version of run-evals to the runner repository again
    ");
}

#[test]
fn a_workflow_with_further_required_inputs() {
    let more = "    inputs:\n      ticket:\n        type: string\n        required: true\n";
    let text = workflow().replacen("    inputs:\n", more, 1);
    assert_snapshot!(with_workflow("more", &text), @r"
    exit 3
    error: `.github/workflows/run-evals.yml` of `acme/more` requires inputs that run-evals does not send: `ticket`

    hint: give them a `default`, or remove them
    ");
}

#[test]
fn a_workflow_that_is_not_yaml() {
    assert_snapshot!(with_workflow("no-yaml", "on: [\n"), @r"
    exit 3
    error: invalid YAML: while parsing a node, did not find expected node content
      --> acme/no-yaml/.github/workflows/run-evals.yml:1:5
       |
     1 | on: [
       |     ^
    ");
}

#[test]
fn an_archived_repository() {
    let archived = NewRepo { private: true, archived: true, ..NewRepo::default() };
    let scene = RunnerRepo::empty("archived", &archived, &ALL);
    scene.put(WORKFLOW, workflow());
    assert_snapshot!(scene.refused(&[]), @r"
    exit 3
    error: `acme/archived` is archived: no workflow runs there

    hint: unarchive it in its settings, or set another `repo`
    ");
}

#[test]
fn a_public_repository() {
    let scene = RunnerRepo::empty("public", &NewRepo::default(), &ALL);
    scene.put(WORKFLOW, workflow());
    assert_snapshot!(scene.refused(&[]), @r"
    exit 3
    error: `acme/public` is public: everyone could read the answers on its branches

    hint: make it private, keep the results off the branches with `results_artifact: true`, or pass `--allow-public`
    ");
    assert_snapshot!(scene.refused(&["--handover", "branch"]), @r"
    exit 3
    error: `acme/public` is public: everyone could read the prompts and answers on its branches

    hint: make it private, choose another hand-over with `--handover` and keep the results off the branches with `results_artifact: true`, or pass `--allow-public`
    ");
    scene.target("results_artifact: true");
    assert_snapshot!(scene.refused(&["--handover", "branch"]), @r"
    exit 3
    error: `acme/public` is public: everyone could read the prompts on its branches

    hint: make it private, choose another hand-over with `--handover`, or pass `--allow-public`
    ");
}

#[test]
fn a_token_without_permission_to_start_runs() {
    let scene = permitted("no-actions", &[("actions", "read"), ("contents", "write")]);
    assert_snapshot!(scene.refused(&[]), @r"
    exit 1
    error: cannot start the workflow `run-evals.yml` of `acme/no-actions`: GitHub returned 403: Resource not accessible by personal access token

    hint: a fine-grained token needs access to `acme/no-actions` with the repository permission `actions=write`
    ");
    assert_snapshot!(scene.refused(&["--handover", "branch"]), @r"
    exit 1
    error: cannot start the workflow `run-evals.yml` of `acme/no-actions`: GitHub returned 403: Resource not accessible by personal access token

    hint: a fine-grained token needs access to `acme/no-actions` with the repository permission `actions=write`
    ");
}

#[test]
fn a_token_without_permission_to_read_workflows() {
    assert_snapshot!(permitted("nothing", &[("contents", "write")]).refused(&[]), @r"
    exit 1
    error: cannot read the workflow `run-evals.yml` of `acme/nothing`: GitHub returned 403: Resource not accessible by personal access token

    hint: a fine-grained token needs access to `acme/nothing` with the repository permission `actions=read`
    ");
}

#[test]
fn a_token_without_permission_to_push() {
    let scene = permitted("no-push", &[("actions", "write"), ("contents", "read")]);
    assert_snapshot!(scene.refused(&["--handover", "branch"]), @r"
    exit 1
    error: the token lacks permission for git at `http://[github]/acme/no-push.git`

    hint: it needs `Contents: read and write` there (fine-grained token or App), the scope `repo` (classic token), or `permissions: contents: write` (GITHUB_TOKEN, its own repository only)
    ");
}

#[test]
fn a_token_without_permission_to_read() {
    assert_snapshot!(permitted("no-contents", &[("actions", "write")]).refused(&[]), @r"
    exit 1
    error: cannot read `.github/workflows/run-evals.yml` of `acme/no-contents`: GitHub returned 403: Resource not accessible by personal access token

    hint: a fine-grained token needs access to `acme/no-contents` with the repository permission `contents=read`
    ");
}

#[test]
fn a_batch_that_does_not_fit_inline() {
    let scene = RunnerRepo::new("large");
    let text: String = std::iter::repeat_with(fastrand::alphanumeric).take(90_000).collect();
    let line = serde_json::json!({"id": "a", "messages": [{"role": "user", "content": text}]});
    scene.workspace.write("requests.jsonl", format!("{line}\n"));
    let told = scene.refused(&["--handover", "inline"]);
    let characters = told.split(' ').find(|word| word.len() == 5 && word.parse::<u32>().is_ok()).unwrap();
    assert_snapshot!(told.replace(characters, "[many]"), @r"
    exit 2
    error: the batch has [many] characters, more than the 60000 that fit inline

    hint: use `--handover branch` or `--handover auto`
    ");
}

#[test]
fn an_artifact_from_a_laptop() {
    assert_snapshot!(RunnerRepo::new("laptop").refused(&["--handover", "artifact"]), @r"
    exit 2
    error: artifacts can be uploaded only by a step of a workflow on github.com that uses the action

    hint: use `--handover branch` or `--handover auto`
    ");
}

#[test]
fn an_unknown_batch() {
    let scene = RunnerRepo::new("unknown");
    assert_snapshot!(scene.fails(&["dispatch", "--resume", "b7"]), @r"
    exit 3
    error: no exchange at `.run-evals/exchange.git`

    hint: `run-evals eval` and `run-evals dispatch` create one; `--exchange` sets another path
    ");
    assert_snapshot!(scene.fails(&["collect", "b7"]), @r"
    exit 3
    error: no exchange at `.run-evals/exchange.git`

    hint: `run-evals eval` and `run-evals dispatch` create one; `--exchange` sets another path; `--target NAME` finds a batch that another machine dispatched
    ");
    assert_snapshot!(scene.fails(&["collect", "b7", "--target", "cloud"]), @r"
    exit 3
    error: `acme/unknown` has neither the batch `b7` nor its finished results

    hint: a batch that is handed over inline or as an artifact can be collected before it is finished only where it was dispatched; wait for its run to end, and check the batch id and the target
    ");
    assert_snapshot!(scene.fails(&["dispatch", "--resume", "b7"]), @r"
    exit 3
    error: batch `b7` was not dispatched to a runner repository from here

    hint: a batch of the local exchange is resumed by its own command with `--batch-id`; one that was dispatched from another machine by the same command as there, with `--batch-id`
    ");
    assert_snapshot!(scene.fails(&["collect", "b7"]), @r"
    exit 3
    error: no batch `b7` in the exchange `.run-evals/exchange.git`

    hint: it has no batches: `--exchange` sets another path; `--target NAME` finds a batch that another machine dispatched
    ");
    assert_snapshot!(scene.fails(&["collect", "b7", "--target", "clowd"]), @r"
    exit 3
    error: no target `clowd` in `targets.yaml`

    hint: did you mean `cloud`?
    ");
}

#[test]
fn an_id_of_another_batch() {
    let scene = RunnerRepo::new("taken");
    scene.put("targets.yaml", "targets:\n  - name: llm\n    provider: mock\n");
    scene.workspace.run(&Stage::args_to("first", &["--handover", "branch"])).expect(0);
    scene.workspace.write_requests(3);
    // Locally, where its results are.
    assert_snapshot!(scene.refused(&[]), @r"
    exit 3
    error: another batch already has the id `b1`: its digest is [sha256], the new one's is [sha256]

    hint: choose another `--batch-id`, or omit it to get a new one
    ");
    // On GitHub, from a machine without a record of it.
    let elsewhere = ["--exchange", "other.git"];
    assert_snapshot!(scene.refused(&elsewhere), @r"
    exit 3
    error: the results on `eval-results/b1` of `http://[github]/acme/taken.git` are of another batch: its digest is [sha256], not [sha256]

    hint: choose another `--batch-id`
    ");
}

#[test]
fn an_id_of_another_batch_without_results() {
    // Its run fails before it has results, so only the batch itself exists.
    let scene = permitted("on-its-way", &ALL);
    scene.workspace.run(&Stage::args_to("first", &["--handover", "branch"])).expect(5);
    scene.workspace.write_requests(3);
    assert_snapshot!(scene.refused(&["--handover", "branch"]), @r"
    exit 3
    error: another batch already has the id `b1`: its digest is [sha256], the new one's is [sha256]

    hint: choose another `--batch-id`, or omit it to get a new one
    ");
    assert_snapshot!(scene.refused(&["--handover", "branch", "--exchange", "other.git"]), @r"
    exit 3
    error: another batch already has the id `b1`: its digest is [sha256], the new one's is [sha256]

    hint: choose another `--batch-id`, or omit it to get a new one
    ");
}

#[test]
fn a_conflicting_branch() {
    let scene = RunnerRepo::new("in-the-way");
    scene.github.git(&scene.repo, &["branch", "eval-batch", "main"]);
    assert_snapshot!(scene.refused(&["--handover", "branch"]), @r"
    exit 3
    error: a branch `eval-batch` of `http://[github]/acme/in-the-way.git` is in the way of every branch `eval-batch/…`

    hint: rename that branch there, or use another `--handover`
    ");
    scene.github.git(&scene.repo, &["branch", "eval-results", "main"]);
    assert_snapshot!(scene.refused(&[]), @r"
    exit 3
    error: a branch `eval-results` of `http://[github]/acme/in-the-way.git` is in the way of every branch `eval-results/…`

    hint: rename that branch there, or choose another `results_branch`
    ");
    scene.github.git(&scene.repo, &["branch", "team", "main"]);
    scene.target("results_branch: team/evals");
    assert_snapshot!(scene.refused(&[]), @r"
    exit 3
    error: a branch `team` or `team/evals` of `http://[github]/acme/in-the-way.git` is in the way of every branch `team/evals/…`

    hint: rename that branch there, or choose another `results_branch`
    ");
}

#[test]
fn an_invalid_api_url() {
    let scene = RunnerRepo::new("address");
    let at = |url: &str| scene.refused(&["--github-api-url", url]);
    assert_snapshot!(at("github"), @r"
    exit 3
    error: the address of GitHub's API is not a URL

    hint: such as `https://api.github.com`, or `https://<host>/api/v3` on GitHub Enterprise Server
    ");
    assert_snapshot!(at("https://github.com"), @r"
    exit 3
    error: the address of GitHub's API is not `github.com`

    hint: such as `https://api.github.com`, or `https://<host>/api/v3` on GitHub Enterprise Server
    ");
    assert_snapshot!(at("ftp://127.0.0.1"), @r"
    exit 3
    error: the address of GitHub's API is not an `http` or `https` URL

    hint: such as `https://api.github.com`, or `https://<host>/api/v3` on GitHub Enterprise Server
    ");
    // No server listens there.
    let told = at("http://127.0.0.1:9");
    let waits = told.split_inclusive('\n').map(|line| match line.split_once("again in ") {
        Some((before, _)) => format!("{before}again in [time]\n"),
        None => line.to_owned(),
    });
    assert_snapshot!(waits.collect::<String>(), @r"
    exit 1
    cannot reach `127.0.0.1:9`: Connection refused (os error 111); trying again in [time]
    cannot reach `127.0.0.1:9`: Connection refused (os error 111); trying again in [time]
    error: cannot reach `127.0.0.1:9`: Connection refused (os error 111)

    hint: check the network, `HTTPS_PROXY` and `NO_PROXY`, and `--github-api-url` (now `127.0.0.1:9`)
    ");
}

#[test]
fn an_unusable_app() {
    let scene = RunnerRepo::new("app");
    let all = || ALL.map(|(name, level)| (name.to_owned(), level.to_owned())).into();
    let installed = BTreeMap::from([(scene.repo.clone(), all())]);
    scene.github.app(&NewApp { id: 71, grants: installed, ..NewApp::default() });
    let key = scene.github.app(&NewApp { id: 72, ..NewApp::default() });
    scene.workspace.write("72.pem", key);
    scene
        .workspace
        .write("no.pem", "-----BEGIN RSA PRIVATE KEY-----\nno key\n-----END RSA PRIVATE KEY-----\n");
    let with = |args: &[&str]| scene.refused(args);
    assert_snapshot!(with(&["--app-id", "71"]), @r"
    exit 2
    error: `--app-id` needs the App's private key

    hint: pass its file with `--app-key-file`, or set `RUN_EVALS_APP_KEY`
    ");
    assert_snapshot!(with(&["--app-id", "71", "--app-key-file", "gone.pem"]), @r"
    exit 3
    error: cannot read the App's private key `gone.pem`: No such file or directory (os error 2)

    hint: `--app-key-file` takes the `.pem` file that GitHub generated for the App
    ");
    assert_snapshot!(with(&["--app-id", "71", "--app-key-file", "no.pem"]), @r"
    exit 3
    error: the private key of the GitHub App cannot be read

    hint: it is the RSA key in PEM format that GitHub gave out for the App, from `-----BEGIN RSA PRIVATE KEY-----` to the end
    ");
    assert_snapshot!(with(&["--app-id", "Iv1.abc", "--app-key-file", "72.pem"]), @r"
    exit 3
    error: `Iv1.abc` is not a GitHub App id

    hint: the App ID is the number on the App's settings page, not its client id
    ");
    // Another App's key.
    assert_snapshot!(with(&["--app-id", "71", "--app-key-file", "72.pem"]), @r"
    exit 1
    error: cannot find the installation of the GitHub App 71 in `acme/app`: GitHub returned 401: A JSON web token could not be decoded

    hint: check that `--app-id` and the key belong to the same GitHub App, and that this machine's clock is right
    ");
    // Not installed.
    assert_snapshot!(with(&["--app-id", "72", "--app-key-file", "72.pem"]), @r"
    exit 3
    error: cannot find the installation of the GitHub App 72 in `acme/app`: GitHub returned 404: Not Found

    hint: install the GitHub App on `acme/app`: its settings, Install App, choose the repository
    ");
}

#[test]
fn a_token_repeated_by_a_proxy_is_redacted() {
    for status in [404, 422] {
        let stage = Stage::new();
        let body = format!("{{\"message\": \"blocked request with `Authorization: token {TOKEN}`\"}}");
        let answer = Wrong::Status { status, body, headers: BTreeMap::new() };
        stage.workspace.write_requests(1);
        let what = What::AnyAnswer { after: false, answer };
        stage.github.add_fault(&Fault { what, times: None, skip: 0 });
        let output = stage.dispatch(&[]);
        stage.github.forget_violations();
        let printed = format!("{}{}", output.stdout, output.stderr);
        assert!(printed.contains("***") && !printed.contains(TOKEN), "{printed}");
    }
}
