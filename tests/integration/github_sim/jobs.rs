//! Running jobs: environment, log, files and order.

use super::{REPO, Sim};
use crate::support::github::{MockGithub, RunView, TOKEN};

const DESCRIBE: &str = r##"
echo "shard $INPUT_SHARD of $(grep -o '"batch_id":"[^"]*"' "$GITHUB_EVENT_PATH") at attempt $GITHUB_RUN_ATTEMPT"
echo "the key is $OPENAI_API_KEY, the token $INPUT_TOKEN" >&2
echo "::add-mask::derived-value"
echo "derived-value ::not a command::"
echo "::warning title=Careful::look here"
echo "answered=3" >> "$GITHUB_OUTPUT"
echo "leak=$OPENAI_API_KEY" >> "$GITHUB_OUTPUT"
echo "# Summary of $INPUT_SHARD with $OPENAI_API_KEY" >> "$GITHUB_STEP_SUMMARY"
env > "$TEST_DIR/env-$INPUT_SHARD"
"##;

#[test]
fn every_shard_is_a_job_with_its_own_environment() {
    let sim = Sim::new(DESCRIBE);
    let run = sim.finished(sim.dispatch("b1", 3));
    assert_eq!((run.conclusion.as_deref(), run.attempt), (Some("success"), 1));
    let names: Vec<&str> = run.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["shard 0", "shard 1", "shard 2", "finish"]);
    assert_eq!(run.jobs[3].conclusion.as_deref(), Some("skipped"));
    let job = &run.jobs[1];
    assert_eq!((job.exit_code, job.pid), (Some(0), None));
    assert_eq!(
        job.outputs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>(),
        ["answered=3"]
    );
    assert_eq!(job.summary, "# Summary of 1 with ***\n");
    assert_eq!(job.annotations, [("warning".to_owned(), "Careful: look here".to_owned())]);
    let environment = sim.read("env-1");
    for expected in [
        "GITHUB_ACTIONS=true",
        "INPUT_MODE=run",
        "GITHUB_REPOSITORY=acme/runner",
        "GITHUB_EVENT_NAME=workflow_dispatch",
        "GITHUB_JOB=run",
        "GITHUB_REF=refs/heads/main",
        "GITHUB_ACTOR=dispatcher",
    ] {
        assert!(environment.lines().any(|line| line == expected), "{expected} in {environment}");
    }
    assert!(environment.contains(&format!("GITHUB_API_URL={}\n", sim.github.urls().api_url)));
    assert!(!environment.contains("CARGO"), "nothing of the outer environment");

    let log = sim.client().get(&format!("/repos/{REPO}/actions/jobs/{}/logs", job.id));
    assert_eq!(log.status, 302);
    let log = sim.client_of("").get(&log.headers["location"]);
    let lines: Vec<&str> =
        log.text.lines().map(|line| line.split_once("Z ").map_or(line, |(_, text)| text)).collect();
    assert!(lines.contains(&"shard 1 of \"batch_id\":\"b1\" at attempt 1"), "{lines:#?}");
    for masked in [
        "the key is ***, the token ***",
        "::add-mask::***",
        "*** ::not a command::",
        "##[warning]look here",
        "  token: ***",
        "  OPENAI_API_KEY: ***",
    ] {
        assert!(lines.contains(&masked), "{masked} in {lines:#?}");
    }
    assert!(!sim.github.everything_shown().contains("sk-very-secret"));
    assert!(
        sim.client().get(&format!("/repos/{REPO}/actions/runs/{}/logs", run.id)).headers["location"]
            .contains("sig=")
    );
    let jobs = sim.client().get(&format!("/repos/{REPO}/actions/runs/{}/jobs?per_page=2", run.id));
    assert_eq!(
        (jobs.json["total_count"].as_u64(), jobs.json["jobs"].as_array().unwrap().len()),
        (Some(4), 2)
    );
    assert_eq!(jobs.json["jobs"][0]["steps"][1]["name"], "Run agentv/run-evals@v1");
}

#[test]
fn a_job_token_has_the_permissions_of_its_file_while_the_job_runs() {
    let script = r#"echo "$INPUT_TOKEN" > "$TEST_DIR/token.new"; mv "$TEST_DIR/token.new" "$TEST_DIR/token"
        until [ -e "$TEST_DIR/go" ]; do sleep 0.02; done"#;
    let sim = Sim::new(script);
    let run = sim.dispatch("b1", 1);
    sim.wait_for_file("token");
    let token = sim.read("token").trim().to_owned();
    let status = |token: &str, path: &str| sim.client_of(token).get(path).status;
    assert_eq!(status(&token, "/repos/acme/runner/actions/runs"), 200);
    assert_eq!(
        sim.client_of(&token).get("/repos/acme/runner/contents/.github").headers["x-ratelimit-limit"],
        "1000"
    );
    let cancel = format!("/repos/acme/runner/actions/runs/{run}/cancel");
    assert_eq!(
        sim.client_of(&token).post(&cancel, &serde_json::json!({})).message(),
        "403 Resource not accessible by integration"
    );
    sim.write("go", "");
    sim.finished(run);
    assert_eq!(status(&token, "/repos/acme/runner"), 401);
    assert_eq!(status(TOKEN, "/repos/acme/runner"), 200);
}

#[test]
fn a_failed_shard_fails_the_run_and_is_rerun_alone() {
    let script = r#"echo "$INPUT_SHARD $GITHUB_RUN_ATTEMPT" >> "$TEST_DIR/calls"
        [ "$INPUT_SHARD" = 1 ] && [ "$GITHUB_RUN_ATTEMPT" = 1 ] && exit 5; exit 0"#;
    let sim = Sim::new(script);
    let id = sim.dispatch("b1", 3);
    let run = sim.finished(id);
    assert_eq!(run.conclusion.as_deref(), Some("failure"));
    let failed = run.jobs.iter().find(|job| job.conclusion.as_deref() == Some("failure")).unwrap();
    assert_eq!((failed.name.as_str(), failed.exit_code), ("shard 1", Some(5)));
    assert!(failed.log.contains("##[error]Docker run failed with exit code 5"));
    let again = format!("/repos/{REPO}/actions/runs/{id}/rerun-failed-jobs");
    assert_eq!(sim.client().post(&again, &serde_json::json!({})).status, 201);
    let is_done = |runs: &[RunView]| runs[0].attempt == 2 && runs[0].status == "completed";
    let run = sim.github.until(is_done).remove(0);
    assert_eq!(run.conclusion.as_deref(), Some("success"));
    let mut calls: Vec<String> = sim.read("calls").lines().map(str::to_owned).collect();
    calls.sort();
    assert_eq!(calls, ["0 1", "1 1", "1 2", "2 1"]);
    assert_eq!(
        sim.client().post(&again, &serde_json::json!({})).message(),
        "403 This workflow run cannot be retried"
    );
    let jobs = sim.client().get(&format!("/repos/{REPO}/actions/runs/{id}/jobs"));
    let attempts: Vec<u64> = jobs.json["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["run_attempt"].as_u64().unwrap())
        .collect();
    assert_eq!(attempts, [1, 2, 1, 2]);
}

#[test]
fn more_than_sixteen_shards_have_a_finishing_job() {
    let sim = Sim::new(r#"echo "$INPUT_SHARD$INPUT_FINISH" >> "$TEST_DIR/calls""#);
    let run = sim.finished(sim.dispatch("b1", 17));
    assert_eq!(run.conclusion.as_deref(), Some("success"));
    let calls = sim.read("calls");
    assert_eq!((calls.lines().count(), calls.lines().last()), (18, Some("true")));
}

#[test]
fn concurrent_jobs_are_limited_by_the_number_of_machines() {
    let script = r#"touch "$TEST_DIR/running-$INPUT_SHARD"; ls "$TEST_DIR"/running-* | wc -l >> "$TEST_DIR/counts"
        sleep 0.1; rm "$TEST_DIR/running-$INPUT_SHARD""#;
    let sim = Sim::with(script, &["--max-jobs", "2"]);
    sim.finished(sim.dispatch("b1", 6));
    let counts = sim.read("counts");
    assert!(counts.lines().all(|count| count.trim().parse::<u32>().unwrap() <= 2), "{counts}");
    assert_eq!(counts.lines().count(), 6);
}

#[test]
fn runs_of_one_batch_queue_and_only_the_newest_stays_queued() {
    let sim = Sim::new(r#"touch "$TEST_DIR/started"; until [ -e "$TEST_DIR/go" ]; do sleep 0.02; done"#);
    let first = sim.dispatch("b1", 1);
    sim.wait_for_file("started");
    let second = sim.dispatch("b1", 1);
    sim.github.until(|runs| runs.iter().any(|run| run.id == second && run.status == "pending"));
    let third = sim.dispatch("b1", 1);
    let other = sim.dispatch("b2", 1);
    assert_eq!(sim.finished(second).conclusion.as_deref(), Some("cancelled"));
    sim.github.until(|runs| runs.iter().any(|run| run.id == other && run.status == "in_progress"));
    sim.github.until(|runs| runs.iter().any(|run| run.id == third && run.status == "pending"));
    sim.write("go", "");
    for run in [first, third, other] {
        assert_eq!(sim.finished(run).conclusion.as_deref(), Some("success"));
    }
}

/// The runs of `evaluate-cloud.yml` when four dispatches of one skill come at once: their conclusions, and how many ran side by side.
fn four_dispatches_of_a_skill(edit: impl Fn(String) -> String) -> (Vec<String>, usize) {
    let script =
        r#"echo "$GITHUB_RUN_ID" >> "$TEST_DIR/started"; until [ -e "$TEST_DIR/go" ]; do sleep 0.02; done"#;
    let sim = Sim::new(script);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/workflows/evaluate-cloud.yml");
    let template = std::fs::read_to_string(path).unwrap();
    let (head, _) = template.split_once("\njobs:\n").unwrap();
    let jobs = "jobs: { evaluate: { runs-on: x, steps: [{ uses: agentv/run-evals@v1 }] } }\n";
    sim.github.put_file(
        REPO,
        ".github/workflows/evaluate-cloud.yml",
        format!("{}\n{jobs}", edit(head.to_owned())),
    );
    let body = serde_json::json!({ "ref": "main", "inputs": { "skill_name": "refunds" }, "return_run_details": true });
    let dispatch = || {
        let answer = sim.client().post(&super::DISPATCHES.replace("run-evals", "evaluate-cloud"), &body);
        answer.json["workflow_run_id"].as_u64().unwrap_or_else(|| panic!("{}", answer.text))
    };
    let waits = |runs: &[RunView], id: u64| runs.iter().any(|run| run.id == id && run.status != "queued");
    let runs = [(); 4].map(|()| {
        let id = dispatch();
        sim.github.until(|runs| waits(runs, id));
        id
    });
    sim.wait_for_file("started");
    let statuses = sim.github.runs();
    let together = statuses.iter().filter(|run| run.status == "in_progress").count();
    sim.write("go", "");
    let conclusions = runs.map(|run| sim.finished(run).conclusion.unwrap_or_default());
    let started: Vec<u64> = sim.read("started").lines().map(|line| line.parse().unwrap()).collect();
    if together == 1 {
        assert!(started.is_sorted(), "not in the order of the dispatches: {started:?}");
    }
    (conclusions.to_vec(), together)
}

#[test]
fn every_dispatch_of_a_skill_in_the_cloud_gets_its_turn() {
    assert_eq!(four_dispatches_of_a_skill(|head| head), (vec!["success".to_owned(); 4], 1));
    // GitHub Enterprise Server does not know `queue`: without it GitHub cancels runs that wait, so the comment says to remove all of it.
    let without_queue = |head: String| head.replace("  queue: max\n", "");
    let (conclusions, _) = four_dispatches_of_a_skill(without_queue);
    assert_eq!(conclusions, ["success", "cancelled", "cancelled", "success"]);
    let without_concurrency = |head: String| head.split_once("concurrency:\n").unwrap().0.to_owned();
    assert_eq!(four_dispatches_of_a_skill(without_concurrency), (vec!["success".to_owned(); 4], 4));
}

#[test]
fn the_runner_is_this_projects_binary_by_default() {
    let github = MockGithub::start();
    github.runner_repo(REPO, &[]);
    let client = super::Client::new(&github.urls().api_url, TOKEN);
    // Its inputs are not a valid batch, so there is nothing to run.
    assert_eq!(client.post(super::DISPATCHES, &super::dispatch("b1", 1)).status, 200);
    let run = github.finished_run();
    assert_eq!(run.conclusion.as_deref(), Some("failure"));
    assert!(run.jobs[0].exit_code.is_some_and(|code| (1..=5).contains(&code)), "{run:#?}");
}

#[test]
fn a_workflow_can_call_the_reusable_workflow_of_the_action() {
    let script =
        r#"env > "$TEST_DIR/env"; grep -o '"shards":"[^"]*"' "$GITHUB_EVENT_PATH" >> "$TEST_DIR/calls""#;
    let sim = Sim::new(script);
    let caller = include_str!("../../../workflows/run-evals-caller.yml");
    sim.github.put_file(REPO, ".github/workflows/run-evals.yml", caller);
    let run = sim.finished(sim.dispatch("b1", 2));
    assert_eq!(run.conclusion.as_deref(), Some("success"), "{run:#?}");
    let names: Vec<&str> = run.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["run / shard 0", "run / shard 1", "run / finish"]);
    assert_eq!(sim.read("calls"), "\"shards\":\"[0,1]\"\n".repeat(2));
    assert!(sim.read("env").lines().any(|line| line == "OPENAI_API_KEY=sk-very-secret"));
    let weaker = caller.replace("contents: write", "contents: read");
    sim.github.put_file(REPO, ".github/workflows/run-evals.yml", weaker);
    assert_eq!(sim.finished(sim.dispatch("b2", 1)).conclusion.as_deref(), Some("startup_failure"));
    let reason = &sim.github.violations()[0].reason;
    assert!(
        reason.contains("is requesting 'contents: write', but is only allowed 'contents: read'"),
        "{reason}"
    );
    sim.github.forget_violations();
    let undeclared = caller.replace("      OPENAI_API_KEY:", "      MY_KEY:");
    sim.github.put_file(REPO, ".github/workflows/run-evals.yml", undeclared);
    assert_eq!(sim.finished(sim.dispatch("b3", 1)).conclusion.as_deref(), Some("startup_failure"));
    let reason = &sim.github.violations()[0].reason;
    assert!(reason.contains("Invalid secret, MY_KEY is not defined in the referenced workflow"), "{reason}");
    sim.github.forget_violations();
}

#[test]
fn another_program_can_run_the_whole_workflow() {
    let dir = crate::support::temporary();
    let program = dir.path().join("executor");
    let script = "#!/bin/bash\ngrep -o '\"batch_id\":\"b1\"' \"$1/event.json\"\ngrep -o '\"workflow\":\"[^\"]*\"' \"$1/env.json\"\nexit 3\n";
    crate::support::write_program(&program, script);
    let github = MockGithub::start_with(&["--executor", program.to_str().unwrap()]);
    github.runner_repo(REPO, &[]);
    let client = super::Client::new(&github.urls().api_url, TOKEN);
    assert_eq!(client.post(super::DISPATCHES, &super::dispatch("b1", 1)).status, 200);
    let run = github.finished_run();
    assert_eq!((run.conclusion.as_deref(), run.jobs[0].exit_code), (Some("failure"), Some(3)));
    assert_eq!(run.jobs[0].log, "\"batch_id\":\"b1\"\n\"workflow\":\".github/workflows/run-evals.yml\"\n");
}
