//! The setup at the vendor of a runner repository without a stored key, ready to copy.

use std::fmt::Write as _;

use super::files;
use super::models::example;
use super::preflight::{RunnerPlan, Survey};
use crate::config::keyless::{self, Job, PLACEHOLDER};
use crate::github::Client;
use crate::model::{Exit, Failure, printable};

/// The vendor's part of the setup, in markdown; empty for a plan with a stored key.
pub(super) fn vendor_half(
    client: &Client,
    plan: &RunnerPlan,
    survey: &Survey,
) -> anyhow::Result<Option<String>> {
    let Some(keyless) = &plan.keyless else { return Ok(None) };
    let issuer = client.token_issuer();
    let info = survey.repository.as_ref();
    let job = Job {
        issuer: &issuer,
        repository: info.map_or(&plan.repo, |info| &info.full_name),
        // Before the repository exists, its id is unknown.
        owner_id: info.map_or("OWNER_ID".to_owned(), |info| info.owner.id.to_string()),
        repository_id: info.map_or("REPOSITORY_ID".to_owned(), |info| info.id.to_string()),
        has_immutable_subject: Job::is_immutable(info.and_then(|info| info.created_at)),
        default_branch: info.map_or("DEFAULT_BRANCH", |info| &info.default_branch),
    };
    check(&job)?;
    let mut half = keyless::vendor_half(keyless.vendor, &job);
    if let Some(project) = keyless.given("project") {
        half = half.replace("project=PROJECT", &format!("project={project}"));
        half = half.replace("@PROJECT.", &format!("@{project}."));
    }
    let example = example(plan.provider, &plan.model).ok();
    let entry = example.map(|model| files::targets(plan.provider, &model, Some(keyless)));
    let (before, rest) = half.split_once("```yaml\n").unwrap_or((&half, ""));
    let (yaml, after) = rest.split_once("```").unwrap_or((rest, ""));
    let mut text = format!(
        "\n# At the vendor: trust the jobs of `{}`\n\n{before}```yaml\n{}```{after}",
        job.repository,
        entry.as_deref().unwrap_or(yaml)
    );
    let other = Job { has_immutable_subject: !job.has_immutable_subject, ..job.clone() };
    let _ = write!(
        text,
        "\nThe job is known to the vendor by the subject `{}`, with `environment` = `{}`. A repository that was renamed or \
         transferred may have the other form, `{}`: `run-evals doctor --ping` prints the real one. Bind the whole subject, never \
         `repo:OWNER/*`.\n",
        job.subject(),
        keyless::ENVIRONMENT,
        other.subject()
    );
    if entry.is_some_and(|entry| entry.contains(PLACEHOLDER)) {
        let keys: Vec<String> = keyless
            .ids()
            .filter(|(_, value)| value.contains(PLACEHOLDER))
            .map(|(key, _)| format!("--id {key}=VALUE"))
            .collect();
        let mut command =
            vec![format!("run-evals init runner {} --keyless {}", plan.repo, keyless.vendor.name())];
        let settings = keyless.vendor.settings().iter().filter(|(_, example)| example.is_none());
        command.extend(settings.filter_map(|(key, _)| Some(format!("--id {key}={}", keyless.given(key)?))));
        command.extend(keys);
        let _ = write!(
            text,
            "\nThen write the ids that the vendor gave you into `targets.yaml`, in place of `{PLACEHOLDER}`:\n\n```sh\n{}\n```\n",
            command.join(" ")
        );
    }
    Ok(Some(text))
}

/// No part of a command to copy may be read as another command.
fn check(job: &Job<'_>) -> Result<(), Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if job.default_branch.chars().all(is_plain) && job.repository.chars().all(is_plain) {
        return Ok(());
    }
    let message = format!(
        "the default branch `{}` of `{}` has characters that are not safe in commands for the vendor",
        printable(job.default_branch),
        printable(job.repository)
    );
    Err(Failure::new(Exit::Config, message).hint("rename the branch: letters, digits, `-`, `_`, `.` and `/`"))
}
