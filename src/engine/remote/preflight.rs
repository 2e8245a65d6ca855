//! Everything that a dispatch would find out about a runner repository, asked without a batch.
//!
//! The questions and the answers are those of a dispatch, but it goes on after the first bad one. Nothing is started, pushed
//! or kept.

use super::check::{repository, visibility, workflow};
use crate::git::{Remote, may_push, retry};
use crate::github::{ApiError, Client, RepositoryInfo};
use crate::model::{Failure, Finding, Level, RemoteTarget, printable};
use crate::util::backoff;

/// Asks a runner repository for all that a dispatch needs.
pub async fn preflight(client: &Client, target: &RemoteTarget) -> Vec<Finding> {
    let mut findings = Vec::new();
    let info = match repository(client, target).await {
        Ok(info) => info,
        Err(error) => return vec![refused(error)],
    };
    let seen = if info.private { "private" } else { "public" };
    findings.push(Finding::ok(format!("the repository `{}` is there, {seen}", target.repo)));
    // With `--allow-public` a dispatch goes on.
    if let Err(failure) = visibility(&info, target, false) {
        findings.push(Finding::failure(Level::Warning, &failure));
    }
    match workflow(client, target, &info).await {
        Ok(found) => {
            let (file, git_ref) = (&target.workflow, printable(&found.git_ref));
            findings.push(Finding::ok(format!("the workflow `{file}` is there on `{git_ref}`, and active")));
            findings.push(match found.check_inputs(target) {
                Ok(()) => Finding::ok("the workflow takes every input of a dispatch"),
                Err(failure) => Finding::failure(Level::Error, &failure),
            });
            findings.push(match client.may_dispatch(&target.repo, file).await {
                Ok(()) => Finding::ok("the token may start runs"),
                Err(error) => refused(error),
            });
        }
        Err(error) => findings.push(refused(error)),
    }
    findings.push(push(client, target, &info).await);
    findings
}

/// Whether a batch that does not fit into the inputs can be handed over.
async fn push(client: &Client, target: &RemoteTarget, info: &RepositoryInfo) -> Finding {
    let token = match client.git_token(&target.repo).await {
        Ok(token) => token,
        Err(error) => return refused(error),
    };
    let remote = Remote::new(&info.clone_url, Some(token));
    let ask = move || retry(&remote, backoff::PREFLIGHT.attempts(), || may_push(&remote));
    let answer = tokio::task::spawn_blocking(ask).await;
    let error = match answer {
        Ok(Ok(())) => {
            return Finding::ok("the token may push, so that batches of any size can be handed over");
        }
        Ok(Err(error)) => error,
        Err(ended) => return Finding::new(Level::Unknown, ended.to_string()),
    };
    match error.downcast::<Failure>() {
        // What fits into the inputs needs no branch.
        Ok(failure) => {
            let mut finding = Finding::failure(Level::Warning, &failure);
            finding.text.insert_str(0, "a batch too large for the workflow's inputs cannot be handed over: ");
            finding
        }
        Err(error) => Finding::new(Level::Unknown, printable(&format!("{error:#}"))),
    }
}

/// What a refusal means for the target; trouble on the way means nothing.
fn refused(error: ApiError) -> Finding {
    let level = match &error {
        ApiError::BadAnswer { .. } => Level::Unknown,
        error if error.is_passing() => Level::Unknown,
        _ => Level::Error,
    };
    Finding::failure(level, &error.into_failure())
}
