//! Every case, replicate and model through the runner; one batch a model, because each has settings of its own.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::backends::{self, Served};
use super::check_out::Checkout;
use super::evaluated::{CallCounts, Evaluated, FailedModel};
use super::failure::Failure;
use super::order::Pinned;
use super::workspace::Workspace;
use super::{messages, plan};
use crate::config::Skill;
use crate::engine::{self, BatchName, CollectedBatch, Collection, Execution, Observer, Purpose, Sharding};
use crate::exchange::LocalExchange;
use crate::model;
use crate::model::{
    BatchId, Content, Entry, JsonSchema, Message, Metadata, ModelParams, Params, Request, Response,
    ResponseFormat, Role, StructuredOutput, Target, request_id,
};
use crate::runner::RunOptions;
use crate::scoring::fields;
use crate::util::WorkDir;

/// How often progress is reported.
const REPORT_EVERY: Duration = Duration::from_millis(200);
/// The longest name of a schema.
const LONGEST_NAME: usize = 64;

/// How far an evaluation is, in calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Those that need no more work.
    pub done: u64,
    /// All: cases times replicates times models.
    pub total: u64,
}

/// Has every case answered by every model, so often, and scores the answers. The same id goes on where an earlier run ended.
pub async fn run(
    workspace: &Workspace,
    checkout: &Checkout,
    id: &BatchId,
    progress: impl Fn(Progress),
    stop: watch::Receiver<bool>,
) -> Result<Evaluated, Failure> {
    check_resume(workspace, checkout, id)?;
    let (served, not_served, env) = backends::find(workspace, &checkout.models.models).await?;
    let exchange = LocalExchange::open_or_create(&workspace.exchange())?;
    let calls = Arc::new(CallCounter::default());
    let limits = RunOptions { secrets: env.secrets().collect(), ..RunOptions::default() };
    let observer = Arc::clone(&calls) as Arc<dyn Observer>;
    // A later service job may continue from the journals; they are deleted with the last job that needs them.
    let mut execution = Execution::new(exchange, limits, observer).stopped_by(stop).keeping_journals();
    plan::remember(workspace, id, &checkout.order, &checkout.pinned)?;
    let each = checkout.skill.cases.len() as u64 * u64::from(checkout.order.replicates.get());
    let mut total = Progress { done: 0, total: each * served.len() as u64 };
    progress(total);

    let mut warnings = Vec::new();
    let mut counts = CallCounts::default();
    let (mut entries, mut responses) = (Vec::new(), Vec::new());
    let (mut failed, mut first_failure) = (Vec::new(), None);
    for served in &served {
        let params = params_of(&checkout.skill, served);
        let batch = plan::batch_id(id, served, &params.text())?;
        let batch = ModelBatch { checkout, served, params: &params, id: &batch };
        let report = || progress(Progress { done: total.done + calls.done(), ..total });
        let outcome = batch.run(&mut execution, report).await?;
        calls.reset();
        total.done += each;
        progress(total);
        let (collection, rows) = match outcome {
            Outcome::Answered(collection, rows) => (*collection, rows),
            Outcome::Dead(failure) => {
                counts.requests += each;
                counts.failed += each;
                let (model, reason) = (served.settings.id.clone(), failure.to_string());
                warnings.push(format!("{reason}; the entries of the other models are published without it"));
                failed.push(FailedModel { model, reason });
                first_failure.get_or_insert(failure);
                continue;
            }
        };
        let summary = &collection.summary;
        warnings.extend(messages::warnings(served, &collection));
        counts.requests += summary.requests;
        counts.answered += summary.totals.answered;
        counts.failed += summary.totals.failed + summary.totals.not_run;
        if let Some(cost) = summary.totals.cost_usd {
            counts.cost_usd = Some(counts.cost_usd.unwrap_or(0.0) + cost);
        }
        entries.push(batch.entry(&rows)?);
        responses.extend_from_slice(&rows);
    }
    if let Some(failure) = first_failure.filter(|_| entries.is_empty()) {
        let hint =
            "nothing was published: order it again (or name the same `--batch-id`) when the model works";
        return Err(failure.hint(hint).into());
    }
    let kept = plan::keep_entries(workspace, id, &entries)?;
    execution.clean_up().await;
    Ok(Evaluated {
        id: id.clone(),
        skill: checkout.skill.name.clone(),
        skill_version: checkout.skill.version.to_string(),
        replicates: checkout.order.replicates,
        pinned: checkout.pinned.clone(),
        entries,
        not_served,
        failed,
        skipped: checkout.skill.skipped.clone(),
        calls: counts,
        warnings,
        is_on_default: checkout.is_on_default,
        responses,
        leaderboard: checkout.leaderboard.clone(),
        ranks: checkout.ranks.clone(),
        origin: checkout.origin.clone(),
        kept,
    })
}

/// How many calls of a batch need no more work. Warnings are part of the collection.
#[derive(Default)]
struct CallCounter(AtomicU64);

impl CallCounter {
    fn done(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Observer for CallCounter {
    fn note(&self, _: &str) {}

    fn warning(&self, _: &str) {}

    fn interval(&self) -> Option<Duration> {
        Some(REPORT_EVERY)
    }

    fn progress(&self, _: Duration, progress: engine::Progress) {
        self.0.store(progress.done, Ordering::Relaxed);
    }
}

/// What became of the batch of one model.
enum Outcome {
    /// All rows, some of them with an answer.
    Answered(Box<Collection>, Vec<u8>),
    /// The model cannot be asked, which does not keep the others from it.
    Dead(model::Failure),
}

/// The batch of one model.
struct ModelBatch<'b> {
    checkout: &'b Checkout,
    served: &'b Served,
    params: &'b ModelParams,
    id: &'b BatchId,
}

impl ModelBatch<'_> {
    /// Calls what has no response yet, and gives all rows.
    async fn run(&self, execution: &mut Execution, report: impl Fn()) -> Result<Outcome, Failure> {
        let temporary = WorkDir::new().context("cannot make a temporary directory")?;
        let requests = temporary.path().join("requests.jsonl");
        std::fs::write(&requests, self.requests()?).context("cannot write the requests")?;
        let target = &self.served.target;
        let purpose = Purpose { target: &target.name, label: &target.name, sharding: Sharding::one() };
        let name = BatchName { given: Some(self.id.clone()), one_of_several: false, taken: 0 };
        let planned = engine::plan_requests(&requests, None, purpose, &name)?;
        let stored = execution.store_named(&planned, Target::Runner(Box::new(target.clone())))?;
        let mut rows = Vec::new();
        let CollectedBatch { collection, stopped } = {
            let work = execution.run(stored, &mut rows);
            tokio::pin!(work);
            let mut ticks = tokio::time::interval(REPORT_EVERY);
            loop {
                tokio::select! {
                    collected = &mut work => break collected?,
                    _ = ticks.tick() => report(),
                }
            }
        };
        if let Some(reason) = stopped {
            return messages::stopped(reason, &self.served.settings.id).map(Outcome::Dead);
        }
        if collection.summary.totals.answered == 0 {
            // A refusal that counts as final would be repeated for ever, even after it is fixed at the provider.
            execution.exchange().forget(self.id)?;
            return Ok(Outcome::Dead(messages::always_fails(self.served, &collection)));
        }
        Ok(Outcome::Answered(Box::new(collection), rows))
    }

    /// The requests, one a line: the same for whoever makes them.
    fn requests(&self) -> anyhow::Result<Vec<u8>> {
        let skill = &self.checkout.skill;
        let text = |role, text: &str| Message { role, content: Content::Text(text.to_owned()) };
        let mut lines = Vec::new();
        for case in &skill.cases {
            for replicate in 1..=self.checkout.order.replicates.get() {
                let request = Request {
                    id: request_id(&case.id, replicate),
                    messages: vec![text(Role::System, &skill.system), text(Role::User, &case.message)],
                    params: Params {
                        temperature: self.params.temperature,
                        max_tokens: self.params.max_tokens,
                        seed: self.params.seed,
                        response_format: response_format(skill, self.params.structured_output),
                        ..Params::default()
                    },
                    tools: Vec::new(),
                    files: Vec::new(),
                    metadata: Metadata { test_id: case.id.clone(), replicate, ..Metadata::default() },
                };
                serde_json::to_writer(&mut lines, &request)?;
                lines.write_all(b"\n")?;
            }
        }
        Ok(lines)
    }

    /// What the answers come to.
    fn entry(&self, rows: &[u8]) -> anyhow::Result<Entry> {
        let replicates = self.checkout.order.replicates;
        let Checkout { skill, pinned, .. } = self.checkout;
        let mut rows = rows.split(|byte| *byte == b'\n').filter(|row| !row.is_empty());
        let mut answers = fields::Answers::new();
        for case in &skill.cases {
            for replicate in 1..=replicates.get() {
                let row = rows.next().context("a row of the results is missing")?;
                let row: Response =
                    serde_json::from_slice(row).context("cannot read a row of the results")?;
                anyhow::ensure!(
                    row.id == request_id(&case.id, replicate),
                    "the rows of the results are out of order"
                );
                answers.insert((case.id.clone(), replicate), fields::Answer::of(&row));
            }
        }
        let subject = fields::Subject {
            skill,
            prompt_commit: &pinned.prompt_commit,
            dataset_commit: pinned.dataset_commit.as_ref(),
            model: &self.served.settings,
            alias_target: self.served.alias_target.as_deref(),
            replicates,
        };
        Ok(fields::entry(&subject, &answers))
    }
}

/// What the settings of a model come to with this skill.
fn params_of(skill: &Skill, served: &Served) -> ModelParams {
    served.settings.params(skill.structured_output(served.settings.structured_output))
}

fn response_format(skill: &Skill, asked: StructuredOutput) -> Option<ResponseFormat> {
    let schema = |strict| {
        let legal = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let name = skill.name.as_str().chars().map(legal).take(LONGEST_NAME).collect();
        let schema = skill.schema.clone()?;
        Some(ResponseFormat::JsonSchema { json_schema: JsonSchema { name, strict, schema } })
    };
    match asked {
        StructuredOutput::JsonSchema => schema(None),
        StructuredOutput::JsonSchemaStrict => schema(Some(true)),
        StructuredOutput::JsonObject => Some(ResponseFormat::JsonObject),
        StructuredOutput::None => None,
    }
}

/// Refuses an id under which something else was begun: its answers are not those that are asked for.
fn check_resume(workspace: &Workspace, checkout: &Checkout, id: &BatchId) -> Result<(), model::Failure> {
    let Some(earlier) = plan::recall(workspace, id)? else { return Ok(()) };
    // Other models are other batches, so that their commit does not matter.
    let commits = |pinned: &Pinned| (pinned.prompt_commit.clone(), pinned.dataset_commit.clone());
    let same = plan::is_same(&checkout.order, &earlier)
        && earlier.pinned.as_ref().map(commits) == Some(commits(&checkout.pinned));
    if same {
        return Ok(());
    }
    let commit =
        earlier.pinned.as_ref().map(|pinned| pinned.prompt_commit.short().to_owned()).unwrap_or_default();
    let message = format!(
        "the evaluation `{id}` is another one: `{}` at {commit}, {} replicates",
        earlier.skill, earlier.replicates
    );
    Err(model::Failure::config(message).hint("choose another `--batch-id`, or ask for the same to resume it"))
}
