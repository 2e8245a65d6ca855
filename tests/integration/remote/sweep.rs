//! Every single response of GitHub can be lost, truncated, late or an error: the k-th request of a run, for every k.
//!
//! A run is repeated with one fault at one position, whatever that request is: to the API, to git, to the artifact service or to
//! its store, from the dispatcher or from a shard. It must end like a run without faults: with all responses, one workflow run, and
//! nothing paid twice. `cargo test` tries positions all over the run, each with one of the faults; `RUN_EVALS_SWEEP=all` tries every
//! fault at every position.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::support::github::{Fault, MockGithub, What, Wrong};
use crate::support::stage::Stage;
use crate::support::{CLOCK_FACTOR, Output};

const REQUESTS: usize = 8;
/// A rate limit, as GitHub reports it.
const LIMIT: &str = r#"{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}"#;

/// How many positions of a setup are tried by default.
const MAX_SCENARIOS: usize = 12;

/// What can happen to a response.
const FAULTS: [&str; 7] = ["dropped", "lost", "torn", "late", "403", "429", "502"];

/// How a batch is run.
#[derive(Debug, Clone, Copy)]
struct Setup {
    shards: usize,
    artifacts: bool,
}

/// A run with one fault.
#[derive(Debug, Clone, Copy)]
struct Scenario {
    setup: Setup,
    position: usize,
    fault: &'static str,
}

impl Setup {
    fn stage(self) -> Stage {
        let machine = [("RUN_EVALS_CLOCK_FACTOR", CLOCK_FACTOR)];
        let stage = Stage::on(MockGithub::start(), &[], &machine);
        stage.workspace.write_requests(REQUESTS);
        let results = if self.artifacts { "results_artifact: true" } else { "results_branch: eval-results" };
        // Few polls, so that most positions are other requests.
        stage.target(&format!("shards: {}\n{results}\npoll_interval: 20s", self.shards));
        stage
    }

    /// How many requests a run makes without faults.
    fn positions(self) -> usize {
        let stage = self.stage();
        stage.dispatch(&[]).expect(0);
        stage.github.requests().len()
    }
}

impl Scenario {
    fn fault(self) -> Fault {
        let limited = |status| Wrong::Status { status, body: LIMIT.to_owned(), headers: BTreeMap::new() };
        let (after, answer) = match self.fault {
            "dropped" => (false, Wrong::Dropped),
            "lost" => (true, Wrong::Dropped),
            "torn" => (false, Wrong::Torn),
            "late" => (false, Wrong::Late { ms: 1500 }),
            "403" => (false, limited(403)),
            "429" => (false, limited(429)),
            _ => (
                false,
                Wrong::Status { status: 502, body: "<html></html>".to_owned(), headers: BTreeMap::new() },
            ),
        };
        Fault { what: What::AnyAnswer { after, answer }, times: Some(1), skip: self.position as u64 - 1 }
    }

    /// What is wrong with the end of the run, if anything.
    fn problem(self) -> Option<String> {
        let stage = self.setup.stage();
        stage.github.add_fault(&self.fault());
        let output = stage.dispatch(&["--grace", "10s"]);
        let problem = problem(&stage, &output)?;
        let request = stage.github.requests().get(self.position - 1).map(|request| request.route.clone());
        // Violations do not matter any more.
        stage.github.forget_violations();
        let logs: Vec<String> =
            stage.github.runs().iter().flat_map(|run| &run.jobs).map(|job| job.log.clone()).collect();
        Some(format!(
            "{self:?} at `{}`: {problem}\n{}\n{}",
            request.unwrap_or_default(),
            output.stderr,
            logs.join("\n")
        ))
    }
}

fn problem(stage: &Stage, output: &Output) -> Option<String> {
    if output.code != Some(0) {
        return Some(format!("exit {:?}", output.code));
    }
    let rows = stage.workspace.rows("out/responses.jsonl");
    if rows.len() != REQUESTS || rows.iter().any(|row| row.get("error").is_some()) {
        return Some(format!("{rows:?}"));
    }
    let served = stage.llm.served();
    if served.len() != REQUESTS || served.values().any(|times| *times != 1) {
        return Some(format!("paid {served:?}"));
    }
    let runs = stage.github.runs().len();
    (runs != 1).then(|| format!("{runs} workflow runs"))
}

/// Runs all scenarios, several at a time, and returns the failures.
fn run_all(scenarios: &[Scenario], at_once: usize) -> Vec<(Scenario, String)> {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(problem) = scenario.problem() {
                        wrong.lock().unwrap().push((*scenario, problem));
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

fn sweep(setup: Setup, offset: usize) {
    let positions = setup.positions();
    let all = std::env::var("RUN_EVALS_SWEEP").is_ok_and(|value| value == "all");
    let scenarios: Vec<Scenario> = if all {
        let at = |position| FAULTS.map(|fault| Scenario { setup, position, fault });
        (1..=positions).flat_map(at).collect()
    } else {
        let spread = (1..=positions).step_by(positions.div_ceil(MAX_SCENARIOS));
        let faults = FAULTS.iter().cycle().skip(offset);
        spread.zip(faults).map(|(position, fault)| Scenario { setup, position, fault }).collect()
    };
    let started = Instant::now();
    let wrong = run_all(&scenarios, if all { 6 } else { 2 });
    let mut summary = format!("{setup:?}: {positions} positions, {} scenarios", scenarios.len());
    let _ = write!(summary, ", {} wrong, {} s", wrong.len(), started.elapsed().as_secs());
    let _ = writeln!(std::io::stderr(), "{summary}");
    let told: Vec<&str> = wrong.iter().map(|(_, problem)| problem.as_str()).collect();
    assert!(wrong.is_empty(), "{summary}\n\n{}", told.join("\n\n"));
}

#[test]
fn any_answer_may_fail_with_one_shard_and_a_branch() {
    sweep(Setup { shards: 1, artifacts: false }, 0);
}

#[test]
fn any_answer_may_fail_with_one_shard_and_artifacts() {
    sweep(Setup { shards: 1, artifacts: true }, 1);
}

#[test]
fn any_answer_may_fail_with_four_shards_and_a_branch() {
    sweep(Setup { shards: 4, artifacts: false }, 2);
}

#[test]
fn any_answer_may_fail_with_four_shards_and_artifacts() {
    sweep(Setup { shards: 4, artifacts: true }, 3);
}
