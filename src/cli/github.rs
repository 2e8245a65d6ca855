//! The connection to GitHub that the command line describes.

use std::path::Path;
use std::sync::Arc;

use super::args::{GithubArgs, RemoteArgs};
use super::display::Display;
use crate::config::Env;
use crate::dispatcher::{ActionsRun, Dispatcher};
use crate::exchange::LocalExchange;
use crate::github::{
    AppKey, Auth, Client, ClientOptions, Notify, ResultsService, TokenSources, check_api_url, find_token,
};
use crate::model::{Exit, Failure, RemoteResults, RunnerOptions, Secret};

/// Where the private key of a GitHub App may stand.
const APP_KEY: &str = "RUN_EVALS_APP_KEY";

/// A client with the credentials that the command line, the environment or `gh` gives.
pub(super) fn client(args: &GithubArgs, env: &Env, display: &Display) -> anyhow::Result<Client> {
    let display = display.clone();
    client_telling(args, env, Arc::new(move |text: &str| display.note(text)))
}

/// The same; somebody else hears what is waited for.
pub(super) fn client_telling(args: &GithubArgs, env: &Env, notify: Notify) -> anyhow::Result<Client> {
    // Before a token is looked for: which one depends on the host.
    check_api_url(&args.github_api_url)?;
    let auth = if let Some(id) = &args.app_id {
        Auth::App(AppKey::new(id, &app_key(args, env)?)?)
    } else {
        Auth::Token(find_token(&TokenSources {
            api_url: &args.github_api_url,
            token_file: args.token_file.as_deref(),
            env: &|name: &str| env.get(name).map(ToOwned::to_owned),
            gh: Path::new("gh"),
        })?)
    };
    Client::new(ClientOptions { api_url: args.github_api_url.clone(), auth, notify: Some(notify) })
}

fn app_key(args: &GithubArgs, env: &Env) -> anyhow::Result<Secret> {
    if let Some(path) = &args.app_key_file {
        let key = std::fs::read_to_string(path).map_err(|error| {
            Failure::config(format!("cannot read the App's private key `{}`: {error}", path.display()))
                .hint("`--app-key-file` names the `.pem` file that GitHub made for the App")
        })?;
        return Ok(Secret::new(&key));
    }
    let key = env.get(APP_KEY).filter(|key| !key.trim().is_empty()).ok_or_else(|| {
        Failure::new(Exit::Usage, "`--app-id` needs the App's private key").hint(format!(
            "name its file with `--app-key-file`, or put the key into the variable `{APP_KEY}`"
        ))
    })?;
    Ok(Secret::new(key))
}

/// What dispatches to runner repositories with this exchange.
pub(super) fn dispatcher(
    client: Client,
    (github, remote): (&GithubArgs, Option<&RemoteArgs>),
    (exchange, results): (&LocalExchange, &RemoteResults),
    options: RunnerOptions,
    env: &Env,
    display: &Display,
) -> anyhow::Result<Dispatcher> {
    let mut view = LocalExchange::open(exchange.shown())?;
    if let RemoteResults::Branch(prefix) = results {
        view = view.with_results_prefix(prefix);
    }
    let display = display.clone();
    Ok(Dispatcher {
        client,
        api_url: github.github_api_url.clone(),
        exchange: Arc::new(view),
        hand_over: remote.map_or(crate::dispatcher::HandOverChoice::Auto, |args| args.handover),
        actions: actions_run(env),
        allow_public: remote.is_some_and(|args| args.allow_public),
        options,
        grace: remote.map_or(std::time::Duration::from_mins(1), |args| args.grace),
        tell: Box::new(move |text| display.note(text)),
    })
}

/// The workflow run that this process is a step of.
fn actions_run(env: &Env) -> Option<ActionsRun> {
    let get = |name: &str| env.get(name).map(ToOwned::to_owned);
    let repo = get("GITHUB_REPOSITORY")?;
    let run_id = get("GITHUB_RUN_ID")?.parse().ok()?;
    let artifacts = match ResultsService::from_env(get) {
        Some(Ok(service)) => Some(service),
        // Not on this host: batches travel in other ways.
        Some(Err(error)) => {
            tracing::debug!("no artifacts: {error}");
            None
        }
        None => None,
    };
    Some(ActionsRun { repo, run_id, artifacts })
}
