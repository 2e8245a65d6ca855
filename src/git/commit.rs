//! Commits through `git fast-import`, one process per commit.

use std::io::{self, Read, Write};
use std::process::Stdio;
use std::time::SystemTime;

use anyhow::Context as _;

use super::command::{Git, GitError};
use super::git_dir::GitDir;
use super::identity::IDENTITY;
use super::objects::ObjectId;

const SUBCOMMAND: &str = "fast-import";

/// A file to commit.
pub struct NewFile<'a> {
    /// Relative path: plain ASCII without spaces.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    pub content: &'a mut dyn Read,
}

/// Outcome of a commit.
#[derive(Debug)]
pub enum CommitOutcome {
    Done,
    /// Another process moved or locked the branch; nothing changed.
    LostRace(GitError),
}

/// Outcome of the process.
pub(super) enum ImportOutcome {
    Done,
    Failed(GitError),
}

/// Commits on top of `parent`, or an orphan, and moves the branch if that is a fast-forward.
pub(super) fn import(
    git_dir: &GitDir,
    identity: Option<&str>,
    branch: &str,
    parent: Option<&ObjectId>,
    message: &str,
    files: &mut [NewFile<'_>],
) -> anyhow::Result<ImportOutcome> {
    let mut command = Git::at(git_dir, SUBCOMMAND)?;
    command.args(["--quiet", "--done"]).stdin(Stdio::piped());
    let mut child = command.spawn()?;
    let crash_report = git_dir.path().join(format!("fast_import_crash_{}", child.id()));
    let mut stdin = io::BufWriter::with_capacity(1 << 16, child.take_stdin().context("no pipe to git")?);

    let sent = send(&mut stdin, identity.unwrap_or(IDENTITY), branch, parent, message, files);
    if let Err(SendError::Content(error)) = sent {
        // Without the final `done`, the stream changes nothing. Kill git so that it does not read the rest.
        let _ = child.kill();
        let _ = std::fs::remove_file(crash_report);
        return Err(error);
    }
    drop(stdin);
    let output = child.output().with_context(|| format!("cannot wait for `git {SUBCOMMAND}`"))?;
    if output.status.success() && sent.is_ok() {
        return Ok(ImportOutcome::Done);
    }
    let _ = std::fs::remove_file(crash_report);
    Ok(ImportOutcome::Failed(GitError::new(SUBCOMMAND, output.status, &output.stderr)))
}

/// Which side failed.
enum SendError {
    /// A file could not be read or has another size.
    Content(anyhow::Error),
    /// Git closed the pipe; its stderr says why.
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

/// Copies a file; the error says which side failed.
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
