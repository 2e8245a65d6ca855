//! From a suite to its answers, through a runner repository, with every hand-over.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use run_evals::testing::Digest;

use crate::support::Workspace;
use crate::support::stage::{KEY, REPO, Stage};

const REQUESTS: usize = 12;

#[test]
fn an_inline_batch_gets_its_answers() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    let output = stage.dispatch(&["--handover", "inline"]).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
    assert_eq!(stage.starts(), 1);
    let run = stage.github.finished_run();
    assert_eq!(run.conclusion.as_deref(), Some("success"));
    assert!(output.stdout.contains("12 of 12"), "{}", output.stdout);
    assert!(output.stdout.contains("branch eval-results/b1 of acme/runner"), "{}", output.stdout);
    assert_eq!(stage.github.git(REPO, &["branch", "--list", "eval-batch/*"]), "");
    let files = stage.github.git(REPO, &["ls-tree", "-r", "--name-only", "eval-results/b1"]);
    assert!(files.contains("results/manifest.json"), "{files}");
    assert!(files.contains("results/shard-000/0001.jsonl"), "{files}");
    assert!(files.lines().any(|file| file == "README.md"), "{files}");
    // GitHub attributes commits by address: no account can own this one.
    let who = stage.github.git(REPO, &["log", "--format=%an <%ae> %cn <%ce>", "eval-results/b1"]);
    let nobody = "run-evals <run-evals@run-evals.invalid>";
    assert!(who.lines().all(|line| line == format!("{nobody} {nobody}")), "{who}");
}

#[test]
fn neither_the_key_nor_a_prompt_is_shown() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    let output = stage.dispatch(&["-v"]).expect(0);
    let shown = format!("{}{}{}", stage.github.everything_shown(), output.stdout, output.stderr);
    let inputs = stage.github.finished_run().inputs;
    let inline = inputs["prompts_artifact"].strip_prefix("inline:").unwrap();
    // The inputs are part of the run and not public; nothing else may contain the prompts.
    let shown = shown.replace(inline, "");
    for secret in
        [KEY, &STANDARD.encode(KEY), "message 3", &STANDARD.encode("message 3")[..10], &inline[..40]]
    {
        assert!(!shown.contains(secret), "{secret} is shown");
    }
}

#[test]
fn the_hand_over_branch_is_deleted_after_collection() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    stage.dispatch(&["--handover", "branch"]).expect(0);
    stage.all_answered(REQUESTS);
    let pushed: Vec<String> = stage.github.pushes().into_iter().map(|push| push.reference).collect();
    assert!(pushed.contains(&"refs/heads/eval-batch/b1".to_owned()), "{pushed:?}");
    assert_eq!(stage.github.git(REPO, &["branch", "--list", "eval-batch/*"]), "");
    assert_ne!(stage.github.git(REPO, &["branch", "--list", "eval-results/*"]), "");
}

#[test]
fn three_shards_are_three_jobs_and_one_set_of_answers() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    stage.target("shards: 3");
    stage.dispatch(&[]).expect(0);
    stage.all_answered(REQUESTS);
    stage.paid_once(REQUESTS);
    let run = stage.github.finished_run();
    let ran = run.jobs.iter().filter(|job| job.conclusion.as_deref() != Some("skipped")).count();
    assert_eq!(ran, 3);
    let manifest = stage.github.git(REPO, &["show", "eval-results/b1:results/manifest.json"]);
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!((&manifest["shards"], &manifest["totals"]["answered"]), (&3.into(), &12.into()));
}

#[test]
fn the_statement_names_the_policy_of_the_runner() {
    let schema = include_str!("../../../fixtures/attestation/statement.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let policy = "max_requests: 1000\n";
    for shards in ["", "shards: 3"] {
        let stage = Stage::new();
        stage.github.put_file(REPO, ".run-evals.yml", policy);
        stage.workspace.write_requests(REQUESTS);
        stage.target(shards);
        stage.dispatch(&[]).expect(0);
        let text = stage.workspace.read("out/statement.intoto.json");
        let statement: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(schema.is_valid(&statement), "{text}");
        let predicate = &statement["predicate"];
        assert_eq!(predicate["origin"]["unsigned"], true, "{text}");
        let batch = &predicate["batches"][0];
        assert_eq!(batch["policy_sha256"], Digest::of(policy.as_bytes()).to_string(), "{text}");
        assert_eq!(batch["models"].as_array().unwrap().len(), 1, "{text}");
        assert!(batch["batch_sha256"].is_string() && batch["run_url"].is_string(), "{text}");
    }
}

#[test]
fn results_can_be_artifacts() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    stage.target("shards: 2\nresults_artifact: true");
    stage.dispatch(&[]).expect(0);
    stage.all_answered(REQUESTS);
    let run = stage.github.finished_run();
    assert!(
        run.artifacts.iter().any(|name| name.starts_with("eval-results-b1-000-1-")),
        "{:?}",
        run.artifacts
    );
    assert_eq!(stage.github.git(REPO, &["branch", "--list", "eval-*"]), "");
}

#[test]
fn more_than_sixteen_shards_are_committed_by_one_last_job() {
    let stage = Stage::new();
    stage.workspace.write_requests(40);
    stage.target("shards: 17");
    stage.dispatch(&[]).expect(0);
    stage.all_answered(40);
    let run = stage.github.finished_run();
    assert_eq!(run.jobs.len(), 18);
    assert_eq!(run.artifacts.len(), 17, "{:?}", run.artifacts);
    assert_eq!(stage.github.git(REPO, &["rev-list", "--count", "eval-results/b1"]), "1");
    stage.github.git(REPO, &["cat-file", "-e", "eval-results/b1:results/manifest.json"]);
}

#[test]
fn the_answers_equal_those_of_a_local_run() {
    let stage = Stage::new();
    stage.workspace.write_requests(REQUESTS);
    stage.target("shards: 3");
    stage.dispatch(&[]).expect(0);
    let local = Workspace::new();
    local.write_target(&stage.llm.base_url(), "");
    local.write_requests(REQUESTS);
    local.dispatch(&[]).expect(0);
    let without_time = |workspace: &Workspace| {
        let mut rows = workspace.rows("out/responses.jsonl");
        for row in &mut rows {
            row["duration_ms"] = 0.into();
        }
        rows
    };
    let mut remote = without_time(&stage.workspace);
    for row in &mut remote {
        let row = row.as_object_mut().unwrap();
        assert_eq!(row["target"], "cloud");
        row["target"] = row.remove("runner_target").unwrap();
    }
    assert_eq!(remote, without_time(&local));
}
