//! Pull requests: opened once, labeled, and set to auto-merge.

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{Call, Repeat};
use super::client::Client;
use super::error::{About, ApiError, TokenKind, short};
use super::token::web_host;
use crate::protocol::names::is_repository;

const AUTO_MERGE: &str = "mutation($id: ID!) { enablePullRequestAutoMerge(input: {pullRequestId: $id, mergeMethod: SQUASH}) \
                          { pullRequest { id } } }";

#[derive(Debug, Clone)]
pub struct NewPull<'p> {
    pub head: &'p str,
    pub base: &'p str,
    pub title: &'p str,
    pub body: &'p str,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pull {
    pub number: u64,
    pub html_url: String,
    /// GraphQL id.
    node_id: String,
}

impl Client {
    /// Opens a pull request. If the response was lost, finds the existing one.
    pub async fn open_pull(&self, repo: &str, new: &NewPull<'_>) -> Result<Pull, ApiError> {
        let url = self.repo_url(repo, &["pulls"])?;
        let body = json!({ "title": new.title, "head": new.head, "base": new.base, "body": new.body });
        let call = Call::post(About::Pull, repo, &new.head, url, Some(body));
        match self.fetch::<Pull>(call).await {
            Err(error) if error.is_passing() || matches!(error, ApiError::BadAnswer { .. }) => {
                match self.find_pull(repo, new.head).await? {
                    Some(pull) => Ok(pull),
                    None => Err(error),
                }
            }
            answer => answer,
        }
    }

    /// The open pull request of a branch in the same repository.
    pub async fn find_pull(&self, repo: &str, head: &str) -> Result<Option<Pull>, ApiError> {
        let owner = repo.split('/').next().unwrap_or_default();
        let mut url = self.repo_url(repo, &["pulls"])?;
        url.query_pairs_mut().append_pair("state", "open").append_pair("head", &format!("{owner}:{head}"));
        let found: Vec<Pull> = self.fetch(Call::get(About::Pull, repo, &head, url)).await?;
        Ok(found.into_iter().next())
    }

    /// Gives an open pull request another title and text.
    pub async fn update_pull(
        &self,
        repo: &str,
        number: u64,
        title: &str,
        body: &str,
    ) -> Result<(), ApiError> {
        let url = self.repo_url(repo, &["pulls", &number.to_string()])?;
        let call = Call {
            method: Method::PATCH,
            // Idempotent.
            repeat: Repeat::Freely,
            ..Call::post(About::Pull, repo, &number, url, Some(json!({ "title": title, "body": body })))
        };
        self.succeed(call).await.map(drop)
    }

    /// Adds labels; GitHub creates missing ones.
    pub async fn add_labels(&self, repo: &str, number: u64, labels: &[String]) -> Result<(), ApiError> {
        let url = self.repo_url(repo, &["issues", &number.to_string(), "labels"])?;
        let call = Call {
            // Idempotent.
            repeat: Repeat::Freely,
            ..Call::post(About::Label, repo, &number, url, Some(json!({ "labels": labels })))
        };
        self.succeed(call).await.map(drop)
    }

    /// Enables auto-merge, which only GraphQL can.
    pub async fn merge_when_ready(&self, repo: &str, pull: &Pull) -> Result<(), ApiError> {
        let mut url = self.url(&[]);
        // On GitHub Enterprise Server, GraphQL is beside the REST API.
        let path = url.path().trim_end_matches('/').trim_end_matches("/v3").to_owned();
        url.set_path(&format!("{path}/graphql"));
        let body = json!({ "query": AUTO_MERGE, "variables": { "id": pull.node_id } });
        let call = Call {
            method: Method::POST,
            repeat: Repeat::Freely,
            ..Call::post(About::AutoMerge, repo, &pull.number, url, Some(body))
        };
        let answer: Value = self.fetch(call).await?;
        // GraphQL reports errors with status 200.
        match answer["errors"].as_array().and_then(|errors| errors.first()) {
            None => Ok(()),
            Some(error) => {
                let said = short(error["message"].as_str().unwrap_or("it said no more"));
                let failure = crate::model::Failure::new(
                    crate::model::Exit::Failure,
                    format!(
                        "cannot enable auto-merge for pull request {} of `{repo}`: GitHub returned: {said}",
                        pull.number
                    ),
                );
                Err(ApiError::Invalid(failure.hint(
                    "auto-merge must be allowed in the settings of the repository, and the base branch must require a check \
                     or a review",
                )))
            }
        }
    }

    /// Whether the token is a job's `GITHUB_TOKEN`: its pull requests start no workflow.
    pub fn is_job_token(&self) -> bool {
        self.token_kind() == TokenKind::Job
    }

    /// `owner/name` and HTTPS URL of a git URL on this GitHub; the token is for no other host.
    pub fn repo_of(&self, git_url: &str) -> Option<(String, String)> {
        let base = &self.inner.base;
        let web = web_host(base.as_str());
        let (host, path) = split_git_url(git_url)?;
        // Over SSH, the port differs or is missing.
        let is_ours = host == web || !host.contains(':') && web.split(':').next() == Some(host.as_str());
        let repo = path.trim_matches('/').trim_end_matches(".git").to_owned();
        let scheme = base.scheme();
        (is_ours && is_repository(&repo)).then(|| (repo.clone(), format!("{scheme}://{web}/{repo}.git")))
    }
}

/// Host with port, and path, of `https://…`, `ssh://…` and `user@host:path`.
fn split_git_url(url: &str) -> Option<(String, String)> {
    if let Some((scheme, rest)) = url.split_once("://") {
        let (authority, path) = rest.split_once('/')?;
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let host = if scheme == "ssh" { host.split(':').next()? } else { host };
        return matches!(scheme, "https" | "http" | "ssh").then(|| (host.to_lowercase(), path.to_owned()));
    }
    let (host, path) = url.split_once(':')?;
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    (!host.contains('/')).then(|| (host.to_lowercase(), path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::github::{Auth, ClientOptions};
    use crate::model::Secret;

    #[tokio::test]
    async fn a_token_is_sent_only_to_its_own_host() {
        let client = |api: &str| {
            let auth = Auth::Token(Secret::new("ghp_x"));
            Client::new(ClientOptions { api_url: api.to_owned(), auth, notify: None, ca_pem: Vec::new() })
                .unwrap()
        };
        let github = client("https://api.github.com");
        for url in [
            "https://github.com/o/r.git",
            "https://github.com/o/r",
            "git@github.com:o/r.git",
            "ssh://git@github.com:22/o/r",
            "https://x:y@github.com/o/r/",
        ] {
            assert_eq!(
                github.repo_of(url).unwrap(),
                ("o/r".to_owned(), "https://github.com/o/r.git".to_owned()),
                "{url}"
            );
        }
        for url in [
            "https://evil.example/o/r",
            "https://github.com.evil.example/o/r",
            "https://github.com:444/o/r",
            "/o/r",
            "file:///o/r",
            "ext::sh -c x",
            "https://github.com/o",
            "https://github.com/o/r/s",
        ] {
            assert_eq!(github.repo_of(url), None, "{url}");
        }
        let server = client("https://git.example:8443/api/v3");
        assert_eq!(
            server.repo_of("https://git.example:8443/o/r").unwrap().1,
            "https://git.example:8443/o/r.git"
        );
        assert_eq!(server.repo_of("git@git.example:o/r").unwrap().1, "https://git.example:8443/o/r.git");
        assert_eq!(server.repo_of("https://github.com/o/r"), None);
    }
}
