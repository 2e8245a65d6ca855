//! The user's own agent: a command that finds the ids, the model and the key in its environment and makes its own calls. Its exit
//! code is the result. It runs in its own process group, for a bounded time; the whole group ends with it.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::Command;

use super::status::{Code, Status};
use crate::model::printable;
use crate::util::process_group::ProcessGroup;
use crate::util::programs;
use crate::util::redact::Redactor;

/// The longest line, and the most lines, that are shown.
const LONGEST_LINE: usize = 4_000;
const MOST_LINES: usize = 20_000;
/// How long to read output after the command itself has ended.
const AFTER_END: Duration = Duration::from_secs(1);

/// A command and its environment.
#[derive(Debug, Clone)]
pub struct Agent {
    /// For `sh -c`; written by the owner, with no part of a dispatch in it.
    pub command: String,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its time limit.
    pub timeout: Duration,
    /// Variables of this process that are hidden from it.
    pub hidden: Vec<String>,
}

impl Agent {
    /// Runs the command with these additional variables; its output goes to `tell`.
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
        let group = ProcessGroup::of(&child);
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
            // Ends the processes that it left behind.
            drop(group);
            if is_open {
                let _ = tokio::time::timeout(AFTER_END, output).await;
            }
            ended
        };
        let Some(ended) = ended else {
            let message =
                format!("the command did not finish within {} s and was killed", self.timeout.as_secs_f64());
            return Err(Status::new(Code::DeadlineExceeded, message));
        };
        let status = ended.map_err(|error| internal(format!("the command was lost: {error}")))?;
        match status.code() {
            Some(0) => Ok(()),
            Some(code) if last.is_empty() => {
                Err(internal(format!("the command ended with exit code {code}")))
            }
            Some(code) => Err(internal(format!("the command ended with exit code {code}: {last}"))),
            None => Err(internal(format!("the command was killed: {status}"))),
        }
    }
}

/// Prints a stream line by line, within limits, without secrets and without workflow commands.
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
                // A long line was truncated.
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
                MOST_LINES => tell("(truncated)"),
                _ => {}
            }
        }
        if is_last {
            return;
        }
    }
}
