//! Workflow runs and their jobs: found, watched, canceled.

use http::StatusCode;
use http::header::ETAG;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::call::{Call, Repeat};
use super::client::Client;
use super::error::{About, ApiError};
use super::repository::file_name;

/// GitHub's page size limit.
const PAGE: usize = 100;
/// Far more workflow runs than start while one dispatch is looked up.
const MOST_RUN_PAGES: usize = 5;
/// 256 shards are three pages.
const MOST_JOB_PAGES: usize = 20;
/// How far GitHub's clock may be behind ours.
const CLOCK_SLACK: SignedDuration = SignedDuration::from_mins(5);
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Etag(pub(super) String);

/// Result of a conditional request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollResult<T> {
    Unchanged,
    Changed(T, Option<Etag>),
}

/// A workflow run. GitHub may add values of its states.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Run {
    pub id: u64,
    #[serde(default)]
    pub html_url: String,
    /// Expanded `run-name`.
    #[serde(default, deserialize_with = "or_default")]
    pub display_title: String,
    /// `queued`, `in_progress`, `completed`, `waiting`, `requested`, `pending` or another value.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    /// `success`, `failure`, `cancelled`, `timed_out`, `startup_failure`, `action_required` or another
    /// value.
    #[serde(default)]
    pub conclusion: Option<String>,
    #[serde(default = "first")]
    pub run_attempt: u64,
    #[serde(default, deserialize_with = "time")]
    pub created_at: Option<Timestamp>,
    /// Start of this attempt.
    #[serde(default, deserialize_with = "time")]
    pub run_started_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    pub updated_at: Option<Timestamp>,
}

/// A job of a workflow run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct WorkflowJob {
    pub id: u64,
    /// Name, with its matrix values.
    #[serde(default)]
    pub name: String,
    /// See [`Run::status`].
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    /// See [`Run::conclusion`].
    #[serde(default)]
    pub conclusion: Option<String>,
    #[serde(default)]
    pub html_url: Option<String>,
    /// When a machine picked it up.
    #[serde(default, deserialize_with = "time")]
    pub started_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    pub completed_at: Option<Timestamp>,
    #[serde(default, deserialize_with = "or_default")]
    pub steps: Vec<WorkflowStep>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct WorkflowStep {
    #[serde(default)]
    pub name: String,
    /// See [`Run::status`].
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    /// See [`Run::conclusion`].
    #[serde(default)]
    pub conclusion: Option<String>,
    /// Position in the job.
    #[serde(default)]
    pub number: u64,
}

impl Run {
    /// Whether it has completed, with any conclusion.
    pub fn is_over(&self) -> bool {
        self.status == "completed"
    }
}

impl Client {
    /// Workflow runs with this title prefix that were dispatched since then, newest first.
    pub async fn find_runs(
        &self,
        repo: &str,
        workflow: &str,
        title_start: &str,
        since: Timestamp,
    ) -> Result<Vec<Run>, ApiError> {
        let since = since.checked_sub(CLOCK_SLACK).unwrap_or(since);
        let since = Timestamp::from_second(since.as_second()).unwrap_or(since);
        let mut found: Vec<Run> = Vec::new();
        for page in 1..=MOST_RUN_PAGES {
            let listed = self.run_page(repo, Some(workflow), Some(since), page).await?;
            let count = listed.len();
            found.extend(listed.into_iter().filter(|run| run.display_title.starts_with(title_start)));
            if count < PAGE {
                break;
            }
        }
        found.sort_by_key(|run| std::cmp::Reverse(run.id));
        Ok(found)
    }

    /// Workflow runs with this title prefix, newest first, of one workflow or of all. Runs that are older
    /// than the newest one by this much may be left out, by GitHub's clock.
    pub async fn recent_runs(
        &self,
        repo: &str,
        workflow: Option<&str>,
        title_start: &str,
        window: SignedDuration,
    ) -> Result<Vec<Run>, ApiError> {
        let wanted = |run: &Run| run.display_title.starts_with(title_start);
        let mut newest = None;
        let mut found: Vec<Run> = Vec::new();
        for page in 1..=MOST_RUN_PAGES {
            let listed = self.run_page(repo, workflow, None, page).await?;
            let (count, oldest) = (listed.len(), listed.iter().filter_map(|run| run.created_at).min());
            newest = newest.max(listed.iter().filter_map(|run| run.created_at).max());
            found.extend(listed.into_iter().filter(wanted));
            let is_old =
                newest.zip(oldest).is_some_and(|(newest, oldest)| newest.duration_since(oldest) > window);
            if count < PAGE || is_old {
                break;
            }
        }
        found.sort_by_key(|run| std::cmp::Reverse(run.id));
        Ok(found)
    }

    /// One page of dispatched workflow runs, newest first.
    async fn run_page(
        &self,
        repo: &str,
        workflow: Option<&str>,
        since: Option<Timestamp>,
        page: usize,
    ) -> Result<Vec<Run>, ApiError> {
        #[derive(Deserialize)]
        struct Page {
            workflow_runs: Vec<Run>,
        }
        let workflow = workflow.map(file_name);
        let mut url = match workflow {
            Some(workflow) => self.repo_url(repo, &["actions", "workflows", workflow, "runs"])?,
            None => self.repo_url(repo, &["actions", "runs"])?,
        };
        url.query_pairs_mut().append_pair("event", "workflow_dispatch");
        if let Some(since) = since {
            url.query_pairs_mut().append_pair("created", &format!(">={since}"));
        }
        url.query_pairs_mut()
            .append_pair("exclude_pull_requests", "true")
            .append_pair("per_page", &PAGE.to_string())
            .append_pair("page", &page.to_string());
        let subject = workflow.unwrap_or("all workflows");
        let Page { workflow_runs } = self.fetch(Call::get(About::Runs, repo, &subject, url)).await?;
        Ok(workflow_runs)
    }

    /// Polls a workflow run. An unchanged response does not count against the rate limit.
    pub async fn run(
        &self,
        repo: &str,
        run_id: u64,
        known: Option<&Etag>,
    ) -> Result<PollResult<Run>, ApiError> {
        let mut url = self.repo_url(repo, &["actions", "runs", &run_id.to_string()])?;
        url.query_pairs_mut().append_pair("exclude_pull_requests", "true");
        let etag = known.map(|etag| etag.0.as_str());
        let call = Call { etag, ..Call::get(About::Run, repo, &run_id, url) };
        let answer = self.call(call.clone()).await?;
        if answer.status == StatusCode::NOT_MODIFIED && known.is_some() {
            return Ok(PollResult::Unchanged);
        }
        if !answer.status.is_success() {
            return Err(self.refused(&call, &answer));
        }
        let etag = answer.headers.get(ETAG).and_then(|etag| etag.to_str().ok());
        Ok(PollResult::Changed(self.parse(&answer)?, etag.map(|etag| Etag(etag.to_owned()))))
    }

    /// Jobs of the latest attempt.
    pub async fn jobs(&self, repo: &str, run_id: u64) -> Result<Vec<WorkflowJob>, ApiError> {
        #[derive(Deserialize)]
        struct Page {
            jobs: Vec<WorkflowJob>,
        }
        let mut url = self.repo_url(repo, &["actions", "runs", &run_id.to_string(), "jobs"])?;
        url.query_pairs_mut().append_pair("filter", "latest");
        let call = Call::get(About::Jobs, repo, &run_id, url);
        self.all_pages(call, MOST_JOB_PAGES, |page: Page| page.jobs).await
    }

    /// Cancels a workflow run; a completed one is not an error.
    pub async fn cancel_run(&self, repo: &str, run_id: u64) -> Result<(), ApiError> {
        let url = self.repo_url(repo, &["actions", "runs", &run_id.to_string(), "cancel"])?;
        // Idempotent.
        let call = Call { repeat: Repeat::Freely, ..Call::post(About::Cancel, repo, &run_id, url, None) };
        let answer = self.call(call.clone()).await?;
        match answer.status {
            StatusCode::CONFLICT => Ok(()),
            status if status.is_success() => Ok(()),
            _ => Err(self.refused(&call, &answer)),
        }
    }

    /// All pages of a list.
    pub(super) async fn all_pages<P: DeserializeOwned, T>(
        &self,
        call: Call<'_>,
        most: usize,
        entries: impl Fn(P) -> Vec<T>,
    ) -> Result<Vec<T>, ApiError> {
        self.pages_until(call, most, entries, |_| false).await
    }

    /// Pages of a list, until one is enough.
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

/// A timestamp; `None` if it is missing or malformed.
pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

/// Treats `null` as the default.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}
