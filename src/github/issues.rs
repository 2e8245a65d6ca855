//! Issues and commit comments, identified by a marker: updated, closed and reopened, never duplicated.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{Call, Repeat};
use super::client::Client;
use super::comments::{Author, User, may_be_done};
use super::error::{About, ApiError};
use super::runs::or_default;

/// 1,000 issues or comments, newest first.
const MOST_PAGES: usize = 10;

#[derive(Debug, Clone, Deserialize)]
struct Issue {
    number: u64,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    html_url: String,
    user: Option<User>,
    /// Pull requests are issues too.
    pull_request: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
struct CommitComment {
    id: u64,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default)]
    html_url: String,
    user: Option<User>,
}

impl Client {
    /// Creates, updates or reopens the issue whose body begins with `mark`. Returns its URL.
    pub async fn put_issue(
        &self,
        repo: &str,
        mark: &str,
        title: &str,
        body: &str,
    ) -> Result<String, ApiError> {
        // Anyone can write the marker into an issue: only our own counts.
        let author = self.author(repo).await?;
        if let Some(issue) = self.find_issue(repo, mark, &author).await? {
            let fields = json!({"title": title, "body": body, "state": "open"});
            return self.update_issue(repo, issue.number, fields).await;
        }
        let url = self.repo_url(repo, &["issues"])?;
        let call = Call::post(About::Issue, repo, &title, url, Some(json!({"title": title, "body": body})));
        match self.fetch::<Issue>(call).await {
            // It may have been created: look again instead of creating a second one.
            Err(error) if may_be_done(&error) => match self.find_issue(repo, mark, &author).await? {
                Some(found) => Ok(found.html_url),
                None => Err(error),
            },
            made => made.map(|made| made.html_url),
        }
    }

    /// Closes the open issue whose body begins with `mark`, with this body.
    pub async fn close_issue(&self, repo: &str, mark: &str, body: &str) -> Result<Option<String>, ApiError> {
        let author = self.author(repo).await?;
        let Some(issue) = self.find_issue(repo, mark, &author).await?.filter(|issue| issue.state == "open")
        else {
            return Ok(None);
        };
        let fields = json!({"body": body, "state": "closed", "state_reason": "completed"});
        self.update_issue(repo, issue.number, fields).await.map(Some)
    }

    /// Updates the commit comment whose body begins with `mark`, or creates it if `needed`. Returns its
    /// URL.
    pub async fn put_commit_comment(
        &self,
        repo: &str,
        commit: &str,
        mark: &str,
        body: &str,
        needed: bool,
    ) -> Result<Option<String>, ApiError> {
        let author = self.author(repo).await?;
        let on_commit = self.repo_url(repo, &["commits", commit, "comments"])?;
        let listing = || async {
            let call = Call::get(About::Issue, repo, &commit, on_commit.clone());
            let all = self.all_pages(call, MOST_PAGES, |page: Vec<CommitComment>| page).await?;
            let is_ours =
                |comment: &CommitComment| comment.body.starts_with(mark) && author.is(comment.user.as_ref());
            Ok::<_, ApiError>(all.into_iter().find(is_ours))
        };
        if let Some(found) = listing().await? {
            let url = self.repo_url(repo, &["comments", &found.id.to_string()])?;
            let call = Call {
                method: Method::PATCH,
                repeat: Repeat::Freely,
                ..Call::post(About::Issue, repo, &commit, url, Some(json!({"body": body})))
            };
            return self.fetch::<CommitComment>(call).await.map(|comment| Some(comment.html_url));
        }
        if !needed {
            return Ok(None);
        }
        let call = Call::post(About::Issue, repo, &commit, on_commit.clone(), Some(json!({"body": body})));
        match self.fetch::<CommitComment>(call).await {
            Err(error) if may_be_done(&error) => match listing().await? {
                Some(found) => Ok(Some(found.html_url)),
                None => Err(error),
            },
            made => made.map(|made| Some(made.html_url)),
        }
    }

    async fn update_issue(&self, repo: &str, number: u64, fields: Value) -> Result<String, ApiError> {
        let url = self.repo_url(repo, &["issues", &number.to_string()])?;
        let call = Call {
            method: Method::PATCH,
            // Idempotent.
            repeat: Repeat::Freely,
            ..Call::post(About::Issue, repo, &number, url, Some(fields))
        };
        self.fetch::<Issue>(call).await.map(|issue| issue.html_url)
    }

    async fn find_issue(&self, repo: &str, mark: &str, author: &Author) -> Result<Option<Issue>, ApiError> {
        let mut url = self.repo_url(repo, &["issues"])?;
        url.query_pairs_mut()
            .append_pair("state", "all")
            .append_pair("sort", "updated")
            .append_pair("direction", "desc");
        if let Author::Login(login) = author {
            url.query_pairs_mut().append_pair("creator", login);
        }
        let call = Call::get(About::Issue, repo, &"", url);
        let all = self.all_pages(call, MOST_PAGES, |page: Vec<Issue>| page).await?;
        let is_ours = |issue: &Issue| {
            issue.pull_request.is_none() && issue.body.starts_with(mark) && author.is(issue.user.as_ref())
        };
        Ok(all.into_iter().find(is_ours))
    }
}
