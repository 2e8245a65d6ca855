//! Evaluations as the service needs them: maps the outcomes of `evaluate`, which has all the logic.

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::error::Refusal;
use super::jobs::{JobId, JobState, Store};
use crate::model::{BatchId, Exit, Failure};
use crate::skills::evaluate::{
    self, Checkout, CheckoutProblem, EvaluationResult, Pinned, PublishOptions, RunProgress, Workspace,
};
use crate::util::truncate::truncate;

pub(super) use crate::skills::evaluate::EvaluationRequest;

/// Length limit of a job's reason.
const LONGEST_REASON: usize = 4000;

/// Runs evaluations.
pub struct Evaluator {
    /// Creates the workspace of a job, on the job's thread and runtime.
    pub workspace: Box<dyn Fn() -> anyhow::Result<Workspace> + Send + Sync>,
    /// How to publish results; `None` leaves them in the workspace.
    pub publish: Option<PublishOptions>,
    /// Where to report failed jobs.
    pub report: ReportFailures,
}

/// Where to report failed jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFailures {
    /// An issue in the library, one per skill.
    Issue,
    /// A comment on the commit.
    CommitComment,
    /// Only the job itself.
    None,
}

/// Why there is nothing to evaluate.
pub(super) enum StartRefusal {
    /// Rejects the request.
    Answer(Refusal),
    /// The commit is at fault: the job fails.
    Job(String),
}

/// Why an evaluation has no result.
pub(super) enum EvaluationEnd {
    /// Stopped, and can be resumed.
    Stopped,
    /// The stored batch does not match the request; nothing was called.
    Unfit(String),
    Failed(String),
}

/// A checked-out skill, ready to be evaluated.
pub(super) struct CheckedOut {
    workspace: Workspace,
    checkout: Checkout,
}

impl CheckedOut {
    pub(super) fn pinned(&self) -> &Pinned {
        &self.checkout.pinned
    }

    /// Whether there is a batch to resume.
    pub(super) fn finds(&self, batch: &JobId) -> bool {
        let id = batch.as_str().parse::<BatchId>();
        id.is_ok_and(|id| evaluate::has_begun(&self.workspace, &id))
    }
}

impl Evaluator {
    /// Updates the clones and reads the skill.
    pub(super) async fn check_out(&self, order: &EvaluationRequest) -> Result<CheckedOut, StartRefusal> {
        let workspace = (self.workspace)().map_err(|error| {
            tracing::error!("{error:#}");
            StartRefusal::Answer(Refusal::Unavailable(format!(
                "the service's configuration has changed: {}",
                reason(&error)
            )))
        })?;
        match evaluate::check_out(&workspace, order).await {
            Ok(checkout) => Ok(CheckedOut { workspace, checkout }),
            Err(error) => {
                let told = truncate(&error.to_string(), LONGEST_REASON);
                Err(match error.problem {
                    CheckoutProblem::UnknownSkill => StartRefusal::Answer(Refusal::NotFound(told)),
                    CheckoutProblem::UnknownSha
                    | CheckoutProblem::NotAncestor
                    | CheckoutProblem::NothingToRun => StartRefusal::Answer(Refusal::Invalid(told)),
                    CheckoutProblem::Pull | CheckoutProblem::Diverged | CheckoutProblem::Dirty => {
                        StartRefusal::Answer(Refusal::Unavailable(told))
                    }
                    CheckoutProblem::Invalid => StartRefusal::Job(told),
                })
            }
        }
    }

    /// The results on the library's default branch, unless they are those of the known commit. A job may run meanwhile.
    pub async fn latest(&self, known: Option<&str>) -> anyhow::Result<evaluate::Latest> {
        Ok(evaluate::latest(&(self.workspace)()?, known).await.map_err(Failure::from)?)
    }

    /// Packs the clones if necessary. No job may run meanwhile.
    pub(super) fn maintain(&self) -> anyhow::Result<()> {
        evaluate::maintain(&(self.workspace)()?)
    }

    /// Deletes data of jobs that are no longer kept.
    pub(super) fn tidy(&self, jobs: &Store) -> anyhow::Result<()> {
        evaluate::clean_up(&(self.workspace)()?.state, JobId::PREFIX, || jobs.batches())
    }

    /// Calls the models for missing responses and publishes the result.
    pub(super) async fn evaluate(
        &self,
        CheckedOut { workspace, checkout }: &CheckedOut,
        batch: &JobId,
        progress: impl Fn(&RunProgress),
        stop: watch::Receiver<bool>,
        is_cancelled: impl Fn() -> bool,
    ) -> Result<JobState, EvaluationEnd> {
        let id: BatchId = batch
            .as_str()
            .parse()
            .map_err(|_| EvaluationEnd::Failed("the job id is not a valid batch id".to_owned()))?;
        let evaluated = evaluate::run(workspace, checkout, &id, progress, stop).await.map_err(not_run)?;
        if is_cancelled() {
            return Err(EvaluationEnd::Stopped);
        }
        let mut warnings = evaluated.warnings.clone();
        let mut pull_request = None;
        let mut branch = None;
        match (&self.publish, &workspace.github) {
            (Some(options), Some(github)) => {
                let published = evaluate::publish(workspace, &evaluated, github, options)
                    .await
                    .map_err(|failure| ended(&failure))?;
                if published.branch.is_some() && published.pull_request_url.is_none() {
                    // An unpublished result is a failure, because it could not be merged.
                    return Err(EvaluationEnd::Failed(truncate(
                        &published.warnings.join("\n"),
                        LONGEST_REASON,
                    )));
                }
                warnings.extend(published.warnings);
                if published.branch.is_none() {
                    warnings
                        .push("the leaderboard already has the same entries: nothing to publish".to_owned());
                }
                (pull_request, branch) = (published.pull_request_url, published.branch);
            }
            _ => warnings.push("nothing was published: publishing is turned off".to_owned()),
        }
        Ok(JobState::Completed { summary: summary(&evaluated, branch.as_deref()), pull_request, warnings })
    }

    /// The library's repository on GitHub, and a client for it.
    pub(super) fn github(&self) -> anyhow::Result<Option<(crate::github::Client, String)>> {
        let workspace = (self.workspace)()?;
        let Some(client) = workspace.github else { return Ok(None) };
        let named = self.publish.as_ref().and_then(|options| options.repo.clone());
        let cloned_from = || {
            let origin = crate::git::Worktree::of(&workspace.library.dir).ok()??.origin?;
            client.repo_of(&origin).map(|(repo, _)| repo)
        };
        let repo = named.or_else(cloned_from);
        Ok(repo.map(|repo| (client, repo)))
    }
}

impl std::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evaluator").field("report", &self.report).finish_non_exhaustive()
    }
}

/// The job's summary; the entries themselves are in the pull request.
fn summary(evaluated: &EvaluationResult, branch: Option<&str>) -> Value {
    let models: Vec<Value> = evaluated
        .entries
        .iter()
        .map(|entry| {
            json!({
                "model": entry.model,
                "accuracy": entry.accuracy.score,
                "interval": entry.accuracy.interval,
                "reproducibility": entry.reproducibility.score,
                "schema_valid": entry.schema_valid.rate,
                "calls": entry.calls,
            })
        })
        .collect();
    json!({
        "skill_version": evaluated.skill_version,
        "models": models,
        "not_served": evaluated.not_served,
        "failed": evaluated.failed,
        "skipped": evaluated.skipped,
        "calls": evaluated.calls,
        "branch": branch,
        "evaluated_at": Timestamp::now(),
    })
}

fn not_run(failure: evaluate::Failure) -> EvaluationEnd {
    match ended(&failure) {
        EvaluationEnd::Failed(reason) if Failure::from(failure).exit() == Exit::Config => {
            EvaluationEnd::Unfit(reason)
        }
        ended => ended,
    }
}

fn ended(failure: &evaluate::Failure) -> EvaluationEnd {
    if failure.is_stopped() {
        EvaluationEnd::Stopped
    } else {
        EvaluationEnd::Failed(truncate(&failure.to_string(), LONGEST_REASON))
    }
}

fn reason(error: &anyhow::Error) -> String {
    let hint = error.downcast_ref::<Failure>().and_then(Failure::hint_text);
    let reason = hint.map_or_else(|| format!("{error:#}"), |hint| format!("{error:#}\nhint: {hint}"));
    truncate(&reason, LONGEST_REASON)
}
