//! One git process: found once, started clean, and told on when it fails.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;

use anyhow::Context as _;

use crate::model::{Exit, Failure};

/// What holds for every command, whatever the repository's own configuration says.
const SETTINGS: [&str; 10] = [
    "safe.directory=*",
    "core.hooksPath=/dev/null",
    "gc.auto=0",
    "init.defaultBranch=main",
    "core.warnAmbiguousRefs=false",
    // What is committed is compressed already.
    "core.compression=0",
    "pack.compression=0",
    "pack.window=0",
    // Larger files are streamed, not loaded.
    "core.bigFileThreshold=1m",
    // A pack stays a pack: turning it into loose objects is one more process.
    "fastimport.unpackLimit=0",
];

/// The variables that git gets to see: where things are, and how the network is reached. Everything else stays here, the keys
/// above all.
const KEPT: [&str; 22] = [
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

/// How many of the last lines of stderr an error repeats.
const LINES: usize = 8;

/// A git command failed.
#[derive(Debug, thiserror::Error)]
#[error("`git {subcommand}` failed ({status}){}{stderr}", if stderr.is_empty() { "" } else { ": " })]
pub struct GitError {
    /// Which one.
    pub subcommand: &'static str,
    /// How it ended.
    pub status: ExitStatus,
    /// The last lines that it wrote to stderr.
    pub stderr: String,
}

impl GitError {
    pub(super) fn new(subcommand: &'static str, status: ExitStatus, stderr: &[u8]) -> Self {
        let text = String::from_utf8_lossy(stderr);
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty() && !line.contains("dumping crash report"))
            .collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
        Self { subcommand, status, stderr: last }
    }
}

/// A git command that sees no environment and no configuration but ours, and no terminal.
pub(super) fn command(subcommand: &'static str) -> Result<Command, Failure> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| find(&env::var_os("PATH").unwrap_or_default()));
    let mut command = Command::new(program.as_ref().ok_or_else(missing)?);
    let kept = KEPT.into_iter().filter_map(|name| Some((name, env::var_os(name)?)));
    command
        .env_clear()
        .envs(kept)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_ATTR_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    alone(&mut command);
    command.arg(subcommand);
    Ok(command)
}

/// The same, in a repository.
pub(super) fn command_in(git_dir: &Path, subcommand: &'static str) -> Result<Command, Failure> {
    let mut command = command(subcommand)?;
    command.env("GIT_DIR", git_dir);
    Ok(command)
}

/// Runs a command to its end and returns what it wrote.
pub(super) fn run(mut command: Command, subcommand: &'static str) -> anyhow::Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("cannot start `git {subcommand}`"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(GitError::new(subcommand, output.status, &output.stderr).into())
    }
}

/// Keeps Ctrl-C away from the process: what was interrupted must still be able to save its results.
fn alone(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

fn find(path: &OsStr) -> Option<PathBuf> {
    let name = format!("git{}", env::consts::EXE_SUFFIX);
    env::split_paths(path).map(|folder| folder.join(&name)).find(|program| program.is_file())
}

fn missing() -> Failure {
    Failure::new(Exit::Failure, "cannot find `git`").hint("install git and make sure that it is in `PATH`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_is_found_in_the_path() {
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(find(empty.path().as_os_str()), None);
        let program = empty.path().join(format!("git{}", env::consts::EXE_SUFFIX));
        std::fs::write(&program, "").unwrap();
        let path = env::join_paths([Path::new("/nowhere"), empty.path()]).unwrap();
        assert_eq!(find(&path), Some(program));
        let failure = missing();
        insta::assert_snapshot!(format!("{failure}\nhint: {}", failure.hint_text().unwrap()), @r"
        cannot find `git`
        hint: install git and make sure that it is in `PATH`
        ");
    }

    #[test]
    fn a_failed_command_tells_its_name_its_status_and_its_last_words() {
        let mut command = command("cat-file").unwrap();
        command.args(["-p", "HEAD"]).env("GIT_DIR", "/nowhere/at/all");
        insta::assert_snapshot!(run(command, "cat-file").unwrap_err(), @"`git cat-file` failed (exit status: 128): fatal: not a git repository: '/nowhere/at/all'");
    }

    #[test]
    fn only_the_last_lines_are_repeated() {
        let status = Command::new("false").status().unwrap();
        let stderr = "1\n2\n3\n\n4\n5\n6\n7\n8\n9\nfast-import: dumping crash report to x\n";
        assert_eq!(GitError::new("gc", status, stderr.as_bytes()).stderr, "2\n3\n4\n5\n6\n7\n8\n9");
    }

    #[test]
    fn the_environment_and_the_configuration_are_ours() {
        let mut command = command("config").unwrap();
        command.args(["--list", "--show-scope"]).current_dir("/");
        let text = String::from_utf8(run(command, "config").unwrap()).unwrap();
        assert!(text.lines().all(|line| line.starts_with("command\t")), "{text}");
        // What git itself starts sees no more than git does; the variables of the tests stand for keys.
        assert!(env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("CARGO")));
        let mut command = super::command("seen").unwrap();
        command.env("GIT_CONFIG_COUNT", "1");
        command.env("GIT_CONFIG_KEY_0", "alias.seen").env("GIT_CONFIG_VALUE_0", "!env");
        let seen = String::from_utf8(run(command, "seen").unwrap()).unwrap();
        let of_the_shell = ["PWD", "OLDPWD", "SHLVL", "_", "LC_ALL"];
        let others: Vec<&str> = seen
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, _)| name)
            .filter(|name| !name.starts_with("GIT_") && !KEPT.contains(name) && !of_the_shell.contains(name))
            .collect();
        assert!(seen.contains("GIT_TERMINAL_PROMPT=0") && others.is_empty(), "{others:?}");
    }
}
