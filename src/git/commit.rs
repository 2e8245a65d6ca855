//! Committing through one `git fast-import` per commit.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::SystemTime;

use anyhow::Context as _;

use super::command::{GitError, command_in};
use super::objects::ObjectId;

const SUBCOMMAND: &str = "fast-import";
const IDENTITY: &str = "run-evals <run-evals@users.noreply.github.com>";

/// A file to be committed.
pub struct NewFile<'a> {
    /// Where it goes: plain ASCII without spaces, relative.
    pub path: String,
    /// How many bytes it has.
    pub size: u64,
    /// Its bytes.
    pub content: &'a mut dyn Read,
}

/// How a commit ended.
#[derive(Debug)]
pub enum Committed {
    /// The branch has it.
    Done,
    /// Somebody else moved or locked the branch meanwhile; nothing was changed.
    LostRace(GitError),
}

/// What came of the process.
pub(super) enum Imported {
    Done,
    Failed(GitError),
}

/// Adds a commit on top of `parent`, or an orphan one, and moves the branch to it if that is a fast-forward.
pub(super) fn import(
    git_dir: &Path,
    identity: Option<&str>,
    branch: &str,
    parent: Option<&ObjectId>,
    message: &str,
    files: &mut [NewFile<'_>],
) -> anyhow::Result<Imported> {
    let mut command = command_in(git_dir, SUBCOMMAND)?;
    let mut child = command
        .args(["--quiet", "--done"])
        .stdin(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `git {SUBCOMMAND}`"))?;
    let crash_report = git_dir.join(format!("fast_import_crash_{}", child.id()));
    let mut stdin = io::BufWriter::with_capacity(1 << 16, child.stdin.take().context("no pipe to git")?);

    let sent = send(&mut stdin, identity.unwrap_or(IDENTITY), branch, parent, message, files);
    if let Err(SendError::Content(error)) = sent {
        // Without its final `done` the stream changes nothing; killed first, so that not even the rest is read.
        let _ = child.kill();
        let _ = child.wait();
        let _ = std::fs::remove_file(crash_report);
        return Err(error);
    }
    drop(stdin);
    let output = child.wait_with_output().with_context(|| format!("cannot wait for `git {SUBCOMMAND}`"))?;
    if output.status.success() && sent.is_ok() {
        return Ok(Imported::Done);
    }
    let _ = std::fs::remove_file(crash_report);
    Ok(Imported::Failed(GitError::new(SUBCOMMAND, output.status, &output.stderr)))
}

/// Whose fault it is that the stream was not sent.
enum SendError {
    /// A file could not be read, or is not as long as was said.
    Content(anyhow::Error),
    /// Git does not listen any more; its own words tell why.
    Pipe,
}

impl From<io::Error> for SendError {
    fn from(_: io::Error) -> Self {
        Self::Pipe
    }
}

fn send(
    to: &mut impl Write,
    identity: &str,
    branch: &str,
    parent: Option<&ObjectId>,
    message: &str,
    files: &mut [NewFile<'_>],
) -> Result<(), SendError> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    writeln!(to, "commit refs/heads/{branch}\ncommitter {identity} {now} +0000")?;
    writeln!(to, "data {}\n{message}", message.len())?;
    if let Some(parent) = parent {
        writeln!(to, "from {parent}")?;
    }
    for file in files {
        writeln!(to, "M 100644 inline {}\ndata {}", file.path, file.size)?;
        copy(file, to)?;
        writeln!(to)?;
    }
    writeln!(to, "done")?;
    to.flush()?;
    Ok(())
}

/// Copies a file and tells apart which side failed.
fn copy(file: &mut NewFile<'_>, to: &mut impl Write) -> Result<(), SendError> {
    let mut buffer = vec![0; 1 << 16];
    let mut left = file.size;
    loop {
        let length = match file.content.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let error = anyhow::Error::new(error).context(format!("cannot read `{}`", file.path));
                return Err(SendError::Content(error));
            }
        };
        match (length, left.checked_sub(length as u64)) {
            (0, Some(0)) => return Ok(()),
            (1.., Some(rest)) => left = rest,
            _ => return Err(SendError::Content(anyhow::anyhow!("`{}` changed its length", file.path))),
        }
        to.write_all(&buffer[..length])?;
    }
}
