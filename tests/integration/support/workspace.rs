//! A temporary directory, and the binary run in it with a minimal environment.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;
use tempfile::TempDir;

/// The factor for all waits of a command, unless a test sets another one.
pub(crate) const CLOCK_FACTOR: &str = "0.05";

/// A working directory.
pub(crate) struct Workspace {
    dir: TempDir,
    env: Vec<(String, String)>,
}

/// The output and exit code of a command.
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        Self { dir: temporary(), env: Vec::new() }
    }

    /// A directory on a separate disk.
    pub(crate) fn within(dir: &Path) -> Self {
        Self { dir: tempfile::tempdir_in(dir).unwrap(), env: Vec::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Sets a variable for every command.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// An executable file.
    pub(crate) fn write_program(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        write_program(&path, text);
        path
    }

    /// A file that only its owner may read.
    pub(crate) fn write_private(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        self.write(name, text);
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The rows of a JSONL file.
    pub(crate) fn rows(&self, name: &str) -> Vec<Value> {
        self.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Everything in the directory: the content of each file; directories and links without content.
    pub(crate) fn tree(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let entries = walkdir::WalkDir::new(self.root()).into_iter().map(Result::unwrap);
        let content = |entry: &walkdir::DirEntry| {
            entry.file_type().is_file().then(|| std::fs::read(entry.path()).unwrap())
        };
        entries.map(|entry| (entry.path().to_owned(), content(&entry))).collect()
    }

    /// `requests.jsonl` with this many requests, each with its own message.
    pub(crate) fn write_requests(&self, count: usize) {
        let mut lines = String::new();
        for i in 0..count {
            let content = format!("message {i}");
            let request = serde_json::json!({"id": format!("r{i}"), "messages": [{"role": "user", "content": content}]});
            writeln!(lines, "{request}").unwrap();
        }
        self.write("requests.jsonl", lines);
    }

    /// `targets.yaml` with the target `llm` at this server; `more` are additional lines.
    pub(crate) fn write_target(&self, base_url: &str, more: &str) {
        let more: String = more.lines().map(|line| format!("    {}\n", line.trim())).collect();
        self.write(
            "targets.yaml",
            format!("targets:\n  - name: llm\n    provider: openai-compatible\n    base_url: {base_url}\n    model: mock-model\n{more}"),
        );
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_run-evals"));
        self.like(command.args(args));
        command
    }

    /// Makes any command run in the directory, with a minimal environment.
    pub(crate) fn like<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.current_dir(self.dir.path()).env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.env("TMPDIR", temporary_root()).env("RUN_EVALS_CLOCK_FACTOR", CLOCK_FACTOR);
        command.env("HOME", self.dir.path()).envs(self.env.iter().cloned()).stdin(Stdio::null())
    }

    /// A `PATH` whose git first runs a `sh` script, and then the real git unless the script exits.
    pub(crate) fn path_with_git(&self, script: &str) -> String {
        let path = std::env::var_os("PATH").unwrap();
        let real =
            std::env::split_paths(&path).map(|dir| dir.join("git")).find(|path| path.is_file()).unwrap();
        self.write_program(
            "bin/git",
            format!("#!/bin/sh\nreal='{}'\n{script}\nexec \"$real\" \"$@\"\n", real.display()),
        );
        let paths = std::iter::once(self.path("bin")).chain(std::env::split_paths(&path));
        std::env::join_paths(paths).unwrap().into_string().unwrap()
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        Output::of(&mut self.command(args))
    }

    /// The same for a command that might hang or take all memory: it is killed after 20 seconds, and gets 4 GB.
    pub(crate) fn run_bounded(&self, args: &[&str]) -> Output {
        let mut command = Command::new("sh");
        let script = "ulimit -v 4000000; exec timeout -k 1 20 \"$@\"";
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_run-evals")]).args(args);
        Output::of(self.like(&mut command))
    }

    /// Runs `dispatch` on `requests.jsonl` and `targets.yaml` to the directory `out`.
    pub(crate) fn dispatch(&self, more: &[&str]) -> Output {
        let args = ["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out", "-q"];
        self.run(&[&args, more].concat())
    }
}

impl Output {
    pub(crate) fn of(command: &mut Command) -> Self {
        command.output().unwrap().into()
    }

    /// The output, if the exit code is this one.
    pub(crate) fn expect(self, code: i32) -> Self {
        let Self { stdout, stderr, .. } = &self;
        assert_eq!(self.code, Some(code), "stdout:\n{stdout}\nstderr:\n{stderr}");
        self
    }
}

impl From<std::process::Output> for Output {
    fn from(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// An executable file, written by another process: a process that a concurrent test forks could inherit a descriptor of this one, and a
/// file that is open for writing cannot be executed (`ETXTBSY`).
pub(crate) fn write_program(path: &Path, text: impl AsRef<[u8]>) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    shell.stdin.take().unwrap().write_all(text.as_ref()).unwrap();
    assert!(shell.wait().unwrap().success());
}

/// A temporary directory in `TMPDIR`, otherwise in memory if possible: tests create and delete thousands of files, and sync many of them.
pub(crate) fn temporary() -> TempDir {
    tempfile::tempdir_in(temporary_root()).unwrap()
}

fn temporary_root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        if let Some(root) = std::env::var_os("TMPDIR") {
            return root.into();
        }
        let memory = Path::new("/dev/shm");
        // Tests also run the scripts that they write.
        let runs_scripts =
            |stat: rustix::fs::StatVfs| !stat.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC);
        let usable =
            rustix::fs::statvfs(memory).is_ok_and(runs_scripts) && tempfile::tempfile_in(memory).is_ok();
        if usable { memory.to_owned() } else { std::env::temp_dir() }
    });
    &ROOT
}
