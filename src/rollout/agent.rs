//! The user's own agent: a command that finds the ids, the model and the key in its environment, and makes its calls itself. Its
//! exit code decides. It runs in a process group of its own, for a bounded time, and all of it ends with it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;

use super::status::{Code, Status};
use crate::model::printable;
use crate::util::programs;
use crate::util::redact::Redactor;

/// How much of a line, and how many lines, are shown.
const LONGEST_LINE: usize = 4_000;
const MOST_LINES: usize = 20_000;
/// How long output is waited for once the command itself has ended.
const AFTER_END: Duration = Duration::from_secs(1);

/// A command, and what it sees.
#[derive(Debug, Clone)]
pub struct Agent {
    /// For `sh -c`; it is the owner's, and nothing of a dispatch stands in it.
    pub command: String,
    /// The directory that it starts in.
    pub cwd: PathBuf,
    /// The longest that it may take.
    pub timeout: Duration,
    /// Variables of this process that it does not get to see.
    pub hidden: Vec<String>,
}

/// The processes of a command; all of them end with it.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        // Fails where all have ended.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

impl Agent {
    /// Runs the command with these further variables; `tell` hears what it prints.
    pub(super) async fn run(
        &self,
        variables: &[(&str, String)],
        redactor: &Redactor,
        tell: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<(), Status> {
        let internal = |message: String| Status::new(Code::Internal, redactor.redact(message));
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.command).current_dir(&self.cwd);
        command.env("PATH", programs::path());
        for name in &self.hidden {
            command.env_remove(name);
        }
        command.envs(variables.iter().map(|(name, value)| (*name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child =
            command.spawn().map_err(|error| internal(format!("the command cannot be started: {error}")))?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let group = id.and_then(Pid::from_raw).map(Group);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut last = String::new();
        let output = async {
            tokio::join!(
                show(stdout, redactor, tell, |_| {}),
                show(stderr, redactor, tell, |line| line.clone_into(&mut last)),
            );
        };
        let ended = {
            tokio::pin!(output);
            let limit = tokio::time::sleep(self.timeout);
            tokio::pin!(limit);
            let mut is_open = true;
            let ended = loop {
                tokio::select! {
                    ended = child.wait() => break Some(ended),
                    () = &mut output, if is_open => is_open = false,
                    () = &mut limit => break None,
                }
            };
            // Whatever it has left behind goes too.
            drop(group);
            if is_open {
                let _ = tokio::time::timeout(AFTER_END, output).await;
            }
            ended
        };
        let Some(ended) = ended else {
            let message =
                format!("the command did not end within {} s, and was ended", self.timeout.as_secs_f64());
            return Err(Status::new(Code::DeadlineExceeded, message));
        };
        let status = ended.map_err(|error| internal(format!("the command was lost: {error}")))?;
        match status.code() {
            Some(0) => Ok(()),
            Some(code) if last.is_empty() => {
                Err(internal(format!("the command ended with exit code {code}")))
            }
            Some(code) => Err(internal(format!("the command ended with exit code {code}: {last}"))),
            None => Err(internal(format!("the command was ended: {status}"))),
        }
    }
}

/// Shows a stream line by line, as far as it makes sense, without secrets and without anything that a log obeys.
async fn show(
    stream: Option<impl AsyncRead + Unpin>,
    redactor: &Redactor,
    tell: &(dyn Fn(&str) + Send + Sync),
    mut seen: impl FnMut(&str),
) {
    let Some(stream) = stream else { return };
    let mut reader = BufReader::new(stream);
    let (mut line, mut lines) = (Vec::new(), 0);
    loop {
        let Ok(buffer) = reader.fill_buf().await else { return };
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let room = LONGEST_LINE.saturating_sub(line.len());
        let taken = end.unwrap_or(buffer.len());
        line.extend_from_slice(&buffer[..taken.min(room)]);
        let is_last = buffer.is_empty();
        let used = end.map_or(buffer.len(), |end| end + 1);
        reader.consume(used);
        if end.is_some() || is_last && !line.is_empty() {
            let text = {
                // A long line was cut.
                let line = String::from_utf8_lossy(&line).into_owned();
                printable(redactor.redact_part(line).trim_end())
            };
            line.clear();
            lines += 1;
            if !text.is_empty() {
                seen(&text);
            }
            match lines {
                ..MOST_LINES => tell(&text),
                MOST_LINES => tell("(more is not shown)"),
                _ => {}
            }
        }
        if is_last {
            return;
        }
    }
}
