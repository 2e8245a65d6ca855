//! Repositories, their workflows and files.

use http::StatusCode;
use serde::Deserialize;

use super::call::{Call, RAW};
use super::client::Client;
use super::error::{About, ApiError};

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RepositoryInfo {
    /// Current `<owner>/<name>`.
    pub full_name: String,
    pub default_branch: String,
    #[serde(default)]
    pub private: bool,
    pub clone_url: String,
    pub html_url: String,
    #[serde(default)]
    pub archived: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Workflow {
    pub id: u64,
    pub path: String,
    /// `active`, or a kind of disabled.
    pub state: String,
}

impl Workflow {
    pub fn is_enabled(&self) -> bool {
        self.state == "active"
    }
}

impl Client {
    /// Fetches the repository.
    pub async fn repository(&self, repo: &str) -> Result<RepositoryInfo, ApiError> {
        let url = self.repo_url(repo, &[])?;
        self.fetch(Call::get(About::Repository, repo, &"", url)).await
    }

    /// A workflow by its file name.
    pub async fn workflow(&self, repo: &str, file: &str) -> Result<Workflow, ApiError> {
        let file = file_name(file);
        let url = self.repo_url(repo, &["actions", "workflows", file])?;
        self.fetch(Call::get(About::Workflow, repo, &file, url)).await
    }

    /// Content of a file at a branch, tag or commit; `None` if it does not exist.
    pub async fn file(&self, repo: &str, path: &str, git_ref: &str) -> Result<Option<Vec<u8>>, ApiError> {
        let mut route = vec!["contents"];
        route.extend(path.split('/'));
        let mut url = self.repo_url(repo, &route)?;
        url.query_pairs_mut().append_pair("ref", git_ref);
        let call = Call { accept: RAW, ..Call::get(About::File, repo, &path, url) };
        let answer = self.call(call.clone()).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(answer.body.into())),
            _ => Err(self.refused(&call, &answer)),
        }
    }
}

/// GitHub's routes take a workflow's file name, not its path.
pub(super) fn file_name(workflow: &str) -> &str {
    workflow.rsplit('/').next().unwrap_or_default()
}
