//! Repository history: commits, files changed by a range of commits, trees.

use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::call::Call;
use super::client::Client;
use super::error::{About, ApiError};
use super::runs::or_default;

/// GitHub's page size limit.
const PAGE: usize = 100;
/// GitHub's limit for files of a comparison.
pub const MOST_COMPARED_FILES: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Commit {
    pub sha: String,
    /// The first parent comes first.
    #[serde(default)]
    pub parents: Vec<Parent>,
    /// Commit time, if it can be parsed.
    #[serde(rename = "commit", default, deserialize_with = "committed")]
    pub committed: Option<Timestamp>,
}

impl Commit {
    pub fn is_older(&self, since: Timestamp) -> bool {
        self.committed.is_some_and(|at| at < since)
    }
}

fn committed<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let commit = serde_json::Value::deserialize(from)?;
    Ok(commit.pointer("/committer/date").and_then(|date| date.as_str()?.parse().ok()))
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Parent {
    pub sha: String,
}

/// A file that a commit or a range of commits changed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ChangedFile {
    /// Its path after the change.
    pub filename: String,
    /// `added`, `removed`, `modified`, `renamed`, `copied`, `changed` or another value.
    #[serde(default)]
    pub status: String,
}

/// The range between two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The last common commit; the older of the two unless a force push intervened.
    pub merge_base: String,
    /// Number of commits since then.
    pub total_commits: usize,
    /// The commits that GitHub returned.
    pub commits: Vec<Commit>,
    /// At most `MOST_COMPARED_FILES`.
    pub files: Vec<ChangedFile>,
}

/// Entries of a folder, including subfolders if recursive.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Tree {
    #[serde(rename = "tree")]
    pub entries: Vec<TreeEntry>,
    /// Whether GitHub left out entries.
    #[serde(default)]
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TreeEntry {
    /// Relative to the tree.
    pub path: String,
    /// `blob`, `tree` or `commit`.
    #[serde(rename = "type")]
    pub kind: String,
    pub sha: String,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct CommitQuery<'a> {
    /// Branch or commit to start at.
    pub from: &'a str,
    /// Only commits that changed this file.
    pub path: Option<&'a str>,
    /// Stops after a hundred consecutive older commits.
    pub since: Option<Timestamp>,
    /// Limit of pages with 100 commits each.
    pub pages: usize,
}

impl Client {
    /// Compares two commits; `None` if GitHub does not know one of them, or they have no common history.
    pub async fn compare(&self, repo: &str, base: &str, head: &str) -> Result<Option<Comparison>, ApiError> {
        #[derive(Deserialize)]
        struct Body {
            merge_base_commit: Parent,
            total_commits: usize,
            #[serde(default)]
            commits: Vec<Commit>,
            #[serde(default, deserialize_with = "or_default")]
            files: Vec<ChangedFile>,
        }
        let range = format!("{base}...{head}");
        let mut url = self.repo_url(repo, &["compare", &range])?;
        // Only the first page has the files.
        url.query_pairs_mut().append_pair("per_page", &PAGE.to_string()).append_pair("page", "1");
        let call = Call::get(About::History, repo, &range, url);
        let answer = self.call(call.clone()).await?;
        match answer.status {
            StatusCode::NOT_FOUND => return Ok(None),
            status if status.is_success() => {}
            _ => return Err(self.refused(&call, &answer)),
        }
        let Body { merge_base_commit, total_commits, commits, files } = self.parse(&answer)?;
        Ok(Some(Comparison { merge_base: merge_base_commit.sha, total_commits, commits, files }))
    }

    /// A commit and the files that it changed against its first parent, at most 300.
    pub async fn commit(&self, repo: &str, sha: &str) -> Result<(Commit, Vec<ChangedFile>), ApiError> {
        #[derive(Deserialize)]
        struct Body {
            #[serde(flatten)]
            commit: Commit,
            #[serde(default, deserialize_with = "or_default")]
            files: Vec<ChangedFile>,
        }
        let url = self.repo_url(repo, &["commits", sha])?;
        let Body { commit, files } = self.fetch(Call::get(About::History, repo, &sha, url)).await?;
        Ok((commit, files))
    }

    /// Commits, newest first.
    pub async fn commits(&self, repo: &str, query: CommitQuery<'_>) -> Result<Vec<Commit>, ApiError> {
        let mut url = self.repo_url(repo, &["commits"])?;
        url.query_pairs_mut().append_pair("sha", query.from);
        if let Some(path) = query.path {
            url.query_pairs_mut().append_pair("path", path);
        }
        let call = Call::get(About::History, repo, &query.from, url);
        let is_old = |page: &[Commit]| {
            query.since.is_some_and(|since| page.iter().all(|commit| commit.is_older(since)))
        };
        self.pages_until(call, query.pages, |page: Vec<Commit>| page, is_old).await
    }

    /// The tree of a commit, or by its own id.
    pub async fn tree(&self, repo: &str, sha: &str, recursive: bool) -> Result<Tree, ApiError> {
        let mut url = self.repo_url(repo, &["git", "trees", sha])?;
        if recursive {
            url.query_pairs_mut().append_pair("recursive", "1");
        }
        self.fetch(Call::get(About::History, repo, &sha, url)).await
    }
}
