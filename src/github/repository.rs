//! What is known of a repository: itself, its workflows, its files.

use http::StatusCode;
use serde::Deserialize;

use super::call::{Call, RAW};
use super::client::Client;
use super::error::{About, ApiError};

/// A repository.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RepositoryInfo {
    /// `<owner>/<name>`, as it is called now.
    pub full_name: String,
    /// The branch that workflows and policies are read from.
    pub default_branch: String,
    /// Whether only some can read it.
    #[serde(default)]
    pub private: bool,
    /// Where git finds it.
    pub clone_url: String,
    /// Its page.
    pub html_url: String,
    /// Whether it is read-only for good.
    #[serde(default)]
    pub archived: bool,
}

/// A workflow.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Workflow {
    /// Its number.
    pub id: u64,
    /// Its file.
    pub path: String,
    /// `active`, or one of several kinds of disabled.
    pub state: String,
}

impl Workflow {
    /// Whether it can be started.
    pub fn is_enabled(&self) -> bool {
        self.state == "active"
    }
}

impl Client {
    /// The repository itself.
    pub async fn repository(&self, repo: &str) -> Result<RepositoryInfo, ApiError> {
        let url = self.repo_url(repo, &[])?;
        self.fetch(Call::get(About::Repository, repo, &"", url)).await
    }

    /// A workflow, by the name of its file.
    pub async fn workflow(&self, repo: &str, file: &str) -> Result<Workflow, ApiError> {
        let file = file_name(file);
        let url = self.repo_url(repo, &["actions", "workflows", file])?;
        self.fetch(Call::get(About::Workflow, repo, &file, url)).await
    }

    /// The bytes of a file at a branch, tag or commit; `None` where there is no such file.
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

/// GitHub's routes take the name of a workflow file, not its path.
pub(super) fn file_name(workflow: &str) -> &str {
    workflow.rsplit('/').next().unwrap_or_default()
}
