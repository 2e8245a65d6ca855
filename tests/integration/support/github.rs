//! A simulated GitHub: the example `mock_github`, on free ports, stopped with the test.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{CLOCK_FACTOR, PATIENCE, Workspace, example, temporary};

#[path = "../../mock_github/wire.rs"]
mod wire;

pub(crate) use wire::*;

/// The token of a user with all permissions of a dispatcher.
pub(crate) const TOKEN: &str = "github_pat_dispatcher";

/// A running server. It also ends when its stdin closes, so that even a killed test leaves none behind.
pub(crate) struct MockGithub {
    child: Child,
    ready: Ready,
    dir: TempDir,
}

impl MockGithub {
    /// A server whose workflows run this project's own binary.
    pub(crate) fn start() -> Self {
        Self::start_with(&["--runner", env!("CARGO_BIN_EXE_run-evals")])
    }

    /// A server with other options.
    pub(crate) fn start_with(options: &[&str]) -> Self {
        let dir = temporary();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(example("mock_github"));
        command.arg("--exit-with-stdin").arg("--dir").arg(dir.path()).arg("--action").arg(root).args(options);
        command.env("RUN_EVALS_CLOCK_FACTOR", CLOCK_FACTOR);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("mock_github starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Self { child, ready, dir }
    }

    /// The addresses of the server.
    pub(crate) fn urls(&self) -> &Ready {
        &self.ready
    }

    /// A directory whose commands use this server and a token.
    pub(crate) fn workspace(&self, token: &str) -> Workspace {
        Workspace::new().env("GITHUB_API_URL", &self.ready.api_url).env("GH_ENTERPRISE_TOKEN", token)
    }

    /// Creates a repository.
    pub(crate) fn repo(&self, repo: &NewRepo) {
        self.post("/repos", &json!(repo));
    }

    /// Creates a private repository with the workflow `run-evals.yml` and these secrets, and gives `TOKEN` a dispatcher's permissions.
    pub(crate) fn runner_repo(&self, full_name: &str, secrets: &[(&str, &str)]) {
        self.runner_repo_on(full_name, secrets, BTreeMap::new());
    }

    /// The same, on machines that set these variables.
    pub(crate) fn runner_repo_on(
        &self,
        full_name: &str,
        secrets: &[(&str, &str)],
        machine_env: BTreeMap<String, String>,
    ) {
        let secrets = secrets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let full_name = full_name.to_owned();
        self.repo(&NewRepo {
            full_name: full_name.clone(),
            private: true,
            secrets,
            machine_env,
            ..NewRepo::default()
        });
        let full_name = full_name.as_str();
        self.put_file(full_name, ".github/workflows/run-evals.yml", workflow());
        self.token(TOKEN, "dispatcher", full_name, &[("actions", "write"), ("contents", "write")]);
    }

    /// Commits a file on `main`.
    pub(crate) fn put_file(&self, repo: &str, path: &str, content: impl AsRef<[u8]>) {
        self.put_file_on(repo, "main", path, content);
    }

    /// Commits a file on a branch, which is created if it does not exist.
    pub(crate) fn put_file_on(&self, repo: &str, branch: &str, path: &str, content: impl AsRef<[u8]>) {
        let file = NewFile {
            repo: repo.to_owned(),
            branch: branch.to_owned(),
            path: path.to_owned(),
            content_base64: STANDARD.encode(content),
        };
        self.post("/files", &json!(file));
    }

    /// Creates a fine-grained token for one repository.
    pub(crate) fn token(&self, token: &str, login: &str, repo: &str, permissions: &[(&str, &str)]) {
        let grants =
            permissions.iter().map(|(name, access)| ((*name).to_owned(), (*access).to_owned())).collect();
        self.new_token(&NewToken {
            token: token.to_owned(),
            login: login.to_owned(),
            kind: TokenKind::Personal,
            grants: BTreeMap::from([(repo.to_owned(), grants)]),
            ..NewToken::default()
        });
    }

    /// Sets the plan of an owner.
    pub(crate) fn account(&self, login: &str, plan: &str) {
        self.post("/accounts", &json!(NewAccount { login: login.to_owned(), plan: plan.to_owned() }));
    }

    /// The settings of a repository, if it exists.
    pub(crate) fn settings(&self, repo: &str) -> Option<RepoView> {
        let all: Vec<RepoView> = self.get("/repos");
        all.into_iter().find(|known| known.full_name == repo)
    }

    /// Creates any token.
    pub(crate) fn new_token(&self, token: &NewToken) {
        self.post("/tokens", &json!(token));
    }

    /// Registers an App and returns its private key.
    pub(crate) fn app(&self, app: &NewApp) -> String {
        self.post("/apps", &json!(app))["private_key"].as_str().unwrap().to_owned()
    }

    /// Sets the state of a workflow: `active`, `disabled_manually`, `disabled_inactivity`.
    pub(crate) fn set_workflow_state(&self, repo: &str, file: &str, state: &str) {
        self.post("/workflow-state", &json!({ "repo": repo, "file": file, "state": state }));
    }

    /// Adds a fault that strikes once.
    pub(crate) fn fault(&self, what: What) -> u64 {
        self.add_fault(&Fault { what, times: Some(1), skip: 0 })
    }

    /// Adds a fault that strikes as often as it says.
    pub(crate) fn add_fault(&self, fault: &Fault) -> u64 {
        self.post("/faults", &json!(fault))["id"].as_u64().unwrap()
    }

    /// Removes all faults.
    pub(crate) fn clear_faults(&self) {
        self.call("DELETE", "/faults", None);
    }

    /// How often a fault struck.
    pub(crate) fn struck(&self, id: u64) -> u64 {
        let all: Vec<FaultState> = self.get("/faults");
        all.iter().find(|state| state.id == id).unwrap().struck
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.get("/requests")
    }

    /// How many requests of `route`, for example `POST /repos/{owner}/{repo}/…`, arrived.
    pub(crate) fn calls_of(&self, route: &str) -> usize {
        self.requests().iter().filter(|request| request.route == route).count()
    }

    /// How many requests of a login count against its rate limit.
    pub(crate) fn counted(&self, login: &str) -> usize {
        self.requests().iter().filter(|request| request.counted && request.login == login).count()
    }

    /// Every push so far.
    pub(crate) fn pushes(&self) -> Vec<Push> {
        self.get("/pushes")
    }

    /// Every comment on a pull request.
    pub(crate) fn comments(&self) -> Vec<CommentView> {
        self.get("/comments")
    }

    /// Every pull request so far.
    pub(crate) fn pulls(&self) -> Vec<PullView> {
        self.get("/pulls")
    }

    /// Every issue so far.
    pub(crate) fn issues(&self) -> Vec<IssueView> {
        self.get("/issues")
    }

    /// Every comment on a commit so far.
    pub(crate) fn commit_comments(&self) -> Vec<CommitCommentView> {
        self.get("/commit-comments")
    }

    /// Every run so far.
    pub(crate) fn runs(&self) -> Vec<RunView> {
        self.get("/runs")
    }

    /// The runs, once they meet a condition; a run's jobs are visible, too.
    pub(crate) fn until(&self, is_so: impl Fn(&[RunView]) -> bool) -> Vec<RunView> {
        let start = Instant::now();
        loop {
            let runs = self.runs();
            if is_so(&runs) {
                return runs;
            }
            assert!(start.elapsed() < PATIENCE, "it never came to that: {runs:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The only run, once it is complete.
    pub(crate) fn finished_run(&self) -> RunView {
        let mut runs = self.until(|runs| matches!(runs, [run] if run.status == "completed"));
        runs.remove(0)
    }

    /// Requests that violate GitHub's API description.
    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.get("/violations")
    }

    /// Clears them, in a test that provokes some.
    pub(crate) fn forget_violations(&self) {
        self.call("DELETE", "/violations", None);
    }

    /// Runs git in a bare repository and returns its output.
    pub(crate) fn git(&self, repo: &str, args: &[&str]) -> String {
        let output =
            Command::new("git").arg("--git-dir").arg(self.git_dir(repo)).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// The directory of a bare repository.
    pub(crate) fn git_dir(&self, repo: &str) -> PathBuf {
        self.dir.path().join("git").join(format!("{repo}.git"))
    }

    /// Everything readable about the runs: logs, annotations, summaries, outputs.
    pub(crate) fn everything_shown(&self) -> String {
        serde_json::to_string(&self.runs()).unwrap()
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> T {
        serde_json::from_value(self.call("GET", path, None)).unwrap()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", path, Some(body))
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let address = self.ready.control_url.trim_start_matches("http://");
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{method} {path}: {answer}");
        serde_json::from_str(body).unwrap()
    }
}

impl Drop for MockGithub {
    fn drop(&mut self) {
        let violations = if std::thread::panicking() { Vec::new() } else { self.violations() };
        // Closing its stdin lets it stop its own children.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        assert!(violations.is_empty(), "GitHub's description does not allow this: {violations:#?}");
    }
}

/// The workflow that users copy to their runner repository.
pub(crate) fn workflow() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("workflows/run-evals.yml");
    std::fs::read_to_string(path).unwrap()
}
