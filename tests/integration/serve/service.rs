//! A running service, ended with the test.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::http::{self, Answer};
use crate::evaluate::stage::{SKILL, Stage};
use crate::support::Workspace;

/// A token of those who may ask.
pub(super) const OURS: &str = "c0ffee00c0ffee00c0ffee00c0ffee00";
/// How long anything may take.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);

pub(super) struct Service {
    child: Child,
    /// `127.0.0.1:PORT`.
    pub(super) address: String,
    stderr: Arc<Mutex<String>>,
}

impl Service {
    /// On the clones of a stage, with the token `OURS` in `tokens`.
    pub(super) fn start(stage: &Stage, more: &[&str]) -> Self {
        write_tokens(&stage.workspace, OURS);
        Self::spawn(&stage.workspace, &args(&stage.github.urls().api_url, more))
    }

    /// On any clone, without a GitHub and without models.
    pub(super) fn bare(workspace: &Workspace, more: &[&str]) -> Self {
        write_tokens(workspace, OURS);
        Self::spawn(workspace, &bare_args(more))
    }

    pub(super) fn spawn(workspace: &Workspace, args: &[&str]) -> Self {
        Self::of(&mut workspace.command(args))
    }

    /// The service that a command becomes.
    pub(super) fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        loop {
            let Some(Ok(line)) = lines.next() else { panic!("it did not start: {}", stderr.lock().unwrap()) };
            stderr.lock().unwrap().push_str(&format!("{line}\n"));
            let Some((_, address)) = line.strip_prefix("listening on ").and_then(|url| url.split_once("://"))
            else {
                continue;
            };
            let (address, more) = (address.to_owned(), Arc::clone(&stderr));
            std::thread::spawn(move || {
                for line in lines.map_while(Result::ok) {
                    more.lock().unwrap().push_str(&format!("{line}\n"));
                }
            });
            return Self { child, address, stderr };
        }
    }

    /// Everything on stderr so far.
    pub(super) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[("Authorization", &bearer(OURS))], b"")
    }

    pub(super) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        http::send(&self.address, &http::request(method, path, headers, body)).expect("an answer")
    }

    /// Orders an evaluation.
    pub(super) fn order(&self, body: &Value) -> Answer {
        self.ask("POST", "/evaluate", &order_headers(&bearer(OURS)), body.to_string().as_bytes())
    }

    /// Orders the skill of the stage once, and gives the job.
    pub(super) fn accepted(&self, replicates: u32) -> String {
        let answer = self.order(&json!({"skill_name": SKILL, "replicates": replicates}));
        answer.expect(202)["job_id"].as_str().unwrap().to_owned()
    }

    pub(super) fn job(&self, id: &str) -> Value {
        self.get(&format!("/jobs/{id}")).expect(200)
    }

    /// The job, once it is so.
    pub(super) fn until(&self, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        wait_for(|| {
            last = self.job(id);
            is_so(&last)
        });
        last
    }

    /// The job, once it has ended in this state.
    pub(super) fn ended(&self, id: &str, state: &str) -> Value {
        let job = self.until(id, |job| !["queued", "running"].contains(&job["state"].as_str().unwrap()));
        assert_eq!(job["state"], state, "{job:#}");
        job
    }

    pub(super) fn is_busy(&self) -> bool {
        self.ask("GET", "/health", &[], b"").expect(200)["busy"].as_bool().unwrap()
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().cast_signed()), signal).unwrap();
    }

    /// Sends a signal, and gives the exit code.
    pub(super) fn stop(mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(started.elapsed() < PATIENCE, "it does not end: {}", self.stderr());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

pub(super) fn order_headers(bearer: &str) -> [(&str, &str); 2] {
    [("Authorization", bearer), ("Content-Type", "application/json")]
}

/// `tokens`, for the owner alone.
pub(super) fn write_tokens(workspace: &Workspace, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    workspace.write("tokens", text);
    std::fs::set_permissions(workspace.path("tokens"), std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// A directory with a clone and a targets file, enough to start a service.
pub(super) fn bare_workspace() -> Workspace {
    let workspace = Workspace::new();
    workspace.write("library/README.md", "empty\n");
    crate::evaluate::stage::git(
        &workspace.path("library"),
        &["init", "--quiet", "--initial-branch=main", "."],
    );
    crate::evaluate::stage::commit_all(&workspace.path("library"), "Begin");
    workspace.write_target("http://127.0.0.1:9/v1", "");
    workspace
}

/// The options of a service with everything; others may take the place of some.
pub(super) fn args<'a>(api_url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let defaults = [
        ["--listen", "127.0.0.1:0"],
        ["--auth-token-file", "tokens"],
        ["--state", "state"],
        ["--library", "library"],
        ["--datasets", "datasets"],
        ["--token-file", "token.txt"],
        ["--github-api-url", api_url],
    ];
    let defaults = defaults.into_iter().filter(|[name, _]| !more.contains(name)).flatten();
    ["serve"].into_iter().chain(defaults).chain(more.iter().copied()).collect()
}

/// The options of a service without GitHub; others may take the place of some.
pub(super) fn bare_args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let defaults = [
        ["--listen", "127.0.0.1:0"],
        ["--auth-token-file", "tokens"],
        ["--state", "state"],
        ["--library", "library"],
    ];
    let defaults = defaults.into_iter().filter(|[name, _]| !more.contains(name)).flatten();
    ["serve", "--no-publish"].into_iter().chain(defaults).chain(more.iter().copied()).collect()
}

/// Waits until something is so.
pub(super) fn wait_for(mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "it never came to that");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The lines of the log.
pub(super) fn log(workspace: &Workspace) -> Vec<Value> {
    let mut files: Vec<_> =
        std::fs::read_dir(workspace.path("state/log")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let text: String = files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}
