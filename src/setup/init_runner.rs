//! `init runner`: creates or completes a runner repository. Every step checks first, so a second run changes nothing, and a run
//! after an interruption completes the rest.

use std::fmt::Write as _;

use super::preflight::{RunnerPlan, Survey};
use super::steps::{Action, Step, steps};
use super::vendor_half::vendor_half;
use crate::console::prompt;
use crate::engine::Observer;
use crate::github::{ApiError, Client};
use crate::model::{Exit, Failure, Secret};

/// Sets up the repository, or returns the steps of a dry run. Without a stored key, the result also has the vendor's part of the setup.
pub async fn init_runner(
    client: &Client,
    plan: &RunnerPlan,
    observer: &dyn Observer,
) -> anyhow::Result<Option<String>> {
    let repo = plan.repo.as_str();
    let mut survey = Survey::read(client, plan).await?;
    survey.check_permissions(client, repo, "nothing was changed")?;
    check_senders(plan, &survey)?;
    let mut remaining = steps(plan, &survey)?;
    let half = vendor_half(client, plan, &survey)?;
    if plan.dry_run {
        return Ok(Some(dry_run(plan, &survey, &remaining) + &half.unwrap_or_default()));
    }
    check_plan(plan, &survey, observer)?;
    // Before anything is created, so that a wrong key or Ctrl-C leaves no trace.
    let key = read_key(&remaining, repo)?;
    if survey.repository.is_none() {
        let created = client.create_repository(repo, survey.login(), !plan.public).await;
        created.map_err(ApiError::into_failure)?;
        observer.note(&line("created", &repository(plan)));
        // Only an existing repository shows whether its plan supports environments and rules.
        survey = Survey::read(client, plan).await?;
        survey.check_permissions(client, repo, "only the repository was created")?;
        check_plan(plan, &survey, observer)?;
        remaining = steps(plan, &survey)?;
    } else {
        observer.note(&line("kept", &format!("repository `{repo}`")));
    }
    let branch = survey.repository.as_ref().map_or("main", |info| info.default_branch.as_str());
    for step in &remaining {
        if let Err(error) = step.apply(client, repo, branch, key.as_ref()).await {
            observer.note("run the same command again to complete the missing steps");
            return Err(error);
        }
        observer.note(&line(step.action.verbs().1, &step.what));
    }
    observer.note(&next(plan, &remaining));
    vendor_half(client, plan, &survey)
}

fn line(verb: &str, what: &str) -> String {
    format!("{verb:<10}{what}")
}

fn repository(plan: &RunnerPlan) -> String {
    format!("repository `{}`, {}", plan.repo, if plan.public { "public" } else { "private" })
}

/// Every step, with the content of the files.
fn dry_run(plan: &RunnerPlan, survey: &Survey, steps: &[Step]) -> String {
    let mut text = String::new();
    let (verb, what) = match &survey.repository {
        Some(_) => ("keep", format!("repository `{}`", plan.repo)),
        None => ("create", repository(plan)),
    };
    let _ = writeln!(text, "{}", line(verb, &what));
    for step in steps {
        let _ = writeln!(text, "{}", line(step.action.verbs().0, &step.what));
        if let Action::CreateFile { content, .. } | Action::ReplaceFile { content, .. } = &step.action {
            for line in content.lines() {
                let _ = writeln!(text, "{}", format!("            {line}").trim_end());
            }
        }
    }
    if survey.plan_limited {
        let _ = writeln!(text, "\n{}", plan_limit(plan));
    }
    text
}

/// A policy without senders would let everyone who can dispatch start runs.
fn check_senders(plan: &RunnerPlan, survey: &Survey) -> Result<(), Failure> {
    if survey.login().is_none() && plan.senders.is_empty() && survey.policy.is_none() {
        let message = "this token belongs to no user, so the policy would allow no sender";
        return Err(Failure::new(Exit::Usage, message)
            .hint("pass the users who may start runs with `--allow-sender LOGIN`"));
    }
    Ok(())
}

fn plan_limit(plan: &RunnerPlan) -> String {
    let repo = &plan.repo;
    format!(
        "GitHub Free has no environments and no branch rules in private repositories. The key becomes a secret of the repository: \
         everyone who can push to `{repo}` can read it and change the policy."
    )
}

/// Without environments, the user must accept a repository secret.
fn check_plan(plan: &RunnerPlan, survey: &Survey, observer: &dyn Observer) -> Result<(), Failure> {
    if !survey.plan_limited || plan.no_secret {
        return Ok(());
    }
    if let Some(keyless) = &plan.keyless {
        let message = format!(
            "GitHub Free has no environments in private repositories, so the vendor could not tell the jobs of the default branch \
             from others: everyone who can push to `{}` could spend",
            plan.repo
        );
        let hint = format!(
            "a paid plan or `--public` avoids it; `--provider {} --repository-secret` stores a key instead",
            keyless.vendor.provider()
        );
        return Err(Failure::new(Exit::Config, message).hint(hint));
    }
    let text = plan_limit(plan);
    if plan.repository_secret {
        observer.warning(&text);
        return Ok(());
    }
    if prompt::confirm(&format!("{text}\nUse a repository secret?")) {
        return Ok(());
    }
    Err(Failure::new(Exit::Config, text).hint(
        "`--repository-secret` accepts that; a paid plan or `--public` avoids it; `--no-secret` leaves the key to you",
    ))
}

/// The key, if a step sets it.
fn read_key(steps: &[Step], repo: &str) -> Result<Option<Secret>, Failure> {
    let named = steps.iter().find_map(|step| match &step.action {
        Action::SetSecret { name, .. } => Some(name),
        _ => None,
    });
    let Some(name) = named else { return Ok(None) };
    let secret = prompt::secret(&format!("{name} for `{repo}` (not shown): "))?;
    let usage = |message: String, hint: &str| Err(Failure::new(Exit::Usage, message).hint(hint));
    if secret.expose().is_empty() {
        let hint =
            "type it at the prompt or pipe it into this command; `--no-secret` leaves it to `gh secret set`";
        return usage(format!("no value for `{name}`"), hint);
    }
    if secret.expose().chars().any(char::is_control) {
        return usage(format!("the value for `{name}` has several lines"), "enter only the key");
    }
    Ok(Some(secret))
}

fn next(plan: &RunnerPlan, steps: &[Step]) -> String {
    let local = steps.iter().find_map(|step| match &step.action {
        Action::AddLocalTarget(local) => Some(local.name(&plan.target)),
        _ => None,
    });
    let target = local.unwrap_or(&plan.target);
    format!("\nnext: run-evals eval SUITE --target {target}\ncheck: run-evals doctor --target {target}")
}
