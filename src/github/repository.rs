//! Repositories, their workflows and files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, StatusCode};
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{Call, RAW};
use super::client::Client;
use super::error::{About, ApiError};

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RepositoryInfo {
    /// Current `<owner>/<name>`.
    pub full_name: String,
    /// Never used for another repository.
    #[serde(default)]
    pub id: u64,
    #[serde(default)]
    pub owner: Owner,
    #[serde(default)]
    pub created_at: Option<jiff::Timestamp>,
    pub default_branch: String,
    #[serde(default)]
    pub private: bool,
    pub clone_url: String,
    pub html_url: String,
    #[serde(default)]
    pub archived: bool,
    /// The role of the token's owner; absent for tokens of jobs and Apps.
    #[serde(default)]
    pub permissions: Option<Permissions>,
}

/// The owner of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Owner {
    #[serde(default)]
    pub id: u64,
}

/// What the owner of a token may do in a repository. A fine-grained token may do less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Permissions {
    #[serde(default)]
    pub admin: bool,
    #[serde(default)]
    pub push: bool,
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
        let mut url = self.contents_url(repo, path)?;
        url.query_pairs_mut().append_pair("ref", git_ref);
        let call = Call { accept: RAW, ..Call::get(About::File, repo, &path, url) };
        let answer = self.call(call.clone()).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(answer.body.into())),
            _ => Err(self.refused(&call, &answer)),
        }
    }

    /// Commits a new file on a branch; fails if the file exists.
    pub async fn create_file(
        &self,
        repo: &str,
        branch: &str,
        path: &str,
        content: &str,
        message: &str,
    ) -> Result<(), ApiError> {
        let body = json!({"message": message, "content": STANDARD.encode(content), "branch": branch});
        self.put_file(repo, path, body).await
    }

    /// Commits a new version of a file on a branch.
    pub async fn replace_file(
        &self,
        repo: &str,
        branch: &str,
        path: &str,
        content: &str,
        message: &str,
    ) -> Result<(), ApiError> {
        #[derive(Deserialize)]
        struct ExistingFile {
            sha: String,
        }
        let mut url = self.contents_url(repo, path)?;
        url.query_pairs_mut().append_pair("ref", branch);
        let ExistingFile { sha } = self.fetch(Call::get(About::File, repo, &path, url)).await?;
        let content = STANDARD.encode(content);
        let body = json!({"message": message, "content": content, "branch": branch, "sha": sha});
        self.put_file(repo, path, body).await
    }

    async fn put_file(&self, repo: &str, path: &str, body: Value) -> Result<(), ApiError> {
        let call = Call {
            method: Method::PUT,
            ..Call::post(About::NewFile, repo, &path, self.contents_url(repo, path)?, Some(body))
        };
        self.succeed(call).await.map(drop)
    }

    fn contents_url(&self, repo: &str, path: &str) -> Result<Url, ApiError> {
        let mut route = vec!["contents"];
        route.extend(path.split('/'));
        self.repo_url(repo, &route)
    }
}

/// GitHub's routes take a workflow's file name, not its path.
pub(super) fn file_name(workflow: &str) -> &str {
    workflow.rsplit('/').next().unwrap_or_default()
}
