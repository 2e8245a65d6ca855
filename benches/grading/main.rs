//! What grading costs: processor time and memory for N answers and for ten times as many, five graders each.
//!
//! `cargo bench --bench grading -- 20000` takes another N. Each size is graded in a separate process, so that the peak of
//! one does not hide that of the other; the numbers come from the kernel.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark: it panics to fail, and prints its figures"
)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use run_evals::testing::Env;
use run_evals::testing::Redactor;
use run_evals::testing::{BatchToGrade, Commands, GraderResponses, Pass, grade};
use run_evals::testing::{Digest, OutputMessage, Response, TokenUsage};
use run_evals::testing::{GraderOptions, SuiteOptions, load_suite};

const TESTS: usize = 100;
const CHILD: &str = "--grade";

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == CHILD) {
        return grade_so_many(args[at + 1].parse().unwrap(), Path::new(&args[at + 2]));
    }
    let count = args.iter().find_map(|arg| arg.parse::<usize>().ok()).unwrap_or(20_000);
    println!("{:>9}  {:>8}  {:>8}  {:>12}  {:>10}", "answers", "wall", "CPU", "CPU/answer", "peak RSS");
    for count in [count, 10 * count] {
        let dir = tempfile::tempdir().unwrap();
        write_responses(count, dir.path());
        let status = Command::new(std::env::current_exe().unwrap())
            .args([CHILD, &count.to_string(), dir.path().to_str().unwrap()])
            .status();
        assert!(status.unwrap().success());
    }
}

/// Answers of about a kilobyte, to tests that are run again and again.
fn write_responses(count: usize, dir: &Path) {
    let mut suite = format!("execution: {{ trials: {{ count: {} }} }}\nassertions:\n", count.div_ceil(TESTS));
    suite.push_str("  - { type: icontains, value: planet }\n  - { type: regex, value: '\\bJupiter\\b.*\\d+', flags: i }\n");
    suite.push_str(
        "  - { type: contains-all, value: [largest, system] }\n  - { type: token-usage, max_total: 10000 }\n",
    );
    suite.push_str("  - { type: field-accuracy, fields: [{ path: name, match: exact }, { path: radius, match: numeric_tolerance, tolerance: 10 }] }\ntests:\n");
    for test in 0..TESTS {
        let _ = writeln!(
            suite,
            "  - {{ id: t{test}, input: x, expected_output: {{ name: Jupiter, radius: 69911 }} }}"
        );
    }
    std::fs::write(dir.join("s.eval.yaml"), suite).unwrap();
    let mut out = std::io::BufWriter::new(std::fs::File::create(dir.join("responses.jsonl")).unwrap());
    let words = "The largest planet of the system, as far as we can see, is no small thing. ".repeat(12);
    for row in 0..count {
        let (test, replicate) = (row % TESTS, row / TESTS + 1);
        let id = if replicate == 1 { format!("t{test}") } else { format!("t{test}#{replicate}") };
        let text = format!("{words}\n{{\"name\": \"Jupiter\", \"radius\": {}}}", 69_900 + row % 30);
        let response = Response {
            output: Some(vec![OutputMessage::assistant(text)]),
            token_usage: Some(TokenUsage { input: 10, output: 200, ..TokenUsage::default() }),
            ..Response::blank(id, "gpt", Digest::of(b""))
        };
        serde_json::to_writer(&mut out, &response).unwrap();
        out.write_all(b"\n").unwrap();
    }
    out.flush().unwrap();
}

fn grade_so_many(count: usize, dir: &Path) {
    let env = Env::default();
    let graders = Some(GraderOptions::default());
    let options = SuiteOptions { env: &env, cwd: dir, graders };
    let (suite, _) = load_suite(Path::new("s.eval.yaml"), &options).unwrap();
    let responses = dir.join("responses.jsonl");
    let commands = Commands {
        timeout: Duration::from_mins(1),
        env: Vec::new(),
        redactor: Redactor::new([]),
        temporary: std::sync::OnceLock::new(),
    };
    let rows = BatchToGrade {
        suite: &suite,
        responses: &responses,
        range: 0..std::fs::metadata(&responses).unwrap().len(),
        threshold: Some(0.95),
        commands: Arc::new(commands),
        dir: dir.to_path_buf(),
    };
    let (before, start) = (processor_time(), Instant::now());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut scores = std::fs::File::create(dir.join("scores.jsonl")).unwrap();
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    let pass =
        runtime.block_on(grade::grade(&rows, None, &GraderResponses::new(), &mut scores, stopped)).unwrap();
    let (wall, cpu) = (start.elapsed(), processor_time().saturating_sub(before));
    let peak = getrusage(UsageWho::RUSAGE_SELF).unwrap().max_rss();
    assert!(matches!(pass, Pass::Done), "a model is needed");
    let written = std::fs::read_to_string(dir.join("scores.jsonl")).unwrap();
    let with = |status: &str| written.matches(&format!("\"status\":\"{status}\"")).count();
    let (passed, failed) = (with("passed"), with("failed"));
    assert!(passed > 0 && failed > 0 && passed + failed == count, "{passed} passed, {failed} failed");
    println!(
        "{count:>9}  {:>6.2} s  {:>6.2} s  {:>9.1} µs  {:>6.1} MB",
        wall.as_secs_f64(),
        cpu.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / count as f64,
        peak as f64 / 1024.0
    );
}

fn processor_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let time = |value: nix::sys::time::TimeVal| {
        Duration::from_secs(u64::try_from(value.tv_sec()).unwrap())
            + Duration::from_micros(u64::try_from(value.tv_usec()).unwrap())
    };
    time(usage.user_time()) + time(usage.system_time())
}
