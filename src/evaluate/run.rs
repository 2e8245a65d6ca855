//! Every case, replicate and model through the runner; one batch a model, because each has settings of its own.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use tokio::sync::watch;

use super::backends::{self, Served};
use super::check_out::Checkout;
use super::evaluated::{CallCounts, Evaluated};
use super::failure::Failure;
use super::order::Pinned;
use super::place::Place;
use super::{plan, told};
use crate::config::Skill;
use crate::dispatcher::{self, BatchName, Collection, Purpose, Sharding};
use crate::exchange::LocalExchange;
use crate::model;
use crate::model::{
    BatchId, Content, Entry, JsonSchema, Message, Metadata, ModelParams, Params, Request, Response,
    ResponseFormat, Role, Secret, StructuredOutput, request_id,
};
use crate::runner::{self, RunOptions};
use crate::scoring::fields;

/// How often somebody hears how far it is.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// The longest name of a schema.
const LONGEST_NAME: usize = 64;

/// How far an evaluation is, in calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Those that need no more work.
    pub done: u64,
    /// All: cases times replicates times models.
    pub total: u64,
}

/// Has every case answered by every model, so often, and scores the answers. The same id goes on where an earlier run ended.
pub async fn run(
    place: &Place,
    checkout: &Checkout,
    id: &BatchId,
    progress: impl Fn(Progress),
    stop: watch::Receiver<bool>,
) -> Result<Evaluated, Failure> {
    if checkout.skill.cases.is_empty() {
        return Err(told::nothing_to_run(&checkout.skill).into());
    }
    check_resume(place, checkout, id)?;
    let (served, not_served, env) = backends::find(place, &checkout.models.models).await?;
    let secrets: Vec<Secret> = env.secrets().collect();
    let exchange = LocalExchange::open_or_create(&place.exchange())?;
    plan::remember(place, id, &checkout.order, &checkout.pinned)?;
    let each = checkout.skill.cases.len() as u64 * u64::from(checkout.order.replicates.get());
    let mut total = Progress { done: 0, total: each * served.len() as u64 };
    progress(total);

    let mut warnings = Vec::new();
    let mut calls = CallCounts::default();
    let (mut entries, mut responses, mut batches) = (Vec::new(), Vec::new(), Vec::new());
    for served in &served {
        let params = params_of(&checkout.skill, served);
        let batch = plan::batch_id(id, served, &params.text())?;
        let job =
            Job { checkout, served, params: &params, batch: &batch, exchange: &exchange, secrets: &secrets };
        let before = total;
        let tell = |done: u64| progress(Progress { done: before.done + done, ..before });
        let (collection, rows) = job.answer(tell, stop.clone()).await?;
        total.done += each;
        progress(total);
        let summary = &collection.summary;
        warnings.extend(told::warnings(served, &collection));
        calls.requests += summary.requests;
        calls.answered += summary.totals.answered;
        calls.failed += summary.totals.failed + summary.totals.not_run;
        if let Some(cost) = summary.totals.cost_usd {
            calls.cost_usd = Some(calls.cost_usd.unwrap_or(0.0) + cost);
        }
        entries.push(job.entry(&rows)?);
        responses.extend_from_slice(&rows);
        batches.push((batch, collection.resumable));
    }
    let kept = plan::keep_entries(place, id, &entries)?;
    for (batch, resumable) in batches {
        if !resumable {
            exchange.delete_batch(&batch)?;
        }
    }
    Ok(Evaluated {
        id: id.clone(),
        skill: checkout.skill.name.clone(),
        skill_version: checkout.skill.version.to_string(),
        replicates: checkout.order.replicates,
        pinned: checkout.pinned.clone(),
        entries,
        not_served,
        skipped: checkout.skill.skipped.clone(),
        calls,
        warnings,
        is_on_default: checkout.is_on_default,
        responses,
        leaderboard: checkout.leaderboard.clone(),
        ranks: checkout.ranks.clone(),
        origin: checkout.origin.clone(),
        kept,
    })
}

/// The batch of one model.
struct Job<'j> {
    checkout: &'j Checkout,
    served: &'j Served,
    params: &'j ModelParams,
    batch: &'j BatchId,
    exchange: &'j LocalExchange,
    secrets: &'j [Secret],
}

impl Job<'_> {
    /// Calls what has no answer yet, and gives all rows.
    async fn answer(
        &self,
        tell: impl Fn(u64),
        stop: watch::Receiver<bool>,
    ) -> Result<(Collection, Vec<u8>), Failure> {
        let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
        let requests = temporary.path().join("requests.jsonl");
        std::fs::write(&requests, self.requests()?).context("cannot write the requests")?;
        let target = &self.served.target;
        let purpose = Purpose { target: &target.name, label: &target.name, sharding: Sharding::one() };
        let name = BatchName { given: Some(self.batch.clone()), one_of_several: false, taken: 0 };
        let planned = dispatcher::plan_requests(&requests, None, purpose, &name)?;
        self.exchange.put_batch(self.batch, &planned.archive, planned.sha256)?;
        let options = RunOptions {
            sharers: 1,
            batch_sha256: Some(planned.sha256),
            secrets: self.secrets.to_vec(),
            ..RunOptions::default()
        };
        let progress = Arc::new(runner::Progress::default());
        let work = runner::run(self.exchange, self.batch, |_| Ok(target.clone()), &options, &progress, stop);
        tokio::pin!(work);
        let mut clock = tokio::time::interval(TELL_EVERY);
        let report = loop {
            tokio::select! {
                report = &mut work => break report?,
                _ = clock.tick() => tell(progress.done()),
            }
        };
        if let Some(reason) = report.stopped {
            return Err(told::stopped(reason, &self.served.settings.id));
        }
        let mut rows = Vec::new();
        let collection = dispatcher::collect(self.exchange, self.batch, None, &mut rows)?;
        if collection.summary.totals.answered == 0 {
            // A refusal that counts as final would be told again for ever, whatever is mended over there.
            self.exchange.forget(self.batch)?;
            return Err(told::always_fails(self.served, &collection).into());
        }
        Ok((collection, rows))
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
fn check_resume(place: &Place, checkout: &Checkout, id: &BatchId) -> Result<(), model::Failure> {
    let Some(earlier) = plan::recall(place, id)? else { return Ok(()) };
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
