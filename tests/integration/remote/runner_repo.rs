//! A separate runner repository per test, on a simulated GitHub that the tests share, and the messages of a dispatcher.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::support::github::{MockGithub, NewRepo, RunView, workflow};
use crate::support::stage::{Stage, runner_targets};
use crate::support::{Output, Workspace, git};

/// An address without a server: a rejected batch never calls a model.
const NO_LLM: &str = "http://127.0.0.1:9/v1";

/// The permissions of a dispatcher's token.
pub(crate) const ALL: [(&str, &str); 2] = [("actions", "write"), ("contents", "write")];

/// A repository that no other test uses, and a directory to dispatch from.
pub(crate) struct RunnerRepo {
    pub(crate) github: Arc<MockGithub>,
    pub(crate) repo: String,
    pub(crate) workspace: Workspace,
}

impl RunnerRepo {
    /// A private, correctly configured runner repository `acme/<name>`.
    pub(crate) fn new(name: &str) -> Self {
        let scene = Self::empty(name, &NewRepo { private: true, ..NewRepo::default() }, &ALL);
        scene.put(".github/workflows/run-evals.yml", workflow());
        scene.put("targets.yaml", runner_targets(NO_LLM, ""));
        scene
    }

    /// An empty repository, and a token with these permissions.
    pub(crate) fn empty(name: &str, like: &NewRepo, permissions: &[(&str, &str)]) -> Self {
        let github = shared();
        let repo = format!("acme/{name}");
        let secrets = BTreeMap::from([("OPENAI_API_KEY".to_owned(), crate::support::stage::KEY.to_owned())]);
        github.repo(&NewRepo { full_name: repo.clone(), secrets, ..like.clone() });
        let token = format!("github_pat_{name}");
        github.token(&token, "dispatcher", &repo, permissions);
        let workspace = github.workspace(&token);
        let scene = Self { github, repo, workspace };
        scene.target("");
        scene.workspace.write_requests(2);
        scene
    }

    /// The same with another variable.
    pub(crate) fn env(self, name: &str, value: &str) -> Self {
        Self { workspace: self.workspace.env(name, value), ..self }
    }

    /// The dispatcher's target `cloud`, with additional lines.
    pub(crate) fn target(&self, more: &str) {
        Stage::write_target(&self.workspace, &self.repo, more);
    }

    /// Commits a file on `main` of the repository.
    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        self.github.put_file(&self.repo, path, content);
    }

    /// The runs of the repository.
    pub(crate) fn runs(&self) -> Vec<RunView> {
        self.github.runs().into_iter().filter(|run| run.repo == self.repo).collect()
    }

    /// The message of a dispatch that cannot start; it leaves nothing behind, locally or on GitHub.
    pub(crate) fn refused(&self, more: &[&str]) -> String {
        self.fails(&Stage::args(more))
    }

    /// The same for any command.
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        let before = (self.local_state(), self.github_state());
        let output = self.workspace.run(args);
        assert_eq!(output.stdout, "", "stdout is for data");
        assert_eq!((self.local_state(), self.github_state()), before, "left behind");
        assert!(!self.workspace.path("out").exists());
        self.message(&output)
    }

    /// The message of a dispatch whose run failed; nothing is answered.
    pub(crate) fn run_fails(&self, more: &[&str]) -> String {
        let output = self.workspace.run(&Stage::args(more)).expect(5);
        let rows = self.workspace.rows("out/responses.jsonl");
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row["error"]["kind"] == "not_run"), "{rows:?}");
        assert_eq!(self.runs().len(), 1);
        self.message(&output)
    }

    /// The exit code and all of stderr, without values that differ between runs.
    pub(crate) fn message(&self, output: &Output) -> String {
        let address = self.github.urls().server_url.trim_start_matches("http://").to_owned();
        let root = self.workspace.root().to_str().unwrap().to_owned();
        let text = output.stderr.replace(&address, "[github]").replace(&root, "[dir]");
        let code = output.code.map_or("none".to_owned(), |code| code.to_string());
        let text: String = text.split_inclusive('\n').map(comparable).collect();
        format!("exit {code}\n{text}")
    }

    /// The branches and the records of the local exchange.
    fn local_state(&self) -> Vec<String> {
        let exchange = self.workspace.path(".run-evals/exchange.git");
        if !exchange.exists() {
            return Vec::new();
        }
        let branches = git(&self.workspace, &["for-each-ref", "--format=%(refname) %(objectname)"], b"");
        let records = std::fs::read_dir(exchange.join("dispatch")).into_iter().flatten();
        let records = records.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let records =
            records.filter(|name| std::path::Path::new(name).extension().is_some_and(|end| end == "json"));
        branches.lines().map(ToOwned::to_owned).chain(records).collect()
    }

    /// The branches and the number of runs on GitHub.
    fn github_state(&self) -> (String, usize) {
        let branches = self.github.git(&self.repo, &["for-each-ref", "--format=%(refname) %(objectname)"]);
        (branches, self.runs().len())
    }
}

/// A line without digests, run numbers and times.
fn comparable(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        let (before, from) = rest.split_at(at);
        let word = &from[..from.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(from.len())];
        out.push_str(before);
        let is_hex = word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        out.push_str(match word.len() {
            64 if is_hex => "[sha256]",
            40 if is_hex => "[commit]",
            _ if is_number && before.ends_with('/') => "[run]",
            _ => word,
        });
        rest = &from[word.len()..];
    }
    out.push_str(rest);
    out
}

/// The server that concurrent tests share.
fn shared() -> Arc<MockGithub> {
    static SHARED: Mutex<Weak<MockGithub>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let github = Arc::new(MockGithub::start());
        *shared = Arc::downgrade(&github);
        github
    })
}
