//! What is checked on GitHub for a runner repository, and the message for each failure.

use insta::assert_snapshot;

use crate::remote::runner_repo::RunnerRepo;

const WORKFLOW: &str = ".github/workflows/run-evals.yml";

impl RunnerRepo {
    /// The exit code and the report; nothing is left behind, locally or on GitHub.
    fn checked(&self, more: &[&str]) -> String {
        let branches = || self.github.git(&self.repo, &["for-each-ref", "--format=%(refname) %(objectname)"]);
        let pushes = || self.github.pushes().iter().filter(|push| push.repo == self.repo).count();
        let before = (self.workspace.tree(), branches(), self.runs().len(), pushes());
        let output = self.workspace.run(&[&["doctor"], more].concat());
        let after = (self.workspace.tree(), branches(), self.runs().len(), pushes());
        assert!(before == after, "something was left behind");
        assert_eq!(output.stderr, "");
        let address = self.github.urls().server_url.trim_start_matches("http://").to_owned();
        format!("exit {}\n{}", output.code.unwrap(), output.stdout.replace(&address, "[github]"))
    }
}

#[test]
fn a_correct_runner_repository() {
    assert_snapshot!(RunnerRepo::new("check-fine").checked(&[]), @r"
    exit 0
    cloud (github-actions)
      ok         repository `acme/check-fine`, private
      note       GitHub does not report the permissions of a fine-grained token; it needs Actions and Contents: read and write
                 hint: `run-evals doctor --ping` tests it
      ok         workflow `run-evals.yml` on `main`, active
      ok         the workflow takes every input of a dispatch
      note       settings of Actions: not checked, this token may not read it
                 hint: run `run-evals doctor` with the token of an admin
      note       `agentv/run-evals` is not on this server: GitHub Connect must provide it
                 hint: without GitHub Connect, push a copy of https://github.com/agentv/run-evals to this server
      ok         `targets.yaml`: target `llm`, provider `openai-compatible`, model `mock-model`
      warning    `acme/check-fine` has no policy: everyone who can dispatch can spend without a limit
                 hint: `run-evals init runner acme/check-fine --provider openai-compatible` adds what is missing
      note       names of the secrets: not checked, this token may not read it
                 hint: run `run-evals doctor` with the token of an admin
      warning    no environment `run-evals`: GitHub would create it without restrictions
                 hint: `run-evals init runner acme/check-fine --provider openai-compatible` adds what is missing
      warning    branch `main` is not protected: everyone who can push can change workflow, targets and policy
                 hint: `run-evals init runner acme/check-fine --provider openai-compatible` adds what is missing
      ok         results can go to `eval-results/<batch-id>`
      note       `agentv eval` cannot use this target: it has no `command`
                 hint: for `agentv eval` add `command: /usr/local/bin/run-evals adapter --target cloud --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID} --attempt {ATTEMPT} --files {FILES}`, with the path of your run-evals

    1 target of `targets.yaml`: 1 fine
    ");
}

#[test]
fn offline_makes_no_requests() {
    let scene = RunnerRepo::new("check-offline").env("GITHUB_API_URL", "http://127.0.0.1:9");
    assert_snapshot!(scene.checked(&["--offline"]), @r"
    exit 0
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      note       `agentv eval` cannot use this target: it has no `command`
                 hint: for `agentv eval` add `command: /usr/local/bin/run-evals adapter --target cloud --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID} --attempt {ATTEMPT} --files {FILES}`, with the path of your run-evals

    1 target of `targets.yaml`: 1 fine
    ");
}

#[test]
fn targets_of_one_repository_are_checked_once() {
    let scene = RunnerRepo::new("check-once");
    let targets = scene.workspace.read("targets.yaml");
    scene.workspace.write("targets.yaml", format!("{targets}  - {{ name: default, use_target: cloud }}\n"));
    let told = scene.checked(&[]);
    assert!(told.contains("default → cloud (github-actions)\n  ok         repository"), "{told}");
    let asked = scene.github.requests();
    let path = format!("/repos/{}", scene.repo);
    assert_eq!(asked.iter().filter(|request| request.path.ends_with(&path)).count(), 1);
}

#[test]
fn an_invalid_token() {
    let scene = RunnerRepo::new("check-wrong-token").env("GH_ENTERPRISE_TOKEN", "github_pat_wrong");
    assert_snapshot!(scene.checked(&[]), @r"
    exit 3
    cloud (github-actions)
      error      cannot read the repository `acme/check-wrong-token`: GitHub returned 401: Bad credentials
                 hint: the token is wrong, expired or revoked: create a new one; on GitHub Enterprise Server it must be a token of that server
      note       `agentv eval` cannot use this target: it has no `command`
                 hint: for `agentv eval` add `command: /usr/local/bin/run-evals adapter --target cloud --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID} --attempt {ATTEMPT} --files {FILES}`, with the path of your run-evals

    1 target of `targets.yaml`: 0 fine, 1 cannot be used
    ");
}

#[test]
fn a_missing_token_file() {
    let scene = RunnerRepo::new("check-token-file");
    let targets = scene.workspace.read("targets.yaml");
    scene.workspace.write("targets.yaml", format!("{targets}  - {{ name: echo, provider: mock }}\n"));
    assert_snapshot!(scene.checked(&["--token-file", "gone"]), @r"
    exit 3
    cloud (github-actions)
      error      cannot read the token file `gone`: No such file or directory (os error 2)
                 hint: `--token-file` takes a file that contains only the token
      note       `agentv eval` cannot use this target: it has no `command`
                 hint: for `agentv eval` add `command: /usr/local/bin/run-evals adapter --target cloud --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID} --attempt {ATTEMPT} --files {FILES}`, with the path of your run-evals

    echo (mock)
      ok         nothing is missing

    2 targets of `targets.yaml`: 1 fine, 1 cannot be used
    ");
}

#[test]
fn a_check_and_a_dispatch_say_the_same() {
    let scene = RunnerRepo::new("check-same");
    scene.put(WORKFLOW, "on: push\njobs:\n  run:\n    runs-on: ubuntu-latest\n    steps: []\n");
    let dispatch = scene.refused(&[]);
    let error = dispatch.lines().find_map(|line| line.strip_prefix("error: ")).unwrap();
    let told = scene.checked(&[]);
    assert!(told.contains(error), "{told}\n{dispatch}");
}

#[test]
fn network_trouble_is_not_a_verdict() {
    let scene = RunnerRepo::new("check-trouble").env("GITHUB_API_URL", "http://127.0.0.1:9");
    let output = scene.workspace.run(&["doctor", "-q"]).expect(1);
    assert_snapshot!(output.stdout, @r"
    cloud (github-actions)
      unknown    cannot reach `127.0.0.1:9`: Connection refused (os error 111)
                 hint: check the network, `HTTPS_PROXY` and `NO_PROXY`, and `--github-api-url` (now `127.0.0.1:9`)
      note       `agentv eval` cannot use this target: it has no `command`
                 hint: for `agentv eval` add `command: /usr/local/bin/run-evals adapter --target cloud --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID} --attempt {ATTEMPT} --files {FILES}`, with the path of your run-evals

    1 target of `targets.yaml`: 0 fine, 1 could not be checked
    ");
}
