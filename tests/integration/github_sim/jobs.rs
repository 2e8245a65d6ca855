//! Jobs that run: their environment, their log, their files, their order.

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
fn every_shard_is_a_leg_with_its_own_environment() {
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
fn a_job_may_do_what_its_file_says_and_only_while_it_runs() {
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
fn a_failed_leg_fails_the_run_and_is_run_again_alone() {
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
fn above_sixteen_legs_a_last_job_finishes() {
    let sim = Sim::new(r#"echo "$INPUT_SHARD$INPUT_FINISH" >> "$TEST_DIR/calls""#);
    let run = sim.finished(sim.dispatch("b1", 17));
    assert_eq!(run.conclusion.as_deref(), Some("success"));
    let calls = sim.read("calls");
    assert_eq!((calls.lines().count(), calls.lines().last()), (18, Some("true")));
}

#[test]
fn no_more_jobs_run_at_once_than_there_are_machines() {
    let script = r#"touch "$TEST_DIR/running-$INPUT_SHARD"; ls "$TEST_DIR"/running-* | wc -l >> "$TEST_DIR/counts"
        sleep 0.1; rm "$TEST_DIR/running-$INPUT_SHARD""#;
    let sim = Sim::with(script, &["--max-jobs", "2"]);
    sim.finished(sim.dispatch("b1", 6));
    let counts = sim.read("counts");
    assert!(counts.lines().all(|count| count.trim().parse::<u32>().unwrap() <= 2), "{counts}");
    assert_eq!(counts.lines().count(), 6);
}

#[test]
fn runs_of_one_batch_wait_for_each_other_and_only_the_newest_waits() {
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

#[test]
fn the_runner_is_this_projects_own_binary_unless_another_is_given() {
    let github = MockGithub::start();
    github.runner_repo(REPO, &[]);
    let client = super::Client::new(&github.urls().api_url, TOKEN);
    // What it says is no batch, so there is nothing that it could do.
    assert_eq!(client.post(super::DISPATCHES, &super::dispatch("b1", 1)).status, 200);
    let run = github.finished_run();
    assert_eq!(run.conclusion.as_deref(), Some("failure"));
    assert!(run.jobs[0].exit_code.is_some_and(|code| (1..=5).contains(&code)), "{run:#?}");
}

#[test]
fn a_workflow_can_call_the_one_that_is_released_with_the_action() {
    let script =
        r#"env > "$TEST_DIR/env"; grep -o '"shards":"[^"]*"' "$GITHUB_EVENT_PATH" >> "$TEST_DIR/calls""#;
    let sim = Sim::new(script);
    let ours =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/workflows/run-evals.yml")).unwrap();
    let (head, _) = ours.split_once("\njobs:\n").unwrap();
    let jobs = "jobs:
  evals:
    uses: agentv/run-evals/.github/workflows/runner.yml@v1
    permissions: { actions: read, contents: write }
    secrets: { OPENAI_API_KEY: '${{ secrets.OPENAI_API_KEY }}' }
";
    sim.github.put_file(REPO, ".github/workflows/run-evals.yml", format!("{head}\n{jobs}"));
    let run = sim.finished(sim.dispatch("b1", 2));
    assert_eq!(run.conclusion.as_deref(), Some("success"), "{run:#?}");
    let names: Vec<&str> = run.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["evals / shard 0", "evals / shard 1", "evals / finish"]);
    assert_eq!(sim.read("calls"), "\"shards\":\"[0,1]\"\n".repeat(2));
    assert!(sim.read("env").lines().any(|line| line == "OPENAI_API_KEY=sk-very-secret"));
    sim.github.put_file(
        REPO,
        ".github/workflows/run-evals.yml",
        format!("{head}\n{}", jobs.replace("contents: write", "contents: read")),
    );
    assert_eq!(sim.finished(sim.dispatch("b2", 1)).conclusion.as_deref(), Some("startup_failure"));
    let reason = &sim.github.violations()[0].reason;
    assert!(
        reason.contains("is requesting 'contents: write', but is only allowed 'contents: read'"),
        "{reason}"
    );
    sim.github.forget_violations();
}

#[test]
fn another_program_can_run_the_whole_workflow() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("executor");
    let script = "#!/bin/bash\ngrep -o '\"batch_id\":\"b1\"' \"$1/event.json\"\ngrep -o '\"workflow\":\"[^\"]*\"' \"$1/env.json\"\nexit 3\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let github = MockGithub::start_with(&["--executor", program.to_str().unwrap()]);
    github.runner_repo(REPO, &[]);
    let client = super::Client::new(&github.urls().api_url, TOKEN);
    assert_eq!(client.post(super::DISPATCHES, &super::dispatch("b1", 1)).status, 200);
    let run = github.finished_run();
    assert_eq!((run.conclusion.as_deref(), run.jobs[0].exit_code), (Some("failure"), Some(3)));
    assert_eq!(run.jobs[0].log, "\"batch_id\":\"b1\"\n\"workflow\":\".github/workflows/run-evals.yml\"\n");
}
