//! The workflow run: the environment of the step and the event that started it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::Value;

use crate::git::Remote;
use crate::github::{Auth, Client, ClientOptions, ResultsService};
use crate::model::{Exit, Failure, Secret, printable};
use crate::protocol::DispatchInputs;
use crate::protocol::names::is_repository;
use crate::util::WorkDir;
use crate::util::ca::CaBundle;
use crate::util::event;

/// The workflow run that this process belongs to.
#[derive(Clone)]
pub struct Host {
    pub inputs: DispatchInputs,
    /// The runner repository, `owner/name`.
    pub repo: String,
    pub run_id: u64,
    /// File name of its workflow, if known.
    pub workflow: Option<String>,
    /// Attempt, from 1.
    pub attempt: u32,
    /// The users who dispatched it and started this attempt.
    pub senders: Vec<String>,
    /// Directory for results that nothing else accepts.
    pub workspace: Option<PathBuf>,
    server_url: String,
    api_url: String,
    token: Option<Secret>,
    temp: PathBuf,
    /// The artifact service, in a container action.
    artifacts: Option<ResultsService>,
    /// Private CAs that are trusted besides the system's.
    ca: Option<Arc<CaBundle>>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("repo", &self.repo).field("run_id", &self.run_id).finish_non_exhaustive()
    }
}

impl Host {
    /// Reads the environment of an Actions step and its event file.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let get = |name: &str| get(name).filter(|value| !value.trim().is_empty());
        let needed = |name: &str| {
            get(name).ok_or_else(|| {
                Failure::config(format!("the environment variable `{name}` is not set"))
                    .hint("GitHub sets it in every step; to run a batch elsewhere, pass it with `--batch-id`")
            })
        };
        let event_name = get("GITHUB_EVENT_NAME").unwrap_or_else(|| "workflow_dispatch".to_owned());
        if event_name != "workflow_dispatch" {
            let message =
                format!("the run was started by `{}`, not by `workflow_dispatch`", printable(&event_name));
            return Err(Failure::config(message).hint("`mode: run` serves `on: workflow_dispatch` only"));
        }
        let event = event::read(Path::new(&needed("GITHUB_EVENT_PATH")?))?;
        let inputs = DispatchInputs::from_event(&event)?;
        let repo = needed("GITHUB_REPOSITORY")?;
        if !is_repository(&repo) {
            return Err(Failure::config(format!(
                "`GITHUB_REPOSITORY` is not a repository: `{}`",
                printable(&repo)
            )));
        }
        let number = |name: &str, text: String| {
            text.trim()
                .parse::<u64>()
                .map_err(|_| Failure::config(format!("`{name}` is not a number: `{}`", printable(&text))))
        };
        let sender = event.pointer("/sender/login").and_then(Value::as_str).map(ToOwned::to_owned);
        // A re-run by another user costs money again.
        let mut senders: Vec<String> = sender.into_iter().chain(get("GITHUB_TRIGGERING_ACTOR")).collect();
        senders.dedup();
        let attempt = number("GITHUB_RUN_ATTEMPT", get("GITHUB_RUN_ATTEMPT").unwrap_or_else(|| "1".into()))?;
        let token = ["INPUT_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"].iter().find_map(|name| get(name));
        let url = |name: &str, default: &str| {
            get(name).unwrap_or_else(|| default.to_owned()).trim_end_matches('/').to_owned()
        };
        Ok(Self {
            inputs,
            repo,
            run_id: number("GITHUB_RUN_ID", needed("GITHUB_RUN_ID")?)?,
            workflow: get("GITHUB_WORKFLOW_REF").as_deref().and_then(workflow_file).map(ToOwned::to_owned),
            attempt: u32::try_from(attempt).unwrap_or(u32::MAX),
            senders,
            workspace: get("GITHUB_WORKSPACE").map(PathBuf::from),
            server_url: url("GITHUB_SERVER_URL", "https://github.com"),
            api_url: url("GITHUB_API_URL", "https://api.github.com"),
            token: token.as_deref().map(Secret::new),
            temp: get("RUNNER_TEMP").map_or_else(std::env::temp_dir, PathBuf::from),
            artifacts: match ResultsService::from_env(get) {
                Some(Ok(service)) => Some(service),
                // Not available on this server: results go to the branch.
                Some(Err(error)) => {
                    tracing::debug!("no artifacts: {error}");
                    None
                }
                None => None,
            },
            ca: None,
        })
    }

    /// The same, which trusts private CAs besides the system's: for git, for the API and for models.
    pub fn trusting(self, ca_pem: Vec<u8>, system: Option<&Path>) -> anyhow::Result<Self> {
        let bundle = CaBundle::write(ca_pem, system, &self.temp).context("cannot write the certificates")?;
        Ok(Self { ca: Some(Arc::new(bundle)), ..self })
    }

    /// The certificates of private CAs in PEM format.
    pub(super) fn ca_pem(&self) -> &[u8] {
        self.ca.as_ref().map_or(&[], |ca| ca.pem())
    }

    pub fn run_url(&self) -> String {
        format!("{}/{}/actions/runs/{}", self.server_url, self.repo, self.run_id)
    }

    /// A directory for this process.
    pub(super) fn temporary(&self) -> anyhow::Result<WorkDir> {
        let made = WorkDir::within(&self.temp);
        made.map_err(|error| {
            let message = format!("cannot create a directory in `{}`: {error}", self.temp.display());
            Failure::new(Exit::Failure, message).into()
        })
    }

    /// A repository on this server, for git.
    pub(super) fn remote(&self, repo: &str) -> Remote {
        Remote::new(&format!("{}/{repo}.git", self.server_url), self.token.clone())
            .with_ca_file(self.ca.as_ref().map(|ca| ca.file()))
    }

    /// The runner repository, for git.
    pub(super) fn own_remote(&self) -> Remote {
        self.remote(&self.repo)
    }

    pub(super) fn artifacts(&self) -> Option<&ResultsService> {
        self.artifacts.as_ref()
    }

    pub(super) fn client(&self, notify: &super::Notify) -> anyhow::Result<Client> {
        let token = self.token.clone().ok_or_else(|| {
            Failure::new(Exit::Failure, "no token to read artifacts")
                .hint("the action's input `token` defaults to `${{ github.token }}`")
        })?;
        let notify = Arc::clone(notify);
        Client::new(ClientOptions {
            api_url: self.api_url.clone(),
            auth: Auth::Token(token),
            notify: Some(Arc::new(move |text: &str| notify(super::Level::Note, text))),
            ca_pem: self.ca_pem().to_vec(),
        })
    }
}

/// The file name in `owner/repo/.github/workflows/file.yml@ref`.
fn workflow_file(reference: &str) -> Option<&str> {
    let (_, rest) = reference.split_once("/.github/workflows/")?;
    rest.split('@').next().filter(|file| !file.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;

    use super::*;
    use crate::model::Digest;

    fn host(change: &[(&str, &str)]) -> Result<Host, Failure> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("event.json");
        let event = json!({
            "inputs": {
                "batch_id": "b1",
                "dispatch_id": "0123456789abcdef",
                "prompts_artifact": "inline:aGk=",
                "batch_sha256": Digest::of(b"x"),
                "shards": "[0]",
                "results": "artifact",
            },
            "sender": {"login": "octocat"},
        });
        std::fs::write(&path, event.to_string()).unwrap();
        let mut env: HashMap<&str, &str> = HashMap::from([
            ("GITHUB_EVENT_PATH", path.to_str().unwrap()),
            ("GITHUB_EVENT_NAME", "workflow_dispatch"),
            ("GITHUB_REPOSITORY", "o/r"),
            ("GITHUB_RUN_ID", "42"),
            ("GITHUB_SERVER_URL", "https://ghe.example/"),
            ("GITHUB_TRIGGERING_ACTOR", "hubot"),
        ]);
        env.extend(change.iter().copied());
        Host::from_env(|name| env.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn a_github_step_has_all_variables() {
        let host = host(&[("INPUT_TOKEN", "ghs_secret")]).unwrap();
        assert_eq!(host.run_url(), "https://ghe.example/o/r/actions/runs/42");
        assert_eq!(host.own_remote().url(), "https://ghe.example/o/r.git");
        assert_eq!((host.attempt, host.senders.join(" ")), (1, "octocat hubot".to_owned()));
        assert!(host.artifacts().is_none());
        assert_eq!(host.workflow, None);
        assert!(!format!("{host:?}").contains("ghs_secret"));
    }

    #[test]
    fn the_workflow_is_identified_by_its_file() {
        let file = |reference| host(&[("GITHUB_WORKFLOW_REF", reference)]).unwrap().workflow;
        assert_eq!(file("o/r/.github/workflows/evals.yml@refs/heads/a/b").as_deref(), Some("evals.yml"));
        assert_eq!((file("o/r"), file("o/r/.github/workflows/@x")), (None, None));
    }

    #[test]
    fn other_events_are_rejected() {
        let problem = |change: (&str, &str)| host(&[change]).unwrap_err().to_string();
        insta::assert_snapshot!(problem(("GITHUB_EVENT_NAME", "pull_request")), @"the run was started by `pull_request`, not by `workflow_dispatch`");
        insta::assert_snapshot!(problem(("GITHUB_REPOSITORY", "../x")), @"`GITHUB_REPOSITORY` is not a repository: `../x`");
        insta::assert_snapshot!(problem(("GITHUB_RUN_ID", "")), @"the environment variable `GITHUB_RUN_ID` is not set");
        insta::assert_snapshot!(problem(("GITHUB_RUN_ATTEMPT", "x")), @"`GITHUB_RUN_ATTEMPT` is not a number: `x`");
    }
}
