//! Runs every case, replicate and model through the runner, with one batch per model, because each has its own settings.

use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::backends::{self, ServedModel};
use super::check_out::Checkout;
use super::failure::Failure;
use super::grade::{CompleteGrades, Grades, ProseGrader};
use super::request::Pinned;
use super::result::{CallCounts, EvaluationResult, FailedModel};
use super::workspace::Workspace;
use super::{details, messages, plan};
use crate::config::Skill;
use crate::engine::{self, BatchName, CollectedBatch, Collection, Execution, Observer, Purpose, Sharding};
use crate::exchange::LocalExchange;
use crate::model;
use crate::model::{
    BatchId, Content, JsonSchema, Message, Metadata, ModelParams, Params, Request, Response, ResponseFormat,
    Role, StructuredOutput, Target, request_id,
};
use crate::runner::{RequestEnd, RunOptions};
use crate::scoring::fields;
use crate::util::WorkDir;

/// How often progress is reported.
const REPORT_EVERY: Duration = Duration::from_millis(200);
/// The longest name of a schema.
const LONGEST_NAME: usize = 64;

/// The progress of an evaluation, in calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Finished calls.
    pub done: u64,
    /// All calls: cases times replicates times models.
    pub total: u64,
}

/// The progress of an evaluation, by model and by case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunProgress {
    /// All calls.
    pub calls: Progress,
    /// Calls made by this run.
    pub called: u64,
    /// The calls of each model.
    pub models: Vec<ModelProgress>,
    /// The calls of each case, over all models.
    pub cases: Vec<CaseProgress>,
}

/// The calls of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ModelProgress {
    /// Its name.
    pub model: String,
    /// Finished calls.
    pub done: u64,
    /// Those of them without a response.
    pub failed: u64,
    /// Unreadable responses; known after scoring.
    pub unreadable: Option<u64>,
    /// All calls.
    pub total: u64,
}

/// The calls of a case.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CaseProgress {
    /// Its id.
    pub case: String,
    /// Finished calls.
    pub done: u64,
    /// Those of them without a response.
    pub failed: u64,
    /// All calls.
    pub total: u64,
}

/// Runs every case on every model, with the number of replicates, and scores the answers. The same id resumes an earlier run.
pub async fn run(
    workspace: &Workspace,
    checkout: &Checkout,
    id: &BatchId,
    progress: impl Fn(&RunProgress),
    stop: watch::Receiver<bool>,
) -> Result<EvaluationResult, Failure> {
    check_resume(workspace, checkout, id)?;
    let (served, not_served, env) = Box::pin(backends::find(workspace, &checkout.models.models)).await?;
    let grader = Box::pin(ProseGrader::find(workspace, &checkout.skill)).await?;
    let exchange = LocalExchange::open_or_create(&workspace.exchange())?;
    let replicates = u64::from(checkout.order.replicates.get());
    let each = checkout.skill.cases.len() as u64 * replicates;
    let calls = Arc::new(CallCounter::new(checkout, &served));
    let limits = RunOptions { secrets: env.secrets().collect(), ..RunOptions::default() };
    let observer = Arc::clone(&calls) as Arc<dyn Observer>;
    // A later service job may continue from the journals; they are deleted with the last job that needs them.
    let mut execution = Execution::new(exchange, limits, observer).stopped_by(stop).keeping_journals();
    plan::remember(workspace, id, &checkout.order, &checkout.pinned)?;
    progress(&calls.counts());

    let mut warnings = Vec::new();
    let mut counts = CallCounts::default();
    let (mut entries, mut responses, mut grades) = (Vec::new(), Vec::new(), Vec::new());
    let (mut failed, mut first_failure, mut details) = (Vec::new(), None, Vec::new());
    for (number, served) in served.iter().enumerate() {
        calls.begin(number);
        let params = params_of(&checkout.skill, served);
        let batch = plan::batch_id(id, served, &params.text())?;
        if grader.is_some() {
            ProseGrader::check_name(&batch)?;
        }
        let batch = ModelBatch { checkout, served, params: &params, id: &batch };
        let outcome = Box::pin(batch.run(&mut execution, || progress(&calls.counts()))).await;
        // Also after a stop: the last responses have just arrived.
        progress(&calls.counts());
        let outcome = outcome?;
        calls.end(number, matches!(outcome, BatchOutcome::Dead(_)));
        progress(&calls.counts());
        let graded = match outcome {
            BatchOutcome::Answered(collection, rows) => {
                let summary = &collection.summary;
                warnings.extend(messages::warnings(served, &collection));
                counts.requests += summary.requests;
                counts.answered += summary.totals.answered;
                counts.failed += summary.totals.failed + summary.totals.not_run;
                counts.spend(summary.totals.cost_usd);
                let answers = batch.answers(&rows)?;
                let graded = batch.grade(grader.as_ref(), &mut execution, &answers).await?;
                match graded {
                    Grades::Complete(graded) => Ok((rows, answers, *graded)),
                    Grades::Incomplete(failure) => {
                        let (exit, hint) = (failure.exit(), failure.hint_text().map(ToOwned::to_owned));
                        let model = model::printable(&served.settings.id);
                        let failure = model::Failure::new(
                            exit,
                            format!("the prose of `{model}` was not graded: {failure}"),
                        );
                        Err(match hint {
                            Some(hint) => failure.hint(hint),
                            None => failure,
                        })
                    }
                }
            }
            BatchOutcome::Dead(failure) => {
                counts.requests += each;
                counts.failed += each;
                Err(failure)
            }
        };
        let (rows, answers, graded) = match graded {
            Ok(graded) => graded,
            Err(failure) => {
                let (model, reason) = (served.settings.id.clone(), failure.to_string());
                warnings.push(format!("{reason}; the entries of the other models are published without it"));
                failed.push(FailedModel { model, reason });
                first_failure.get_or_insert(failure);
                continue;
            }
        };
        let CompleteGrades { verdicts, used, rows: grade_rows, warnings: of_grades } = graded;
        counts.grades += used.requests;
        counts.spend(used.cost_usd);
        warnings.extend(of_grades);
        let entry = fields::graded_entry(&batch.subject(), &answers, &verdicts);
        if checkout.publishes_details {
            details.extend(details::of_entry(&batch.subject(), &answers, &verdicts, &entry));
        }
        calls.scored(number, entry.calls.parse_error);
        progress(&calls.counts());
        entries.push(entry);
        responses.extend_from_slice(&rows);
        grades.extend_from_slice(&grade_rows);
    }
    if let Some(failure) = first_failure.filter(|_| entries.is_empty()) {
        let hint =
            "nothing was published: request it again (or use the same `--batch-id`) when the model works";
        return Err(failure.hint(hint).into());
    }
    let kept = plan::keep_entries(workspace, id, &entries)?;
    execution.clean_up().await;
    Ok(EvaluationResult {
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
        details,
        grades,
        grader: grader.map(|grader| grader.model().to_owned()),
        leaderboard: checkout.leaderboard.clone(),
        ranks: checkout.ranks.clone(),
        origin: checkout.origin.clone(),
        kept,
    })
}

/// Counts finished calls. Warnings are part of the collection.
struct CallCounter {
    replicates: u64,
    /// The index of the running model, if any: calls of the grader are not counted.
    counts: Mutex<(Option<usize>, RunProgress)>,
}

impl CallCounter {
    fn new(checkout: &Checkout, served: &[ServedModel]) -> Self {
        let replicates = u64::from(checkout.order.replicates.get());
        let (cases, models) = (&checkout.skill.cases, served.len() as u64);
        let total = cases.len() as u64 * replicates;
        let model = |served: &ServedModel| ModelProgress {
            model: served.settings.id.clone(),
            total,
            ..ModelProgress::default()
        };
        let counts = RunProgress {
            calls: Progress { done: 0, total: total * models },
            called: 0,
            models: served.iter().map(model).collect(),
            cases: cases
                .iter()
                .map(|case| CaseProgress {
                    case: case.id.clone(),
                    total: replicates * models,
                    ..CaseProgress::default()
                })
                .collect(),
        };
        Self { replicates, counts: Mutex::new((None, counts)) }
    }

    fn lock(&self) -> MutexGuard<'_, (Option<usize>, RunProgress)> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> RunProgress {
        self.lock().1.clone()
    }

    /// Starts counting the calls of this model.
    fn begin(&self, model: usize) {
        self.lock().0 = Some(model);
    }

    /// Ends the calls of this model. Uncounted calls were settled earlier, or failed because the model
    /// gives no answers.
    fn end(&self, model: usize, is_dead: bool) {
        let mut counts = self.lock();
        counts.0 = None;
        let RunProgress { calls, models, cases, .. } = &mut counts.1;
        let Some(model_progress) = models.get_mut(model) else { return };
        let missing = model_progress.total.saturating_sub(model_progress.done);
        calls.done += missing;
        model_progress.done += missing;
        model_progress.failed += if is_dead { missing } else { 0 };
        let due = self.replicates * (model as u64 + 1);
        for case in cases.iter_mut() {
            let missing = due.saturating_sub(case.done);
            case.done += missing;
            case.failed += if is_dead { missing } else { 0 };
        }
    }

    fn scored(&self, model: usize, unreadable: u64) {
        if let Some(model) = self.lock().1.models.get_mut(model) {
            model.unreadable = Some(unreadable);
        }
    }
}

impl Observer for CallCounter {
    fn note(&self, _: &str) {}

    fn warning(&self, _: &str) {}

    fn interval(&self) -> Option<Duration> {
        None
    }

    fn progress(&self, _: Duration, _: engine::Progress) {}

    fn settled(&self, index: u64, how: RequestEnd) {
        let mut counts = self.lock();
        let (Some(model), RunProgress { calls, called, models, cases }) = &mut *counts else { return };
        let failed = u64::from(how == RequestEnd::Failed);
        calls.done += 1;
        *called += u64::from(how != RequestEnd::Earlier);
        if let Some(model) = models.get_mut(*model) {
            model.done += 1;
            model.failed += failed;
        }
        // A batch has all replicates of the first case, then those of the next.
        let case = usize::try_from(index / self.replicates).unwrap_or(usize::MAX);
        if let Some(case) = cases.get_mut(case) {
            case.done += 1;
            case.failed += failed;
        }
    }
}

/// The result of the batch of one model.
enum BatchOutcome {
    /// All rows, at least one with an answer.
    Answered(Box<Collection>, Vec<u8>),
    /// The model cannot be called; other models are not affected.
    Dead(model::Failure),
}

/// The batch of one model.
struct ModelBatch<'b> {
    checkout: &'b Checkout,
    served: &'b ServedModel,
    params: &'b ModelParams,
    id: &'b BatchId,
}

impl ModelBatch<'_> {
    /// Makes the missing calls, and returns all rows.
    async fn run(&self, execution: &mut Execution, report: impl Fn()) -> Result<BatchOutcome, Failure> {
        let temporary = WorkDir::new().context("cannot create a temporary directory")?;
        let requests = temporary.path().join("requests.jsonl");
        std::fs::write(&requests, self.requests()?).context("cannot write the requests")?;
        let target = &self.served.target;
        let purpose = Purpose { target: &target.name, label: &target.name, sharding: Sharding::one() };
        let name = BatchName { given: Some(self.id.clone()), one_of_several: false, taken: 0 };
        let planned = engine::plan_requests(&requests, None, purpose, &name)?;
        let stored = execution.store_named(&planned, Target::Runner(Box::new(target.clone())))?;
        let mut rows = Vec::new();
        let CollectedBatch { collection, stopped, .. } = {
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
            return messages::stopped(reason, &self.served.settings.id).map(BatchOutcome::Dead);
        }
        if collection.summary.totals.answered == 0 {
            // Otherwise a final refusal would be repeated forever, even after it is fixed at the provider.
            execution.exchange().forget(self.id)?;
            return Ok(BatchOutcome::Dead(messages::always_fails(self.served, &collection)));
        }
        Ok(BatchOutcome::Answered(Box::new(collection), rows))
    }

    /// The requests as JSONL: the same bytes on every machine.
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

    /// The answers in the rows.
    fn answers(&self, rows: &[u8]) -> anyhow::Result<fields::Answers> {
        let replicates = self.checkout.order.replicates;
        let Checkout { skill, .. } = self.checkout;
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
        Ok(answers)
    }

    /// Grades prose, if the rules name a model for it.
    async fn grade(
        &self,
        grader: Option<&ProseGrader>,
        execution: &mut Execution,
        answers: &fields::Answers,
    ) -> Result<Grades, Failure> {
        let Some(grader) = grader else { return Ok(Grades::Complete(Box::default())) };
        let texts = fields::texts_to_grade(&self.subject(), answers);
        Box::pin(grader.grade(execution, self.id, &texts)).await
    }

    /// The subject of scoring.
    fn subject(&self) -> fields::Subject<'_> {
        let Checkout { skill, pinned, order, .. } = self.checkout;
        fields::Subject {
            skill,
            prompt_commit: &pinned.prompt_commit,
            dataset_commit: pinned.dataset_commit.as_ref(),
            model: &self.served.settings,
            alias_target: self.served.alias_target.as_deref(),
            replicates: order.replicates,
        }
    }
}

/// The effective settings of a model for this skill.
fn params_of(skill: &Skill, served: &ServedModel) -> ModelParams {
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

/// Refuses an id of another evaluation: its responses belong to other requests.
fn check_resume(workspace: &Workspace, checkout: &Checkout, id: &BatchId) -> Result<(), model::Failure> {
    let Some(earlier) = plan::recall(workspace, id)? else { return Ok(()) };
    // Other models are other batches, so their commit does not matter.
    let commits = |pinned: &Pinned| (pinned.prompt_commit.clone(), pinned.dataset_commit.clone());
    let same = plan::is_same(&checkout.order, &earlier)
        && earlier.pinned.as_ref().map(commits) == Some(commits(&checkout.pinned));
    if same {
        return Ok(());
    }
    let commit =
        earlier.pinned.as_ref().map(|pinned| pinned.prompt_commit.short().to_owned()).unwrap_or_default();
    let message = format!(
        "the evaluation `{id}` has other inputs: `{}` at {commit}, {} replicates",
        earlier.skill, earlier.replicates
    );
    Err(model::Failure::config(message)
        .hint("choose another `--batch-id`, or use the same inputs to resume it"))
}
