//! Connection settings: GitHub's URL, and credentials from options, the environment or `gh`.

use std::path::PathBuf;

use super::{AppKey, Auth, Client, ClientOptions, Notify, TokenSources, check_api_url, find_token};
use crate::model::{Exit, Failure, Secret};
use crate::util::process_env::ProcessEnv;
use crate::util::programs;

/// Variable with the private key of a GitHub App.
const APP_KEY: &str = "RUN_EVALS_APP_KEY";

/// Variable with a token for the runner repository, where the job's own token reaches only its own repository.
const RUNNER_TOKEN: &str = "RUN_EVALS_TOKEN";

/// Connection settings.
#[derive(Debug, Clone)]
pub struct Access {
    /// URL of GitHub's API.
    pub api_url: String,
    pub token_file: Option<PathBuf>,
    /// GitHub App to authenticate as, instead of a token.
    pub app_id: Option<String>,
    /// File with the App's private key.
    pub app_key_file: Option<PathBuf>,
}

impl Access {
    /// Creates a client; `notify` receives a message for each wait.
    pub fn client(&self, env: &ProcessEnv, notify: Notify) -> anyhow::Result<Client> {
        // Check the host first: it decides which token is used.
        check_api_url(&self.api_url)?;
        let auth = if let Some(id) = &self.app_id {
            Auth::App(AppKey::new(id, &self.app_key(env)?)?)
        } else {
            Auth::Token(find_token(&TokenSources {
                api_url: &self.api_url,
                token_file: self.token_file.as_deref(),
                env,
                gh: programs::find("gh", &programs::path()).as_deref(),
            })?)
        };
        self.connect(auth, notify)
    }

    /// Like [`Self::client`]; `None` without a token, unless one `is_needed` or was named.
    pub fn optional_client(
        &self,
        is_needed: bool,
        env: &ProcessEnv,
        notify: Notify,
    ) -> anyhow::Result<Option<Client>> {
        match self.client(env, notify) {
            Ok(client) => Ok(Some(client)),
            Err(error) if is_needed || self.token_file.is_some() || self.app_id.is_some() => Err(error),
            Err(error) => {
                tracing::debug!("no token for GitHub: {error:#}");
                Ok(None)
            }
        }
    }

    /// Like [`Self::client`] for a runner repository: `RUN_EVALS_TOKEN` comes before the usual variables.
    pub fn runner_client(&self, env: &ProcessEnv, notify: Notify) -> anyhow::Result<Client> {
        let own = env.get(RUNNER_TOKEN).filter(|token| !token.trim().is_empty());
        match own.filter(|_| self.app_id.is_none() && self.token_file.is_none()) {
            Some(token) => {
                check_api_url(&self.api_url)?;
                self.connect(Auth::Token(Secret::new(token)), notify)
            }
            None => self.client(env, notify),
        }
    }

    fn connect(&self, auth: Auth, notify: Notify) -> anyhow::Result<Client> {
        let api_url = self.api_url.clone();
        Client::new(ClientOptions { api_url, auth, notify: Some(notify), ca_pem: Vec::new() })
    }

    fn app_key(&self, env: &ProcessEnv) -> anyhow::Result<Secret> {
        if let Some(path) = &self.app_key_file {
            let key = std::fs::read_to_string(path).map_err(|error| {
                Failure::config(format!("cannot read the App's private key `{}`: {error}", path.display()))
                    .hint("`--app-key-file` takes the `.pem` file that GitHub generated for the App")
            })?;
            return Ok(Secret::new(&key));
        }
        let key = env.get(APP_KEY).filter(|key| !key.trim().is_empty()).ok_or_else(|| {
            Failure::new(Exit::Usage, "`--app-id` needs the App's private key")
                .hint(format!("pass its file with `--app-key-file`, or set `{APP_KEY}`"))
        })?;
        Ok(Secret::new(key))
    }
}
