//! `provider: github-actions` → a runner repository.

use std::num::NonZeroU32;
use std::time::Duration;

use super::settings::{Settings, UnknownValue};
use super::values::{Legal, ref_name, repository};
use crate::config::NodeValue;
use crate::model::{RemoteResults, RemoteTarget, Shards};
use crate::protocol::MOST_SHARDS;
use crate::protocol::names::{HANDOVER_FOLDER, RESULTS_FOLDER, reserved_folder};

const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

/// Reads the settings of a runner repository.
pub(super) fn read(settings: &mut Settings<'_, '_>) -> Result<RemoteTarget, UnknownValue> {
    let repo = settings.parsed("repo", repository);
    let repo = settings.required("repo", repo, "add `repo: owner/name`, the repository that holds the keys");
    let workflow = settings.parsed("workflow", workflow_file);
    let workflow =
        settings.required("workflow", workflow, "add `workflow: run-evals.yml`, the workflow's file name");
    let git_ref = settings.parsed("ref", ref_name);
    let target = settings.text("target");
    let results = results(settings);
    let poll_interval = settings.duration("poll_interval");
    let timeout = settings.duration("timeout");
    let shards = shards(settings);
    Ok(RemoteTarget {
        name: settings.scope.target.to_owned(),
        repo: repo?,
        workflow: workflow?,
        git_ref: git_ref?,
        target: target?,
        results: results?,
        poll_interval: poll_interval?,
        timeout: timeout?.unwrap_or(DEFAULT_TIMEOUT),
        shards: shards?,
    })
}

fn workflow_file(text: &str) -> Result<String, Legal> {
    let stem = text.strip_suffix(".yml").or_else(|| text.strip_suffix(".yaml"));
    match stem {
        Some(stem) if !stem.is_empty() && !text.contains(['/', '\\', '?', '#', '%']) => Ok(text.to_owned()),
        _ => {
            let legal = Legal::from("the file name of a workflow, such as `run-evals.yml`");
            Err(match text.strip_prefix(".github/workflows/") {
                Some(name) if stem.is_some() => legal.hint(format!("write `{name}`")),
                _ => legal,
            })
        }
    }
}

fn results(settings: &mut Settings<'_, '_>) -> Result<RemoteResults, UnknownValue> {
    let branch_node = settings.node("results_branch");
    let branch = settings.parsed("results_branch", |text| match reserved_folder(text) {
        None => ref_name(text),
        Some(HANDOVER_FOLDER) => Err(Legal::from(format!(
            "another name, because `{HANDOVER_FOLDER}` is where batches are handed over"
        ))),
        Some(reserved) => {
            Err(Legal::from(format!("another name, because run-evals uses `{reserved}` itself")))
        }
    });
    let artifact = settings.flag("results_artifact");
    match (branch_node, artifact?) {
        (Some(node), Some(true)) => Err(settings.error(
            &node.span,
            "`results_branch` and `results_artifact: true` exclude each other",
            "keep one: a branch keeps an audit trail, artifacts leave no trace in the repository",
        )),
        (None, Some(true)) => Ok(RemoteResults::Artifact),
        _ => Ok(RemoteResults::Branch(branch?.unwrap_or_else(|| RESULTS_FOLDER.to_owned()))),
    }
}

fn shards(settings: &mut Settings<'_, '_>) -> Result<Shards, UnknownValue> {
    let legal = || Legal::from(format!("`auto` or a whole number from 1 to {MOST_SHARDS}"));
    let shards = settings.typed("shards", |value| match value {
        NodeValue::String(text) if text == "auto" => Ok(Shards::Auto),
        NodeValue::Int(number) => u32::try_from(*number)
            .ok()
            .and_then(NonZeroU32::new)
            .filter(|number| number.get() <= MOST_SHARDS)
            .map(Shards::Exactly)
            .ok_or_else(legal),
        _ => Err(legal()),
    });
    Ok(shards?.unwrap_or(Shards::Auto))
}
