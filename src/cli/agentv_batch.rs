//! `dispatch --agentv-batch`: the command of an AgentV target with `provider_batching: true`.
//!
//! AgentV calls it once for all tests, with an output file that ends in `.jsonl`. Where that does not succeed, AgentV calls
//! the same command again for each test, with one that ends in `.json`; such a call tells what the batch came to and starts
//! nothing. All of stderr becomes a part of AgentV's results, so a failure is one line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::NamedTempFile;

use super::args::{DispatchArgs, Format};
use super::display::{self, Display};
use super::inputs;
use super::one_line::one_line;
use super::output::Output;
use super::session::{Input, Session};
use crate::adapter::{BatchMemory, BatchState, Recalled, RunPlace};
use crate::config::normalized;
use crate::exchange::LocalExchange;
use crate::model::{Digest, ErrorKind, Exit, Failure, Response, printable};
use crate::report::agentv::{answer_line, case_failure, failed_line, test_of_output_file};

/// The command that answers tests one by one.
const ADAPTER: &str = "`run-evals adapter`";

/// What AgentV asks for.
enum Asked {
    Batch,
    Test(String),
}

/// Runs the suite as one batch, or tells what the batch before came to for one test.
pub(super) async fn agentv_batch(args: DispatchArgs, display: &Display) -> anyhow::Result<Exit> {
    let (Some(suite), Some(to)) = (args.suite.clone(), args.output_file.clone()) else {
        return Err(Failure::new(Exit::Usage, "`--agentv-batch` needs a suite and `--output-file`").into());
    };
    let asked = asked(&to, args.id.as_deref())?;
    let told = match &asked {
        Asked::Batch => batch(&args, &suite, &to, display).await,
        Asked::Test(id) => memory(&args, &suite).and_then(|memory| test(&memory, id, &suite, &to)),
    };
    let exit = told.or_else(|error| {
        let (line, exit) = one_line(&error);
        if matches!(asked, Asked::Test(_)) {
            put(&to, &serde_json::json!({"error": line}).to_string())?;
        }
        display::stderr(&format!("{line}\n"));
        anyhow::Ok(exit)
    })?;
    Ok(exit)
}

/// What AgentV asks for, by the file that it wants.
fn asked(to: &Path, id: Option<&str>) -> Result<Asked, Failure> {
    let name = to.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let unknown = |message: String| {
        Failure::new(Exit::Usage, message).hint("write `--output-file {OUTPUT_FILE}`, and nothing around it")
    };
    match to.extension().and_then(std::ffi::OsStr::to_str) {
        Some("jsonl") => Ok(Asked::Batch),
        Some("json") => match id.or_else(|| test_of_output_file(&name)) {
            Some(id) => Ok(Asked::Test(id.to_owned())),
            None => Err(unknown(format!("cannot tell for which test AgentV wants `{name}`"))
                .hint("add `--id {EVAL_ID}` to the command")),
        },
        _ => Err(unknown(format!("`--output-file {name}` is neither AgentV's `.jsonl` of a batch nor its `.json` of a test"))),
    }
}

/// What is remembered for this AgentV, suite and target.
fn memory(args: &DispatchArgs, suite: &Path) -> anyhow::Result<BatchMemory> {
    let path = normalized(&std::path::absolute(suite)?);
    let bytes = std::fs::read(&path).map_err(|error| {
        Failure::config(format!("cannot read the suite `{}`: {error}", suite.display()))
            .hint("name it from the directory of the evaluation on, where AgentV runs the command, or by an absolute path")
    })?;
    let targets = &args.work.targets;
    let of = (path, Digest::of(&bytes).to_string(), &targets.targets, &targets.target);
    Ok(BatchMemory::new(&RunPlace::of_this_run()?, Digest::of(&serde_json::to_vec(&of)?)))
}

async fn batch(args: &DispatchArgs, suite: &Path, to: &Path, display: &Display) -> anyhow::Result<Exit> {
    let memory = memory(args, suite)?;
    // Until the end: a call for one test waits for it.
    let _lock = memory.begin()?;
    match run(args, suite, &memory, display).await {
        Ok(reason) => {
            memory.keep(&BatchState::Finished(reason.clone()))?;
            hand_out(&memory, reason.as_deref(), to)
        }
        Err(error) => {
            let (line, exit) = one_line(&error);
            memory.keep(&BatchState::Failed(line, exit as u8))?;
            Err(error)
        }
    }
}

/// Brings the answers into the memory, and tells why some are missing, where they do not tell that themselves.
async fn run(
    args: &DispatchArgs,
    suite: &Path,
    memory: &BatchMemory,
    display: &Display,
) -> anyhow::Result<Option<String>> {
    let session = Session::open(Input::Suite(suite.to_owned()), &args.work, display)?;
    session.can_be_agentv_batch()?;
    let batches = session.plan()?;
    let exchange = match &args.work.batch.exchange {
        // AgentV runs commands wherever the evaluation lies.
        path if path == Path::new(LocalExchange::DEFAULT_PATH) => session.exchange_beside_targets.clone(),
        path => path.clone(),
    };
    let exchange = inputs::exchange(&exchange)?;
    let batches = session.hand_over(&exchange, batches)?;
    if let Some(batch) = batches.first() {
        let collect = format!("run-evals collect {} --exchange {}", batch.id, exchange.shown().display());
        memory.keep(&BatchState::Started(collect))?;
    }
    let begun = session.begin(&exchange, batches).await?;
    let output = Output::kept(memory.temporary()?, memory.responses());
    session.run(&exchange, begun, output, Format::Text).await?;
    Ok(None)
}

/// Writes the answers for AgentV. Tests without one are lines too, and the reason why AgentV must not believe the file: it
/// would grade what stands in their place.
fn hand_out(memory: &BatchMemory, reason: Option<&str>, to: &Path) -> anyhow::Result<Exit> {
    let responses = std::fs::File::open(memory.responses()).context("the responses are gone")?;
    let mut lines = String::new();
    let (mut tests, mut failed, mut first) = (0_u64, 0_u64, None);
    for line in BufReader::with_capacity(1 << 16, responses).lines() {
        let response: Response = serde_json::from_str(&line?).context("cannot read a response")?;
        tests += 1;
        match (answer_line(&response.id, &response), &response.error) {
            (Some(answer), _) => lines.push_str(&answer),
            (None, Some(error)) => {
                failed += 1;
                first.get_or_insert_with(|| format!("`{}`: {}", printable(&response.id), failure(&response, reason)));
                lines.push_str(&failed_line(&response.id, error));
            }
            (None, None) => anyhow::bail!("the test `{}` has neither an answer nor an error", response.id),
        }
        lines.push('\n');
    }
    put(to, &lines)?;
    let Some(first) = first else { return Ok(Exit::Ok) };
    display::stderr(&format!("{failed} of {tests} tests have no answer, first {first}\n"));
    Ok(Exit::Incomplete)
}

/// Tells what the batch came to for one test.
fn test(memory: &BatchMemory, id: &str, suite: &Path, to: &Path) -> anyhow::Result<Exit> {
    let suite = suite.display();
    let shown = printable(id);
    let (exit, line) = match memory.recall(id)? {
        Recalled::Test(response, reason) => match answer_line(id, &response) {
            Some(answer) => {
                put(to, &answer)?;
                return Ok(Exit::Ok);
            }
            None => (Exit::Incomplete, failure(&response, reason.as_deref())),
        },
        Recalled::NoBatch => (
            Exit::Config,
            format!(
                "AgentV asks for the test `{shown}` without a batch before: it makes none without `provider_batching: true`, and \
                 none for a suite with `trials`; {ADAPTER} is the command for those"
            ),
        ),
        Recalled::Killed => (Exit::Incomplete, "the batch was killed before it was started".to_owned()),
        Recalled::Without(BatchState::Started(collect)) => (
            Exit::Incomplete,
            format!("the batch was killed before its results were here; `{collect}` collects what it answers"),
        ),
        Recalled::Without(BatchState::Failed(line, exit)) => (exit_of(exit), line),
        Recalled::Without(BatchState::Finished(_)) => (
            Exit::Config,
            format!("`{suite}` has no test `{shown}`: AgentV runs another suite than its target's command names"),
        ),
    };
    put(to, &serde_json::json!({"error": line}).to_string())?;
    display::stderr(&format!("{line}\n"));
    Ok(exit)
}

/// Why a test has no answer.
fn failure(response: &Response, reason: Option<&str>) -> String {
    let Some(error) = &response.error else { return "no answer".to_owned() };
    match reason {
        Some(reason) if error.kind == ErrorKind::NotRun => format!("{}; {reason}", case_failure(error)),
        _ => case_failure(error),
    }
}

fn exit_of(code: u8) -> Exit {
    let all = [Exit::Usage, Exit::Config, Exit::BelowThreshold, Exit::Incomplete, Exit::Busy];
    all.into_iter().find(|exit| *exit as u8 == code).unwrap_or(Exit::Failure)
}

/// Writes a file for AgentV at once, readable by nobody else: it lies among everybody's temporary files.
fn put(to: &Path, text: &str) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", to.display());
    let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty()).map_or(PathBuf::from("."), Path::to_path_buf);
    let mut file = NamedTempFile::new_in(dir).with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)?;
    file.persist(to).with_context(cannot)?;
    Ok(())
}
