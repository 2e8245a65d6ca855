//! The owner of the token, organizations, and new repositories.

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::call::Call;
use super::client::Client;
use super::error::{About, ApiError};
use super::repository::RepositoryInfo;

/// The owner of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub login: String,
    /// Scopes of a classic token; `None` for tokens without scopes.
    pub scopes: Option<Vec<String>>,
    /// Billing plan, such as `free`; only some tokens may read it.
    pub plan: Option<String>,
}

#[derive(Deserialize)]
struct Plan {
    name: String,
}

impl Client {
    /// The owner of the token. Tokens of jobs and Apps have none: GitHub answers 403.
    pub async fn account(&self, repo: &str) -> Result<Account, ApiError> {
        #[derive(Deserialize)]
        struct User {
            login: String,
            plan: Option<Plan>,
        }
        let call = Call::get(About::Account, repo, &"", self.url(&["user"]));
        let answer = self.succeed(call).await?;
        let scopes = answer.headers.get("x-oauth-scopes").and_then(|value| value.to_str().ok());
        let scopes = scopes.map(|text| {
            text.split(',').map(|scope| scope.trim().to_owned()).filter(|scope| !scope.is_empty()).collect()
        });
        let User { login, plan } = self.parse(&answer)?;
        Ok(Account { login, scopes, plan: plan.map(|plan| plan.name) })
    }

    /// The billing plan of an organization, if the token may read it.
    pub async fn organization_plan(
        &self,
        repo: &str,
        organization: &str,
    ) -> Result<Option<String>, ApiError> {
        #[derive(Deserialize)]
        struct Organization {
            plan: Option<Plan>,
        }
        let call = Call::get(About::Account, repo, &organization, self.url(&["orgs", organization]));
        let answer = self.call(call.clone()).await?;
        match answer.status {
            StatusCode::NOT_FOUND | StatusCode::FORBIDDEN => Ok(None),
            status if status.is_success() => {
                let Organization { plan } = self.parse(&answer)?;
                Ok(plan.map(|plan| plan.name))
            }
            _ => Err(self.refused(&call, &answer)),
        }
    }

    /// Creates a repository with a first commit, in the account of `login` or in an organization.
    pub async fn create_repository(
        &self,
        repo: &str,
        login: Option<&str>,
        private: bool,
    ) -> Result<RepositoryInfo, ApiError> {
        // Checks the name.
        self.repo_url(repo, &[])?;
        let (owner, name) = repo.split_once('/').unwrap_or_default();
        let is_own = login.is_some_and(|login| login.eq_ignore_ascii_case(owner));
        let url = if is_own { self.url(&["user", "repos"]) } else { self.url(&["orgs", owner, "repos"]) };
        let body = json!({
            "name": name,
            "description": "Runs LLM evaluations with run-evals; holds the API keys",
            "private": private,
            "auto_init": true,
            "has_issues": false,
            "has_projects": false,
            "has_wiki": false,
        });
        self.fetch(Call::post(About::NewRepository, repo, &"", url, Some(body))).await
    }

    /// The version of a GitHub Enterprise Server; `None` on github.com.
    pub async fn server_version(&self, repo: &str) -> Result<Option<String>, ApiError> {
        #[derive(Deserialize)]
        struct Meta {
            installed_version: Option<String>,
        }
        if !self.is_enterprise() {
            return Ok(None);
        }
        let call = Call::get(About::Account, repo, &"", self.url(&["meta"]));
        let Meta { installed_version } = self.fetch(call).await?;
        Ok(installed_version)
    }
}
