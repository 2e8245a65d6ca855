//! Evaluations, as the service needs them: what each outcome of `evaluate` means here. All logic is over there.

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::answer::Refusal;
use super::jobs::{JobId, JobState, Progress, Store};
use crate::evaluate::{self, Checkout, CheckoutProblem, Evaluated, Pinned, Place, PublishOptions};
use crate::model::{BatchId, Exit, Failure};

pub(super) use crate::evaluate::Order;

/// The longest reason that is kept of a job.
const LONGEST_REASON: usize = 4000;

/// How evaluations are made.
pub struct Work {
    /// Gives the place. It is asked for each job, on the thread and in the runtime of the job.
    pub place: Box<dyn Fn() -> anyhow::Result<Place> + Send + Sync>,
    /// How results are published; nothing to leave them where they are.
    pub publish: Option<PublishOptions>,
    /// How those hear of a failure who can do something about it.
    pub report: ReportFailures,
}

/// Where a failure is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFailures {
    /// In an issue of the library, one for each skill.
    Issue,
    /// In a comment on the commit.
    CommitComment,
    /// In the job only.
    None,
}

/// Why there is nothing to evaluate.
pub(super) enum Refused {
    /// Whoever asks is told.
    Answer(Refusal),
    /// The commit itself is at fault: a job that fails.
    Job(String),
}

/// Why an evaluation has no result.
pub(super) enum Ended {
    /// It was told to stop, and can go on.
    Stopped,
    /// What is kept under the name does not go with what is asked; nothing was called.
    Unfit(String),
    /// For this reason.
    Failed(String),
}

/// A skill that can be evaluated now.
pub(super) struct CheckedOut {
    place: Place,
    checkout: Checkout,
}

impl CheckedOut {
    /// The commits that were found.
    pub(super) fn pinned(&self) -> &Pinned {
        &self.checkout.pinned
    }

    /// Whether a batch is there to go on with.
    pub(super) fn finds(&self, batch: &JobId) -> bool {
        let id = batch.as_str().parse::<BatchId>();
        id.is_ok_and(|id| matches!(evaluate::recall(&self.place, &id), Ok(Some(_))))
    }
}

impl Work {
    /// Brings the clones up to date, and reads the skill.
    pub(super) async fn check_out(&self, order: &Order) -> Result<CheckedOut, Refused> {
        let place = (self.place)().map_err(|error| {
            tracing::error!("{error:#}");
            Refused::Answer(Refusal::Unavailable(format!(
                "the service is not set up as it was: {}",
                reason(&error)
            )))
        })?;
        match evaluate::check_out(&place, order).await {
            Ok(checkout) => Ok(CheckedOut { place, checkout }),
            Err(error) => {
                let told = short(&error.to_string());
                Err(match error.problem {
                    CheckoutProblem::UnknownSkill => Refused::Answer(Refusal::NotFound(told)),
                    CheckoutProblem::UnknownSha | CheckoutProblem::NotAncestor => {
                        Refused::Answer(Refusal::Invalid(told))
                    }
                    CheckoutProblem::Pull | CheckoutProblem::Diverged | CheckoutProblem::Dirty => {
                        Refused::Answer(Refusal::Unavailable(told))
                    }
                    CheckoutProblem::Invalid => Refused::Job(told),
                })
            }
        }
    }

    /// Deletes what jobs have left that are not kept any more.
    pub(super) fn tidy(&self, jobs: &Store) -> anyhow::Result<()> {
        evaluate::forget(&(self.place)()?.state, JobId::PREFIX, || jobs.batches())
    }

    /// Calls the models for what is not answered under this name, and publishes what came of it.
    pub(super) async fn evaluate(
        &self,
        CheckedOut { place, checkout }: &CheckedOut,
        batch: &JobId,
        progress: impl Fn(Progress),
        stop: watch::Receiver<bool>,
    ) -> Result<JobState, Ended> {
        let id: BatchId = batch
            .as_str()
            .parse()
            .map_err(|_| Ended::Failed("the name of the job is no name of a batch".to_owned()))?;
        let told =
            |evaluate::Progress { done, total }: evaluate::Progress| progress(Progress { done, total });
        let evaluated = evaluate::run(place, checkout, &id, told, stop).await.map_err(not_run)?;
        let mut warnings = evaluated.warnings.clone();
        let mut pull_request = None;
        let mut branch = None;
        match (&self.publish, &place.github) {
            (Some(options), Some(github)) => {
                let published = evaluate::publish(place, &evaluated, github, options)
                    .await
                    .map_err(|failure| ended(&failure))?;
                if published.branch.is_some() && published.pull_request_url.is_none() {
                    // Nobody would ever see it: a result is what somebody can merge.
                    return Err(Ended::Failed(short(&published.warnings.join("\n"))));
                }
                warnings.extend(published.warnings);
                if published.branch.is_none() {
                    warnings.push(
                        "the leaderboard has the same entries already: there was nothing to publish"
                            .to_owned(),
                    );
                }
                (pull_request, branch) = (published.pull_request_url, published.branch);
            }
            _ => warnings.push("nothing was published: the service was told not to".to_owned()),
        }
        Ok(JobState::Completed { summary: summary(&evaluated, branch.as_deref()), pull_request, warnings })
    }

    /// The library's repository on GitHub, and who speaks with it.
    pub(super) fn github(&self) -> anyhow::Result<Option<(crate::github::Client, String)>> {
        let place = (self.place)()?;
        let Some(client) = place.github else { return Ok(None) };
        let named = self.publish.as_ref().and_then(|options| options.repo.clone());
        let cloned_from = || {
            let origin = crate::git::Worktree::of(&place.library.dir).ok()??.origin?;
            client.repo_of(&origin).map(|(repo, _)| repo)
        };
        let repo = named.or_else(cloned_from);
        Ok(repo.map(|repo| (client, repo)))
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("report", &self.report).finish_non_exhaustive()
    }
}

/// What the job says of its result; the entries themselves are in the pull request.
fn summary(evaluated: &Evaluated, branch: Option<&str>) -> Value {
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
            })
        })
        .collect();
    json!({
        "skill_version": evaluated.skill_version,
        "models": models,
        "not_served": evaluated.not_served,
        "skipped": evaluated.skipped,
        "calls": evaluated.calls,
        "branch": branch,
        "evaluated_at": Timestamp::now(),
    })
}

fn not_run(failure: evaluate::Failure) -> Ended {
    match ended(&failure) {
        Ended::Failed(reason) if Failure::from(failure).exit() == Exit::Config => Ended::Unfit(reason),
        ended => ended,
    }
}

fn ended(failure: &evaluate::Failure) -> Ended {
    if failure.is_stopped() { Ended::Stopped } else { Ended::Failed(short(&failure.to_string())) }
}

fn reason(error: &anyhow::Error) -> String {
    let hint = error.downcast_ref::<Failure>().and_then(Failure::hint_text);
    short(&hint.map_or_else(|| format!("{error:#}"), |hint| format!("{error:#}\nhint: {hint}")))
}

fn short(text: &str) -> String {
    match text.char_indices().nth(LONGEST_REASON) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
