//! `doctor`: checks a setup from the token to the key, and changes nothing. Each finding names the command that fixes it.
//!
//! `check` checks the targets of a file. `access` checks the token, `actions` Actions and the workflow, `configuration` the files and secrets of the runner repository,
//! `protection` environments, branch rules and branches. `models` checks for announced model shutdowns.

mod access;
mod actions;
mod check;
mod configuration;
mod models;
mod protection;

pub use self::check::{DoctorOptions, check_targets};

use self::configuration::{Costs, ping_costs};
use self::models::shutdown;

use crate::config::keyless::Vendor;
use crate::config::{Env, RunnerJob, TargetsFile};
use crate::engine::{runner_repository, runner_workflow, visibility};
use crate::github::{Account, ApiError, Client, RepositoryInfo};
use crate::model::{Finding, Level, RemoteTarget, printable};

/// The provider in suggested commands, if none is known.
const EXAMPLE_PROVIDER: &str = "openai";

/// The shared state of the checks of one runner repository.
struct RepositoryCheck<'a> {
    client: &'a Client,
    target: &'a RemoteTarget,
    info: RepositoryInfo,
    account: Option<Account>,
    /// The option of `init runner` for the runner's target, for suggested commands.
    option: String,
}

/// Checks everything that a batch for this target needs.
async fn examine(client: &Client, target: &RemoteTarget) -> Vec<Finding> {
    let repo = target.repo.as_str();
    let info = match runner_repository(client, target).await {
        Ok(info) => info,
        Err(error) if error.is_not_found() => {
            let finding = refused(error);
            let hint = finding.hint.clone().unwrap_or_default();
            let create = format!("`run-evals init runner {repo} --provider {EXAMPLE_PROVIDER}` creates it");
            return vec![finding.hint(format!("{create}; {hint}"))];
        }
        Err(error) => return vec![refused(error)],
    };
    let seen = if info.private { "private" } else { "public" };
    let mut findings = vec![Finding::ok(format!("repository `{repo}`, {seen}"))];
    // A dispatch with `--allow-public` continues.
    if let Err(failure) = visibility(&info, target, false) {
        findings.push(Finding::failure(Level::Warning, &failure));
    }
    // Tokens of jobs and Apps have no account.
    let account = client.account(repo).await.ok();
    let targets = configuration::fetch_targets(client, repo, &info.default_branch).await;
    let option = targets.as_ref().ok().and_then(|targets| option_of(targets.as_ref()?, target));
    let option = option.unwrap_or_else(|| format!("--provider {EXAMPLE_PROVIDER}"));
    let patient = RepositoryCheck { client, target, info, account, option };
    findings.extend(access::findings(&patient).await);
    findings.extend(patient.server().await);
    let job = match runner_workflow(client, target, &patient.info).await {
        Ok(workflow) => {
            let (file, git_ref) = (&target.workflow, printable(&workflow.git_ref));
            findings.push(Finding::ok(format!("workflow `{file}` on `{git_ref}`, active")));
            findings.push(match workflow.check_inputs(target) {
                Ok(()) => Finding::ok("the workflow takes every input of a dispatch"),
                Err(failure) => Finding::failure(Level::Error, &failure).hint(patient.update_workflow()),
            });
            RunnerJob::read(&workflow.path, &workflow.text).ok().flatten()
        }
        Err(error) if error.is_not_found() => {
            findings.push(refused(error).hint(patient.init()));
            None
        }
        Err(error) => {
            findings.push(refused(error));
            None
        }
    };
    findings.extend(actions::findings(&patient, job.as_ref()).await);
    findings.extend(configuration::findings(&patient, targets, job.as_ref()).await);
    findings.extend(protection::findings(&patient, job.as_ref()).await);
    findings
}

impl RepositoryCheck<'_> {
    fn repo(&self) -> &str {
        &self.target.repo
    }

    /// The branch or tag to run.
    fn git_ref(&self) -> &str {
        self.target.git_ref.as_deref().unwrap_or(&self.info.default_branch)
    }

    /// The command that adds what is missing.
    fn init(&self) -> String {
        format!("`run-evals init runner {} {}` adds what is missing", self.repo(), self.option)
    }

    /// The command that rewrites the workflow, with a line for each key.
    fn update_workflow(&self) -> String {
        format!("`run-evals init runner {} {} --update-workflow`", self.repo(), self.option)
    }

    /// The version of GitHub Enterprise Server.
    async fn server(&self) -> Option<Finding> {
        /// The oldest version that GitHub supports.
        const OLDEST: (u64, u64) = (3, 17);
        let version = match self.client.server_version(self.repo()).await {
            Ok(version) => version?,
            Err(error) => return Some(refused(error)),
        };
        let mut parts = version.split('.').map(|part| part.parse::<u64>().unwrap_or(0));
        let (major, minor) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        let shown = format!("GitHub Enterprise Server {}", printable(&version));
        if (major, minor) < OLDEST {
            let text = format!("{shown} is older than any version that GitHub supports");
            return Some(Finding::new(Level::Warning, text).hint("ask its administrator for an upgrade"));
        }
        if self.target.results == crate::model::RemoteResults::Artifact {
            let text = format!(
                "{shown} has no artifacts that a container can upload: `results_artifact: true` fails"
            );
            return Some(
                Finding::new(Level::Error, text)
                    .hint("remove `results_artifact` from the target: results go to a branch"),
            );
        }
        Some(Finding::ok(shown))
    }
}

/// The option of `init runner` for the runner's target.
fn option_of(targets: &TargetsFile, target: &RemoteTarget) -> Option<String> {
    let name = target.target.as_deref().unwrap_or(configuration::DEFAULT_TARGET);
    let provider = targets.inspect(name, &Env::default()).ok()?.provider?;
    let kind = crate::model::ProviderKind::find(&provider)?;
    let vendor = Vendor::of_provider(kind.name).filter(|_| targets.is_keyless(name));
    Some(
        vendor.map_or_else(
            || format!("--provider {}", kind.name),
            |vendor| format!("--keyless {}", vendor.name()),
        ),
    )
}

/// The finding for a failed request; a network problem says nothing about the target.
fn refused(error: ApiError) -> Finding {
    let level = match &error {
        ApiError::BadAnswer { .. } => Level::Unknown,
        error if error.is_passing() => Level::Unknown,
        _ => Level::Error,
    };
    Finding::failure(level, &error.into_failure())
}

/// The same, but settings that the token may not read are only a note.
fn unread(what: &str, error: ApiError) -> Finding {
    if matches!(error.status(), Some(403 | 404)) {
        let text = format!("{what}: not checked, this token may not read it");
        return Finding::new(Level::Note, text).hint("run `run-evals doctor` with the token of an admin");
    }
    refused(error)
}
