//! A git directory and a work tree whose own configuration plays no part.
//!
//! A clone on disk may be a stranger's: its configuration can name programs (filters, file monitors, ssh commands, credential
//! helpers). So it is looked at and changed through a git directory whose configuration was written here.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::command::{GitError, command, run};
use super::reach::Reach;

/// How long one command may take that reaches another machine.
const LONGEST_TRANSFER: Duration = Duration::from_hours(1);
/// How much of what git tells is kept for a message.
const MOST_TOLD: usize = 1 << 16;

/// Settings of a clone that say how its files look on disk, and start nothing.
const HARMLESS: [&str; 9] = [
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.autocrlf",
    "core.eol",
    "core.symlinks",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "extensions.objectformat",
];

/// What makes git run git-lfs, and nothing else.
pub const LFS_FILTER: [(&str, &str); 4] = [
    ("filter.lfs.clean", "git-lfs clean -- %f"),
    ("filter.lfs.smudge", "git-lfs smudge -- %f"),
    ("filter.lfs.process", "git-lfs filter-process"),
    ("filter.lfs.required", "true"),
];

/// A git directory and its work tree.
#[derive(Debug, Clone)]
pub struct Place {
    git_dir: PathBuf,
    work_tree: PathBuf,
    settings: Vec<(String, String)>,
}

impl Place {
    /// The git directory `git_dir` for the files in `work_tree`.
    pub fn new(git_dir: &Path, work_tree: &Path) -> Self {
        Self { git_dir: git_dir.to_path_buf(), work_tree: work_tree.to_path_buf(), settings: Vec::new() }
    }

    /// The same with these settings on top.
    #[must_use]
    pub fn with(mut self, settings: impl IntoIterator<Item = (String, String)>) -> Self {
        self.settings.extend(settings);
        self
    }

    /// The git directory.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The directory of the files.
    pub fn work_tree(&self) -> &Path {
        &self.work_tree
    }

    /// Makes an empty repository there.
    pub fn init(&self, object_format: &str) -> anyhow::Result<()> {
        let mut init = command("init")?;
        init.args(["--quiet", "--template=", &format!("--object-format={object_format}"), "--"]);
        init.arg(&self.work_tree).env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", &self.work_tree);
        run(init, "init").map(drop)
    }

    /// Runs a command that reaches nothing outside, and gives what it printed.
    pub fn run(&self, subcommand: &'static str, args: &[&str]) -> anyhow::Result<Vec<u8>> {
        run(self.local(subcommand, args)?, subcommand)
    }

    /// The same as text, without the last line break.
    pub fn ask(&self, subcommand: &'static str, args: &[&str]) -> anyhow::Result<String> {
        let printed = String::from_utf8_lossy(&self.run(subcommand, args)?).into_owned();
        Ok(printed.trim_end_matches('\n').to_owned())
    }

    /// Whether a command that reaches nothing outside says yes.
    pub fn holds(&self, subcommand: &'static str, args: &[&str]) -> anyhow::Result<bool> {
        let output = self.local(subcommand, args)?.output().context("cannot start git")?;
        Ok(output.status.success())
    }

    /// Runs a command that reaches the other side, with this on its stdin; `told` hears every line of its progress. A failure of git itself is a
    /// [`GitError`].
    pub fn transfer(
        &self,
        reach: &Reach,
        subcommand: &'static str,
        args: &[&str],
        input: Option<File>,
        told: &dyn Fn(&str),
    ) -> anyhow::Result<Vec<u8>> {
        let mut command = command(subcommand)?;
        command.args(args);
        if let Some(input) = input {
            command.stdin(input);
        }
        self.locate(&mut command);
        reach.apply(&mut command, &self.settings);
        run_told(command, subcommand, told)
    }

    fn local(&self, subcommand: &'static str, args: &[&str]) -> anyhow::Result<Command> {
        let mut command = command(subcommand)?;
        command.args(args).env("GIT_NO_LAZY_FETCH", "1").env("GIT_OPTIONAL_LOCKS", "0");
        command.env("GIT_ALLOW_PROTOCOL", "none");
        for name in ["GIT_AUTHOR", "GIT_COMMITTER"] {
            command.env(format!("{name}_NAME"), "run-evals");
            command.env(format!("{name}_EMAIL"), "run-evals@users.noreply.github.com");
        }
        self.locate(&mut command);
        set(&mut command, self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        Ok(command)
    }

    fn locate(&self, command: &mut Command) {
        command
            .env("GIT_DIR", &self.git_dir)
            .env("GIT_WORK_TREE", &self.work_tree)
            .current_dir(&self.work_tree);
    }
}

/// What a repository's configuration file says, without its includes; nothing is run for it.
pub fn config_file(file: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut list = command("config")?;
    list.arg("--file").arg(file).args(["--no-includes", "--list", "-z"]).current_dir("/");
    Ok(pairs(&run(list, "config")?))
}

/// Sets a value in a configuration file.
pub fn set_config(file: &Path, key: &str, value: &str) -> anyhow::Result<()> {
    let mut config = command("config")?;
    config.arg("--file").arg(file).args(["--replace-all", key, value]).current_dir("/");
    run(config, "config").map(drop)
}

/// The harmless settings among these.
pub fn harmless(settings: &[(String, String)]) -> Vec<(String, String)> {
    let is_word = |value: &str| value.bytes().all(|byte| byte.is_ascii_alphanumeric());
    settings
        .iter()
        .filter(|(key, value)| HARMLESS.contains(&key.as_str()) && is_word(value))
        .cloned()
        .collect()
}

/// `key\nvalue\0` as git lists settings; a key without a value means `true`.
pub(super) fn pairs(listed: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(listed);
    let pair = |entry: &str| match entry.split_once('\n') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => (entry.to_owned(), "true".to_owned()),
    };
    text.split('\0').filter(|entry| !entry.is_empty()).map(pair).collect()
}

/// Gives settings to a command through its environment, where no other process sees them.
pub(super) fn set<'s>(command: &mut Command, settings: impl Iterator<Item = (&'s str, &'s str)>) {
    let mut count = 0;
    for (key, value) in settings {
        command.env(format!("GIT_CONFIG_KEY_{count}"), key).env(format!("GIT_CONFIG_VALUE_{count}"), value);
        count += 1;
    }
    command.env("GIT_CONFIG_COUNT", count.to_string());
}

/// Runs a command to its end, with its progress told line by line. It is ended where it takes too long.
pub(super) fn run_told(
    mut command: Command,
    subcommand: &'static str,
    told: &dyn Fn(&str),
) -> anyhow::Result<Vec<u8>> {
    let cannot = || format!("cannot start `git {subcommand}`");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().with_context(cannot)?;
    let (mut out, mut err) = child.stdout.take().zip(child.stderr.take()).context("no pipe from git")?;
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
    let (mut said, mut line) = (Vec::new(), Vec::new());
    let is_late = loop {
        match receive.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(bytes) => {
                for byte in &bytes {
                    if matches!(byte, b'\r' | b'\n') {
                        let text = String::from_utf8_lossy(&line).into_owned();
                        told(text.trim());
                        // Percentages are no reason for a failure.
                        if *byte == b'\n' && said.len() < MOST_TOLD {
                            said.extend_from_slice(&line);
                            said.push(b'\n');
                        }
                        line.clear();
                    } else if line.len() < MOST_TOLD {
                        line.push(*byte);
                    }
                }
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break false,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => break true,
        }
    };
    if is_late {
        child.kill().with_context(|| format!("cannot end `git {subcommand}`"))?;
        said = format!("fatal: timed out: it took longer than {} s", LONGEST_TRANSFER.as_secs()).into_bytes();
    }
    said.extend_from_slice(&line);
    let status = child.wait().with_context(|| format!("cannot wait for `git {subcommand}`"))?;
    if !status.success() {
        return Err(GitError::new(subcommand, status, &said).into());
    }
    printed
        .join()
        .map_err(|_| anyhow::anyhow!("cannot read what git printed"))?
        .context("cannot read what git printed")
}
