//! AgentV as the adapter sees it: one process per call, all with the same parent.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::stage::Stage;
use crate::support::until;

/// A runner repository, a model, and calls to it.
pub(crate) struct Calls {
    pub(crate) stage: Stage,
}

/// One call of AgentV.
pub(crate) struct Call {
    pub(crate) child: Child,
    output: PathBuf,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stderr: String,
    pub(crate) output: Option<Value>,
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self::with_llm(&[])
    }

    pub(crate) fn with_llm(options: &[&str]) -> Self {
        Self::on(Stage::with_llm(options))
    }

    pub(crate) fn on(stage: Stage) -> Self {
        let runtime = stage.workspace.path("runtime");
        std::fs::create_dir(&runtime).unwrap();
        Self { stage: stage.env("XDG_RUNTIME_DIR", runtime.to_str().unwrap()) }
    }

    /// The command of a call with the prompt `message <n>`, as AgentV would render it.
    pub(crate) fn command(&self, id: &str, message: &str, more: &[&str]) -> (Command, PathBuf) {
        let workspace = &self.stage.workspace;
        let nonce = fastrand::u64(..);
        let (prompt, output) = (format!("tmp/{id}-{nonce}.prompt.txt"), format!("tmp/{id}-{nonce}.json"));
        workspace.write(&prompt, message);
        let (prompt, output) = (workspace.path(&prompt), workspace.path(&output));
        let args = ["adapter", "--target", "cloud", "--id", id];
        let files = ["--prompt-file", prompt.to_str().unwrap(), "--output-file", output.to_str().unwrap()];
        (workspace.command(&[&args[..], &files, more].concat()), output)
    }

    /// Starts a call.
    pub(crate) fn start(&self, id: &str, message: &str, attempt: u32, more: &[&str]) -> Call {
        let attempt = attempt.to_string();
        let (mut command, output) = self.command(id, message, &[&["--attempt", &attempt], more].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Call { child, output }
    }

    /// Starts a call from a parent other than this test. `xargs` is not a shell.
    pub(crate) fn start_elsewhere(&self, id: &str, message: &str, more: &[&str]) -> Call {
        let (command, output) = self.command(id, message, more);
        let mut xargs = Command::new("xargs");
        xargs.arg(command.get_program()).args(command.get_args()).env_clear();
        xargs.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        xargs.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
        let child = xargs.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Call { child, output }
    }

    /// Starts calls with consecutive ids (`c0`, `c1`, …) and prompts (`message 0`, `message 1`, …).
    pub(crate) fn start_from(&self, first: usize, count: usize, more: &[&str]) -> Vec<Call> {
        let start = |n: usize| self.start(&format!("c{n}"), &format!("message {n}"), 0, more);
        (first..first + count).map(start).collect()
    }

    /// Makes a call and waits for it.
    pub(crate) fn call(&self, id: &str, message: &str, attempt: u32, more: &[&str]) -> Done {
        self.start(id, message, attempt, more).wait()
    }

    /// The files in a folder of the run directory, such as `waiting`.
    pub(crate) fn files(&self, folder: &str) -> Vec<PathBuf> {
        let runtime = self.stage.workspace.path("runtime");
        let entries = walkdir::WalkDir::new(runtime).into_iter().filter_map(Result::ok);
        let is_in = |path: &PathBuf| path.parent().is_some_and(|parent| parent.ends_with(folder));
        entries.map(walkdir::DirEntry::into_path).filter(is_in).collect()
    }

    /// Waits until the folder has this many files.
    pub(crate) fn until(&self, folder: &str, count: usize) {
        until(&format!("{count} in `{folder}`"), || self.files(folder).len() == count);
    }
}

impl Call {
    pub(crate) fn wait(self) -> Done {
        let output = self.child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"", "stdout is for data");
        let written = std::fs::read_to_string(&self.output).ok();
        Done {
            code: output.status.code(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            output: written.map(|text| serde_json::from_str(&text).unwrap()),
        }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Waits for calls with the prompts `message <first>`, … and checks that each got its own answer.
pub(crate) fn all_answered(first: usize, calls: Vec<Call>) {
    for (n, call) in (first..).zip(calls) {
        assert_eq!(call.wait().answer(), format!("message {n}"));
    }
}

impl Done {
    /// The answer of a successful call.
    pub(crate) fn answer(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        assert_eq!(self.stderr, "");
        self.output.unwrap()["output"][0]["content"].as_str().unwrap().to_owned()
    }

    /// The error of a failed call; the output file has the same text.
    pub(crate) fn failure(self) -> String {
        let line = self.stderr.strip_suffix('\n').unwrap().to_owned();
        assert!(!line.contains('\n'), "one line: {line}");
        assert_eq!(self.output.unwrap(), serde_json::json!({ "error": line }));
        format!("exit {}: {line}", self.code.unwrap())
    }
}
