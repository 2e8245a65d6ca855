//! Nothing is lost: the runner is killed at random moments and resumed, on the same and on another machine.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::{MockLlm, Workspace};

const KILLS: u64 = 50;
const CONCURRENCY: u64 = 16;
/// More requests than fifty short runs can answer.
const REQUESTS: usize = 3000;

/// Starts or resumes the batch: with the same command where the requests are, otherwise as a runner.
fn start(workspace: &Workspace) -> Child {
    let dispatch = ["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out", "-q"];
    let args = if workspace.path("requests.jsonl").exists() { &dispatch[..] } else { &["run", "-q"] };
    let more = ["--batch-id", "b1", "--max-concurrency", &CONCURRENCY.to_string()];
    let mut command = workspace.command(&[args, &more].concat());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills the run at `KILLS` random moments while it makes calls, then lets it finish. `next` gets the workspace before each start.
fn kill_and_resume(llm: &MockLlm, requests: usize, mut next: impl FnMut(Workspace) -> Workspace) {
    let mut workspace = Workspace::new();
    workspace.write_target(&llm.base_url(), "");
    workspace.write_requests(requests);
    let mut dice = fastrand::Rng::with_seed(11);
    for kill in 0..KILLS {
        workspace = next(workspace);
        let served = llm.counter("requests");
        let mut child = start(&workspace);
        let deadline = Instant::now() + Duration::from_secs(30);
        while llm.counter("requests") == served {
            assert!(Instant::now() < deadline, "no call was made");
            assert!(
                child.try_wait().unwrap().is_none(),
                "it ended after {kill} kills: more requests are needed"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(dice.u64(0..60_000)));
        child.kill().unwrap();
        assert_eq!(
            child.wait().unwrap().signal(),
            Some(9),
            "it ended before kill {kill}: more requests are needed"
        );
    }
    workspace = next(workspace);
    let status = start(&workspace).wait().unwrap();
    assert_eq!(status.code(), Some(0));
    workspace.run(&["collect", "b1", "--output", "out"]).expect(0);
    check_all_answered(&workspace, "out", requests);
    let served = llm.served();
    assert_eq!(served.len(), requests);
    let paid: u64 = served.values().sum();
    let most = requests as u64 + KILLS * CONCURRENCY;
    assert!(paid > requests as u64, "no kill hit a call in flight");
    assert!(
        paid <= most,
        "{paid} calls for {requests} requests and {KILLS} kills with {CONCURRENCY} in flight"
    );
}

fn check_all_answered(workspace: &Workspace, dir: &str, requests: usize) {
    let rows = workspace.rows(&format!("{dir}/responses.jsonl"));
    let ids: Vec<_> = rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    let expected: Vec<_> = (0..requests).map(|i| format!("r{i}")).collect();
    assert_eq!(ids, expected, "every id exactly once, in request order");
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(row["output"][0]["content"], format!("message {i}"), "{row}");
    }
}

#[test]
fn fifty_kills_lose_nothing_and_pay_little_twice() {
    let llm = MockLlm::start(&["--latency-ms", "20", "--jitter-ms", "10"]);
    kill_and_resume(&llm, REQUESTS, |workspace| workspace);
}

#[test]
fn a_run_killed_while_planning_publishing_or_collecting_still_finishes() {
    let llm = MockLlm::start(&[]);
    let workspace = Workspace::new();
    workspace.write_target(&llm.base_url(), "");
    workspace.write_requests(30);
    let run = |id: &str| {
        let args = [
            "dispatch",
            "--requests",
            "requests.jsonl",
            "--target",
            "llm",
            "--output",
            "out",
            "-q",
            "--batch-id",
        ];
        workspace
            .command(&[&args[..], &[id]].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    // The minimum of several runs, so that most kills come before the end even on a busy machine.
    let time = |id: &str| {
        let started = Instant::now();
        assert_eq!(run(id).wait().unwrap().code(), Some(0));
        u64::try_from(started.elapsed().as_micros()).unwrap()
    };
    let whole = ["w1", "w2", "w3"].map(time).into_iter().min().unwrap();
    let mut dice = fastrand::Rng::with_seed(5);
    let mut killed = 0;
    for round in 0..30 {
        let id = format!("b{round}");
        for _ in 0..2 {
            let mut child = run(&id);
            std::thread::sleep(Duration::from_micros(dice.u64(0..whole)));
            child.kill().unwrap();
            killed += u32::from(child.wait().unwrap().signal() == Some(9));
        }
        assert_eq!(run(&id).wait().unwrap().code(), Some(0), "round {round}");
        check_all_answered(&workspace, "out", 30);
        workspace.run(&["collect", &id, "--output", "collected"]).expect(0);
        check_all_answered(&workspace, "collected", 30);
    }
    assert!(killed > 20, "only {killed} kills came before the end");
}

#[test]
fn another_machine_resumes_with_only_the_exchange() {
    let llm = MockLlm::start(&["--latency-ms", "20", "--jitter-ms", "10"]);
    kill_and_resume(&llm, REQUESTS, |old| {
        if !old.path(".run-evals/exchange.git").exists() {
            return old;
        }
        // The new machine has its own target, and gets nothing else from the old one.
        let new = Workspace::new();
        new.write("targets.yaml", old.read("targets.yaml"));
        std::fs::create_dir_all(new.path(".run-evals")).unwrap();
        let copied = std::process::Command::new("cp")
            .arg("-R")
            .args([old.path(".run-evals/exchange.git"), new.path(".run-evals/exchange.git")])
            .status();
        assert!(copied.unwrap().success());
        new
    });
}

#[test]
fn a_clone_of_the_exchange_has_the_published_responses() {
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
    assert_eq!(llm.counter("ok"), 40, "nothing is paid for twice");
    assert_eq!(new.rows("out/responses.jsonl").len(), 40);
}

#[test]
fn sigterm_ends_the_run_within_five_seconds_and_keeps_all_responses() {
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

#[test]
fn a_deleted_results_branch_is_published_again() {
    let llm = MockLlm::start(&[]);
    let workspace = Workspace::new();
    workspace.write_target(&llm.base_url(), "");
    workspace.write_requests(20);
    workspace.dispatch(&["--batch-id", "b1", "--max-requests", "15"]).expect(5);
    let exchange = workspace.path(".run-evals/exchange.git");
    let git = |args: &[&str]| {
        std::process::Command::new("git").arg("-C").arg(&exchange).args(args).output().unwrap()
    };
    assert!(git(&["branch", "-q", "-D", "eval-results/b1"]).status.success());
    std::fs::remove_dir_all(exchange.join("tips")).unwrap();
    workspace.dispatch(&["--batch-id", "b1"]).expect(0);
    check_all_answered(&workspace, "out", 20);
    assert_eq!(llm.counter("ok"), 20, "the journal had fifteen of them");
    assert!(git(&["cat-file", "-e", "eval-results/b1:results/shard-000/0001.jsonl"]).status.success());

    workspace.dispatch(&["--batch-id", "b2", "--max-requests", "15"]).expect(5);
    for branch in ["eval-results/b2", "eval-batch/b2"] {
        assert!(git(&["branch", "-q", "-D", branch]).status.success());
    }
    std::fs::remove_dir_all(exchange.join("tips")).unwrap();
    workspace.write_requests(21);
    let output = workspace.dispatch(&["--batch-id", "b2"]).expect(3);
    assert!(output.stderr.contains("the journal of `b2` belongs to another batch"), "{}", output.stderr);
}
