//! Reads objects through one long-lived `git cat-file --batch`.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::process::{ChildStdin, ChildStdout, Stdio};

use anyhow::Context as _;

use super::command::{Git, GitError};
use super::git_dir::GitDir;
use super::process::Running;
use crate::model::printable;

const SUBCOMMAND: &str = "cat-file";

/// The hexadecimal id of a git object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectId(String);

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Header of an object.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) id: ObjectId,
    pub(super) kind: String,
    pub(super) size: u64,
}

/// The `cat-file` process.
#[derive(Debug)]
pub(super) struct Objects {
    child: Running,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Objects {
    pub(super) fn start(git_dir: &GitDir) -> anyhow::Result<Self> {
        let mut command = Git::at(git_dir, SUBCOMMAND)?;
        command.arg("--batch").stdin(Stdio::piped());
        let mut child = command.spawn()?;
        let (stdin, stdout) = child.take_stdin().zip(child.take_stdout()).context("no pipe to git")?;
        Ok(Self { child, stdin, stdout: BufReader::with_capacity(1 << 16, stdout) })
    }

    /// Passes the content of an object to `read`; `None` if it does not exist.
    ///
    /// After an error the process is out of sync and must be dropped.
    pub(super) fn get<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Header, &mut dyn Read) -> anyhow::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        anyhow::ensure!(!name.contains('\n'), "an object name with a line feed");
        let mut answer = Vec::new();
        let asked = self.stdin.write_all(format!("{name}\n").as_bytes());
        if asked.is_err() || self.stdout.read_until(b'\n', &mut answer)? == 0 {
            return Err(self.exit_error().into());
        }
        let answer = String::from_utf8_lossy(&answer);
        let answer = answer.trim_end();
        if answer.ends_with(" missing") || answer.ends_with(" ambiguous") {
            return Ok(None);
        }
        let header =
            parse(answer).with_context(|| format!("cannot parse git's response `{}`", printable(answer)))?;
        let mut content = (&mut self.stdout).take(header.size);
        let value = read(&header, &mut content)?;
        io::copy(&mut content, &mut io::sink())?;
        let complete = content.limit() == 0;
        if !complete || self.stdout.read(&mut [0])? == 0 {
            return Err(self.exit_error().into());
        }
        Ok(Some(value))
    }

    /// Why the process closed its pipes.
    fn exit_error(&mut self) -> GitError {
        let mut stderr = Vec::new();
        if let Some(mut pipe) = self.child.take_stderr() {
            let _ = pipe.read_to_end(&mut stderr);
        }
        let status = self.child.wait().unwrap_or_default();
        GitError::new(SUBCOMMAND, status, &stderr)
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // It only reads, so killing it loses nothing.
        let _ = self.child.kill();
    }
}

fn parse(answer: &str) -> Option<Header> {
    let mut words = answer.split(' ');
    let (id, kind, size) = (words.next()?, words.next()?, words.next()?.parse().ok()?);
    Some(Header { id: ObjectId(id.to_owned()), kind: kind.to_owned(), size })
}

/// Git returned a tree that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("the tree {0} is damaged")]
pub struct DamagedTree(ObjectId);

/// The names in a tree object: a sequence of mode, space, name, NUL and binary object id.
pub(super) fn tree_names(tree: &ObjectId, content: &[u8]) -> anyhow::Result<Vec<String>> {
    let id_length = tree.0.len() / 2;
    let mut names = Vec::new();
    let mut rest = content;
    while !rest.is_empty() {
        let parts = memchr::memchr(0, rest).and_then(|end| {
            let space = memchr::memchr(b' ', &rest[..end])?;
            Some((&rest[space + 1..end], rest.get(end + 1 + id_length..)?))
        });
        let (name, next) = parts.ok_or_else(|| DamagedTree(tree.clone()))?;
        names.push(String::from_utf8_lossy(name).into_owned());
        rest = next;
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_read_and_damaged_ones_are_rejected() {
        let id = ObjectId("0".repeat(40));
        let tree = [b"100644 a b\0".as_slice(), &[7; 20], b"40000 results\0", &[0; 20]].concat();
        assert_eq!(tree_names(&id, &tree).unwrap(), ["a b", "results"]);
        assert!(tree_names(&id, &tree[..tree.len() - 1]).is_err());
        assert!(tree_names(&id, b"100644").is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_interrupt_does_not_reach_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let repository = crate::git::Repository::init(&dir.path().join("r.git")).unwrap();
        let objects = Objects::start(&repository.git_dir).unwrap();
        let pid = objects.child.id();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let group = stat.rsplit(')').next().unwrap().split_whitespace().nth(2).unwrap();
        assert_eq!(group, pid.to_string(), "it is in the group of the terminal");
    }
}
