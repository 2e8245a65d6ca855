//! `adapter`: AgentV calls it for each test case. Concurrent calls are sent as one batch, which one of them leads.
//!
//! On failure, AgentV puts the whole output into its result row, so the output is a single line.

use std::fs::File;
use std::num::NonZeroU32;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::{AttemptOutcome, JoinedBatch, Prompt, Rendezvous, RunDir, Ticket};
use crate::config::Roots;
use crate::console::{self, signals};
use crate::engine::{ExecutionOptions, Input, Observer, Plan, RemoteOptions, RunLimits, TestChoice, inputs};
use crate::error::one_line;
use crate::github::Access;
use crate::model::{BatchId, ErrorInfo, ErrorKind, Exit, Failure, Response, Target};
use crate::util::durable;
use crate::util::path::quoted;

/// How often a call checks whether its output is still read.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// After how many of these checks it also looks for AgentV, which may start a process.
const LOOKS: u32 = 10;

/// One call of AgentV.
#[derive(Debug)]
pub struct CallOptions {
    /// The file with the prompt.
    pub prompt_file: PathBuf,
    /// The file for the response.
    pub output_file: PathBuf,
    /// The test.
    pub id: String,
    /// How many attempts AgentV made before.
    pub attempt: u32,
    /// The files that the prompt names.
    pub files: Vec<PathBuf>,
    /// Additional directories from which files may be attached.
    pub files_root: Vec<PathBuf>,
    /// The key of calls that belong together; by default, the calls of one AgentV process.
    pub together: Option<String>,
    /// How many calls AgentV makes at once.
    pub workers: NonZeroU32,
    /// How long an incomplete batch waits for another call.
    pub window: Duration,
    /// The local exchange; by default next to the targets file.
    pub exchange: Option<PathBuf>,
    /// The targets file; by default the nearest one.
    pub targets: Option<PathBuf>,
    /// The target.
    pub target: String,
    /// How to reach GitHub.
    pub github: Access,
    /// How to send a batch to a runner repository.
    pub remote: RemoteOptions,
}

/// Answers one call of AgentV.
pub async fn answer_call(options: CallOptions, observer: Arc<dyn Observer>) -> anyhow::Result<Exit> {
    let (output_file, parent) = (options.output_file.clone(), parent_id());
    let error = match Box::pin(answer(options, parent, observer)).await {
        Ok(ticket) => deliver(ticket, parent),
        Err(error) => error,
    };
    let (exit, line) = one_line(&error);
    // For an AgentV that reads the file whatever the exit code.
    let json = serde_json::json!({ "error": line });
    if let Err(error) = write_whole(&output_file, json.to_string().as_bytes()) {
        tracing::debug!("{error:#}");
    }
    console::stderr(&format!("{line}\n"));
    Ok(exit)
}

/// Ends this process after the response was written to the output file.
///
/// The call counts as delivered only if AgentV still waits for it. This is the last action of the process: one that is killed
/// earlier has delivered nothing, and the next attempt gets the response.
fn deliver(ticket: Ticket, parent: u32) -> ! {
    crate::git::end_all();
    let is_awaited = parent_id() == parent && !has_no_reader();
    if is_awaited && let Err(error) = ticket.delivered() {
        tracing::debug!("{error:#}");
    }
    let exit = if is_awaited { Exit::Ok } else { Exit::Incomplete };
    #[expect(clippy::exit, reason = "nothing may happen between the delivery and the end")]
    std::process::exit(exit as i32)
}

/// Writes the response to the output file; the caller must then mark the call as delivered.
async fn answer(args: CallOptions, parent: u32, observer: Arc<dyn Observer>) -> anyhow::Result<Ticket> {
    let mut stop = signals::interrupts()?;
    let cwd = std::env::current_dir().context("cannot find the working directory")?;
    let text = std::fs::read_to_string(&args.prompt_file).map_err(|error| {
        let message = format!("cannot read the prompt file `{}`: {error}", args.prompt_file.display());
        Failure::config(message).hint("AgentV writes it: pass `--prompt-file {PROMPT_FILE}`")
    })?;
    let targets = inputs::targets_file(args.targets.as_deref(), &cwd, &cwd, &*observer)?;
    let home = cwd.join(targets.home());
    // Report problems of the target before waiting.
    let target = targets.resolve(&args.target, &inputs::environment(&home, &home)?)?;
    check_trust(&args, &target)?;
    let mut roots = vec![Roots::new(&home, &home), Roots::new(&cwd, &cwd)];
    roots.extend(args.files_root.iter().map(|dir| Roots::new(dir, dir)));
    let prompt = Prompt::read(&text, &args.files, &roots)?;
    let exchange = args.exchange.clone().unwrap_or_else(|| inputs::exchange_of(&targets));
    let file = cwd.join(targets.path());
    let run_dir = match &args.together {
        Some(key) => RunDir::named(key)?,
        None => RunDir::of_this_run()?,
    };
    let rendezvous = Rendezvous::open(run_dir.dir(), &format!("{} {}", file.display(), args.target))?;
    let files = rendezvous.files();
    end_when_given_up(run_dir, parent)?;
    let (id, output_file, attempt) = (args.id.clone(), args.output_file.clone(), args.attempt);
    let ticket = blocking(move || rendezvous.take_in(&id, prompt, &output_file, attempt)).await?;
    let call = Call { args: &args, files, exchange, file, home, observer, batch: OnceLock::new() };
    tokio::select! {
        biased;
        _ = stop.wait_for(|count| *count > 0) => Err(call.stopped().into()),
        done = call.go_through(ticket) => done,
    }
}

/// AgentV may start a command in the workspace of a test, which may contain an untrusted targets file. A file that was not given
/// explicitly must not choose the host that gets a key of this machine.
fn check_trust(args: &CallOptions, target: &Target) -> Result<(), Failure> {
    if args.targets.is_some() || matches!(target, Target::Remote(_)) {
        return Ok(());
    }
    let message = format!(
        "target `{}` is not a runner repository, and its targets file was not given explicitly",
        target.name()
    );
    Err(Failure::config(message).hint(
        "add `--targets /path/to/targets.yaml` to the `command`: AgentV starts commands in workspaces, whose files are untrusted",
    ))
}

/// The state of one call.
struct Call<'c> {
    args: &'c CallOptions,
    files: PathBuf,
    exchange: PathBuf,
    /// The targets file, and its project directory.
    file: PathBuf,
    home: PathBuf,
    observer: Arc<dyn Observer>,
    /// Its batch, once it has one.
    batch: OnceLock<BatchId>,
}

impl Call<'_> {
    async fn go_through(&self, ticket: Ticket) -> anyhow::Result<Ticket> {
        let (workers, window) = (self.args.workers.get() as usize, self.args.window);
        let (ticket, batch, lock) = blocking(move || {
            let (batch, lock) = ticket.join(workers, window)?;
            Ok((ticket, batch, lock))
        })
        .await?;
        let _ = self.batch.set(batch.id().clone());
        let (batch, lock) = match lock {
            Some(lock) => (batch, lock),
            None => blocking(move || batch.lock().map(|lock| (batch, lock))).await?,
        };
        let line = ticket.line(&batch)?;
        let mut outcome = batch.outcome()?.unwrap_or_default();
        let is_settled = batch.response(line)?.is_some_and(|response| response.is_settled());
        if is_settled || outcome.tries > ticket.seen() {
            drop(lock);
        } else {
            outcome = self.lead(&batch, Some(lock)).await?;
        }
        let response = answered(batch.response(line)?, outcome)?;
        write_whole(&self.args.output_file, &serde_json::to_vec(&response)?)?;
        Ok(ticket)
    }

    /// Runs the batch, for all calls that wait for it.
    async fn lead(&self, batch: &JoinedBatch, mut lock: Option<File>) -> anyhow::Result<AttemptOutcome> {
        if let Err(error) = self.run(batch, &mut lock).await {
            let (exit, line) = one_line(&error);
            batch.finish(
                None,
                AttemptOutcome { failure: Some((line, exit as u8)), ..AttemptOutcome::default() },
            )?;
        }
        batch.outcome()?.context("the batch has no outcome")
    }

    async fn run(&self, batch: &JoinedBatch, lock: &mut Option<File>) -> anyhow::Result<()> {
        let CallOptions { target, github, remote, .. } = self.args;
        let (requests, files) = (batch.requests(), self.files.clone());
        let options = ExecutionOptions {
            input: Input::Calls { requests, files, home: self.home.clone() },
            targets_file: Some(self.file.clone()),
            targets: vec![target.clone()],
            tests: TestChoice::default(),
            batch_id: Some(batch.id().clone()),
            limits: RunLimits::default(),
            github: github.clone(),
            remote: remote.clone(),
        };
        let plan = Plan::read(options, Arc::clone(&self.observer))?;
        let planned = plan.batches()?;
        let mut execution = plan.execution(inputs::exchange(&self.exchange)?);
        let stored = execution.store(&plan, planned)?;
        let submitted = execution.submit(stored).await?;
        let mut responses = Vec::new();
        execution.wait_all(submitted, &mut responses).await?;
        let reason = execution.reason().map(ToOwned::to_owned);
        batch.finish(Some(&responses), AttemptOutcome { reason, ..AttemptOutcome::default() })?;
        // The others need not wait for the cleanup.
        drop(lock.take());
        execution.clean_up().await;
        Ok(())
    }

    /// The failure of a call that was stopped.
    fn stopped(&self) -> Failure {
        let failure = Failure::new(Exit::Incomplete, "stopped by a signal");
        match self.batch.get() {
            None => failure,
            Some(id) => {
                let exchange = quoted(&self.exchange);
                let collect = format!("`run-evals collect {id} --exchange {exchange}`");
                failure.hint(format!("the batch continues; {collect} collects its responses"))
            }
        }
    }
}

/// The response, or why there is none.
fn answered(response: Option<Response>, outcome: AttemptOutcome) -> Result<Response, Failure> {
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

/// Why a test has no response; a run on GitHub has its own reason.
pub(super) fn no_answer(error: &ErrorInfo, reason: Option<&str>) -> Failure {
    let ErrorInfo { kind, message, status, .. } = error;
    let status = status.map(|status| format!(", HTTP {status}")).unwrap_or_default();
    let failure = match (kind, reason) {
        (ErrorKind::NotRun, Some(reason)) => Failure::new(Exit::Incomplete, format!("no answer: {reason}")),
        (ErrorKind::NotRun, None) => Failure::new(Exit::Incomplete, message.clone()),
        _ => Failure::new(Exit::Failure, format!("the call failed ({}{status}): {message}", kind.as_str())),
    };
    match kind {
        ErrorKind::Auth => failure.hint("fix the API key in the runner repository's secrets"),
        ErrorKind::Quota => failure.hint("check the credit and the limits of the account at the vendor"),
        ErrorKind::NotFound => failure.hint("fix `model` or `base_url` of the runner's target"),
        ErrorKind::ContextLength => {
            failure.hint("shorten the prompt, or choose a model with a longer context")
        }
        _ => failure,
    }
}

/// Ends this process when the response is no longer wanted: AgentV has ended, has killed the shell of the call, or no longer
/// reads its output. Work that was started continues, and the next attempt finds it. A thread, not a task, because a task may
/// be blocked, and a repeated call must not meet this one.
fn end_when_given_up(run_dir: RunDir, parent: u32) -> anyhow::Result<()> {
    let is_given_up =
        move |look: u32| parent_id() != parent || has_no_reader() || look == 0 && !run_dir.is_wanted();
    if is_given_up(0) {
        return Err(Failure::new(Exit::Incomplete, "AgentV no longer waits for this call").into());
    }
    std::thread::spawn(move || {
        for look in (0..LOOKS).cycle() {
            std::thread::sleep(LOOK_EVERY);
            if is_given_up(look) {
                // The caller has ended.
                signals::end(Exit::Incomplete as i32);
            }
        }
    });
    Ok(())
}

/// Whether the other end of stdout or stderr is closed: AgentV closes it when it gives up a call.
fn has_no_reader() -> bool {
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let mut ends = [PollFd::new(&stdout, PollFlags::empty()), PollFd::new(&stderr, PollFlags::empty())];
    let closed = PollFlags::ERR | PollFlags::HUP;
    let asked = rustix::event::poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    asked.is_ok() && ends.iter().any(|end| end.revents().intersects(closed))
}

/// Waits for locks without blocking the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("a task was aborted")?
}

/// Writes a file atomically.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    durable::write(path, bytes).with_context(|| format!("cannot write the output file `{}`", path.display()))
}
