//! The messages of a dispatcher whose runner repository rejects the batch: the failing job and step, the reason, exit code 5,
//! and a `not_run` row for every request.

use insta::assert_snapshot;

use super::runner_repo::{ALL, RunnerRepo};
use crate::support::github::{NewRepo, workflow};

/// The message under this policy.
fn policy(name: &str, text: &str) -> String {
    let scene = RunnerRepo::new(name);
    scene.put(".run-evals.yml", text);
    scene.run_fails(&[])
}

#[test]
fn a_runner_repository_without_targets() {
    let scene = RunnerRepo::empty("no-targets", &NewRepo { private: true, ..NewRepo::default() }, &ALL);
    scene.put(".github/workflows/run-evals.yml", workflow());
    assert_snapshot!(scene.run_fails(&[]), @r"
    exit 5
    batch `b1` runs in one job: http://[github]/acme/no-targets/actions/runs/[run]
    the run ended with `failure`: http://[github]/acme/no-targets/actions/runs/[run]
    job `shard 0`, step `Run agentv/run-evals@v1`: failure
      | error: `targets.yaml` not found on the default branch of `acme/no-targets`
      | hint: add one with the models that batches may use; keys in it are references such as `${{ OPENAI_API_KEY }}`
      | ##[error]Docker run failed with exit code 3
    to call the missing requests: `run-evals dispatch --resume b1`
    ");
}

#[test]
fn a_target_missing_in_the_runner() {
    let scene = RunnerRepo::new("no-target");
    scene.target("target: gpt");
    assert_snapshot!(scene.run_fails(&[]), @r"
    exit 5
    batch `b1` runs in one job: http://[github]/acme/no-target/actions/runs/[run]
    the run ended with `failure`: http://[github]/acme/no-target/actions/runs/[run]
    job `shard 0`, step `Run agentv/run-evals@v1`: failure
      | no `.run-evals.yml`: only the targets limits this run
      | error: `acme/no-target` has no target `gpt` in its `targets.yaml`
      | hint: set `target` of the dispatcher's target to one of these: `llm`
      | ##[error]Docker run failed with exit code 3
    to call the missing requests: `run-evals dispatch --resume b1`
    ");
}

#[test]
fn a_key_missing_in_the_runner() {
    let scene = RunnerRepo::new("no-key");
    scene.put(
        "targets.yaml",
        "targets:\n  - name: llm\n    provider: openai\n    model: gpt-6-luna\n    api_key: ${{ OTHER_API_KEY }}\n",
    );
    assert_snapshot!(scene.run_fails(&[]), @r"
    exit 5
    batch `b1` runs in one job: http://[github]/acme/no-key/actions/runs/[run]
    the run ended with `failure`: http://[github]/acme/no-key/actions/runs/[run]
    job `shard 0`, step `Run agentv/run-evals@v1`: failure
      | no `.run-evals.yml`: only the targets limits this run
      | error: target `llm`: `api_key` needs the environment variable `OTHER_API_KEY`, which is not set
      |   --> acme/no-key: targets.yaml:5:14
      |    |
      |  5 |     api_key: ${{ OTHER_API_KEY }}
      |    |              ^^^^^^^^^^^^^^^^^^^^
      | hint: `gh secret set OTHER_API_KEY --env run-evals -R acme/no-key`, and in the `env:` of the workflow's step: `OTHER_API_KEY: ${{ secrets.OTHER_API_KEY }}`; a workflow that calls `runner.yml` passes it by name in `secrets:`
      | ##[error]Docker run failed with exit code 3
    to call the missing requests: `run-evals dispatch --resume b1`
    ");
}

/// The caller that was documented once: it passes no secret, so the environment's keys are empty strings.
#[test]
fn a_caller_of_the_reusable_workflow_that_passes_no_secret() {
    let scene = RunnerRepo::new("no-secrets");
    let (caller, _) =
        include_str!("../../../workflows/run-evals-caller.yml").split_once("    secrets:").unwrap();
    scene.put(".github/workflows/run-evals.yml", caller);
    scene.put(
        "targets.yaml",
        "targets:\n  - name: llm\n    provider: openai\n    model: gpt-6-luna\n    api_key: ${{ OPENAI_API_KEY }}\n",
    );
    assert_snapshot!(scene.run_fails(&[]), @r"
    exit 5
    batch `b1` runs in one job: http://[github]/acme/no-secrets/actions/runs/[run]
    the run ended with `failure`: http://[github]/acme/no-secrets/actions/runs/[run]
    job `run / shard 0`, step `Run agentv/run-evals@v1`: failure
      | no `.run-evals.yml`: only the targets limits this run
      | error: target `llm`: `api_key` needs the environment variable `OPENAI_API_KEY`, which is not set
      |   --> acme/no-secrets: targets.yaml:5:14
      |    |
      |  5 |     api_key: ${{ OPENAI_API_KEY }}
      |    |              ^^^^^^^^^^^^^^^^^^^^^
      | hint: `gh secret set OPENAI_API_KEY --env run-evals -R acme/no-secrets`, and in the `env:` of the workflow's step: `OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }}`; a workflow that calls `runner.yml` passes it by name in `secrets:`
      | ##[error]Docker run failed with exit code 3
    to call the missing requests: `run-evals dispatch --resume b1`
    ");
}

#[test]
fn a_sender_that_is_not_allowed() {
    assert_snapshot!(policy("sender", "allowed_senders: [alice]\n"), @r"
    exit 5
    batch `b1` runs in one job: http://[github]/acme/sender/actions/runs/[run]
    the run ended with `failure`: http://[github]/acme/sender/actions/runs/[run]
    job `shard 0`, step `Run agentv/run-evals@v1`: failure
      | error: `dispatcher` may not start runs here
      | hint: `allowed_senders` in `.run-evals.yml` of the runner repository allows `alice`
      | ##[error]Docker run failed with exit code 3
    to call the missing requests: `run-evals dispatch --resume b1`
    ");
}

#[test]
fn a_target_that_is_not_allowed() {
    assert_snapshot!(policy("target", "allowed_targets: [small]\n"), @r"
    exit 5
    batch `b1` runs in one job: http://[github]/acme/target/actions/runs/[run]
    the run ended with `failure`: http://[github]/acme/target/actions/runs/[run]
    job `shard 0`, step `Run agentv/run-evals@v1`: failure
      | error: the target `llm` may not be used by batches
      | hint: `allowed_targets` in `.run-evals.yml` of the runner repository allows `small`
      | ##[error]Docker run failed with exit code 3
    to call the missing requests: `run-evals dispatch --resume b1`
    ");
}

#[test]
fn a_model_that_is_not_allowed() {
    assert_snapshot!(policy("model", "allowed_models: [gpt-6-luna]\n"), @r"
    exit 5
    batch `b1` runs in one job: http://[github]/acme/model/actions/runs/[run]
    the run ended with `failure`: http://[github]/acme/model/actions/runs/[run]
    job `shard 0`, step `Run agentv/run-evals@v1`: failure
      | error: the model `mock-model` may not be used by batches
      | hint: `allowed_models` in `.run-evals.yml` of the runner repository allows `gpt-6-luna`
      | ##[error]Docker run failed with exit code 3
    to call the missing requests: `run-evals dispatch --resume b1`
    ");
}

#[test]
fn more_requests_than_allowed() {
    assert_snapshot!(policy("requests", "max_requests: 1\n"), @r"
    exit 5
    batch `b1` runs in one job: http://[github]/acme/requests/actions/runs/[run]
    the run ended with `failure`: http://[github]/acme/requests/actions/runs/[run]
    job `shard 0`, step `Run agentv/run-evals@v1`: failure
      | error: the batch has 2 requests, and 1 are allowed
      | hint: split it, or raise `max_requests` in `.run-evals.yml` of the runner repository
      | ##[error]Docker run failed with exit code 3
    to call the missing requests: `run-evals dispatch --resume b1`
    ");
}

#[test]
fn a_budget_without_a_price() {
    assert_snapshot!(policy("budget", "max_budget_usd: 1.5\n"), @r"
    exit 5
    batch `b1` runs in one job: http://[github]/acme/budget/actions/runs/[run]
    the run ended with `failure`: http://[github]/acme/budget/actions/runs/[run]
    job `shard 0`, step `Run agentv/run-evals@v1`: failure
      | error: `max_budget_usd` of the policy needs a `price` in target `llm`
      | hint: add `price: { input_per_mtok: …, output_per_mtok: … }` to the target in the runner repository
      | ##[error]Docker run failed with exit code 3
    to call the missing requests: `run-evals dispatch --resume b1`
    ");
}

#[test]
fn an_unreadable_policy() {
    assert_snapshot!(policy("policy", "allowed_sender: [alice]\n"), @r"
    exit 5
    batch `b1` runs in one job: http://[github]/acme/policy/actions/runs/[run]
    the run ended with `failure`: http://[github]/acme/policy/actions/runs/[run]
    job `shard 0`, step `Run agentv/run-evals@v1`: failure
      | error: unknown key `allowed_sender`
      |   --> acme/policy: .run-evals.yml:1:1
      |    |
      |  1 | allowed_sender: [alice]
      |    | ^^^^^^^^^^^^^^
      | hint: did you mean `allowed_senders`?
      | ##[error]Docker run failed with exit code 3
    to call the missing requests: `run-evals dispatch --resume b1`
    ");
}
