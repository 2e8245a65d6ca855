//! `dispatch --agentv-batch`: the command of an AgentV target with `provider_batching: true`.
//!
//! AgentV calls it once for all tests, with an output file that ends in `.jsonl`. If that fails, AgentV calls the same command
//! again for each test, with a file that ends in `.json`; such a call only returns the stored result of the batch. All of stderr
//! becomes part of AgentV's results, so a failure is one line.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use super::call::{no_answer, write_whole};
use super::{BatchMemory, BatchState, RunDir, TestOutcome};
use crate::config::normalized;
use crate::console;
use crate::engine::{ExecutionOptions, Observer, Plan, inputs};
use crate::error::one_line;
use crate::exchange::LocalExchange;
use crate::model::{Digest, ErrorInfo, Exit, Failure, Response, printable};
use crate::report::agentv::{answer_line, failed_line, test_of_output_file};
use crate::util::clock;
use crate::util::path::quoted;

/// How often a batch checks whether AgentV still runs.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The command for single tests.
const ADAPTER: &str = "`run-evals adapter`";

/// What AgentV requests.
enum CallKind {
    Batch,
    Test(String),
}

/// A call of AgentV: a suite as one batch, or one of its tests.
#[derive(Debug)]
pub struct SuiteCall {
    /// The suite.
    pub suite: PathBuf,
    /// The file for the responses.
    pub output_file: PathBuf,
    /// The test, if only one is requested and the file does not name it.
    pub id: Option<String>,
    /// The local exchange.
    pub exchange: PathBuf,
    /// How the suite is run.
    pub execution: ExecutionOptions,
}

/// Runs the suite as one batch, or returns the stored result for one test.
pub async fn answer_suite(call: SuiteCall, observer: Arc<dyn Observer>) -> anyhow::Result<Exit> {
    let to = call.output_file.clone();
    let asked = asked(&to, call.id.as_deref());
    let is_test = matches!(asked, Ok(CallKind::Test(_)));
    let told = match asked {
        Err(failure) => Err(failure.into()),
        Ok(CallKind::Batch) => batch(call, observer).await,
        Ok(CallKind::Test(id)) => memory(&call).and_then(|(memory, _)| test(&memory, &id, &call.suite, &to)),
    };
    let exit = told.or_else(|error| {
        let (exit, line) = one_line(&error);
        if is_test {
            write_whole(&to, json!({"error": line}).to_string().as_bytes())?;
        }
        console::stderr(&format!("{line}\n"));
        anyhow::Ok(exit)
    })?;
    Ok(exit)
}

/// Determines the kind of call from the output file.
fn asked(to: &Path, id: Option<&str>) -> Result<CallKind, Failure> {
    let name = to.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let unknown = |message: String| {
        Failure::new(Exit::Usage, message)
            .hint("write `--output-file {OUTPUT_FILE}` without anything around it")
    };
    match to.extension().and_then(std::ffi::OsStr::to_str) {
        Some("jsonl") => Ok(CallKind::Batch),
        Some("json") => match id.or_else(|| test_of_output_file(&name)) {
            Some(id) => Ok(CallKind::Test(id.to_owned())),
            None => Err(unknown(format!("cannot determine the test for `{name}`"))
                .hint("add `--id {EVAL_ID}` to the command")),
        },
        _ => Err(unknown(format!(
            "`--output-file {name}` is neither AgentV's `.jsonl` of a batch nor its `.json` of a test"
        ))),
    }
}

/// The memory of this AgentV, suite and target.
fn memory(SuiteCall { suite, execution, .. }: &SuiteCall) -> anyhow::Result<(BatchMemory, RunDir)> {
    let path = normalized(&std::path::absolute(suite)?);
    let bytes = std::fs::read(&path).map_err(|error| {
        Failure::config(format!("cannot read the suite `{}`: {error}", suite.display()))
            .hint("write it relative to the directory of the evaluation, where AgentV runs the command, or as an absolute path")
    })?;
    let of = (path, Digest::of(&bytes).to_string(), &execution.targets_file, &execution.targets);
    let run_dir = RunDir::of_this_run()?;
    Ok((BatchMemory::new(&run_dir, Digest::of(&serde_json::to_vec(&of)?)), run_dir))
}

async fn batch(call: SuiteCall, observer: Arc<dyn Observer>) -> anyhow::Result<Exit> {
    let parent = std::os::unix::process::parent_id();
    let (memory, run_dir) = memory(&call)?;
    let to = call.output_file.clone();
    // Held until the end: a call for one test waits for it.
    let _lock = memory.begin()?;
    let ran = tokio::select! {
        ran = Box::pin(run(call, &memory, observer)) => ran,
        () = gone(&run_dir) => Err(Failure::new(Exit::Incomplete, "AgentV has ended; the batch continues").into()),
    };
    match ran {
        Ok(reason) => {
            memory.keep(&BatchState::Finished(reason.clone()))?;
            // If AgentV has killed the shell that it started, the file would not be read or removed.
            let to = (std::os::unix::process::parent_id() == parent).then_some(to.as_path());
            hand_out(&memory, reason.as_deref(), to)
        }
        Err(error) => {
            let (exit, line) = one_line(&error);
            memory.keep(&BatchState::Failed(line, exit as u8))?;
            Err(error)
        }
    }
}

/// Returns when the responses are no longer wanted. A shell that AgentV has killed does not mean that: the calls for each test
/// follow, and wait.
async fn gone(run_dir: &RunDir) {
    while run_dir.is_wanted() {
        clock::sleep(LOOK_EVERY).await;
    }
}

/// Stores the responses, and returns why some are missing if they do not say so themselves.
async fn run(
    call: SuiteCall,
    memory: &BatchMemory,
    observer: Arc<dyn Observer>,
) -> anyhow::Result<Option<String>> {
    let plan = Plan::read(call.execution, observer)?;
    plan.can_be_agentv_batch()?;
    let batches = plan.batches()?;
    let exchange = match &call.exchange {
        // AgentV runs commands in the directory of the evaluation.
        path if path == Path::new(LocalExchange::DEFAULT_PATH) => plan.exchange_beside_targets(),
        path => path,
    };
    let mut execution = plan.execution(inputs::exchange(exchange)?);
    let batches = execution.store(&plan, batches)?;
    if let Some(batch) = batches.first() {
        let exchange = quoted(execution.exchange().shown());
        let collect = format!("run-evals collect {} --exchange {exchange}", batch.id);
        memory.keep(&BatchState::Started(collect))?;
    }
    let submitted = execution.submit(batches).await?;
    let mut responses = memory.temporary()?;
    execution.wait_all(submitted, &mut responses).await?;
    let reason = execution.reason().map(ToOwned::to_owned);
    memory.keep_responses(responses)?;
    execution.clean_up().await;
    Ok(reason)
}

/// Writes the responses for AgentV. Tests without one get a line, too, and fail the command: AgentV would grade the
/// placeholder.
fn hand_out(memory: &BatchMemory, reason: Option<&str>, to: Option<&Path>) -> anyhow::Result<Exit> {
    let responses = std::fs::File::open(memory.responses()).context("the responses are missing")?;
    let mut lines = String::new();
    let (mut tests, mut failed, mut first) = (0_u64, 0_u64, None);
    for line in BufReader::with_capacity(1 << 16, responses).lines() {
        let response: Response = serde_json::from_str(&line?).context("cannot read a response")?;
        tests += 1;
        match (answer_line(&response.id, &response), &response.error) {
            (Some(answer), _) => lines.push_str(&answer),
            (None, Some(error)) => {
                failed += 1;
                let line = failure(error, reason);
                first.get_or_insert_with(|| format!("`{}`: {line}", printable(&response.id)));
                lines.push_str(&failed_line(&response.id, &line, error));
            }
            (None, None) => anyhow::bail!("the test `{}` has neither a response nor an error", response.id),
        }
        lines.push('\n');
    }
    if let Some(to) = to {
        write_whole(to, lines.as_bytes())?;
    }
    let Some(first) = first else { return Ok(Exit::Ok) };
    console::stderr(&format!("{failed} of {tests} tests have no response, first {first}\n"));
    Ok(Exit::Incomplete)
}

/// Returns the result of the batch for one test.
fn test(memory: &BatchMemory, id: &str, suite: &Path, to: &Path) -> anyhow::Result<Exit> {
    let suite = suite.display();
    let shown = printable(id);
    let (exit, line) = match memory.recall(id)? {
        TestOutcome::Test(response, reason) => match (answer_line(id, &response), &response.error) {
            (Some(answer), _) => {
                write_whole(to, answer.as_bytes())?;
                return Ok(Exit::Ok);
            }
            (None, Some(error)) => (Exit::Incomplete, failure(error, reason.as_deref())),
            (None, None) => anyhow::bail!("the test `{shown}` has neither a response nor an error"),
        },
        TestOutcome::NoBatch => (
            Exit::Config,
            format!(
                "AgentV requested the test `{shown}` without a batch: it makes none without `provider_batching: true`, and \
                 none for a suite with `trials`; {ADAPTER} is the command for those"
            ),
        ),
        TestOutcome::Killed => (Exit::Incomplete, "the batch was killed before it was started".to_owned()),
        TestOutcome::Without(BatchState::Started(collect)) => (
            Exit::Incomplete,
            format!("the batch was killed before its results arrived; `{collect}` collects its responses"),
        ),
        TestOutcome::Without(BatchState::Failed(line, exit)) => (Exit::from_code(exit), line),
        TestOutcome::Without(BatchState::Finished(_)) => (
            Exit::Config,
            format!(
                "`{suite}` has no test `{shown}`: AgentV runs another suite than its target's command names"
            ),
        ),
    };
    write_whole(to, json!({"error": line}).to_string().as_bytes())?;
    console::stderr(&format!("{line}\n"));
    Ok(exit)
}

/// Why a test has no response, in one line.
fn failure(error: &ErrorInfo, reason: Option<&str>) -> String {
    one_line(&no_answer(error, reason).into()).1
}
