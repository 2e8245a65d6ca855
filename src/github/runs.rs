//! Workflow runs and their jobs: found, watched, cancelled.

use http::StatusCode;
use http::header::ETAG;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::call::{Call, Repeat};
use super::client::Client;
use super::error::{About, ApiError};
use super::repository::file_name;

/// The most that GitHub lists at once.
const PAGE: usize = 100;
/// More runs than these are not started while one dispatch is looked for.
const MOST_RUN_PAGES: usize = 5;
/// 256 legs are three pages.
const MOST_JOB_PAGES: usize = 20;
/// How far GitHub's clock may be behind ours.
const CLOCK_SLACK: SignedDuration = SignedDuration::from_mins(5);
/// The state of something on GitHub, as GitHub names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Etag(pub(super) String);

/// What a look at something showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Polled<T> {
    /// It is as it was.
    Unchanged,
    /// It is like this now.
    Changed(T, Option<Etag>),
}

/// A workflow run. States are open sets of words.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Run {
    /// Its number.
    pub id: u64,
    /// Its page.
    #[serde(default)]
    pub html_url: String,
    /// What its `run-name` made of the inputs.
    #[serde(default, deserialize_with = "or_default")]
    pub display_title: String,
    /// `queued`, `in_progress`, `completed`, `waiting`, `requested`, `pending` or another word.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    /// How it ended: `success`, `failure`, `cancelled`, `timed_out`, `startup_failure`, `action_required` or another word.
    #[serde(default)]
    pub conclusion: Option<String>,
    /// Which try of the run this is.
    #[serde(default = "first")]
    pub run_attempt: u64,
    /// When it was made.
    #[serde(default, deserialize_with = "time")]
    pub created_at: Option<Timestamp>,
    /// When this try began.
    #[serde(default, deserialize_with = "time")]
    pub run_started_at: Option<Timestamp>,
    /// When it last changed.
    #[serde(default, deserialize_with = "time")]
    pub updated_at: Option<Timestamp>,
}

/// A job of a run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// Its name, with the values of its matrix.
    #[serde(default)]
    pub name: String,
    /// As that of a run.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    /// As that of a run.
    #[serde(default)]
    pub conclusion: Option<String>,
    /// Its page.
    #[serde(default)]
    pub html_url: Option<String>,
    /// When a machine took it.
    #[serde(default, deserialize_with = "time")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, deserialize_with = "time")]
    pub completed_at: Option<Timestamp>,
    /// What it does, one after the other.
    #[serde(default, deserialize_with = "or_default")]
    pub steps: Vec<Step>,
}

/// A step of a job.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Step {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// As that of a run.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    /// As that of a run.
    #[serde(default)]
    pub conclusion: Option<String>,
    /// Its place in the job.
    #[serde(default)]
    pub number: u64,
}

impl Run {
    /// Whether it has ended, in whatever way.
    pub fn is_over(&self) -> bool {
        self.status == "completed"
    }
}

impl Client {
    /// The newest run of a workflow with this title that was dispatched since then.
    pub async fn find_run(
        &self,
        repo: &str,
        workflow: &str,
        title: &str,
        since: Timestamp,
    ) -> Result<Option<Run>, ApiError> {
        let runs = self.dispatched_runs(repo, workflow, since, |run| run.display_title == title, 1).await?;
        Ok(runs.into_iter().next())
    }

    /// The runs of a workflow whose titles start so, that were dispatched since then, the newest first.
    pub async fn find_runs(
        &self,
        repo: &str,
        workflow: &str,
        title_start: &str,
        since: Timestamp,
    ) -> Result<Vec<Run>, ApiError> {
        let wanted = |run: &Run| run.display_title.starts_with(title_start);
        self.dispatched_runs(repo, workflow, since, wanted, usize::MAX).await
    }

    async fn dispatched_runs(
        &self,
        repo: &str,
        workflow: &str,
        since: Timestamp,
        wanted: impl Fn(&Run) -> bool,
        enough: usize,
    ) -> Result<Vec<Run>, ApiError> {
        #[derive(Deserialize)]
        struct Page {
            workflow_runs: Vec<Run>,
        }
        let workflow = file_name(workflow);
        let since = since.checked_sub(CLOCK_SLACK).unwrap_or(since);
        let since = Timestamp::from_second(since.as_second()).unwrap_or(since);
        let mut found: Vec<Run> = Vec::new();
        for page in 1..=MOST_RUN_PAGES {
            let mut url = self.repo_url(repo, &["actions", "workflows", workflow, "runs"])?;
            url.query_pairs_mut()
                .append_pair("event", "workflow_dispatch")
                .append_pair("created", &format!(">={since}"))
                .append_pair("exclude_pull_requests", "true")
                .append_pair("per_page", &PAGE.to_string())
                .append_pair("page", &page.to_string());
            let Page { workflow_runs } = self.fetch(Call::get(About::Runs, repo, &workflow, url)).await?;
            let listed = workflow_runs.len();
            found.extend(workflow_runs.into_iter().filter(&wanted));
            if listed < PAGE || found.len() >= enough {
                break;
            }
        }
        found.sort_by_key(|run| std::cmp::Reverse(run.id));
        Ok(found)
    }

    /// A run, or that it is still as it was. An unchanged one costs nothing of the rate limit.
    pub async fn run(&self, repo: &str, run_id: u64, known: Option<&Etag>) -> Result<Polled<Run>, ApiError> {
        let mut url = self.repo_url(repo, &["actions", "runs", &run_id.to_string()])?;
        url.query_pairs_mut().append_pair("exclude_pull_requests", "true");
        let etag = known.map(|etag| etag.0.as_str());
        let call = Call { etag, ..Call::get(About::Run, repo, &run_id, url) };
        let answer = self.call(call.clone()).await?;
        if answer.status == StatusCode::NOT_MODIFIED && known.is_some() {
            return Ok(Polled::Unchanged);
        }
        if !answer.status.is_success() {
            return Err(self.refused(&call, &answer));
        }
        let etag = answer.headers.get(ETAG).and_then(|etag| etag.to_str().ok());
        Ok(Polled::Changed(self.parse(&answer)?, etag.map(|etag| Etag(etag.to_owned()))))
    }

    /// The jobs of the latest try of a run.
    pub async fn jobs(&self, repo: &str, run_id: u64) -> Result<Vec<Job>, ApiError> {
        #[derive(Deserialize)]
        struct Page {
            jobs: Vec<Job>,
        }
        let mut url = self.repo_url(repo, &["actions", "runs", &run_id.to_string(), "jobs"])?;
        url.query_pairs_mut().append_pair("filter", "latest");
        let call = Call::get(About::Jobs, repo, &run_id, url);
        self.all_pages(call, MOST_JOB_PAGES, |page: Page| page.jobs).await
    }

    /// Cancels a run. One that is over is as good as cancelled.
    pub async fn cancel_run(&self, repo: &str, run_id: u64) -> Result<(), ApiError> {
        let url = self.repo_url(repo, &["actions", "runs", &run_id.to_string(), "cancel"])?;
        // To cancel twice is to cancel.
        let call = Call { repeat: Repeat::Freely, ..Call::post(About::Cancel, repo, &run_id, url, None) };
        let answer = self.call(call.clone()).await?;
        match answer.status {
            StatusCode::CONFLICT => Ok(()),
            status if status.is_success() => Ok(()),
            _ => Err(self.refused(&call, &answer)),
        }
    }

    /// All that a list has, page after page.
    pub(super) async fn all_pages<P: DeserializeOwned, T>(
        &self,
        call: Call<'_>,
        most: usize,
        entries: impl Fn(P) -> Vec<T>,
    ) -> Result<Vec<T>, ApiError> {
        self.pages_until(call, most, entries, |_| false).await
    }

    /// The same up to the first page that is enough.
    pub(super) async fn pages_until<P: DeserializeOwned, T>(
        &self,
        call: Call<'_>,
        most: usize,
        entries: impl Fn(P) -> Vec<T>,
        is_enough: impl Fn(&[T]) -> bool,
    ) -> Result<Vec<T>, ApiError> {
        let mut all = Vec::new();
        for page in 1..=most {
            let mut call = call.clone();
            call.url
                .query_pairs_mut()
                .append_pair("per_page", &PAGE.to_string())
                .append_pair("page", &page.to_string());
            let listed = entries(self.fetch(call).await?);
            let is_last = listed.len() < PAGE || is_enough(&listed);
            all.extend(listed);
            if is_last {
                break;
            }
        }
        Ok(all)
    }
}

fn first() -> u64 {
    1
}

/// A point in time, where there is one that can be read.
pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

/// `null` is as good as nothing.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}
