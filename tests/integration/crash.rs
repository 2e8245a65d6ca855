//! Nothing is lost: the runner is killed at random moments and resumed, here and on another machine.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::{MockLlm, Workspace};

const KILLS: u64 = 50;
const CONCURRENCY: u64 = 16;

fn start(workspace: &Workspace) -> Child {
    let args = ["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out", "-q"];
    let more = ["--batch-id", "b1", "--max-concurrency", &CONCURRENCY.to_string()];
    let mut command = workspace.command(&[&args[..], &more].concat());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills the run at `KILLS` random moments, then lets it finish; `moved` gets the workspace before each start.
fn kill_and_resume(llm: &MockLlm, requests: usize, mut next: impl FnMut(Workspace) -> Workspace) {
    let mut workspace = Workspace::new();
    workspace.write_target(&llm.base_url(), "");
    workspace.write_requests(requests);
    let mut dice = fastrand::Rng::with_seed(11);
    let mut in_flight = 0;
    let mut kills = 0;
    while kills < KILLS {
        workspace = next(workspace);
        let mut child = start(&workspace);
        let until = Instant::now() + Duration::from_micros(dice.u64(1_000..150_000));
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if Instant::now() >= until {
                break None;
            }
            std::thread::sleep(Duration::from_micros(500));
        };
        if let Some(status) = ended {
            panic!("it ended after {kills} kills: {status}; more requests are needed");
        }
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        kills += 1;
        in_flight += CONCURRENCY;
    }
    workspace = next(workspace);
    let status = start(&workspace).wait().unwrap();
    assert_eq!(status.code(), Some(0));

    let rows = workspace.rows("out/responses.jsonl");
    let ids: Vec<_> = rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    let expected: Vec<_> = (0..requests).map(|i| format!("r{i}")).collect();
    assert_eq!(ids, expected, "every id exactly once, in request order");
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(row["output"][0]["content"], format!("message {i}"), "{row}");
    }
    let paid: u64 = llm.served().values().sum();
    assert!(
        paid <= requests as u64 + in_flight,
        "{paid} calls for {requests} requests, {in_flight} in flight"
    );
    assert_eq!(llm.served().keys().collect::<BTreeSet<_>>().len(), requests);
}

#[test]
fn killed_at_fifty_moments_nothing_is_lost_and_little_is_paid_twice() {
    let llm = MockLlm::start(&["--latency-ms", "20", "--jitter-ms", "10"]);
    kill_and_resume(&llm, 6000, |workspace| workspace);
}

#[test]
fn another_machine_goes_on_with_nothing_but_the_exchange() {
    let llm = MockLlm::start(&["--latency-ms", "20", "--jitter-ms", "10"]);
    kill_and_resume(&llm, 6000, |old| {
        let new = Workspace::new();
        for name in ["targets.yaml", "requests.jsonl"] {
            new.write(name, old.read(name));
        }
        if old.path(".run-evals/exchange.git").exists() {
            std::fs::create_dir_all(new.path(".run-evals")).unwrap();
            let copied = std::process::Command::new("cp")
                .arg("-R")
                .args([old.path(".run-evals/exchange.git"), new.path(".run-evals/exchange.git")])
                .status();
            assert!(copied.unwrap().success());
        }
        new
    });
}

#[test]
fn a_clone_of_the_exchange_carries_what_was_published() {
    let llm = MockLlm::start(&[]);
    let old = Workspace::new();
    old.write_target(&llm.base_url(), "");
    old.write_requests(40);
    old.dispatch(&["--batch-id", "b1", "--max-requests", "25"]).expect(5);
    let new = Workspace::new();
    for name in ["targets.yaml", "requests.jsonl"] {
        new.write(name, old.read(name));
    }
    let clone = std::process::Command::new("git")
        .args(["clone", "-q", "--mirror"])
        .args([old.path(".run-evals/exchange.git"), new.path(".run-evals/exchange.git")])
        .status();
    assert!(clone.unwrap().success());
    new.dispatch(&["--batch-id", "b1"]).expect(0);
    assert_eq!(llm.counter("ok"), 40, "nothing is paid twice");
    assert_eq!(new.rows("out/responses.jsonl").len(), 40);
}

#[test]
fn sigterm_ends_the_run_within_five_seconds_with_all_that_arrived() {
    for signal in ["-TERM", "-INT"] {
        let llm = MockLlm::start(&["--latency-ms", "200"]);
        let workspace = Workspace::new();
        workspace.write_target(&llm.base_url(), "");
        workspace.write_requests(2000);
        let mut child = start(&workspace);
        let deadline = Instant::now() + Duration::from_secs(20);
        while llm.counter("ok") < 50 {
            assert!(Instant::now() < deadline, "the run did not get going");
            std::thread::sleep(Duration::from_millis(5));
        }
        let asked = Instant::now();
        let pid = child.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let status = child.wait().unwrap();
        assert!(asked.elapsed() < Duration::from_secs(5), "{signal}: {:?}", asked.elapsed());
        assert_eq!(status.code(), Some(5), "{signal}");

        let rows = workspace.rows("out/responses.jsonl");
        assert_eq!(rows.len(), 2000, "every request has a row");
        let answered = rows.iter().filter(|row| row.get("output").is_some()).count() as u64;
        assert_eq!(answered, llm.counter("ok"), "{signal}: nothing that had arrived is missing");
        let not_run = rows.iter().filter(|row| row["error"]["kind"] == "not_run").count() as u64;
        assert_eq!(answered + not_run, 2000);

        assert_eq!(start(&workspace).wait().unwrap().code(), Some(0), "{signal}: the same command resumes");
        assert_eq!(llm.counter("ok"), 2000, "{signal}: nothing is paid twice");
    }
}
