//! The only way to run git.
//!
//! Every git process is a [`Git`]. It gets a few environment variables, our configuration, no hooks, no
//! terminal, no transport, and only the named repository ([`GitDir`]). [`Git::allow`] enables transports.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;

use anyhow::Context as _;

use super::git_dir::GitDir;
use super::process::Running;
use crate::model::{Exit, Failure, printable};
use crate::util::{programs, redact_tokens};

/// Settings of every command; they override the repository's configuration.
const SETTINGS: [&str; 17] = [
    // Run nothing from the repository.
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "safe.bareRepository=explicit",
    "core.useReplaceRefs=false",
    "submodule.recurse=false",
    "log.showSignature=false",
    // Leave no process in the background.
    "gc.auto=0",
    "gc.autoDetach=false",
    "maintenance.auto=false",
    // Written data survives a power cut; `durable` syncs the directories.
    "core.fsync=committed,reference",
    "core.fsyncMethod=fsync",
    "init.defaultBranch=main",
    "core.warnAmbiguousRefs=false",
    // Almost as small as git's default, in half the time.
    "core.compression=3",
    // Rows differ too much for deltas to be worth the time.
    "pack.window=0",
    // Stream larger files instead of loading them.
    "core.bigFileThreshold=1m",
    // Keep packs: unpacking them to loose objects takes one more process.
    "fastimport.unpackLimit=0",
];

/// Environment variables that git gets: paths and network settings. Everything else is withheld, above all
/// keys.
const VARIABLES: [&str; 22] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "TEMP",
    "TMP",
    "SYSTEMROOT",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "LANG",
    "GIT_EXEC_PATH",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// Those that are lists of folders.
const FOLDERS: [&str; 4] = ["PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "GIT_EXEC_PATH"];

/// Number of stderr lines in an error.
const LINES: usize = 8;

/// A git command failed.
#[derive(Debug, thiserror::Error)]
#[error("`git {subcommand}` failed ({status}){}{stderr}", if stderr.is_empty() { "" } else { ": " })]
pub struct GitError {
    pub subcommand: &'static str,
    pub status: ExitStatus,
    /// Last lines of stderr.
    pub stderr: String,
}

impl GitError {
    pub(super) fn new(subcommand: &'static str, status: ExitStatus, stderr: &[u8]) -> Self {
        let text = redact_tokens(String::from_utf8_lossy(stderr).into_owned());
        let lines: Vec<String> = text
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty() && !line.contains("dumping crash report"))
            // File names and server messages are untrusted.
            .map(printable)
            .collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
        Self { subcommand, status, stderr: last }
    }

    /// Whether a lock file of git caused the failure.
    pub(super) fn is_locked(&self) -> bool {
        self.stderr.contains(".lock") && self.stderr.contains("File exists")
    }
}

/// A git command that has not started.
#[derive(Debug)]
pub(super) struct Git {
    command: Command,
    subcommand: &'static str,
    settings: usize,
}

impl Git {
    /// A command without a repository; git does not search for one.
    pub(super) fn new(subcommand: &'static str) -> Result<Self, Failure> {
        static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
        let program = PROGRAM.get_or_init(|| programs::find("git", &programs::path()));
        let mut command = Command::new(program.as_ref().ok_or_else(missing)?);
        let kept =
            VARIABLES.into_iter().filter_map(|name| Some((name, kept_value(name, env::var_os(name)?)?)));
        command
            .env_clear()
            .envs(kept)
            .env("PATH", programs::path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_ALLOW_PROTOCOL", "none")
            .env("GIT_DIR", "/dev/null")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command.arg(subcommand);
        Ok(Self { command, subcommand, settings: 0 })
    }

    /// A command in a repository.
    pub(super) fn at(git_dir: &GitDir, subcommand: &'static str) -> Result<Self, Failure> {
        let mut git = Self::new(subcommand)?;
        git.command.env("GIT_DIR", git_dir.path());
        if let Some(common) = git_dir.config_dir() {
            git.command.env("GIT_COMMON_DIR", common);
        }
        Ok(git)
    }

    /// Sets the work tree.
    pub(super) fn work_tree(&mut self, dir: &Path) -> &mut Self {
        self.command.env("GIT_WORK_TREE", dir).current_dir(dir);
        self
    }

    /// Sets the working directory.
    pub(super) fn current_dir(&mut self, dir: &Path) -> &mut Self {
        self.command.current_dir(dir);
        self
    }

    pub(super) fn arg(&mut self, arg: impl AsRef<OsStr>) -> &mut Self {
        self.command.arg(arg);
        self
    }

    pub(super) fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.command.args(args);
        self
    }

    pub(super) fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.command.env(name, value);
        self
    }

    pub(super) fn env_remove(&mut self, name: &str) -> &mut Self {
        self.command.env_remove(name);
        self
    }

    pub(super) fn stdin(&mut self, stdin: impl Into<Stdio>) -> &mut Self {
        self.command.stdin(stdin);
        self
    }

    /// Enables transports, separated by colons: `http:https`.
    pub(super) fn allow(&mut self, protocols: &str) -> &mut Self {
        self.command.env("GIT_ALLOW_PROTOCOL", protocols);
        self
    }

    /// Lets git fetch objects that a partial clone lacks. Only for repositories whose configuration
    /// run-evals wrote.
    pub(super) fn allow_lazy_fetch(&mut self) -> &mut Self {
        self.command.env_remove("GIT_NO_LAZY_FETCH");
        self
    }

    /// Adds a setting through the environment, which is hidden from other users' processes.
    pub(super) fn set(&mut self, key: &str, value: &str) -> &mut Self {
        let at = self.settings;
        self.settings += 1;
        self.command
            .env(format!("GIT_CONFIG_KEY_{at}"), key)
            .env(format!("GIT_CONFIG_VALUE_{at}"), value)
            .env("GIT_CONFIG_COUNT", self.settings.to_string());
        self
    }

    pub(super) fn subcommand(&self) -> &'static str {
        self.subcommand
    }

    pub(super) fn spawn(mut self) -> anyhow::Result<Running> {
        let is_remote = ["fetch", "push", "ls-remote", "submodule", "lfs"].contains(&self.subcommand);
        Running::start(&mut self.command, is_remote)
            .with_context(|| format!("cannot start `git {}`", self.subcommand))
    }

    pub(super) fn output(self) -> anyhow::Result<Output> {
        let subcommand = self.subcommand;
        self.spawn()?.output().with_context(|| format!("cannot wait for `git {subcommand}`"))
    }

    /// Runs the command and returns its stdout. A failure is a [`GitError`].
    pub(super) fn run(self) -> anyhow::Result<Vec<u8>> {
        let subcommand = self.subcommand;
        let output = self.output()?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(GitError::new(subcommand, output.status, &output.stderr).into())
        }
    }
}

/// The value that git gets: relative folders of a list would be folders of a checkout.
fn kept_value(name: &str, value: OsString) -> Option<OsString> {
    if FOLDERS.contains(&name) { programs::absolute(&value) } else { Some(value) }
}

fn missing() -> Failure {
    Failure::new(Exit::Failure, "cannot find `git`").hint("install git and make sure that it is in `PATH`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_git_is_reported() {
        let failure = missing();
        insta::assert_snapshot!(format!("{failure}\nhint: {}", failure.hint_text().unwrap()), @r"
        cannot find `git`
        hint: install git and make sure that it is in `PATH`
        ");
    }

    #[test]
    fn folders_of_a_checkout_do_not_reach_git() {
        let value = |name: &str, value: &str| kept_value(name, value.into());
        assert_eq!(value("PATH", ".:/usr/bin:"), Some("/usr/bin".into()));
        assert_eq!(value("LD_LIBRARY_PATH", ":lib"), None);
        assert_eq!(value("GIT_EXEC_PATH", "."), None);
        assert_eq!(value("HOME", "home"), Some("home".into()));
    }

    #[test]
    fn an_error_has_the_command_its_status_and_its_last_output() {
        let mut git = Git::at(&GitDir::own(Path::new("/nowhere/at/all")), "cat-file").unwrap();
        git.args(["-p", "HEAD"]);
        insta::assert_snapshot!(git.run().unwrap_err(), @"`git cat-file` failed (exit status: 128): fatal: not a git repository: '/nowhere/at/all'");
    }

    #[test]
    fn only_the_last_lines_are_repeated() {
        let stderr = "1\n2\n3\n\n4\n5\n6\n7\n8\n9\nfast-import: dumping crash report to x\n";
        assert_eq!(
            GitError::new("gc", ExitStatus::default(), stderr.as_bytes()).stderr,
            "2\n3\n4\n5\n6\n7\n8\n9"
        );
    }

    #[test]
    fn control_characters_in_the_output_are_escaped() {
        let stderr = b"fatal: cannot open 'a\x1b[2J\x07b'\r\nremote: \xc2\x9bq";
        assert_eq!(
            GitError::new("gc", ExitStatus::default(), stderr).stderr,
            "fatal: cannot open 'a\\u{1b}[2J\\u{7}b'\nremote: \\u{9b}q"
        );
    }

    #[test]
    fn the_environment_and_the_configuration_are_ours() {
        let mut git = Git::new("config").unwrap();
        git.args(["--list", "--show-scope"]);
        let text = String::from_utf8(git.run().unwrap()).unwrap();
        assert!(text.lines().all(|line| line.starts_with("command\t")), "{text}");
        // Children of git see no more than git does; the variables of the tests serve as keys.
        assert!(env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("CARGO")));
        let mut git = Git::new("seen").unwrap();
        git.set("alias.seen", "!env");
        let seen = String::from_utf8(git.run().unwrap()).unwrap();
        let of_the_shell = ["PWD", "OLDPWD", "SHLVL", "_", "LC_ALL"];
        let others: Vec<&str> = seen
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, _)| name)
            .filter(|name| {
                !name.starts_with("GIT_") && !VARIABLES.contains(name) && !of_the_shell.contains(name)
            })
            .collect();
        assert!(seen.contains("GIT_TERMINAL_PROMPT=0") && others.is_empty(), "{others:?}");
        for closed in ["GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_DIR=/dev/null"] {
            assert!(seen.lines().any(|line| line == closed), "{closed}: {seen}");
        }
    }
}
