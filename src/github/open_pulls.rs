//! Open pull requests.

use serde::Deserialize;

use super::call::Call;
use super::client::Client;
use super::error::{About, ApiError};

/// 1,000 pull requests.
const MOST_PAGES: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct OpenPull {
    pub number: u64,
    #[serde(default)]
    pub html_url: String,
    pub head: PullHead,
}

/// The head of a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PullHead {
    #[serde(rename = "ref")]
    pub branch: String,
    pub sha: String,
    /// Repository of the branch; absent if it was deleted.
    pub repo: Option<PullRepo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PullRepo {
    /// `<owner>/<name>`.
    pub full_name: String,
}

impl Client {
    /// Open pull requests, newest first.
    pub async fn open_pulls(&self, repo: &str) -> Result<Vec<OpenPull>, ApiError> {
        let mut url = self.repo_url(repo, &["pulls"])?;
        url.query_pairs_mut().append_pair("state", "open");
        let call = Call::get(About::Pulls, repo, &"open", url);
        self.all_pages(call, MOST_PAGES, |page: Vec<OpenPull>| page).await
    }
}
