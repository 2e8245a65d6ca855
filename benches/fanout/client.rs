//! The two programs that are compared, the requests that they get, and the check of what they write.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::measure::{Measured, measure};
use crate::minimal;

/// Names the binary of an earlier build, to compare with.
pub(crate) const BEFORE: &str = "RUN_EVALS_BEFORE";

/// The client that sends the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// `run-evals dispatch`.
    RunEvals,
    /// The same of another build, which the environment variable [`BEFORE`] names.
    Before,
    /// The plain loop.
    Minimal,
}

/// The output of a client.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What it cost.
    pub(crate) measured: Measured,
    /// How many requests have the right answer.
    pub(crate) answered: usize,
    /// What is wrong with the output or the exit code.
    pub(crate) trouble: Option<String>,
}

#[derive(Deserialize)]
struct Row {
    id: String,
    #[serde(default)]
    output: Vec<Message>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Message {
    content: String,
}

impl Client {
    /// The name in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RunEvals => "run-evals",
            Self::Before => "before",
            Self::Minimal => "minimal",
        }
    }

    /// Runs the client in the directory, which must be new to it, and checks what it wrote.
    pub(crate) fn run(
        self,
        directory: &Path,
        base_url: &str,
        requests: &Path,
        count: usize,
        concurrency: usize,
    ) -> Result<Outcome> {
        let responses = match self {
            Self::RunEvals | Self::Before => directory.join("output").join("responses.jsonl"),
            Self::Minimal => directory.join("responses.jsonl"),
        };
        let mut command = match self {
            Self::RunEvals => dispatch(
                env!("CARGO_BIN_EXE_run-evals").as_ref(),
                directory,
                base_url,
                requests,
                concurrency,
            )?,
            Self::Before => {
                let program = env::var_os(BEFORE).with_context(|| format!("`{BEFORE}` names no binary"))?;
                dispatch(&program, directory, base_url, requests, concurrency)?
            }
            Self::Minimal => {
                let mut command = Command::new(env::current_exe()?);
                command.args([minimal::SUBCOMMAND, base_url]);
                command.args([requests, &responses]).arg(concurrency.to_string());
                command
            }
        };
        let stderr = directory.join("stderr.txt");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&stderr)?);
        let measured = measure(&mut command)?;
        let (answered, mut trouble) = match check(&responses, count, self != Self::Minimal) {
            (answered, Ok(())) => (answered, None),
            (answered, Err(error)) => (answered, Some(format!("{error:#}"))),
        };
        if !measured.status.success() {
            let said = fs::read_to_string(&stderr)?;
            trouble = Some(format!("{}: {}", measured.status, said.trim_end()));
        }
        Ok(Outcome { measured, answered, trouble })
    }
}

/// Writes `count` requests, each with its own question.
pub(crate) fn write_requests(path: &Path, count: usize) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for number in 1..=count {
        let content = question(number);
        writeln!(file, r#"{{"id":"r{number}","messages":[{{"role":"user","content":"{content}"}}]}}"#)?;
    }
    Ok(file.flush()?)
}

fn dispatch(
    program: &OsStr,
    directory: &Path,
    base_url: &str,
    requests: &Path,
    concurrency: usize,
) -> Result<Command> {
    let lines = format!("provider: openai-compatible\nbase_url: {base_url}\napi_key: ${{{{ MOCK_KEY }}}}");
    dispatch_to(program, directory, &lines, requests, concurrency)
}

/// The command for a target with these lines, which may refer to `MOCK_KEY`.
pub(crate) fn dispatch_to(
    program: &OsStr,
    directory: &Path,
    lines: &str,
    requests: &Path,
    concurrency: usize,
) -> Result<Command> {
    let targets = directory.join("targets.yaml");
    let lines: Vec<String> = lines.lines().map(|line| format!("    {line}\n")).collect();
    let lines = lines.concat();
    let model = if lines.contains("model:") { "" } else { "    model: mock-model\n" };
    fs::write(
        &targets,
        format!("targets:\n  - name: mock\n{model}    max_concurrency: {concurrency}\n{lines}"),
    )?;
    let mut command = Command::new(program);
    command.args(["dispatch", "--target", "mock", "-q", "--requests"]).arg(requests);
    command.arg("--targets").arg(targets);
    command.arg("--output").arg(directory.join("output"));
    command.arg("--exchange").arg(directory.join("exchange.git"));
    command.current_dir(directory).env("MOCK_KEY", "key-of-the-benchmark");
    // A proxy would be measured too.
    command.env("NO_PROXY", "127.0.0.1").env_remove("no_proxy");
    Ok(command)
}

/// Plain ASCII without quotes, so it is valid JSON unchanged.
fn question(number: usize) -> String {
    format!(
        "Question {number}: which season follows the one that comes before spring, and why? \
         Answer in one word, then give the reason."
    )
}

/// Counts the rows that hold the answer to their own request. Each request must have one row, and without an error.
pub(crate) fn check(responses: &Path, count: usize, in_order: bool) -> (usize, Result<()>) {
    let mut seen = vec![false; count];
    let checked = check_rows(responses, in_order, &mut seen);
    let answered = seen.iter().filter(|seen| **seen).count();
    let complete = checked.and_then(|()| {
        ensure!(answered == count, "{} requests have no answer", count - answered);
        Ok(())
    });
    (answered, complete)
}

fn check_rows(responses: &Path, in_order: bool, seen: &mut [bool]) -> Result<()> {
    let file = File::open(responses).context("there is no `responses.jsonl`")?;
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let row: Row = serde_json::from_str(&line?).with_context(|| format!("line {}", index + 1))?;
        let number = row.id.strip_prefix('r').and_then(|number| number.parse::<usize>().ok()).unwrap_or(0);
        let Some(seen) = number.checked_sub(1).and_then(|place| seen.get_mut(place)) else {
            bail!("line {}: unexpected id `{}`", index + 1, row.id);
        };
        ensure!(!*seen, "line {}: `{}` is there twice", index + 1, row.id);
        ensure!(!in_order || number == index + 1, "line {}: `{}` is out of order", index + 1, row.id);
        let [message] = &row.output[..] else { continue };
        ensure!(message.content == question(number), "line {}: the answer is another's", index + 1);
        *seen = row.error.is_none();
    }
    Ok(())
}
