//! What is measured, and the goals.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::client::{self, BEFORE, Client, Outcome};
use crate::keyless;
use crate::server::{self, Counters, Server};
use crate::table::{self, Goal};

/// All of them, in the order in which they run.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "server",
        about: "what the mock server itself costs: 20,000 requests without latency",
        run: server_cost,
    },
    Scenario { name: "ideal64", about: "20,000 requests of 50 ms, 64 at once", run: ideal_64 },
    Scenario { name: "ideal256", about: "20,000 requests of 50 ms, 256 at once", run: ideal_256 },
    Scenario { name: "big", about: "200,000 requests of 0 to 5 ms, 256 at once: memory", run: big },
    Scenario { name: "startup", about: "one request without latency, 20 times", run: startup },
    Scenario {
        name: "ratelimited",
        about: "2,000 requests of 50 ms, 64 at once, 10 % answered 429 with `Retry-After: 1`",
        run: rate_limited,
    },
    Scenario {
        name: "faulty",
        about: "the same, and 2 % answered 503 and 1 % without an answer",
        run: faulty,
    },
    Scenario { name: "learn20", about: "400 requests at 64 to a server that takes 20/s", run: learn_20 },
    Scenario { name: "learn200", about: "4,000 requests at 64 to a server that takes 200/s", run: learn_200 },
    Scenario {
        name: "keyless",
        about: "a short-lived token next to a static key, and a signature next to a bearer key: 20,000 requests, 64 at once",
        run: keyless::compare,
    },
    Scenario {
        name: "before",
        about: "the binary that `RUN_EVALS_BEFORE` names and this one in turns: 20,000 requests of 50 ms and of 0 ms",
        run: before,
    },
];

const LATENCY_MS: usize = 50;

const PEAK_GOAL_MEGABYTES: f64 = 64.0;

/// Something to measure.
pub(crate) struct Scenario {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Its load in one line.
    pub(crate) about: &'static str,
    /// Measures it and prints its rows.
    pub(crate) run: fn(&Bench, &str) -> Result<()>,
}

/// What all scenarios share.
pub(crate) struct Bench {
    quick: bool,
    only_minimal: bool,
    server: PathBuf,
    directory: TempDir,
}

/// One run of one client against a new server.
pub(crate) struct Run {
    /// Who ran.
    pub(crate) client: Client,
    /// What it wrote and what it cost.
    pub(crate) outcome: Outcome,
    /// How many requests it had.
    pub(crate) count: usize,
    counters: Counters,
    server_cpu_us: f64,
}

impl Bench {
    /// Builds the mock server and creates a directory for files.
    pub(crate) fn new(quick: bool, only_minimal: bool) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("fanout-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        Ok(Self { quick, only_minimal, server: server::build("mock_llm")?, directory })
    }

    /// The mock server.
    pub(crate) fn server(&self) -> &PathBuf {
        &self.server
    }

    /// A new directory for files.
    pub(crate) fn new_directory(&self) -> Result<TempDir> {
        Ok(tempfile::tempdir_in(self.directory.path())?)
    }

    pub(crate) fn count(&self, full: usize) -> usize {
        if self.quick { full / 10 } else { full }
    }

    /// Whether the program itself runs.
    fn both(&self) -> bool {
        !self.only_minimal
    }

    /// The client that a scenario without a comparison measures.
    fn main_client(&self) -> Client {
        if self.only_minimal { Client::Minimal } else { Client::RunEvals }
    }

    fn run(&self, client: Client, server: &str, count: usize, concurrency: usize) -> Result<Run> {
        let requests = self.directory.path().join(format!("requests-{count}.jsonl"));
        if !requests.exists() {
            client::write_requests(&requests, count).context("cannot write the requests")?;
        }
        let directory = tempfile::tempdir_in(self.directory.path())?;
        let server = Server::start(&self.server, &format!("--exit-with-stdin {server}"))?;
        let outcome = client.run(directory.path(), &server.base_url(), &requests, count, concurrency)?;
        let server_cpu_us = server.cpu().map_or(f64::NAN, |cpu| cpu.as_secs_f64() * 1e6);
        let counters = server.counters()?;
        directory.close()?;
        Ok(Run { client, outcome, count, counters, server_cpu_us })
    }
}

impl Run {
    /// Seconds from start to end.
    pub(crate) fn wall(&self) -> f64 {
        self.outcome.measured.wall.as_secs_f64()
    }

    /// Microseconds of CPU time for each request.
    pub(crate) fn cpu_per_request(&self) -> f64 {
        self.outcome.measured.cpu.as_secs_f64() * 1e6 / number(self.count)
    }

    /// The most memory that the client held.
    pub(crate) fn peak_megabytes(&self) -> f64 {
        number(self.outcome.measured.peak_memory) / 1e6
    }

    fn memory_goal(&self) -> Goal {
        Goal { what: "peak MB", value: self.peak_megabytes(), limit: PEAK_GOAL_MEGABYTES }
    }

    /// The share of requests without an answer.
    fn unanswered_goal(&self) -> Goal {
        Goal { what: "unanswered", value: number(self.count - self.outcome.answered), limit: 0.0 }
    }

    /// How long the server really delayed an answer.
    fn mean_latency(&self) -> String {
        format!("mean latency {:.2} ms", number(self.counters.held_us) / 1e3 / number(self.counters.ok))
    }
}

fn server_cost(bench: &Bench, name: &str) -> Result<()> {
    let run = bench.run(Client::Minimal, "", bench.count(20_000), 64)?;
    let cost =
        Goal { what: "server CPU µs/req", value: run.server_cpu_us / number(run.counters.ok), limit: 20.0 };
    let rate = format!("{:.0} requests/s", number(run.count) / run.wall());
    Ok(table::print_row(name, &run, &[cost], &rate)?)
}

fn ideal_64(bench: &Bench, name: &str) -> Result<()> {
    ideal(bench, name, 64, 1.08)
}

fn ideal_256(bench: &Bench, name: &str) -> Result<()> {
    ideal(bench, name, 256, 1.15)
}

fn ideal(bench: &Bench, name: &str, concurrency: usize, limit: f64) -> Result<()> {
    let count = bench.count(20_000);
    let ideal = number(count * LATENCY_MS) / 1000.0 / number(concurrency);
    let server = format!("--latency-ms {LATENCY_MS}");
    let wall_goal = |run: &Run| Goal { what: "wall/ideal", value: run.wall() / ideal, limit };
    let minimal = bench.run(Client::Minimal, &server, count, concurrency)?;
    table::print_row(name, &minimal, &[wall_goal(&minimal)], &minimal.mean_latency())?;
    if bench.both() {
        let run = bench.run(Client::RunEvals, &server, count, concurrency)?;
        let cpu = run.cpu_per_request() / minimal.cpu_per_request();
        let goals = [
            wall_goal(&run),
            Goal { what: "CPU/minimal", value: cpu, limit: 2.0 },
            run.memory_goal(),
            run.unanswered_goal(),
        ];
        table::print_row(name, &run, &goals, &run.mean_latency())?;
    }
    Ok(())
}

fn big(bench: &Bench, name: &str) -> Result<()> {
    let run = bench.run(bench.main_client(), "--jitter-ms 5", bench.count(200_000), 256)?;
    let rate = format!("{:.0} requests/s", number(run.count) / run.wall());
    Ok(table::print_row(name, &run, &[run.memory_goal(), run.unanswered_goal()], &rate)?)
}

fn startup(bench: &Bench, name: &str) -> Result<()> {
    let times = if bench.quick { 5 } else { 20 };
    let mut runs = Vec::with_capacity(times);
    for _ in 0..times {
        runs.push(bench.run(bench.main_client(), "", 1, 1)?);
    }
    runs.sort_by(|one, other| one.wall().total_cmp(&other.wall()));
    let (best, median) = (&runs[0], &runs[times / 2]);
    let goal = Goal { what: "median ms", value: median.wall() * 1e3, limit: 60.0 };
    let note = format!("best {:.1} ms, worst {:.1} ms", best.wall() * 1e3, runs[times - 1].wall() * 1e3);
    // One run with problems is enough to report.
    let shown = runs.iter().find(|run| run.outcome.trouble.is_some()).unwrap_or(median);
    Ok(table::print_row(name, shown, &[goal, shown.unanswered_goal()], &note)?)
}

fn rate_limited(bench: &Bench, name: &str) -> Result<()> {
    with_faults(bench, name, "--rate-429 0.1 --retry-after 1")
}

fn faulty(bench: &Bench, name: &str) -> Result<()> {
    with_faults(bench, name, "--rate-429 0.1 --retry-after 1 --rate-5xx 0.02 --rate-drop 0.01")
}

fn with_faults(bench: &Bench, name: &str, faults: &str) -> Result<()> {
    let count = bench.count(2_000);
    let server = format!("--latency-ms {LATENCY_MS} --seed 1 {faults}");
    let minimal = bench.run(Client::Minimal, &server, count, 64)?;
    table::print_row(name, &minimal, &[], &refusals(&minimal))?;
    if bench.both() {
        let run = bench.run(Client::RunEvals, &server, count, 64)?;
        let wall = Goal { what: "wall/minimal", value: run.wall() / minimal.wall(), limit: 0.8 };
        table::print_row(name, &run, &[wall, run.unanswered_goal()], &refusals(&run))?;
    }
    Ok(())
}

fn learn_20(bench: &Bench, name: &str) -> Result<()> {
    learn(bench, name, 400, 20)
}

fn learn_200(bench: &Bench, name: &str) -> Result<()> {
    learn(bench, name, 4_000, 200)
}

fn learn(bench: &Bench, name: &str, full: usize, per_second: usize) -> Result<()> {
    let count = bench.count(full);
    let ideal = number(count) / number(per_second);
    for mode in ["sliding", "fixed", "bucket"] {
        let server = format!("--latency-ms {LATENCY_MS} --limit-per-second {per_second} --limit-mode {mode}");
        let run = bench.run(bench.main_client(), &server, count, 64)?;
        let refused = number(run.counters.s429) / number(run.counters.ok);
        let goals = [
            Goal { what: "wall/ideal", value: run.wall() / ideal, limit: 1.10 },
            Goal { what: "429/answer", value: refused, limit: 0.2 },
            run.unanswered_goal(),
        ];
        table::print_row(&format!("{name} {mode}"), &run, &goals, "")?;
    }
    Ok(())
}

fn before(bench: &Bench, name: &str) -> Result<()> {
    const ROUNDS: usize = 5;
    if std::env::var_os(BEFORE).is_none() {
        return Ok(());
    }
    for (load, server) in [("50ms", "--latency-ms 50"), ("0ms", "")] {
        let [mut old, mut new] = [const { Vec::new() }; 2];
        for _ in 0..ROUNDS {
            old.push(bench.run(Client::Before, server, bench.count(20_000), 64)?);
            new.push(bench.run(Client::RunEvals, server, bench.count(20_000), 64)?);
        }
        let median = |runs: &mut Vec<Run>, of: fn(&Run) -> f64| {
            runs.sort_by(|one, other| of(one).total_cmp(&of(other)));
            of(&runs[ROUNDS / 2])
        };
        let mut ratio = |of| median(&mut new, of) / median(&mut old, of);
        let goals = [
            Goal { what: "wall/before", value: ratio(Run::wall), limit: 1.05 },
            Goal { what: "CPU/before", value: ratio(Run::cpu_per_request), limit: 1.05 },
        ];
        let name = format!("{name} {load}");
        table::print_row(&name, &old[ROUNDS / 2], &[], &format!("median of {ROUNDS}"))?;
        table::print_row(&name, &new[ROUNDS / 2], &goals, &format!("median of {ROUNDS}"))?;
    }
    Ok(())
}

fn refusals(run: &Run) -> String {
    format!("{:.3} 429/answer", number(run.counters.s429) / number(run.counters.ok))
}

/// Counts as numbers to calculate with; all of them are far below 2^52.
fn number(count: impl TryInto<u64>) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    count.try_into().map_or(f64::NAN, |count| count as f64)
}
