//! `adapter`: what AgentV calls for each test case. Calls that come together leave as one batch, which one of them leads.
//!
//! AgentV puts all that this prints into its result row when it fails, so that is one line and nothing else.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::args::{AdapterArgs, BatchArgs, Format, LimitArgs, OutputArgs, TargetArgs, WorkArgs};
use super::display::{Display, stderr};
use super::inputs;
use super::session::{Input, Session};
use super::signals;
use crate::adapter::{JoinedBatch, Outcome, Prompt, Rendezvous, RunPlace, Ticket};
use crate::config::Roots;
use crate::error::one_line;
use crate::model::{BatchId, ErrorInfo, ErrorKind, Exit, Failure, Response, Target};

/// How often a call looks whether anybody still reads what it prints.
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
    let parent = parent_id();
    let mut stop = signals::interrupts()?;
    let cwd = std::env::current_dir().context("cannot find the working directory")?;
    let text = std::fs::read_to_string(&args.prompt_file).map_err(|error| {
        let message = format!("cannot read the prompt file `{}`: {error}", args.prompt_file.display());
        Failure::config(message).hint("AgentV writes it: pass `--prompt-file {PROMPT_FILE}`")
    })?;
    let targets = inputs::targets_file(args.targets.as_deref(), &cwd, &cwd, display)?;
    let home = cwd.join(targets.home());
    // What is wrong with the target is told before anyone waits.
    let target = targets.resolve(&args.target, &inputs::environment(&home, &home)?)?;
    check_trust(&args, &target)?;
    let mut roots = vec![Roots::new(&home, &home), Roots::new(&cwd, &cwd)];
    roots.extend(args.files_root.iter().map(|dir| Roots::new(dir, dir)));
    let prompt = Prompt::read(&text, &args.files, &roots)?;
    let exchange = args.exchange.clone().unwrap_or_else(|| inputs::exchange_of(&targets));
    let file = cwd.join(targets.path());
    let place = match &args.together {
        Some(key) => RunPlace::named(key)?,
        None => RunPlace::of_this_run()?,
    };
    let rendezvous = Rendezvous::open(place.dir(), &format!("{} {}", file.display(), args.target))?;
    let files = rendezvous.files();
    end_when_given_up(place, parent)?;
    let (id, output_file, attempt) = (args.id.clone(), args.output_file.clone(), args.attempt);
    let ticket = blocking(move || rendezvous.take_in(&id, prompt, &output_file, attempt)).await?;
    let call = Call { args: &args, files, exchange, file, home, display, batch: OnceLock::new() };
    tokio::select! {
        biased;
        _ = stop.wait_for(|count| *count > 0) => Err(call.stopped().into()),
        done = call.go_through(ticket, parent) => done,
    }
}

/// AgentV may start a command in the workspace of a test, where a stranger's targets file can lie. One that nobody named must
/// not choose the host that a key of this machine is sent to.
fn check_trust(args: &AdapterArgs, target: &Target) -> Result<(), Failure> {
    if args.targets.is_some() || matches!(target, Target::Remote(_)) {
        return Ok(());
    }
    let message =
        format!("target `{}` is no runner repository, and its targets file was not named", target.name());
    Err(Failure::config(message).hint(
        "add `--targets /path/to/targets.yaml` to the `command`: AgentV starts commands in workspaces, whose files are not yours",
    ))
}

/// What one call goes through.
struct Call<'c> {
    args: &'c AdapterArgs,
    files: PathBuf,
    exchange: PathBuf,
    /// The targets file, and the directory that it is about.
    file: PathBuf,
    home: PathBuf,
    display: &'c Display,
    /// Its batch, once it has one.
    batch: OnceLock<BatchId>,
}

impl Call<'_> {
    async fn go_through(&self, ticket: Ticket, parent: u32) -> anyhow::Result<()> {
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
        // Nobody has read it if AgentV has given up meanwhile; then the next attempt gets it.
        if parent_id() == parent
            && let Err(error) = ticket.delivered()
        {
            tracing::debug!("{error:#}");
        }
        Ok(())
    }

    /// Brings the batch to its answers, for all who wait for it.
    async fn lead(&self, batch: &JoinedBatch, mut lock: Option<File>) -> anyhow::Result<Outcome> {
        if let Err(error) = self.run(batch, &mut lock).await {
            let (exit, line) = one_line(&error);
            batch.finish(None, Outcome { failure: Some((line, exit as u8)), ..Outcome::default() })?;
        }
        batch.outcome()?.context("nothing is known of the batch")
    }

    async fn run(&self, batch: &JoinedBatch, lock: &mut Option<File>) -> anyhow::Result<()> {
        let AdapterArgs { target, github, remote, .. } = self.args;
        let work = WorkArgs {
            targets: TargetArgs { targets: Some(self.file.clone()), target: vec![target.clone()] },
            batch: BatchArgs { batch_id: Some(batch.id().clone()), exchange: self.exchange.clone() },
            limits: LimitArgs::default(),
            github: github.clone(),
            remote: remote.clone(),
            output: OutputArgs { output: None, format: Format::Text },
        };
        let (requests, files) = (batch.requests(), self.files.clone());
        let input = Input::Calls { requests, files, home: self.home.clone() };
        let session = Session::open(input, &work, self.display)?;
        let planned = session.plan()?;
        let exchange = inputs::exchange(&self.exchange)?;
        let handed_over = session.hand_over(&exchange, planned)?;
        let begun = session.begin(&exchange, handed_over).await?;
        let mut responses = Vec::new();
        let mut answered = session.answer(&exchange, begun, &mut responses).await?;
        let reason = std::mem::take(&mut answered.reasons).into_iter().next();
        batch.finish(Some(&responses), Outcome { reason, ..Outcome::default() })?;
        // The others need not wait for what is only tidy.
        drop(lock.take());
        if let Err(error) = session.tidy_up(&exchange, answered).await {
            tracing::debug!("{error:#}");
        }
        Ok(())
    }

    /// What a call says that was asked to stop.
    fn stopped(&self) -> Failure {
        let failure = Failure::new(Exit::Incomplete, "stopped by a signal");
        match self.batch.get() {
            None => failure,
            Some(id) => {
                let exchange = self.exchange.display();
                let collect = format!("`run-evals collect {id} --exchange {exchange}`");
                failure.hint(format!("what was started goes on; {collect} collects what it answers"))
            }
        }
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

/// Ends this process once nobody waits for it: AgentV has ended, or has given the call up and ended its shell, or reads no
/// more what it prints. What was started goes on, and the next attempt finds it. Not a task but a thread: the work may be
/// busy for a while, and whoever makes the call again must not meet it.
fn end_when_given_up(place: RunPlace, parent: u32) -> anyhow::Result<()> {
    let is_given_up =
        move |look: u32| parent_id() != parent || nobody_reads() || look == 0 && !place.is_wanted();
    if is_given_up(0) {
        return Err(Failure::new(Exit::Incomplete, "AgentV does not wait for this call any more").into());
    }
    std::thread::spawn(move || {
        for look in (0..LOOKS).cycle() {
            std::thread::sleep(LOOK_EVERY);
            if is_given_up(look) {
                #[expect(clippy::exit, reason = "there is nobody left to answer to")]
                std::process::exit(Exit::Incomplete as i32);
            }
        }
    });
    Ok(())
}

/// Whether the other end of stdout or stderr is closed, which is what AgentV does when it gives a call up.
fn nobody_reads() -> bool {
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let mut ends = [PollFd::new(&stdout, PollFlags::empty()), PollFd::new(&stderr, PollFlags::empty())];
    let closed = PollFlags::ERR | PollFlags::HUP;
    let asked = rustix::event::poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    asked.is_ok() && ends.iter().any(|end| end.revents().intersects(closed))
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
