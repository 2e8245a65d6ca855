//! What a run on GitHub costs the dispatcher: CPU time, memory, and requests that count against GitHub's rate limit.
//!
//! `cargo bench --bench remote [-- large | minutes N]` runs the released binary against a simulated GitHub that starts the
//! real runner for each shard. A missed goal is printed, not an error.

#![expect(clippy::unwrap_used, clippy::format_collect, reason = "a bench panics where its own set-up fails")]

#[path = "../fanout/measure.rs"]
#[expect(dead_code, reason = "shared with the other bench, which uses all of it")]
mod measure;
#[path = "../../tests/integration/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "shared with the tests, which use all of it")]
mod support;

use std::io::Write as _;
use std::process::Stdio;

use support::github::{MockGithub, TOKEN};
use support::{MockLlm, Workspace};

const REPO: &str = "acme/runner";
const LOGIN: &str = "dispatcher";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] | ["large"] => large(),
        ["minutes", number] => minutes(number.parse()?),
        _ => anyhow::bail!("expected `large` or `minutes N`"),
    }
}

/// 50,000 requests with 12 MB of prompts, on 8 shards.
fn large() -> anyhow::Result<()> {
    const REQUESTS: usize = 50_000;
    let stage = stage(&[], "max_concurrency: 64", "shards: 8");
    let mut lines = Vec::new();
    for index in 0..REQUESTS {
        let prompt = format!("{index} {}", "words of a prompt ".repeat(13));
        let message = serde_json::json!([{ "role": "user", "content": prompt }]);
        serde_json::to_writer(
            &mut lines,
            &serde_json::json!({ "id": format!("r{index}"), "messages": message }),
        )?;
        lines.push(b'\n');
    }
    let size = lines.len();
    stage.workspace.write("requests.jsonl", lines);
    let (measured, counted) = dispatch(&stage)?;
    let answers = stage.workspace.rows("out/responses.jsonl");
    anyhow::ensure!(
        answers.len() == REQUESTS && answers.iter().all(|row| row.get("error").is_none()),
        "some failed"
    );
    anyhow::ensure!(answers.iter().enumerate().all(|(i, row)| row["id"] == format!("r{i}")), "not in order");
    print(&format!(
        "{REQUESTS} requests, {:.1} MB, 8 shards: {:.1} s",
        mega(size as u64),
        measured.wall.as_secs_f64()
    ));
    goal("CPU of the dispatcher", measured.cpu.as_secs_f64(), 5.0, "s");
    goal("its peak memory", mega(measured.peak_memory), 150.0, "MB");
    goal("requests that count", counted, 120.0, "");
    Ok(())
}

/// A run of this many minutes, polled at the dispatcher's own interval.
fn minutes(number: u32) -> anyhow::Result<()> {
    let stage = stage(&["--latency-ms", "5000"], "max_concurrency: 1", "");
    stage.workspace.write_requests(usize::try_from(number * 12)?);
    let (measured, counted) = dispatch(&stage)?;
    let took = measured.wall.as_secs_f64() / 60.0;
    print(&format!("a run of {took:.1} minutes"));
    goal("requests that count", counted, 12.0 * took, "");
    goal("CPU of the dispatcher", measured.cpu.as_secs_f64(), 5.0, "s");
    Ok(())
}

struct Stage {
    github: MockGithub,
    workspace: Workspace,
    _llm: MockLlm,
}

fn stage(llm: &[&str], runner: &str, target: &str) -> Stage {
    let llm = MockLlm::start(llm);
    let github = MockGithub::start();
    github.runner_repo(REPO, &[("OPENAI_API_KEY", "sk-bench-0123456789")]);
    let base_url = llm.base_url();
    let targets = format!(
        "targets:\n  - name: llm\n    provider: openai-compatible\n    base_url: {base_url}\n    model: mock-model\n    \
         api_key: ${{{{ OPENAI_API_KEY }}}}\n    {runner}\n"
    );
    github.put_file(REPO, "targets.yaml", targets);
    let workspace = github.workspace(TOKEN);
    let cloud = format!(
        "targets:\n  - name: cloud\n    provider: github-actions\n    repo: {REPO}\n    workflow: run-evals.yml\n    \
         target: llm\n    timeout: 60m\n    {target}\n"
    );
    workspace.write("targets.yaml", cloud);
    Stage { github, workspace, _llm: llm }
}

fn dispatch(stage: &Stage) -> anyhow::Result<(measure::Measured, f64)> {
    let args = ["dispatch", "--requests", "requests.jsonl", "--target", "cloud", "--output", "out"];
    let mut command = stage.workspace.command(&args);
    let measured = measure::measure(command.stdout(Stdio::null()))?;
    anyhow::ensure!(measured.status.success(), "the dispatcher ended with {}", measured.status);
    let counted = u32::try_from(stage.github.counted(LOGIN))?;
    Ok((measured, f64::from(counted)))
}

fn goal(what: &str, value: f64, most: f64, unit: &str) {
    let met = if value <= most { "met" } else { "MISSED" };
    print(&format!(
        "  {what:<24} {value:>8.2} {unit:<2} = {:.2} of the {most:.0} that it may be: {met}",
        value / most
    ));
}

fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

#[expect(clippy::cast_precision_loss, reason = "megabytes")]
fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
