//! The steps of `init runner`: each knows whether it is needed, its description, and its action.

use serde_json::{Value, json};

use super::files::{self, ENVIRONMENT, WORKFLOW_PATH};
use super::local_target::LocalTarget;
use super::models::example;
use super::preflight::{Keyless, RunnerPlan, Survey};
use crate::config::{Env, Policy, RunnerJob, TargetsFile};
use crate::github::{ApiError, Client, SecretPlace};
use crate::model::{Failure, Secret};
use crate::util::secrets::is_secret_name;

const RULESET: &str = "run-evals: default branch";
/// GitHub's id of the repository role `admin`.
const ADMIN_ROLE: u64 = 5;

/// One step.
#[derive(Debug)]
pub(super) struct Step {
    /// The description, such as ``secret `KEY` of the environment `run-evals` ``.
    pub(super) what: String,
    pub(super) action: Action,
}

/// The action of a step.
#[derive(Debug)]
pub(super) enum Action {
    /// Nothing: it exists.
    Keep,
    /// Left to the user.
    Leave,
    CreateFile {
        path: &'static str,
        content: String,
    },
    ReplaceFile {
        path: &'static str,
        content: String,
    },
    RestrictEnvironment,
    AllowBranch,
    SetSecret {
        name: String,
        in_environment: bool,
    },
    Protect,
    AddLocalTarget(LocalTarget),
}

impl Action {
    /// Its verbs, before and after.
    pub(super) fn verbs(&self) -> (&'static str, &'static str) {
        match self {
            Self::Keep | Self::AddLocalTarget(LocalTarget::There { .. }) => ("keep", "kept"),
            Self::Leave => ("leave", "left"),
            Self::CreateFile { .. } => ("add", "added"),
            Self::ReplaceFile { .. } => ("replace", "replaced"),
            Self::RestrictEnvironment => ("create", "created"),
            Self::AllowBranch => ("allow", "allowed"),
            Self::SetSecret { .. } => ("set", "set"),
            Self::Protect => ("protect", "protected"),
            Self::AddLocalTarget(LocalTarget::ByHand { .. }) => ("print", "add"),
            Self::AddLocalTarget(_) => ("write", "wrote"),
        }
    }
}

/// All steps after the repository itself.
pub(super) fn steps(plan: &RunnerPlan, survey: &Survey) -> anyhow::Result<Vec<Step>> {
    let branch = survey.repository.as_ref().map_or("the default branch", |info| &info.default_branch);
    // Only a new file needs a model.
    let (model, runner_target) = if let Some(targets) = &survey.targets {
        (None, runner_target(plan, targets))
    } else {
        let model = example(plan.provider, &plan.model)?;
        let target = model.target.clone();
        (Some(model), target)
    };
    let secret = secret_name(plan, survey, &runner_target);
    let keyless = plan.keyless.as_ref();
    let targets = model.as_ref().map(|model| files::targets(plan.provider, model, keyless));
    let is_keyless = keyless.is_some();
    let policy = survey.policy.is_none().then(|| files::policy(&senders(plan, survey), is_keyless));
    let mut steps = vec![
        workflow(plan, survey, secret.as_deref()),
        keyless.and_then(|keyless| filled(keyless, survey)).unwrap_or_else(|| file(TARGETS, targets)),
        file(survey.policy.unwrap_or(Policy::PATH), policy),
    ];
    if is_keyless {
        steps.extend(left_to_the_user(plan, survey, &runner_target));
    }
    if !survey.plan_limited {
        let what = format!("environment `{ENVIRONMENT}`, restricted to branches");
        let exists = survey.environment.is_some();
        steps.push(Step { what, action: if exists { Action::Keep } else { Action::RestrictEnvironment } });
        let what = format!("environment `{ENVIRONMENT}` for `{branch}` only");
        let allowed =
            survey.environment.as_ref().is_some_and(|branches| branches.iter().any(|known| known == branch));
        steps.push(Step { what, action: if allowed { Action::Keep } else { Action::AllowBranch } });
    }
    if let Some(name) = secret {
        let in_environment = !survey.plan_limited;
        let (known, place) = if in_environment {
            (&survey.environment_secrets, format!("of the environment `{ENVIRONMENT}`"))
        } else {
            (&survey.secrets, "of the repository".to_owned())
        };
        let what = format!("secret `{name}` {place}");
        // GitHub stores names in upper case.
        let exists = known.iter().any(|known| known.eq_ignore_ascii_case(&name));
        steps.push(if exists {
            Step { what, action: Action::Keep }
        } else if plan.no_secret {
            let option = if in_environment { format!(" --env {ENVIRONMENT}") } else { String::new() };
            let what = format!("{what} to you: `gh secret set {name}{option} -R {}`", plan.repo);
            Step { what, action: Action::Leave }
        } else {
            Step { what, action: Action::SetSecret { name, in_environment } }
        });
    }
    if !survey.plan_limited {
        let what =
            format!("branch `{branch}`: changes need a pull request and an approval, except by admins");
        steps.push(Step { what, action: if survey.is_protected { Action::Keep } else { Action::Protect } });
    }
    let local = LocalTarget::plan(plan.targets_file.as_deref(), &plan.target, &plan.repo, &runner_target)?;
    steps.push(local_step(plan, local));
    Ok(steps)
}

const TARGETS: &str = "targets.yaml";

/// The targets file with ids in place of placeholders.
fn filled(keyless: &Keyless, survey: &Survey) -> Option<Step> {
    survey.targets.as_ref()?;
    let content = files::fill(&survey.targets_text, keyless)?;
    let what = format!("file `{TARGETS}`: the ids in place of placeholders");
    Some(Step { what, action: Action::ReplaceFile { path: TARGETS, content } })
}

/// What a repository with existing files lacks for keyless calls.
fn left_to_the_user(plan: &RunnerPlan, survey: &Survey, runner_target: &str) -> Vec<Step> {
    let leave = |what: String| Step { what, action: Action::Leave };
    let mut steps = Vec::new();
    let job = survey.workflow.as_deref().and_then(|text| RunnerJob::read(WORKFLOW_PATH, text).ok().flatten());
    if job.is_some_and(|job| !job.may_request_identity) && !plan.update_workflow {
        steps.push(leave(format!(
            "`id-token: write` in `{WORKFLOW_PATH}` to you; with `--update-workflow` this command writes it"
        )));
    }
    if survey.targets.as_ref().is_some_and(|targets| !targets.is_keyless(runner_target)) {
        steps.push(leave(format!(
            "target with `auth` in `{TARGETS}` to you: `{runner_target}` has none; the entry is printed below"
        )));
    }
    if let Some(path) = survey.policy.filter(|_| !survey.policy_text.contains("keyless:")) {
        steps.push(leave(format!("line `keyless: required` in `{path}` to you: it refuses stored keys")));
    }
    steps
}

/// A new file, or an existing one.
fn file(path: &'static str, content: Option<String>) -> Step {
    let action = content.map_or(Action::Keep, |content| Action::CreateFile { path, content });
    Step { what: format!("file `{path}`"), action }
}

fn workflow(plan: &RunnerPlan, survey: &Survey, secret: Option<&str>) -> Step {
    let what = format!("file `{WORKFLOW_PATH}`");
    let known = survey.workflow.as_deref();
    let mut variables = known
        .and_then(|text| RunnerJob::read(WORKFLOW_PATH, text).ok().flatten())
        .map(|job| job.env)
        .unwrap_or_default();
    for name in secret.map(ToOwned::to_owned).into_iter().chain(needed_variables(plan, survey)) {
        if !variables.iter().any(|(known, _)| *known == name) {
            let expression = files::secret_expression(&name);
            variables.push((name, expression));
        }
    }
    let has_identity = known
        .and_then(|text| RunnerJob::read(WORKFLOW_PATH, text).ok().flatten())
        .is_some_and(|job| job.may_request_identity);
    let content = if plan.keyless.is_some() || has_identity {
        files::keyless_workflow(&variables)
    } else {
        files::workflow(&variables)
    };
    let action = match known {
        None => Action::CreateFile { path: WORKFLOW_PATH, content },
        Some(text) if plan.update_workflow && text != content => {
            Action::ReplaceFile { path: WORKFLOW_PATH, content }
        }
        Some(_) => Action::Keep,
    };
    Step { what, action }
}

fn local_step(plan: &RunnerPlan, local: LocalTarget) -> Step {
    let name = local.name(&plan.target);
    let what = match &local {
        LocalTarget::There { file, .. }
        | LocalTarget::Append { file, .. }
        | LocalTarget::New { file, .. } => {
            format!("target `{name}` in `{}` here", file.display())
        }
        LocalTarget::ByHand { file, entry } => {
            format!("this entry to `{}`, whose format does not allow appending:\n{entry}", file.display())
        }
    };
    Step { what, action: Action::AddLocalTarget(local) }
}

/// The allowed senders: the owner of the token and the given logins.
fn senders(plan: &RunnerPlan, survey: &Survey) -> Vec<String> {
    let mut senders: Vec<String> = survey.login().map(ToOwned::to_owned).into_iter().collect();
    for sender in &plan.senders {
        if !senders.iter().any(|known| known.eq_ignore_ascii_case(sender)) {
            senders.push(sender.clone());
        }
    }
    senders
}

/// The existing target of the runner that the dispatcher uses: one of the same provider, if any.
fn runner_target(plan: &RunnerPlan, targets: &TargetsFile) -> String {
    let env = Env::default();
    let of_provider = |name: &&str| {
        targets.inspect(name, &env).is_ok_and(|found| found.provider.as_deref() == Some(plan.provider.name))
    };
    let is_default = |name: &&str| *name == "default";
    let is_keyless = |name: &&str| plan.keyless.is_some() && targets.is_keyless(name);
    let keyless = targets.names().filter(of_provider).find(is_keyless);
    let chosen =
        keyless.or_else(|| targets.names().find(of_provider)).or_else(|| targets.names().find(is_default));
    chosen.or_else(|| targets.names().next()).unwrap_or("default").to_owned()
}

/// The secret that the chosen target needs.
fn secret_name(plan: &RunnerPlan, survey: &Survey, runner_target: &str) -> Option<String> {
    if plan.keyless.is_some() {
        return None;
    }
    let Some(targets) = &survey.targets else {
        return files::key_variable(plan.provider).map(ToOwned::to_owned);
    };
    let variables = targets.inspect(runner_target, &Env::default()).ok()?.variables;
    variables.into_iter().map(|variable| variable.name).find(|name| is_secret_name(name))
}

/// The variables that the targets of the runner refer to.
fn needed_variables(plan: &RunnerPlan, survey: &Survey) -> Vec<String> {
    match &survey.targets {
        Some(targets) => targets.secret_names().collect(),
        None if plan.keyless.is_some() => Vec::new(),
        None => files::key_variable(plan.provider).map(ToOwned::to_owned).into_iter().collect(),
    }
}

impl Step {
    /// Performs the step; `key` is the value of the secret.
    pub(super) async fn apply(
        &self,
        client: &Client,
        repo: &str,
        branch: &str,
        key: Option<&Secret>,
    ) -> anyhow::Result<()> {
        let done = match &self.action {
            Action::Keep | Action::Leave => Ok(()),
            Action::CreateFile { path, content } => {
                let message = format!("Add {path}");
                client.create_file(repo, branch, path, content, &message).await
            }
            Action::ReplaceFile { path, content } => {
                let message = format!("Update {path}");
                client.replace_file(repo, branch, path, content, &message).await
            }
            Action::RestrictEnvironment => client.restrict_environment(repo, ENVIRONMENT).await,
            Action::AllowBranch => client.allow_environment_branch(repo, ENVIRONMENT, branch).await,
            Action::SetSecret { name, in_environment } => {
                let place = if *in_environment {
                    SecretPlace::Environment(ENVIRONMENT)
                } else {
                    SecretPlace::Repository
                };
                match key {
                    Some(key) => client.put_secret(repo, place, name, key).await,
                    None => Err(ApiError::Invalid(Failure::config(format!("no value for `{name}`")))),
                }
            }
            Action::Protect => client.create_ruleset(repo, ruleset()).await,
            Action::AddLocalTarget(local) => return local.write(),
        };
        done.map_err(|error| error.into_failure().into())
    }
}

/// Writers can change the default branch, and so workflow, targets and policy, only with another person's approval.
fn ruleset() -> Value {
    json!({
        "name": RULESET,
        "target": "branch",
        "enforcement": "active",
        "bypass_actors": [{"actor_id": ADMIN_ROLE, "actor_type": "RepositoryRole", "bypass_mode": "always"}],
        "conditions": {"ref_name": {"include": ["~DEFAULT_BRANCH"], "exclude": []}},
        "rules": [
            {"type": "deletion"},
            {"type": "non_fast_forward"},
            {"type": "pull_request", "parameters": {
                "required_approving_review_count": 1,
                "dismiss_stale_reviews_on_push": true,
                "require_code_owner_review": false,
                "require_last_push_approval": true,
                "required_review_thread_resolution": false,
            }},
        ],
    })
}
