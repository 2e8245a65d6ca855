//! What a large bundle costs: 10,000 tests and a workspace of 500 MB, against `cp -r` and `sha256sum` of the same tree.
//!
//! `cargo bench --bench bundle` runs the released binary and prints the ratio and the peak memory. A missed goal is printed,
//! not an error.

#![expect(clippy::print_stdout, reason = "a bench prints figures")]

#[path = "../fanout/measure.rs"]
#[expect(dead_code, reason = "shared with the other bench, which uses all of it")]
mod measure;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use measure::{Measured, measure};

const TESTS: usize = 10_000;
const LARGE_FILES: usize = 40;
const LARGE: usize = 10 << 20;
const SMALL_FILES: usize = 10_000;
const SMALL: usize = 10 << 10;
const ROUNDS: usize = 3;
const MOST_TIME: f64 = 1.5;
const MOST_MEMORY: u64 = 100_000_000;

fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let repo = dir.path().join("repo");
    make(&repo)?;
    let mut ratios = Vec::new();
    let mut peak = 0;
    println!(
        "{TESTS} tests, {} files, {} MB",
        LARGE_FILES + SMALL_FILES,
        (LARGE_FILES * LARGE + SMALL_FILES * SMALL) >> 20
    );
    for round in 0..ROUNDS {
        let (copy, bundle) =
            (dir.path().join(format!("copy-{round}")), dir.path().join(format!("bundle-{round}")));
        let copied = run(Command::new("cp").arg("-r").arg(&repo).arg(&copy))?;
        let hashed = run(Command::new("sh")
            .arg("-c")
            .arg("find . -type f -print0 | xargs -0 sha256sum")
            .current_dir(&copy))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_run-evals"));
        let bundled =
            run(command.args(["bundle", "suite.eval.yaml", "-q", "-o"]).arg(&bundle).current_dir(&repo))?;
        fs::remove_dir_all(&copy)?;
        fs::remove_dir_all(&bundle)?;
        let ratio = bundled.wall.as_secs_f64() / (copied.wall + hashed.wall).as_secs_f64();
        println!(
            "cp -r {} + sha256sum {}, bundle {}: {ratio:.2} times, {:.1} MB at most",
            seconds(copied.wall),
            seconds(hashed.wall),
            seconds(bundled.wall),
            mega(bundled.peak_memory)
        );
        ratios.push(ratio);
        peak = peak.max(bundled.peak_memory);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ROUNDS / 2];
    println!("time: {median:.2} times, goal {MOST_TIME}: {}", met(median <= MOST_TIME));
    println!("memory: {:.1} MB, goal {:.0} MB: {}", mega(peak), mega(MOST_MEMORY), met(peak <= MOST_MEMORY));
    Ok(())
}

/// A repository with the suite, its tests and its template.
fn make(repo: &Path) -> Result<()> {
    fs::create_dir_all(repo.join("template/small"))?;
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut bytes = |length: usize| -> Vec<u8> {
        let mut out = Vec::with_capacity(length + 8);
        while out.len() < length {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            out.extend(state.to_le_bytes());
        }
        out.truncate(length);
        out
    };
    for i in 0..LARGE_FILES {
        fs::write(repo.join(format!("template/large-{i}.bin")), bytes(LARGE))?;
    }
    for i in 0..SMALL_FILES {
        let folder = repo.join(format!("template/small/{}", i / 100));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{i}.bin")), bytes(SMALL))?;
    }
    let mut cases = String::new();
    for i in 0..TESTS {
        let input = format!("Question {i}: {}", "words of a prompt ".repeat(10));
        let case = serde_json::json!({
            "id": format!("case-{i}"), "criteria": "answers", "input": input,
            "assertions": [{"type": "contains", "value": i.to_string()}],
        });
        writeln!(cases, "{case}")?;
    }
    fs::write(repo.join("cases.jsonl"), cases)?;
    fs::write(repo.join("suite.eval.yaml"), "workspace: {template: template}\ntests: cases.jsonl\n")?;
    fs::write(repo.join("targets.yaml"), "targets:\n  - {name: default, provider: mock}\n")?;
    Ok(())
}

fn run(command: &mut Command) -> Result<Measured> {
    let measured = measure(command.stdout(Stdio::null()))?;
    ensure!(measured.status.success(), "a command failed");
    Ok(measured)
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

#[expect(clippy::cast_precision_loss, reason = "a figure to read")]
fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}
