//! A library and its data sets on a simulated GitHub, clones of both, and a gateway with models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::github::{MockGithub, NewRepo, NewToken, TokenKind};
use crate::support::{MockLlm, Output, Server, Workspace};

pub(crate) const LIBRARY: &str = "meadow/skills";
pub(crate) const DATASETS: &str = "meadow/evaluation-data-sets";
pub(crate) const SKILL: &str = "grant-letter-extraction";
/// Twelve cases.
pub(crate) const CASES: u64 = 12;
/// The token of a bot with all required permissions.
pub(crate) const TOKEN: &str = "github_pat_evaluator";
/// The key of the gateway.
pub(crate) const KEY: &str = "mr2_key_of_the_gateway";

pub(crate) struct Stage {
    pub(crate) workspace: Workspace,
    pub(crate) github: MockGithub,
}

impl Stage {
    /// Both repositories with the fixtures, clones of them in `library` and `datasets`, and a token in `token.txt`.
    pub(crate) fn new() -> Self {
        Self::on(MockGithub::start())
    }

    /// The same on a running GitHub.
    pub(crate) fn on(github: MockGithub) -> Self {
        Self::within(github, Workspace::new())
    }

    /// The same in any workspace.
    pub(crate) fn within(github: MockGithub, workspace: Workspace) -> Self {
        let workspace = workspace.env("MINDROUTER_KEY", KEY);
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/skills");
        for (repo, name) in [(LIBRARY, "library"), (DATASETS, "datasets")] {
            github.repo(&NewRepo {
                full_name: repo.to_owned(),
                private: true,
                allow_auto_merge: true,
                ..NewRepo::default()
            });
            let seed = workspace.path(&format!("seed-{name}"));
            copy(&fixtures.join(name), &seed);
            git(&seed, &["init", "--quiet", "--initial-branch=main", "."]);
            commit_all(&seed, "Begin");
            git(&seed, &["push", "--quiet", github.git_dir(repo).to_str().unwrap(), "main"]);
            std::fs::remove_dir_all(&seed).unwrap();
        }
        let stage = Self { workspace, github };
        stage.token(TOKEN, TokenKind::Personal, &[("contents", "write"), ("pull_requests", "write")]);
        stage.workspace.write("token.txt", TOKEN);
        stage.clone_of(LIBRARY, "library", &[]);
        stage.clone_of(DATASETS, "datasets", &[]);
        stage
    }

    /// Adds a token with these permissions in the library, and read access to the data sets.
    pub(crate) fn token(&self, text: &str, kind: TokenKind, grants: &[(&str, &str)]) {
        let map = |grants: &[(&str, &str)]| -> BTreeMap<String, String> {
            grants.iter().map(|(name, access)| ((*name).to_owned(), (*access).to_owned())).collect()
        };
        let login = if kind == TokenKind::Job { "github-actions[bot]" } else { "eval-bot" };
        self.github.new_token(&NewToken {
            token: text.to_owned(),
            login: login.to_owned(),
            kind,
            grants: BTreeMap::from([
                (LIBRARY.to_owned(), map(grants)),
                (DATASETS.to_owned(), map(&[("contents", "read")])),
            ]),
            ..NewToken::default()
        });
    }

    /// A clone in a directory, whose `origin` is the simulated GitHub.
    pub(crate) fn clone_of(&self, repo: &str, to: &str, options: &[&str]) -> PathBuf {
        let path = self.workspace.path(to);
        let from = format!("file://{}", self.github.git_dir(repo).display());
        let args = [&["clone", "--quiet"], options, &[&from, path.to_str().unwrap()]].concat();
        git(self.workspace.root(), &args);
        let url = format!("{}/{repo}.git", self.github.urls().server_url);
        git(&path, &["remote", "set-url", "origin", &url]);
        path
    }

    /// Changes files of the library's default branch in another clone; returns the commit.
    pub(crate) fn push(&self, change: impl FnOnce(&Path)) -> String {
        self.push_to("main", &[], change)
    }

    pub(crate) fn push_to(&self, branch: &str, options: &[&str], change: impl FnOnce(&Path)) -> String {
        let dir = self.clone_of(LIBRARY, "elsewhere", &[]);
        git(&dir, &["checkout", "--quiet", "-B", branch]);
        change(&dir);
        commit_all(&dir, "Change");
        let bare = self.github.git_dir(LIBRARY);
        let args = [&["push", "--quiet"], options, &[bare.to_str().unwrap(), branch]].concat();
        git(&dir, &args);
        let commit = git(&dir, &["rev-parse", "HEAD"]);
        std::fs::remove_dir_all(&dir).unwrap();
        commit
    }

    /// A gateway with two models and an alias, whose answers are right except for the typical mistakes of each model.
    pub(crate) fn gateway(&self, options: &[&str]) -> MockLlm {
        self.workspace.write("answers.jsonl", answers());
        let file = self.workspace.path("answers.jsonl");
        let models = [
            "--model=meadow/quill-large",
            "--model=meadow/quill-small",
            "--model=quill-latest=meadow/quill-large-2026-10",
        ];
        let more = ["--answers", file.to_str().unwrap(), "--mindrouter", "--require-key", KEY];
        let llm = MockLlm::start(&[&models[..], &more, options].concat());
        self.targets(&llm, "");
        llm
    }

    /// The operator's targets, with further lines for the gateway.
    pub(crate) fn targets(&self, llm: &MockLlm, more: &str) {
        let text = format!(
            "targets:\n  - name: mindrouter\n    provider: openai-compatible\n    base_url: {}\n    \
             model: meadow/quill-large\n    api_key: ${{{{ MINDROUTER_KEY }}}}\n    retry_initial_delay_ms: 10\n    retry_max_delay_ms: 50\n{more}",
            llm.base_url()
        );
        self.workspace.write("targets.yaml", text);
    }

    /// `evaluate` with the clones, the token and this GitHub.
    pub(crate) fn evaluate(&self, more: &[&str]) -> Output {
        self.workspace.run(&self.args(more).iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(crate) fn args(&self, more: &[&str]) -> Vec<String> {
        self.with_clones(&["evaluate", SKILL], more)
    }

    /// A command with the clones, the token and this GitHub.
    fn with_clones(&self, command: &[&str], more: &[&str]) -> Vec<String> {
        let api = &self.github.urls().api_url;
        let clones = ["--library", "library", "--datasets", "datasets", "--token-file", "token.txt"];
        let all = [command, &clones, &["--github-api-url", api], more].concat();
        all.into_iter().map(ToOwned::to_owned).collect()
    }

    /// The service, with this certificate and key and a token for its callers.
    pub(crate) fn serve(&self, cert: &str, key: &str, token: &str) -> Server {
        self.workspace.write("cert.pem", cert);
        self.workspace.write("key.pem", key);
        let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
        let port = ["serve", "--listen", "127.0.0.1:0", "--state", "state"];
        let args = self.with_clones(&port, &tls);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Server::start(self.workspace.command(&args).env("RUN_EVALS_SERVE_TOKEN", token))
    }

    /// The commit of a branch of the library.
    pub(crate) fn commit(&self, branch: &str) -> String {
        self.github.git(LIBRARY, &["rev-parse", branch])
    }

    /// A file on a branch of the library.
    pub(crate) fn file(&self, branch: &str, path: &str) -> String {
        self.github.git(LIBRARY, &["show", &format!("{branch}:{path}")])
    }
}

/// Lines for `--answers`: the expected answers, each with the mistakes of its model.
fn answers() -> String {
    let mut lines = String::new();
    for (case, expected) in expected() {
        for (number, model) in ["meadow/quill-large", "meadow/quill-small", "quill-latest"].iter().enumerate()
        {
            let mut answer = expected.clone();
            if number == 1 {
                answer["kind"] = Value::from("something else");
            }
            if number == 2 && case.len() % 2 == 0 {
                answer["people"] = json!([]);
            }
            let line = json!({
                "model": model,
                "contains": expected["grant_number"],
                "content": serde_json::to_string_pretty(&answer).unwrap(),
            });
            lines += &line.to_string();
            lines.push('\n');
        }
    }
    lines
}

/// The cases, and the expected answer of each.
pub(crate) fn expected() -> Vec<(String, Value)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cases = root.join(format!("fixtures/skills/library/components/{SKILL}/evals/cases"));
    let mut all: Vec<(String, Value)> = std::fs::read_dir(cases)
        .unwrap()
        .map(|case| {
            let case = case.unwrap();
            let text = std::fs::read_to_string(case.path().join("expected.json")).unwrap();
            (case.file_name().into_string().unwrap(), serde_json::from_str(&text).unwrap())
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(all.len() as u64, CASES);
    all
}

pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let identity =
        ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.com", "-c", "commit.gpgsign=false"];
    let output = Command::new("git")
        .current_dir(dir)
        .args(identity)
        .args(args)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        // The same commits in every run: the intervals of an entry depend on its commit.
        .env("GIT_AUTHOR_DATE", "2026-10-12T12:00:00Z")
        .env("GIT_COMMITTER_DATE", "2026-10-12T12:00:00Z")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

pub(crate) fn commit_all(dir: &Path, message: &str) {
    git(dir, &["add", "--all", "."]);
    git(dir, &["commit", "--quiet", "--allow-empty", "-m", message]);
}

fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from) {
        let entry = entry.unwrap();
        let path = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(path).unwrap();
        } else {
            std::fs::copy(entry.path(), path).unwrap();
        }
    }
}
