//! The worker as a step of a dispatched workflow: event, policy, limits and key, before the first rollout runs.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use super::{Address, Agent, Code, Dataset, Endpoint, Event, Ids, RolloutResult, RunOptions, Status, Worker};
use crate::config::{Env, Policy};
use crate::console::{actions, signals};
use crate::engine::Observer;
use crate::git::Remote;
use crate::model::{Exit, Failure, Secret, printable};
use crate::protocol::names::is_repository;
use crate::runner;
use crate::util::WorkDir;
use crate::util::ca::CaBundle;

/// The key of the repository for the tracing endpoint.
pub const KEY: &str = "ROLLOUT_API_KEY";
const USUAL_CONCURRENCY: usize = 16;
/// Variables hidden from a command.
const HIDDEN: [&str; 4] = [KEY, "GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_RUNTIME_TOKEN"];
/// Variables that only this program sets for a command: a key of the step under such a name would go to whatever host the
/// dispatch names.
const OURS: [&str; 4] =
    ["OPENAI_API_KEY", "OPENAI_BASE_URL", "FIREWORKS_API_KEY", "FW_TRACING_GATEWAY_BASE_URL"];

/// How a step runs the rollouts of its dispatch.
#[derive(Debug)]
pub struct StepOptions {
    /// The data set.
    pub dataset: Option<PathBuf>,
    /// A command that runs a rollout, instead of model calls.
    pub command: Option<String>,
    /// The timeout of the command.
    pub command_timeout: Duration,
    /// Whether it may run in the container of the action.
    pub allow_commands: bool,
    /// The timeout of one model call.
    pub call_timeout: Duration,
    /// The most rollouts at once.
    pub max_concurrency: Option<NonZeroU32>,
    /// The certificates of private CAs to trust besides the system's, in PEM format.
    pub ca_pem: Vec<u8>,
}

/// Runs the rollouts of the dispatch that this process is a step of.
pub async fn run_step(args: StepOptions, observer: Arc<dyn Observer>) -> anyhow::Result<Vec<RolloutResult>> {
    let env = Env::from_process();
    let path = env.get("GITHUB_EVENT_PATH").map(PathBuf::from).ok_or_else(|| {
        Failure::new(Exit::Usage, "no event: `GITHUB_EVENT_PATH` is not set")
            .hint("`rollout run` is a step of a workflow with `on: workflow_dispatch`")
    })?;
    let event = Event::read(&path)?;
    // Before anything else is printed.
    let given = event.key();
    actions::mask(env.likely_secrets().iter().chain(&given));
    let stop = signals::stop_once()?;
    check_command(&args)?;
    let step = Step::read(&env)?;
    let policy = step.policy(&event, &args.ca_pem, env.get("SSL_CERT_FILE").map(Path::new)).await?;

    let rollouts = event.rollouts()?;
    let address = event.address()?;
    check_path(&address, &rollouts)?;
    let is_listed = policy.check_model_base_url("model_base_url", &address.base)?;
    if args.command.is_some() && given.is_none() {
        check_listed(is_listed, &address, "a command does not call")?;
    }
    let key = choose_key(given, env.get(KEY).map(Secret::new), is_listed, &address, &*observer)?;
    let endpoint = Endpoint::new(address.base, key, &args.ca_pem)?;

    let files = WorkDir::new().context("cannot create a temporary directory")?;
    let worker = match worker(&args, &env, files.path(), &*observer) {
        Ok(worker) => worker,
        Err(error) => {
            // Report the failure to the client that waits for these rollouts.
            let status = Status::new(Code::Internal, format!("the runner repository: {error}"));
            for ids in &rollouts {
                let _ = endpoint.report(ids, &status, json!({})).await;
            }
            return Err(error);
        }
    };
    if let Err(failure) = check_limits(&policy, &event, &rollouts, &worker, is_listed) {
        let status = Status::new(Code::PermissionDenied, failure.to_string());
        for ids in &rollouts {
            let _ = endpoint.report(ids, &status, json!({})).await;
        }
        return Err(failure.into());
    }
    let options = RunOptions {
        worker,
        endpoint,
        max_concurrency: args.max_concurrency.map_or(USUAL_CONCURRENCY, |most| most.get() as usize),
        call_timeout: args.call_timeout,
        is_listed,
        run_url: step.run_url(),
        files: files.path().to_owned(),
        tell: Box::new(move |line| observer.note(line)),
    };
    super::run(event, rollouts, options, stop).await
}

/// In our container, a command could reach the machine's Docker engine.
fn check_command(args: &StepOptions) -> Result<(), Failure> {
    if args.command.is_some() && actions::is_our_container() && !args.allow_commands {
        let message = "commands do not run in the action's container, which can reach the Docker engine";
        return Err(Failure::config(message).hint(
            "run `run-evals rollout run --command …` in a `run:` step, or set `allow-commands: true`",
        ));
    }
    Ok(())
}

/// Applies the owner's limits to rollouts as to batches, before the first call.
fn check_limits(
    policy: &Policy,
    event: &Event,
    rollouts: &[Ids],
    worker: &Worker,
    is_listed: bool,
) -> Result<(), Failure> {
    policy.check_rollouts(worker.calls(rollouts))?;
    for index in 0..rollouts.len() {
        // Without a list, the key is the client's own, and so is the choice of the host.
        if is_listed {
            for address in event.addresses(index)? {
                policy.check_model_base_url("completion_params.base_url", &address)?;
            }
        }
        // An invalid row fails on its own and makes no call.
        let models = event.models(index).unwrap_or_default();
        models.iter().try_for_each(|model| policy.check_rollout_model(model))?;
    }
    Ok(())
}

/// Refuses a host that the owner does not list.
fn check_listed(is_listed: bool, address: &Address, what: &str) -> Result<(), Failure> {
    if is_listed {
        return Ok(());
    }
    let host = printable(address.base.host_str().unwrap_or_default());
    let message = format!("{what} `{host}`: no `model_base_url` is allowed for rollouts");
    let hint = format!(
        "add `rollout: {{ model_base_urls: [https://…] }}` to `{}` on the default branch of this repository",
        Policy::PATH
    );
    Err(Failure::config(message).hint(hint))
}

/// If the client put ids into the URL, they must be those of the same rollout.
fn check_path(address: &Address, rollouts: &[Ids]) -> Result<(), Failure> {
    let Some(path) = &address.path else { return Ok(()) };
    let segment = path.split('/').nth(2).unwrap_or_default();
    let fits = |ids: &Ids| ids.is_rollout_segment(segment);
    if rollouts.len() == 1 && rollouts.iter().any(fits) {
        return Ok(());
    }
    let message = "`model_base_url` contains the ids of another rollout";
    Err(Failure::config(message)
        .hint("send only the base of the tracing endpoint; the ids are in `metadata`"))
}

/// The key for the endpoint. The repository's key goes only to hosts that its owner lists.
fn choose_key(
    given: Option<Secret>,
    own: Option<Secret>,
    is_listed: bool,
    address: &Address,
    observer: &dyn Observer,
) -> Result<Option<Secret>, Failure> {
    let host = printable(address.base.host_str().unwrap_or_default());
    match (given, own) {
        (Some(key), _) => {
            observer.warning(&format!(
                "the key came as the input `api_key`: inputs are not secret, everyone who can read this repository's runs can \
                 see it. It is used for `{host}` alone; leave it out and keep it as the secret `{KEY}` instead"
            ));
            Ok(Some(key))
        }
        (None, Some(key)) => {
            check_listed(is_listed, address, &format!("`{KEY}` is not sent to"))?;
            Ok(Some(key))
        }
        (None, None) => {
            observer.note("no key: neither the input `api_key` nor the repository secret is set");
            Ok(None)
        }
    }
}

fn worker(args: &StepOptions, env: &Env, files: &Path, observer: &dyn Observer) -> anyhow::Result<Worker> {
    let cwd = std::env::current_dir()?;
    let dataset = match &args.dataset {
        Some(path) => {
            let (dataset, warnings) = Dataset::load(path, env, &cwd)?;
            observer.warnings(&warnings);
            for (digest, path) in &dataset.attachments {
                let to = files.join(digest.to_string());
                std::fs::copy(path, to).with_context(|| format!("cannot read `{}`", path.display()))?;
            }
            Some(dataset)
        }
        None => None,
    };
    match (&args.command, dataset) {
        (Some(command), dataset) => {
            // Variables meant for this program, not for the agent.
            let is_own = |name: &&str| {
                let is_ours = name.starts_with("EP_") || OURS.contains(name);
                name.starts_with("INPUT_") || HIDDEN.contains(name) || is_ours
            };
            let agent = Agent {
                command: command.clone(),
                cwd,
                timeout: args.command_timeout,
                hidden: env.names().into_iter().filter(is_own).map(str::to_owned).collect(),
            };
            Ok(Worker::Command(agent, dataset))
        }
        (None, Some(dataset)) => Ok(Worker::Model(dataset)),
        (None, None) => {
            Err(Failure::new(Exit::Usage, "expected `--dataset FILE` or `--command COMMAND`").into())
        }
    }
}

/// The workflow run of this step; empty on a local machine.
struct Step {
    repo: Option<String>,
    server_url: String,
    run_id: Option<String>,
    token: Option<Secret>,
    actor: Option<String>,
}

impl Step {
    fn read(env: &Env) -> Result<Self, Failure> {
        let get = |name: &str| env.get(name).map(str::to_owned);
        let event_name = get("GITHUB_EVENT_NAME").unwrap_or_else(|| "workflow_dispatch".to_owned());
        if event_name != "workflow_dispatch" {
            let message =
                format!("the run was started by `{}`, not by `workflow_dispatch`", printable(&event_name));
            return Err(Failure::config(message).hint("`rollout run` serves `on: workflow_dispatch` only"));
        }
        let repo = get("GITHUB_REPOSITORY");
        if let Some(repo) = repo.as_deref().filter(|repo| !is_repository(repo)) {
            return Err(Failure::config(format!(
                "`GITHUB_REPOSITORY` is not a repository: `{}`",
                printable(repo)
            )));
        }
        let token = ["INPUT_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"].iter().find_map(|name| get(name));
        let server_url = get("GITHUB_SERVER_URL").unwrap_or_else(|| "https://github.com".to_owned());
        Ok(Self {
            repo,
            server_url: server_url.trim_end_matches('/').to_owned(),
            run_id: get("GITHUB_RUN_ID").filter(|id| id.bytes().all(|byte| byte.is_ascii_digit())),
            token: token.as_deref().map(Secret::new),
            actor: get("GITHUB_TRIGGERING_ACTOR"),
        })
    }

    /// The owner's policy on the default branch, whichever branch runs.
    async fn policy(&self, event: &Event, ca_pem: &[u8], system: Option<&Path>) -> anyhow::Result<Policy> {
        let Some(repo) = &self.repo else { return Ok(Policy::default()) };
        let ca = if ca_pem.is_empty() {
            None
        } else {
            let bundle = CaBundle::write(ca_pem.to_vec(), system, &std::env::temp_dir());
            Some(bundle.context("cannot write the certificates")?)
        };
        let remote = Remote::new(&format!("{}/{repo}.git", self.server_url), self.token.clone())
            .with_ca_file(ca.as_ref().map(CaBundle::file));
        let policy = runner::fetch_policy(repo, remote).await.map_err(|error| match &self.token {
            Some(_) => error,
            None => error.context(
                Failure::config("the policy of this repository cannot be read without a token")
                    .hint("a `run:` step needs `env: { GITHUB_TOKEN: ${{ github.token }} }`"),
            ),
        })?;
        let policy = policy.unwrap_or_default();
        let senders: Vec<&str> = event.sender.iter().chain(&self.actor).map(String::as_str).collect();
        if senders.is_empty() {
            policy.check_sender("")?;
        }
        senders.into_iter().try_for_each(|sender| policy.check_sender(sender))?;
        Ok(policy)
    }

    fn run_url(&self) -> Option<String> {
        let (repo, id) = (self.repo.as_ref()?, self.run_id.as_ref()?);
        Some(format!("{}/{repo}/actions/runs/{id}", self.server_url))
    }
}
