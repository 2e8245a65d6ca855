//! The pull requests that are open.

use serde::Deserialize;

use super::call::Call;
use super::client::Client;
use super::error::{About, ApiError};

/// 1,000 pull requests.
const MOST_PAGES: usize = 10;

/// An open pull request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct OpenPull {
    /// Its number.
    pub number: u64,
    /// Its page.
    #[serde(default)]
    pub html_url: String,
    /// What it would bring in.
    pub head: PullHead,
}

/// What a pull request would bring in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PullHead {
    /// Its branch.
    #[serde(rename = "ref")]
    pub branch: String,
    /// Its newest commit.
    pub sha: String,
    /// Where the branch lies; nothing where that repository is gone.
    pub repo: Option<PullRepo>,
}

/// Where a branch lies.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PullRepo {
    /// `<owner>/<name>`.
    pub full_name: String,
}

impl Client {
    /// The open pull requests of a repository, the newest first.
    pub async fn open_pulls(&self, repo: &str) -> Result<Vec<OpenPull>, ApiError> {
        let mut url = self.repo_url(repo, &["pulls"])?;
        url.query_pairs_mut().append_pair("state", "open");
        let call = Call::get(About::Pulls, repo, &"open", url);
        self.all_pages(call, MOST_PAGES, |page: Vec<OpenPull>| page).await
    }
}
