//! Settings of a repository: Actions, environments, rules of branches.

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{ApiResponse, Call, Repeat};
use super::client::Client;
use super::error::{About, ApiError};

/// More rules or branches than anyone reads.
const MOST_PAGES: usize = 10;

/// What Actions may run in a repository.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ActionsPermissions {
    pub enabled: bool,
    /// `all`, `local_only` or `selected`.
    #[serde(default)]
    pub allowed_actions: Option<String>,
    #[serde(default)]
    pub sha_pinning_required: bool,
}

/// An environment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Environment {
    #[serde(default)]
    pub protection_rules: Vec<ProtectionRule>,
    /// Which branches may use it; every branch without one.
    #[serde(default)]
    pub deployment_branch_policy: Option<BranchPolicy>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ProtectionRule {
    /// `required_reviewers`, `wait_timer`, `branch_policy` or another value.
    #[serde(rename = "type")]
    pub kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BranchPolicy {
    pub protected_branches: bool,
}

/// A rule that holds for a branch.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BranchRule {
    /// `pull_request`, `creation`, `deletion`, `required_signatures` or another value.
    #[serde(rename = "type")]
    pub kind: String,
}

impl Client {
    /// Whether Actions run, and which actions; needs admin access.
    pub async fn actions_permissions(&self, repo: &str) -> Result<ActionsPermissions, ApiError> {
        let url = self.repo_url(repo, &["actions", "permissions"])?;
        self.fetch(Call::get(About::ActionsSettings, repo, &"", url)).await
    }

    /// Patterns of the actions that a repository with `selected` actions allows.
    pub async fn allowed_action_patterns(&self, repo: &str) -> Result<Vec<String>, ApiError> {
        #[derive(Deserialize)]
        struct SelectedActions {
            #[serde(default)]
            patterns_allowed: Vec<String>,
        }
        let url = self.repo_url(repo, &["actions", "permissions", "selected-actions"])?;
        let selected: SelectedActions = self.fetch(Call::get(About::ActionsSettings, repo, &"", url)).await?;
        Ok(selected.patterns_allowed)
    }

    /// An environment; `None` if it does not exist.
    pub async fn environment(&self, repo: &str, name: &str) -> Result<Option<Environment>, ApiError> {
        let url = self.repo_url(repo, &["environments", name])?;
        self.found(Call::get(About::Environment, repo, &name, url)).await
    }

    /// Creates an environment that only the branches of its policies may use, or restricts an existing one.
    pub async fn restrict_environment(&self, repo: &str, name: &str) -> Result<(), ApiError> {
        let policy = json!({"protected_branches": false, "custom_branch_policies": true});
        let call = Call {
            method: Method::PUT,
            body: Some(json!({"deployment_branch_policy": policy})),
            repeat: Repeat::Freely,
            ..Call::get(About::NewEnvironment, repo, &name, self.repo_url(repo, &["environments", name])?)
        };
        self.succeed(call).await.map(drop)
    }

    /// Patterns of the branches that may use an environment.
    pub async fn environment_branches(&self, repo: &str, name: &str) -> Result<Vec<String>, ApiError> {
        #[derive(Deserialize)]
        struct Policies {
            branch_policies: Vec<Policy>,
        }
        #[derive(Deserialize)]
        struct Policy {
            #[serde(default)]
            name: String,
        }
        let url = self.repo_url(repo, &["environments", name, "deployment-branch-policies"])?;
        let call = Call::get(About::Environment, repo, &name, url);
        let found = self.all_pages(call, MOST_PAGES, |page: Policies| page.branch_policies).await?;
        Ok(found.into_iter().map(|policy| policy.name).collect())
    }

    /// Lets a branch use an environment.
    pub async fn allow_environment_branch(
        &self,
        repo: &str,
        name: &str,
        branch: &str,
    ) -> Result<(), ApiError> {
        let url = self.repo_url(repo, &["environments", name, "deployment-branch-policies"])?;
        let body = json!({"name": branch, "type": "branch"});
        self.succeed(Call::post(About::NewEnvironment, repo, &name, url, Some(body))).await.map(drop)
    }

    /// Names of the rulesets; an error on a plan without rulesets.
    pub async fn ruleset_names(&self, repo: &str) -> Result<Vec<String>, ApiError> {
        #[derive(Deserialize)]
        struct Ruleset {
            name: String,
        }
        let call = Call::get(About::Rules, repo, &"", self.repo_url(repo, &["rulesets"])?);
        let found = self.all_pages(call, MOST_PAGES, |page: Vec<Ruleset>| page).await?;
        Ok(found.into_iter().map(|ruleset| ruleset.name).collect())
    }

    /// Creates a ruleset.
    pub async fn create_ruleset(&self, repo: &str, ruleset: Value) -> Result<(), ApiError> {
        let url = self.repo_url(repo, &["rulesets"])?;
        self.succeed(Call::post(About::NewRule, repo, &"", url, Some(ruleset))).await.map(drop)
    }

    /// Rules of rulesets that hold for a branch, which need not exist.
    pub async fn branch_rules(&self, repo: &str, branch: &str) -> Result<Vec<BranchRule>, ApiError> {
        let url = self.repo_url(repo, &["rules", "branches", branch])?;
        let call = Call::get(About::Rules, repo, &branch, url);
        self.all_pages(call, MOST_PAGES, |page: Vec<BranchRule>| page).await
    }

    /// Whether a branch is protected, by a ruleset or by classic branch protection.
    pub async fn is_protected(&self, repo: &str, branch: &str) -> Result<bool, ApiError> {
        #[derive(Deserialize)]
        struct Branch {
            name: String,
        }
        let mut url = self.repo_url(repo, &["branches"])?;
        url.query_pairs_mut().append_pair("protected", "true");
        let call = Call::get(About::Rules, repo, &branch, url);
        let protected = self.all_pages(call, MOST_PAGES, |page: Vec<Branch>| page).await?;
        Ok(protected.iter().any(|known| known.name == branch))
    }

    /// Whether a branch with exactly this name exists.
    pub async fn has_branch(&self, repo: &str, branch: &str) -> Result<bool, ApiError> {
        let mut route = vec!["git", "ref", "heads"];
        route.extend(branch.split('/'));
        let call = Call::get(About::History, repo, &branch, self.repo_url(repo, &route)?);
        Ok(self.found::<Value>(call).await?.is_some())
    }

    /// Whether an action has a release, as seen from a repository that uses it; `None` if there is no such action.
    pub async fn has_release(
        &self,
        repo: &str,
        action: &str,
        reference: &str,
    ) -> Result<Option<bool>, ApiError> {
        let call = Call::get(About::Repository, repo, &action, self.repo_url(action, &[])?);
        if self.found::<Value>(call).await?.is_none() {
            return Ok(None);
        }
        let call =
            Call::get(About::History, repo, &reference, self.repo_url(action, &["commits", reference])?);
        let answer = self.call(call.clone()).await?;
        match answer.status {
            // 422: no such commit.
            StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY => Ok(Some(false)),
            status if status.is_success() => Ok(Some(true)),
            _ => Err(self.refused(&call, &answer)),
        }
    }

    /// Sends a read; `None` if GitHub knows no such thing.
    async fn found<T: serde::de::DeserializeOwned>(&self, call: Call<'_>) -> Result<Option<T>, ApiError> {
        let answer: ApiResponse = self.call(call.clone()).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => self.parse(&answer).map(Some),
            _ => Err(self.refused(&call, &answer)),
        }
    }
}
