//! The worker: runs every rollout of a dispatch once, and reports it to the tracing endpoint.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::agent::Agent;
use super::contract::{self, Event};
use super::endpoint::{Endpoint, EndpointError};
use super::fields;
use super::ids::Ids;
use super::row::{Dataset, DatasetRow};
use super::status::{Code, Status};
use super::talk;
use crate::model::{Api, Auth, Endpoint as ModelEndpoint, Failure};
use crate::util::clock;
use crate::util::redact::Redactor;

/// How long recorded traces may take to appear.
const TRACES_APPEAR: Duration = Duration::from_secs(10);
/// How long to report a cancelled rollout: GitHub kills the process ten seconds after its signal.
const LAST_WORDS: Duration = Duration::from_secs(4);

/// What answers a row.
#[derive(Debug)]
pub enum Worker {
    /// The model, with the messages of the row.
    Model(Dataset),
    /// A command of the user, which gets the row if there is a data set.
    Command(Agent, Option<Dataset>),
}

impl Worker {
    /// The least number of model calls of these rollouts: one per turn, and one for a command or an invalid row.
    pub fn calls(&self, rollouts: &[Ids]) -> u64 {
        let turns = |ids: &Ids| match self {
            Self::Model(set) => {
                set.find(&ids.row_id).and_then(DatasetRow::turns).map_or(1, |turns| turns.len())
            }
            Self::Command(..) => 1,
        };
        rollouts.iter().map(|ids| turns(ids) as u64).sum()
    }
}

/// The options of a run.
pub struct RunOptions {
    /// What answers the rows.
    pub worker: Worker,
    /// The tracing endpoint, with the key it may get.
    pub endpoint: Endpoint,
    /// The most rollouts at once.
    pub max_concurrency: usize,
    /// The timeout of one model call.
    pub call_timeout: Duration,
    /// Whether the owner lists allowed URLs: then only fields of the closed table are passed on.
    pub is_listed: bool,
    /// The page of the workflow run.
    pub run_url: Option<String>,
    /// The directory of attachments, by digest.
    pub files: PathBuf,
    /// Prints the output of commands.
    pub tell: Box<dyn Fn(&str) + Send + Sync>,
}

/// The result of a rollout.
#[derive(Debug, Clone)]
pub struct RolloutResult {
    /// Its ids.
    pub ids: Ids,
    /// Its final status.
    pub status: Status,
    /// What happened, in a few words.
    pub how: String,
    /// Why reporting to the endpoint failed, if it did.
    pub untold: Option<String>,
}

impl RolloutResult {
    /// Whether the rollout is done.
    pub fn is_finished(&self) -> bool {
        self.status.is_finished()
    }
}

struct Run {
    options: RunOptions,
    event: Event,
    redactor: Redactor,
    stop: watch::Receiver<bool>,
}

/// Runs every rollout of a dispatch; the results are in dispatch order, each exactly once.
pub async fn run(
    event: Event,
    rollouts: Vec<Ids>,
    options: RunOptions,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<Vec<RolloutResult>> {
    let redactor = Redactor::new(options.endpoint.key());
    let slots = Arc::new(Semaphore::new(options.max_concurrency.max(1)));
    let run = Arc::new(Run { options, event, redactor, stop });
    let mut tasks = JoinSet::new();
    for (index, ids) in rollouts.iter().cloned().enumerate() {
        let (run, slots) = (Arc::clone(&run), Arc::clone(&slots));
        tasks.spawn(async move {
            let _slot = slots.acquire_owned().await;
            (index, run.rollout(index, ids).await)
        });
    }
    let mut done: Vec<Option<RolloutResult>> = rollouts.iter().map(|_| None).collect();
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok((index, one)) => done[index] = Some(one),
            Err(error) => tracing::error!("a rollout ended unexpectedly: {error}"),
        }
    }
    let lost = |ids: Ids| RolloutResult {
        ids,
        status: Status::new(Code::Internal, "the worker lost the rollout (a bug in run-evals)"),
        how: "lost".to_owned(),
        untold: None,
    };
    Ok(done.into_iter().zip(rollouts).map(|(done, ids)| done.unwrap_or_else(|| lost(ids))).collect())
}

impl Run {
    async fn rollout(&self, index: usize, ids: Ids) -> RolloutResult {
        let mut stop = self.stop.clone();
        let worked = tokio::select! {
            biased;
            Ok(_) = stop.wait_for(|asked| *asked) => {
                Err(Status::new(Code::Cancelled, "the workflow run was cancelled"))
            }
            worked = self.work(index, &ids) => worked,
        };
        let (status, how) = match worked {
            Ok(RowOutcome::Before) => {
                let status = Status::new(Code::Finished, "");
                return RolloutResult {
                    ids,
                    status,
                    how: "finished before; no call was made".to_owned(),
                    untold: None,
                };
            }
            Ok(RowOutcome::Now(how)) => (Status::new(Code::Finished, "rollout finished"), how),
            Err(status) => (status, "failed".to_owned()),
        };
        let status = Status { message: self.redactor.redact(status.message), ..status };
        let report = self.options.endpoint.report(&ids, &status, self.extras());
        let told = if status.code == Code::Cancelled as i64 {
            let late = || Err(EndpointError::Gone("timed out".to_owned()));
            tokio::time::timeout(LAST_WORDS, report).await.unwrap_or_else(|_| late())
        } else {
            report.await
        };
        let untold = told.err().map(|trouble| trouble.status().message);
        RolloutResult { ids, status, how, untold }
    }

    async fn work(&self, index: usize, ids: &Ids) -> Result<RowOutcome, Status> {
        let endpoint = &self.options.endpoint;
        // Without a status, a finished rollout could be paid for twice.
        match endpoint.status(&ids.rollout_id).await {
            // Anyone can post a status; the recorded traces prove it.
            Ok(Some(status)) if status.is_finished() => {
                if self.is_recorded(ids).await? {
                    return Ok(RowOutcome::Before);
                }
            }
            Ok(_) => {}
            Err(EndpointError::NoRoute) => self.check_traces(ids).await?,
            Err(trouble) => return Err(trouble.status()),
        }
        let given = self.event.completion_params(index).map_err(|failure| refused(&failure))?;
        if self.options.is_listed {
            fields::check_params(&given).map_err(|failure| refused(&failure))?;
        }
        let row = self.row(ids)?;
        let running = Status::new(Code::Running, "rollout is running");
        match endpoint.report(ids, &running, self.extras()).await {
            Ok(()) | Err(EndpointError::NoRoute) => {}
            Err(trouble) => return Err(trouble.status()),
        }
        match &self.options.worker {
            Worker::Model(_) => self.ask_model(ids, row, &given).await,
            Worker::Command(agent, _) => self.run_command(agent, ids, row, &given).await,
        }
    }

    /// An endpoint without a status is acceptable if it shows its traces.
    async fn check_traces(&self, ids: &Ids) -> Result<(), Status> {
        match self.options.endpoint.traces(&ids.rollout_id).await {
            Ok(_) => Ok(()),
            Err(EndpointError::NoRoute) => {
                let message = "the endpoint shows neither the status nor the traces of a rollout: it is not a tracing endpoint; no model was called";
                Err(Status::new(Code::NotFound, message))
            }
            Err(trouble) => Err(trouble.status()),
        }
    }

    fn row(&self, ids: &Ids) -> Result<Option<&DatasetRow>, Status> {
        let found = match &self.options.worker {
            Worker::Model(set) | Worker::Command(_, Some(set)) => Some(set.find(&ids.row_id)),
            Worker::Command(_, None) => None,
        };
        found.transpose().map_err(|problem| Status::new(Code::NotFound, problem))
    }

    async fn ask_model(
        &self,
        ids: &Ids,
        row: Option<&DatasetRow>,
        given: &Map<String, Value>,
    ) -> Result<RowOutcome, Status> {
        let Some(row) = row else { return Err(Status::new(Code::NotFound, "no data set is configured")) };
        let fields = contract::call_fields(given).map_err(|failure| refused(&failure))?;
        let earlier = match self.options.endpoint.traces(&ids.rollout_id).await {
            Ok(traces) => traces,
            Err(EndpointError::NoRoute) => Vec::new(),
            Err(trouble) => return Err(trouble.status()),
        };
        let endpoint = ModelEndpoint {
            api: Api::OpenAiCompatible,
            base_url: self.calls(ids, given),
            api_version: None,
            auth: self.options.endpoint.key().cloned().map_or(Auth::None, Auth::Key),
            region: None,
            project: None,
            ca_pem: self.options.endpoint.ca_pem().to_vec(),
        };
        let call = (endpoint, self.options.call_timeout);
        let talked = talk::talk(row, &fields, call, &earlier, &self.options.files).await?;
        let answers =
            if talked.turns == 1 { "1 answer".to_owned() } else { format!("{} answers", talked.turns) };
        Ok(RowOutcome::Now(match talked.turns - talked.called {
            0 => answers,
            before => format!("{answers}, {before} of them from an earlier run"),
        }))
    }

    async fn run_command(
        &self,
        agent: &Agent,
        ids: &Ids,
        row: Option<&DatasetRow>,
        given: &Map<String, Value>,
    ) -> Result<RowOutcome, Status> {
        let internal =
            |error: std::io::Error| Status::new(Code::Internal, format!("cannot write the row: {error}"));
        let file = match row {
            Some(row) => {
                let file =
                    tempfile::Builder::new().prefix("row-").suffix(".json").tempfile().map_err(internal)?;
                std::fs::write(file.path(), row.raw.to_string()).map_err(internal)?;
                Some(file)
            }
            None => None,
        };
        let endpoint = &self.options.endpoint;
        let mut variables: Vec<(&str, String)> = vec![
            ("EP_ROLLOUT_ID", ids.rollout_id.clone()),
            ("EP_INVOCATION_ID", ids.invocation_id.clone()),
            ("EP_EXPERIMENT_ID", ids.experiment_id.clone()),
            ("EP_RUN_ID", ids.run_id.clone()),
            ("EP_ROW_ID", ids.row_id.clone()),
            ("EP_COMPLETION_PARAMS", Value::Object(given.clone()).to_string()),
            ("EP_MODEL_BASE_URL", endpoint.base()),
            ("FW_TRACING_GATEWAY_BASE_URL", endpoint.base()),
            ("OPENAI_BASE_URL", self.calls(ids, given)),
        ];
        if let Some(model) = given.get("model").and_then(Value::as_str) {
            variables.push(("EP_MODEL", model.to_owned()));
        }
        if let Some(key) = endpoint.key() {
            // The names that model clients and Eval Protocol's logger read.
            variables.push(("OPENAI_API_KEY", key.expose().to_owned()));
            variables.push(("FIREWORKS_API_KEY", key.expose().to_owned()));
        }
        if let Some(file) = &file {
            variables.push(("EP_ROW_FILE", file.path().display().to_string()));
        }
        agent.run(&variables, &self.redactor, &*self.options.tell).await?;
        // A command that succeeds without a call has produced nothing visible.
        if self.is_recorded(ids).await? {
            return Ok(RowOutcome::Now("the command succeeded".to_owned()));
        }
        let message = "the command succeeded, but the tracing endpoint recorded no call";
        Err(Status::new(Code::NotFound, message))
    }

    /// Whether the endpoint has recorded a call, which may take a while to appear. An endpoint without traces is trusted.
    async fn is_recorded(&self, ids: &Ids) -> Result<bool, Status> {
        let until = tokio::time::Instant::now() + TRACES_APPEAR;
        loop {
            match self.options.endpoint.traces(&ids.rollout_id).await {
                Ok(traces) if traces.is_empty() => {}
                Ok(_) | Err(EndpointError::NoRoute) => return Ok(true),
                Err(trouble) => return Err(trouble.status()),
            }
            if tokio::time::Instant::now() >= until {
                return Ok(false);
            }
            clock::sleep(Duration::from_secs(1)).await;
        }
    }

    fn calls(&self, ids: &Ids, given: &Map<String, Value>) -> String {
        self.options.endpoint.calls(ids, contract::asked_base_url(given).as_deref())
    }

    fn extras(&self) -> Value {
        match &self.options.run_url {
            Some(url) => json!({"github_actions_run_url": url}),
            None => json!({}),
        }
    }
}

enum RowOutcome {
    /// By an earlier run.
    Before,
    /// By this one.
    Now(String),
}

fn refused(failure: &Failure) -> Status {
    Status::new(Code::InvalidArgument, failure.to_string())
}
