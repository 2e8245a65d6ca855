//! `adapter`: what AgentV calls for each test case. Calls that come together leave as one batch, which one of them leads.
//!
//! AgentV puts all that this prints into its result row when it fails, so that is one line and nothing else.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use super::args::{AdapterArgs, BatchArgs, Format, LimitArgs, OutputArgs, TargetArgs, WorkArgs};
use super::display::{Display, stderr};
use super::inputs;
use super::session::{Input, Session};
use super::signals;
use crate::adapter::{JoinedBatch, Outcome, Prompt, Rendezvous, RunPlace, Ticket};
use crate::error::one_line;
use crate::model::{ErrorInfo, ErrorKind, Exit, Failure, Response};

/// How often a call looks whether its shell is still there.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How many of these looks go by until it looks for AgentV too: that may cost a process.
const LOOKS: u32 = 10;

/// Answers one call of AgentV.
pub(super) async fn adapter(args: AdapterArgs, display: &Display) -> anyhow::Result<Exit> {
    let output_file = args.output_file.clone();
    let error = match answer(args, display).await {
        Ok(()) => return Ok(Exit::Ok),
        Err(error) => error,
    };
    let (exit, line) = one_line(&error);
    // For an AgentV that reads the file whatever the exit code is.
    let json = serde_json::json!({ "error": line });
    if let Err(error) = write_whole(&output_file, json.to_string().as_bytes()) {
        tracing::debug!("{error:#}");
    }
    stderr(&format!("{line}\n"));
    Ok(exit)
}

async fn answer(args: AdapterArgs, display: &Display) -> anyhow::Result<()> {
    let parent = std::os::unix::process::parent_id();
    let mut stop = signals::interrupts()?;
    let cwd = std::env::current_dir().context("cannot find the working directory")?;
    let text = std::fs::read_to_string(&args.prompt_file).map_err(|error| {
        let message = format!("cannot read the prompt file `{}`: {error}", args.prompt_file.display());
        Failure::config(message).hint("AgentV writes it: pass `--prompt-file {PROMPT_FILE}`")
    })?;
    let prompt = Prompt::read(&text, &args.files)?;
    let targets = inputs::targets_file(args.targets.as_deref(), &cwd, &cwd, display)?;
    // What is wrong with the target is told before anyone waits.
    targets.resolve(&args.target, &inputs::environment(&cwd, &cwd)?)?;
    let exchange = args.exchange.clone().unwrap_or_else(|| inputs::exchange_of(&targets));
    let place = RunPlace::of_this_run()?;
    let purpose = format!("{} {}", std::path::absolute(targets.path())?.display(), args.target);
    let rendezvous = Rendezvous::open(place.dir(), &purpose)?;
    let files = rendezvous.files();
    let (id, output_file, attempt) = (args.id.clone(), args.output_file.clone(), args.attempt);
    let take_in = move || rendezvous.take_in(&id, prompt, &output_file, attempt);
    let ticket = blocking(take_in).await?;
    let call = Call { args: &args, files, exchange, cwd: &cwd, display };
    let work = call.go_through(ticket, parent);
    tokio::select! {
        biased;
        _ = stop.wait_for(|count| *count > 0) => {
            Err(Failure::new(Exit::Incomplete, "stopped by a signal; what was started goes on").into())
        }
        () = given_up(&place, parent) => {
            Err(Failure::new(Exit::Incomplete, "AgentV does not wait for this call any more").into())
        }
        done = work => done,
    }
}

/// What one call goes through.
struct Call<'c> {
    args: &'c AdapterArgs,
    files: PathBuf,
    exchange: PathBuf,
    cwd: &'c Path,
    display: &'c Display,
}

impl Call<'_> {
    async fn go_through(&self, ticket: Ticket, parent: u32) -> anyhow::Result<()> {
        let (workers, window) = (self.args.workers.get() as usize, self.args.window);
        let (ticket, batch, lock) = blocking(move || {
            let (batch, lock) = ticket.join(workers, window)?;
            let lock = lock.map_or_else(|| batch.lock(), Ok)?;
            Ok((ticket, batch, lock))
        })
        .await?;
        let line = ticket.line(&batch)?;
        let mut outcome = batch.outcome()?.unwrap_or_default();
        let is_settled = batch.response(line)?.is_some_and(|response| response.is_settled());
        if !is_settled && outcome.tries <= ticket.seen() {
            outcome = self.lead(&batch).await?;
        }
        drop(lock);
        let response = answered(batch.response(line)?, outcome)?;
        write_whole(&self.args.output_file, &serde_json::to_vec(&response)?)?;
        // Nobody has read it if AgentV has given up meanwhile; then the next attempt gets it.
        if std::os::unix::process::parent_id() == parent {
            ticket.delivered()?;
        }
        Ok(())
    }

    /// Brings the batch to its answers, for all who wait for it.
    async fn lead(&self, batch: &JoinedBatch) -> anyhow::Result<Outcome> {
        if let Err(error) = self.run(batch).await {
            let (exit, line) = one_line(&error);
            batch.finish(None, Outcome { failure: Some((line, exit as u8)), ..Outcome::default() })?;
        }
        batch.outcome()?.context("nothing is known of the batch")
    }

    async fn run(&self, batch: &JoinedBatch) -> anyhow::Result<()> {
        let AdapterArgs { targets, target, github, remote, .. } = self.args;
        let work = WorkArgs {
            targets: TargetArgs { targets: targets.clone(), target: vec![target.clone()] },
            batch: BatchArgs { batch_id: Some(batch.id().clone()), exchange: self.exchange.clone() },
            limits: LimitArgs::default(),
            github: github.clone(),
            remote: remote.clone(),
            output: OutputArgs { output: None, format: Format::Text },
        };
        let (requests, files) = (batch.requests(), self.files.clone());
        let input = Input::Calls { requests, files, near: self.cwd.to_owned() };
        let session = Session::open(input, &work, self.display)?;
        let planned = session.plan()?;
        let exchange = inputs::exchange(&self.exchange)?;
        let handed_over = session.hand_over(&exchange, planned)?;
        let begun = session.begin(&exchange, handed_over).await?;
        let mut responses = Vec::new();
        let mut answered = session.answer(&exchange, begun, &mut responses).await?;
        let reason = std::mem::take(&mut answered.reasons).into_iter().next();
        batch.finish(Some(&responses), Outcome { reason, ..Outcome::default() })?;
        session.tidy_up(&exchange, answered).await
    }
}

/// The answer, or why there is none.
fn answered(response: Option<Response>, outcome: Outcome) -> Result<Response, Failure> {
    if let (Some((line, exit)), false) =
        (outcome.failure, response.as_ref().is_some_and(Response::is_settled))
    {
        return Err(Failure::new(Exit::from_code(exit), line));
    }
    let response = response.ok_or_else(|| Failure::new(Exit::Failure, "the batch has no response for it"))?;
    match &response.error {
        None => Ok(response),
        Some(error) => Err(no_answer(error, outcome.reason.as_deref())),
    }
}

/// Why a test has no answer; a run on GitHub has a reason of its own.
pub(super) fn no_answer(error: &ErrorInfo, reason: Option<&str>) -> Failure {
    let ErrorInfo { kind, message, status, .. } = error;
    let status = status.map(|status| format!(", HTTP {status}")).unwrap_or_default();
    let failure = match (kind, reason) {
        (ErrorKind::NotRun, Some(reason)) => Failure::new(Exit::Incomplete, format!("no answer: {reason}")),
        (ErrorKind::NotRun, None) => Failure::new(Exit::Incomplete, message.clone()),
        _ => Failure::new(Exit::Failure, format!("the call failed ({}{status}): {message}", kind.as_str())),
    };
    match kind {
        ErrorKind::Auth => failure.hint("mend the key among the secrets of the runner repository"),
        ErrorKind::Quota => failure.hint("see to the credit and the limits of the account at the vendor"),
        ErrorKind::NotFound => failure.hint("mend `model` or `base_url` of the runner's target"),
        ErrorKind::ContextLength => {
            failure.hint("shorten the prompt, or choose a model with a longer context")
        }
        _ => failure,
    }
}

/// Returns when nobody waits for this call any more: AgentV ended, or it ended the shell that it had started.
async fn given_up(place: &RunPlace, parent: u32) {
    let is_wanted = |look: u32| look < LOOKS || place.is_wanted();
    for look in (1..=LOOKS).cycle() {
        tokio::time::sleep(LOOK_EVERY).await;
        if std::os::unix::process::parent_id() != parent || !is_wanted(look) {
            return;
        }
    }
}

/// Waits for locks without keeping everything else waiting.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("a task was ended")?
}

/// Writes a file that nobody sees half.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let cannot = || format!("cannot write the output file `{}`", path.display());
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(dir).with_context(cannot)?;
    file.write_all(bytes).with_context(cannot)?;
    file.persist(path).with_context(cannot)?;
    Ok(())
}
