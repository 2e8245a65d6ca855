//! The state before `init runner` changes anything, and the permissions that the token lacks.

use std::path::PathBuf;

use super::files::{ENVIRONMENT, WORKFLOW_PATH};
use super::models::ModelChoice;
use crate::config::keyless::{PLACEHOLDER, Vendor};
use crate::config::{Policy, TargetsFile};
use crate::github::{Account, ApiError, Client, RepositoryInfo, SecretPlace, TokenKind};
use crate::model::{Exit, Failure, ProviderKind, printable};

/// The options of `init runner`.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "one per option")]
pub struct RunnerPlan {
    /// `owner/name`.
    pub repo: String,
    pub provider: &'static ProviderKind,
    /// The vendor that trusts the jobs of the repository, instead of a stored key.
    pub keyless: Option<Keyless>,
    /// For a new `targets.yaml`.
    pub model: ModelChoice,
    pub public: bool,
    /// Who may start runs besides the owner of the token.
    pub senders: Vec<String>,
    /// Whether a repository secret is acceptable if there are no environments.
    pub repository_secret: bool,
    /// Whether the secret is left to the user.
    pub no_secret: bool,
    /// Whether an existing workflow is replaced by the one of this version.
    pub update_workflow: bool,
    /// The local targets file; by default the nearest one.
    pub targets_file: Option<PathBuf>,
    /// Name of the dispatcher's target.
    pub target: String,
    pub dry_run: bool,
}

/// A vendor, and the ids that it issued.
#[derive(Debug, Clone)]
pub struct Keyless {
    pub vendor: Vendor,
    /// Keys of the target or of its `auth.github_oidc`, with their values.
    pub given: Vec<(String, String)>,
}

impl Keyless {
    /// Checks that the vendor has these keys, and that all keys without an example value are given.
    pub fn new(vendor: Vendor, given: Vec<(String, String)>) -> Result<Self, Failure> {
        let settings = vendor.settings().iter().map(|(key, _)| *key);
        let legal: Vec<&str> = settings.chain(vendor.ids().iter().map(|(key, _)| *key)).collect();
        let usage = |message: String, hint: String| Err(Failure::new(Exit::Usage, message).hint(hint));
        let name = vendor.name();
        if let Some((key, _)) = given.iter().find(|(key, _)| !legal.contains(&key.as_str())) {
            let message = format!("`--keyless {name}` has no id `{}`", printable(key));
            return usage(message, format!("`--id` takes one of {}", legal.join(", ")));
        }
        let keyless = Self { vendor, given };
        for (key, example) in vendor.settings() {
            if example.is_none() && keyless.given(key).is_none() {
                let message = format!("`--keyless {name}` needs the {key}");
                return usage(message, format!("add `--id {key}=…`"));
            }
        }
        Ok(keyless)
    }

    pub(super) fn given(&self, key: &str) -> Option<&str> {
        self.given.iter().rev().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// The keys of the target besides `auth`.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = self.vendor.settings().iter();
        all.filter_map(|(key, example)| self.given(key).or(*example).map(|value| (*key, value)))
    }

    /// The keys of `auth.github_oidc`.
    pub(super) fn ids(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.vendor.ids().iter().map(|(key, example)| (*key, self.given(key).unwrap_or(example)))
    }
}

/// The current state.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) account: Option<Account>,
    pub(super) repository: Option<RepositoryInfo>,
    pub(super) workflow: Option<String>,
    pub(super) targets: Option<TargetsFile>,
    /// Text of the targets file.
    pub(super) targets_text: String,
    pub(super) policy: Option<&'static str>,
    /// Text of the policy.
    pub(super) policy_text: String,
    /// Branches that may use the environment, if it exists and is restricted.
    pub(super) environment: Option<Vec<String>>,
    pub(super) environment_secrets: Vec<String>,
    pub(super) secrets: Vec<String>,
    pub(super) is_protected: bool,
    /// Whether the plan has neither environments nor branch rules for this repository.
    pub(super) plan_limited: bool,
    /// The permissions that the token lacks, one per line.
    pub(super) missing: Vec<String>,
}

impl Survey {
    /// Reads the account and the repository.
    pub(super) async fn read(client: &Client, plan: &RunnerPlan) -> anyhow::Result<Self> {
        let repo = plan.repo.as_str();
        let account = match client.account(repo).await {
            // A token of a job or an App has no account.
            Err(error) if error.status() == Some(403) => None,
            account => Some(account.map_err(ApiError::into_failure)?),
        };
        let mut survey = Self { account, ..Self::default() };
        survey.check_scopes();
        match client.repository(repo).await {
            Ok(info) => survey.read_repository(client, repo, info).await.map_err(ApiError::into_failure)?,
            Err(error) if error.is_not_found() => {
                survey.plan_limited =
                    !plan.public && survey.owner_plan(client, repo).await?.as_deref() == Some("free");
            }
            Err(error) => return Err(error.into_failure().into()),
        }
        Ok(survey)
    }

    /// The login of the token's owner.
    pub(super) fn login(&self) -> Option<&str> {
        self.account.as_ref().map(|account| account.login.as_str())
    }

    /// Fails with everything that the token lacks; `changed` is what was already done.
    pub(super) fn check_permissions(
        &self,
        client: &Client,
        repo: &str,
        changed: &str,
    ) -> Result<(), Failure> {
        if self.missing.is_empty() {
            return Ok(());
        }
        let list = self.missing.join("\n  - ");
        let message = format!("the token cannot set up `{repo}`; {changed}. It lacks:\n  - {list}");
        let hint = match client.token_kind() {
            TokenKind::Classic => {
                "`gh auth refresh --scopes repo,workflow`; an admin of the repository can make you one"
                    .to_owned()
            }
            _ => format!(
                "a fine-grained token or App needs access to `{repo}` with Administration, Contents, Environments, Secrets and \
                 Workflows: read and write, and Actions: read and write"
            ),
        };
        Err(Failure::new(Exit::Config, message).hint(hint))
    }

    fn check_scopes(&mut self) {
        let Some(scopes) = self.account.as_ref().and_then(|account| account.scopes.clone()) else { return };
        for (needed, what) in
            [("repo", "repositories, environments and secrets"), ("workflow", "the workflow file")]
        {
            if !scopes.iter().any(|scope| scope == needed) {
                self.missing.push(format!("scope `{needed}`: {what}"));
            }
        }
    }

    /// The plan of the repository's owner, as far as the token may read it.
    async fn owner_plan(&self, client: &Client, repo: &str) -> anyhow::Result<Option<String>> {
        let owner = repo.split('/').next().unwrap_or_default();
        match &self.account {
            Some(account) if account.login.eq_ignore_ascii_case(owner) => Ok(account.plan.clone()),
            _ => Ok(client.organization_plan(repo, owner).await.map_err(ApiError::into_failure)?),
        }
    }

    async fn read_repository(
        &mut self,
        client: &Client,
        repo: &str,
        info: RepositoryInfo,
    ) -> Result<(), ApiError> {
        if info.archived {
            let failure = Failure::config(format!("`{repo}` is archived: no workflow runs there"));
            return Err(ApiError::Invalid(failure.hint(format!("`gh repo unarchive {repo}`"))));
        }
        let branch = info.default_branch.clone();
        if info.permissions.is_some_and(|permissions| !permissions.admin) {
            self.missing.push(format!(
                "admin access to `{repo}`: environments, secrets and branch rules are settings"
            ));
        }
        self.repository = Some(info);
        let contents = "repository permission `Contents: write`: the files";
        let text = self.allowed(client.file(repo, WORKFLOW_PATH, &branch).await, contents)?.flatten();
        self.workflow = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if !self.missing.iter().any(|line| line == contents) {
            self.read_configuration(client, repo, &branch).await?;
            self.is_protected = client.is_protected(repo, &branch).await?;
        }
        let settings = "repository permission `Administration: write`: the environment and the branch rule";
        self.allowed(client.actions_permissions(repo).await, settings)?;
        match client.ruleset_names(repo).await {
            Err(error) if error.is_plan_limit() => self.plan_limited = true,
            names => {
                self.allowed(names, settings)?;
            }
        }
        let actions = "repository permission `Actions: read`: environments";
        let found = self.allowed(client.environment(repo, ENVIRONMENT).await, actions)?.flatten();
        match found.and_then(|environment| environment.deployment_branch_policy) {
            // Protected branches only; the default branch becomes one.
            Some(policy) if policy.protected_branches => self.environment = Some(vec![branch]),
            Some(_) => {
                let branches = self.allowed(client.environment_branches(repo, ENVIRONMENT).await, actions)?;
                self.environment = Some(branches.unwrap_or_default());
            }
            None => {}
        }
        let environments = "repository permission `Environments: write`: the secret of the environment";
        let place = SecretPlace::Environment(ENVIRONMENT);
        self.environment_secrets = match client.secret_names(repo, place).await {
            Err(error) if error.is_not_found() => Vec::new(),
            names => self.allowed(names, environments)?.unwrap_or_default(),
        };
        if self.plan_limited {
            let needed = "repository permission `Secrets: write`: the repository secret";
            let names = client.secret_names(repo, SecretPlace::Repository).await;
            self.secrets = self.allowed(names, needed)?.unwrap_or_default();
        }
        Ok(())
    }

    async fn read_configuration(
        &mut self,
        client: &Client,
        repo: &str,
        branch: &str,
    ) -> Result<(), ApiError> {
        for path in Policy::PLACES {
            if let Some(bytes) = client.file(repo, path, branch).await? {
                self.policy = Some(path);
                self.policy_text = String::from_utf8_lossy(&bytes).into_owned();
                break;
            }
        }
        for path in TargetsFile::PLACES {
            if let Some(bytes) = client.file(repo, path, branch).await? {
                self.targets_text = String::from_utf8_lossy(&bytes).into_owned();
                let shown_as = PathBuf::from(format!("{repo}: {path}"));
                // Placeholders of an earlier run are accepted.
                let (project, account) =
                    (format!("projects/{PLACEHOLDER}/"), format!(":iam::{PLACEHOLDER}:"));
                let text = self.targets_text.replace(&project, "projects/0/");
                let text = text.replace(&account, ":iam::000000000000:").replace(PLACEHOLDER, "unset");
                let read = TargetsFile::parse(text.into_bytes(), &shown_as, std::path::Path::new(""));
                self.targets = Some(read.map_err(ApiError::Invalid)?.0);
                break;
            }
        }
        Ok(())
    }

    /// The result, or `None`, adding a missing permission.
    fn allowed<T>(&mut self, result: Result<T, ApiError>, needed: &str) -> Result<Option<T>, ApiError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.status() == Some(403) => {
                if !self.missing.iter().any(|line| line == needed) {
                    self.missing.push(needed.to_owned());
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
