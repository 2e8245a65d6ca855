//! A temporary directory, and the binary run in it with nothing of the outer environment but what it needs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A directory to work in.
pub(crate) struct Workspace {
    dir: TempDir,
    env: Vec<(String, String)>,
}

/// What a command printed, and how it ended.
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), env: Vec::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    /// A variable for every command.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The rows of a JSONL file.
    pub(crate) fn rows(&self, name: &str) -> Vec<Value> {
        self.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Everything in the directory: the content of each file, and nothing for a directory or a link.
    pub(crate) fn tree(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let entries = walkdir::WalkDir::new(self.root()).into_iter().map(Result::unwrap);
        let content = |entry: &walkdir::DirEntry| {
            entry.file_type().is_file().then(|| std::fs::read(entry.path()).unwrap())
        };
        entries.map(|entry| (entry.path().to_owned(), content(&entry))).collect()
    }

    /// `requests.jsonl` with so many requests, each asking its own id.
    pub(crate) fn write_requests(&self, count: usize) {
        let mut lines = String::new();
        for i in 0..count {
            let content = format!("message {i}");
            let request = serde_json::json!({"id": format!("r{i}"), "messages": [{"role": "user", "content": content}]});
            writeln!(lines, "{request}").unwrap();
        }
        self.write("requests.jsonl", lines);
    }

    /// `targets.yaml` with the target `llm` at this server; `more` are further lines of it.
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

    /// Lets any command run in the directory, with nothing of the outer environment but what it needs.
    pub(crate) fn like<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.current_dir(self.dir.path()).env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.env("HOME", self.dir.path()).envs(self.env.iter().cloned()).stdin(Stdio::null())
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let output = self.command(args).output().unwrap();
        Output {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs `dispatch` on `requests.jsonl` and `targets.yaml` to the directory `out`.
    pub(crate) fn dispatch(&self, more: &[&str]) -> Output {
        let args = ["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out", "-q"];
        self.run(&[&args, more].concat())
    }
}

impl Output {
    /// The output, if the exit code is this one.
    pub(crate) fn expect(self, code: i32) -> Self {
        let Self { stdout, stderr, .. } = &self;
        assert_eq!(self.code, Some(code), "stdout:\n{stdout}\nstderr:\n{stderr}");
        self
    }
}
