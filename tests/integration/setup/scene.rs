//! A simulated GitHub with an account, and a directory to set up from.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::support::github::{MockGithub, NewRepo, NewToken, RepoView, TokenKind};
use crate::support::{Output, Workspace};

/// The user.
pub(crate) const LOGIN: &str = "mona";
/// Her token, as `gh auth login` creates it.
const TOKEN: &str = "gho_mona";
/// Her API key.
pub(crate) const KEY: &str = "sk-proj-never-to-be-seen-9876543210";

/// The account of a user and a directory.
pub(crate) struct Account {
    pub(crate) github: MockGithub,
    pub(crate) workspace: Workspace,
}

impl Account {
    /// An empty account with a paid plan; the action is released.
    pub(crate) fn new() -> Self {
        let github = MockGithub::start();
        github.repo(&NewRepo { full_name: "agentv/run-evals".to_owned(), ..NewRepo::default() });
        github.put_file("agentv/run-evals", "action.yml", "name: run-evals\n");
        github.git("agentv/run-evals", &["tag", "v1", "main"]);
        let workspace = Workspace::new().env("GITHUB_API_URL", &github.urls().api_url);
        let account = Self { github, workspace };
        account.token(
            TOKEN,
            &NewToken { kind: TokenKind::Classic, grants: all_repositories(&[]), ..NewToken::default() },
        );
        account.with_token(TOKEN)
    }

    /// Accepts a token of the user.
    pub(crate) fn token(&self, text: &str, like: &NewToken) {
        self.github.new_token(&NewToken { token: text.to_owned(), login: LOGIN.to_owned(), ..like.clone() });
    }

    /// The same with another token.
    pub(crate) fn with_token(self, token: &str) -> Self {
        Self { workspace: self.workspace.env("GH_ENTERPRISE_TOKEN", token), ..self }
    }

    /// `init runner REPO --provider openai`, with the key on stdin.
    pub(crate) fn init(&self, repo: &str, more: &[&str]) -> Output {
        let args = [&["init", "runner", repo, "--provider", "openai"], more].concat();
        with_stdin(&mut self.workspace.command(&args), KEY)
    }

    /// Requests that are not reads, since a position in the log.
    pub(crate) fn writes_since(&self, position: usize) -> Vec<String> {
        let requests = self.github.requests();
        let writes = requests[position..].iter().filter(|request| request.method != "GET");
        writes.map(|request| format!("{} {}", request.method, request.path)).collect()
    }

    /// The settings of a repository, without the ids of rulesets.
    pub(crate) fn settings(&self, repo: &str) -> RepoView {
        let mut settings = self.github.settings(repo).expect("the repository exists");
        for ruleset in &mut settings.rulesets {
            ruleset["id"] = 0.into();
        }
        settings
    }

    /// A file on `main`.
    pub(crate) fn file(&self, repo: &str, path: &str) -> String {
        self.github.git(repo, &["show", &format!("main:{path}")])
    }
}

/// These permissions in every repository of the user and of an organization.
pub(crate) fn all_repositories(permissions: &[(&str, &str)]) -> BTreeMap<String, BTreeMap<String, String>> {
    let permissions: BTreeMap<String, String> =
        permissions.iter().map(|(name, level)| ((*name).to_owned(), (*level).to_owned())).collect();
    ["mona/*", "acme/*"].map(|owner| (owner.to_owned(), permissions.clone())).into()
}

/// The output of a command that reads this text.
pub(crate) fn with_stdin(command: &mut Command, text: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that fails early does not read it.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
    let output = child.wait_with_output().unwrap();
    output.into()
}
