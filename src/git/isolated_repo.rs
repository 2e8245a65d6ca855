//! A git directory and work tree, used without their own configuration.
//!
//! A clone on disk may be untrusted: its configuration can name programs (filters, file monitors, ssh
//! commands, credential helpers). So git works with a git directory whose configuration run-evals wrote.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::command::{Git, GitError};
use super::git_dir::{Checkout, GitDir};
use super::identity;
use super::transient::retry_briefly;
use super::transport::Transport;

/// Timeout of one remote command.
const LONGEST_TRANSFER: Duration = Duration::from_hours(1);
/// Size limit of the git output kept for a message.
const MOST_OUTPUT: usize = 1 << 16;

/// Settings that make git run git-lfs, and nothing else.
pub const LFS_FILTER: [(&str, &str); 4] = [
    ("filter.lfs.clean", "git-lfs clean -- %f"),
    ("filter.lfs.smudge", "git-lfs smudge -- %f"),
    ("filter.lfs.process", "git-lfs filter-process"),
    ("filter.lfs.required", "true"),
];

/// Whether git-lfs is installed. Checked outside of any repository, because an alias could have that name.
pub fn has_lfs() -> anyhow::Result<bool> {
    let mut git = Git::new("lfs")?;
    git.arg("version");
    Ok(git.output()?.status.success())
}

#[derive(Debug, Clone)]
pub struct IsolatedRepo {
    git_dir: GitDir,
    work_tree: PathBuf,
    settings: Vec<(String, String)>,
}

impl IsolatedRepo {
    /// The git directory `git_dir`, whose configuration run-evals wrote, with the files in `work_tree`.
    pub fn new(git_dir: &Path, work_tree: &Path) -> Self {
        let git_dir = GitDir::own(git_dir);
        Self { git_dir, work_tree: work_tree.to_path_buf(), settings: Vec::new() }
    }

    /// A foreign git directory; git does not read its configuration.
    pub fn foreign(git_dir: &Path, work_tree: &Path) -> anyhow::Result<Self> {
        let checkout = Checkout::at(work_tree, git_dir)?.context("it is not a repository")?;
        let git_dir = GitDir::foreign(&checkout)?;
        Ok(Self { git_dir, work_tree: work_tree.to_path_buf(), settings: Vec::new() })
    }

    /// Adds settings.
    #[must_use]
    pub fn with(mut self, settings: impl IntoIterator<Item = (String, String)>) -> Self {
        self.settings.extend(settings);
        self
    }

    pub fn git_dir(&self) -> &Path {
        self.git_dir.path()
    }

    pub fn work_tree(&self) -> &Path {
        &self.work_tree
    }

    pub fn init(&self, object_format: &str) -> anyhow::Result<()> {
        let mut init = Git::at(&self.git_dir, "init")?;
        init.args(["--quiet", "--template=", &format!("--object-format={object_format}"), "--"]);
        init.arg(&self.work_tree).env("GIT_WORK_TREE", &self.work_tree);
        init.run().map(drop)
    }

    /// Runs a local command and returns its stdout.
    pub fn run(&self, subcommand: &'static str, args: &[&str]) -> anyhow::Result<Vec<u8>> {
        self.local(subcommand, args)?.run()
    }

    /// Like [`Self::run`], as text without the last line break.
    pub fn ask(&self, subcommand: &'static str, args: &[&str]) -> anyhow::Result<String> {
        let printed = String::from_utf8_lossy(&self.run(subcommand, args)?).into_owned();
        Ok(printed.trim_end_matches('\n').to_owned())
    }

    /// Whether a local command succeeds.
    pub fn holds(&self, subcommand: &'static str, args: &[&str]) -> anyhow::Result<bool> {
        let output = self.local(subcommand, args)?.output()?;
        Ok(output.status.success())
    }

    /// Runs a remote command with this stdin and passes each line of its progress to `on_progress`. Retries
    /// transient failures. A failure of git itself is a [`GitError`].
    pub fn transfer(
        &self,
        reach: &Transport,
        subcommand: &'static str,
        args: &[&str],
        input: Option<&File>,
        on_progress: &dyn Fn(&str),
    ) -> anyhow::Result<Vec<u8>> {
        retry_briefly(|| {
            let mut git = Git::at(&self.git_dir, subcommand)?;
            git.work_tree(&self.work_tree).args(args);
            if let Some(input) = input {
                let mut input = input.try_clone()?;
                input.rewind()?;
                git.stdin(input);
            }
            // For submodules, and files that a partial clone lacks; the configuration is ours.
            git.allow_lazy_fetch();
            reach.apply(&mut git, &self.settings);
            run_reporting(git, on_progress)
        })
    }

    fn local(&self, subcommand: &'static str, args: &[&str]) -> anyhow::Result<Git> {
        let mut git = Git::at(&self.git_dir, subcommand)?;
        git.work_tree(&self.work_tree).args(args);
        for name in ["GIT_AUTHOR", "GIT_COMMITTER"] {
            git.env(format!("{name}_NAME"), identity::NAME);
            git.env(format!("{name}_EMAIL"), identity::ADDRESS);
        }
        for (key, value) in &self.settings {
            git.set(key, value);
        }
        Ok(git)
    }
}

/// Runs a command and reports its progress line by line. Terminates it on timeout.
pub(super) fn run_reporting(git: Git, on_progress: &dyn Fn(&str)) -> anyhow::Result<Vec<u8>> {
    let subcommand = git.subcommand();
    let mut child = git.spawn()?;
    let (mut out, mut err) = child.take_stdout().zip(child.take_stderr()).context("no pipe from git")?;
    let printed = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map(|_| bytes)
    });
    let (send, receive) = channel::<Vec<u8>>();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = err.read(&mut buffer) {
            if send.send(buffer[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    let until = Instant::now() + LONGEST_TRANSFER;
    let (mut stderr, mut line) = (Vec::new(), Vec::new());
    let is_late = loop {
        match receive.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(bytes) => {
                for byte in &bytes {
                    if matches!(byte, b'\r' | b'\n') {
                        let text = String::from_utf8_lossy(&line).into_owned();
                        on_progress(text.trim());
                        // Leave progress percentages out of error messages.
                        if *byte == b'\n' && stderr.len() < MOST_OUTPUT {
                            stderr.extend_from_slice(&line);
                            stderr.push(b'\n');
                        }
                        line.clear();
                    } else if line.len() < MOST_OUTPUT {
                        line.push(*byte);
                    }
                }
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break false,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => break true,
        }
    };
    if is_late {
        child.end().with_context(|| format!("cannot end `git {subcommand}`"))?;
        stderr =
            format!("fatal: timed out: it took longer than {} s", LONGEST_TRANSFER.as_secs()).into_bytes();
    }
    stderr.extend_from_slice(&line);
    let status = child.wait().with_context(|| format!("cannot wait for `git {subcommand}`"))?;
    if !status.success() {
        return Err(GitError::new(subcommand, status, &stderr).into());
    }
    printed
        .join()
        .map_err(|_| anyhow::anyhow!("cannot read what git printed"))?
        .context("cannot read what git printed")
}
