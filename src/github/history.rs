//! What happened to a repository: commits, the files that a range of them changed, trees.

use http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::call::Call;
use super::client::Client;
use super::error::{About, ApiError};
use super::runs::or_default;

/// The most commits that GitHub tells at once.
const PAGE: usize = 100;
/// So many files of a comparison GitHub tells, and no more.
pub const MOST_COMPARED_FILES: usize = 300;

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Commit {
    /// Its whole name.
    pub sha: String,
    /// What it came from, the line that it lies on first.
    #[serde(default)]
    pub parents: Vec<Parent>,
    /// When it was committed, where that can be read.
    #[serde(rename = "commit", default, deserialize_with = "committed")]
    pub committed: Option<Timestamp>,
}

impl Commit {
    /// Whether it was committed before then.
    pub fn is_older(&self, since: Timestamp) -> bool {
        self.committed.is_some_and(|at| at < since)
    }
}

fn committed<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let commit = serde_json::Value::deserialize(from)?;
    Ok(commit.pointer("/committer/date").and_then(|date| date.as_str()?.parse().ok()))
}

/// What a commit came from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Parent {
    /// Its whole name.
    pub sha: String,
}

/// A file that a commit or a range of commits changed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ChangedFile {
    /// Its path afterwards.
    pub filename: String,
    /// `added`, `removed`, `modified`, `renamed`, `copied`, `changed` or another word.
    #[serde(default)]
    pub status: String,
}

/// What lies between two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The last commit that both have; after a push without force, the older of the two.
    pub merge_base: String,
    /// How many commits there are since then.
    pub total_commits: usize,
    /// Those that GitHub told.
    pub commits: Vec<Commit>,
    /// What they changed: at most `MOST_COMPARED_FILES`.
    pub files: Vec<ChangedFile>,
}

/// The content of a folder, of all folders in it where it was asked for so.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Tree {
    /// What it has.
    #[serde(rename = "tree")]
    pub entries: Vec<TreeEntry>,
    /// Whether there is more than GitHub tells.
    #[serde(default)]
    pub truncated: bool,
}

/// A file or a folder of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TreeEntry {
    /// Below the tree.
    pub path: String,
    /// `blob`, `tree` or `commit`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it holds, by its digest.
    pub sha: String,
}

/// Which commits are asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommitQuery<'a> {
    /// The branch or the commit to begin at.
    pub from: &'a str,
    /// Only those that changed this file.
    pub path: Option<&'a str>,
    /// Only until there are a hundred in a row that are older.
    pub since: Option<Timestamp>,
    /// How many pages of 100 are read at most.
    pub pages: usize,
}

impl Client {
    /// What lies between two commits; `None` where GitHub does not know one of them, or nothing joins them.
    pub async fn compare(&self, repo: &str, base: &str, head: &str) -> Result<Option<Comparison>, ApiError> {
        #[derive(Deserialize)]
        struct Answer {
            merge_base_commit: Parent,
            total_commits: usize,
            #[serde(default)]
            commits: Vec<Commit>,
            #[serde(default, deserialize_with = "or_default")]
            files: Vec<ChangedFile>,
        }
        let range = format!("{base}...{head}");
        let mut url = self.repo_url(repo, &["compare", &range])?;
        // The files stand on the first page alone.
        url.query_pairs_mut().append_pair("per_page", &PAGE.to_string()).append_pair("page", "1");
        let call = Call::get(About::History, repo, &range, url);
        let answer = self.call(call.clone()).await?;
        match answer.status {
            StatusCode::NOT_FOUND => return Ok(None),
            status if status.is_success() => {}
            _ => return Err(self.refused(&call, &answer)),
        }
        let Answer { merge_base_commit, total_commits, commits, files } = self.parse(&answer)?;
        Ok(Some(Comparison { merge_base: merge_base_commit.sha, total_commits, commits, files }))
    }

    /// A commit, and the files that it changed against its first parent, at most 300 of them.
    pub async fn commit(&self, repo: &str, sha: &str) -> Result<(Commit, Vec<ChangedFile>), ApiError> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(flatten)]
            commit: Commit,
            #[serde(default, deserialize_with = "or_default")]
            files: Vec<ChangedFile>,
        }
        let url = self.repo_url(repo, &["commits", sha])?;
        let Answer { commit, files } = self.fetch(Call::get(About::History, repo, &sha, url)).await?;
        Ok((commit, files))
    }

    /// Commits, the newest first.
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

    /// The tree of a commit, or one by its own name.
    pub async fn tree(&self, repo: &str, sha: &str, recursive: bool) -> Result<Tree, ApiError> {
        let mut url = self.repo_url(repo, &["git", "trees", sha])?;
        if recursive {
            url.query_pairs_mut().append_pair("recursive", "1");
        }
        self.fetch(Call::get(About::History, repo, &sha, url)).await
    }
}
