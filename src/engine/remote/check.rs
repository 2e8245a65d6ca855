//! Checks whether a runner repository can accept a dispatch, before anything is sent.

use super::batch_to_run::BatchToRun;
use super::{Dispatcher, PATIENCE};
use crate::config::WorkflowInputs;
use crate::exchange::Needs;
use crate::git::Remote;
use crate::github::{ApiError, Client, RepositoryInfo};
use crate::model::{Failure, RemoteResults, RemoteTarget, printable};
use crate::protocol::DISPATCH_INPUTS;

/// A runner repository that can accept a dispatch.
#[derive(Debug)]
pub struct RunnerRepo {
    pub(super) info: RepositoryInfo,
    /// The branch or tag to run.
    pub(super) git_ref: String,
}

impl Dispatcher {
    /// Checks that the repository exists, and that its workflow exists, is enabled, and accepts our inputs.
    pub async fn check(&self, target: &RemoteTarget) -> anyhow::Result<RunnerRepo> {
        let info = runner_repository(&self.client, target).await.map_err(ApiError::into_failure)?;
        let workflow = runner_workflow(&self.client, target, &info).await.map_err(ApiError::into_failure)?;
        workflow.check_inputs(target)?;
        Ok(RunnerRepo { info, git_ref: workflow.git_ref })
    }

    /// The content of a branch in a public repository is public, even after the branch is deleted.
    pub(super) fn check_visibility(
        &self,
        repo: &RunnerRepo,
        target: &RemoteTarget,
        branch_handover: bool,
    ) -> Result<(), Failure> {
        if self.allow_public {
            return Ok(());
        }
        visibility(&repo.info, target, branch_handover)
    }

    /// Checks that the branches of a batch can be created on the remote, and do not belong to another batch.
    pub(super) async fn check_branches(
        &self,
        remote: &Remote,
        wanted: &BatchToRun,
        handover: bool,
    ) -> anyhow::Result<()> {
        let needs = Needs { results: matches!(wanted.target.results, RemoteResults::Branch(_)), handover };
        if !needs.results && !needs.handover {
            return Ok(());
        }
        let (remote, id, digest) = (remote.clone(), wanted.id.clone(), wanted.sha256);
        self.with_exchange(move |exchange| exchange.check_remote(&remote, &id, digest, needs, PATIENCE)).await
    }
}

/// The workflow of a target, on the branch or tag to run.
#[derive(Debug)]
pub struct RunnerWorkflow {
    /// The branch or tag.
    pub git_ref: String,
    /// Its path in the repository.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The repository of a target, which must exist and not be archived.
pub async fn runner_repository(client: &Client, target: &RemoteTarget) -> Result<RepositoryInfo, ApiError> {
    let repo = &target.repo;
    let info = client.repository(repo).await?;
    if info.archived {
        let message = format!("`{repo}` is archived: no workflow runs there");
        let hint = "unarchive it in its settings, or set another `repo`";
        return Err(ApiError::Invalid(Failure::config(message).hint(hint)));
    }
    Ok(info)
}

/// The workflow of a target, which must exist and be enabled.
pub async fn runner_workflow(
    client: &Client,
    target: &RemoteTarget,
    info: &RepositoryInfo,
) -> Result<RunnerWorkflow, ApiError> {
    let (repo, workflow) = (&target.repo, &target.workflow);
    let found = client.workflow(repo, workflow).await?;
    if !found.is_enabled() {
        let message =
            format!("the workflow `{workflow}` of `{repo}` is not active: `{}`", printable(&found.state));
        let hint = format!("enable it: `gh workflow enable {workflow} --repo {repo}`");
        return Err(ApiError::Invalid(Failure::config(message).hint(hint)));
    }
    let git_ref = target.git_ref.clone().unwrap_or_else(|| info.default_branch.clone());
    let Some(text) = client.file(repo, &found.path, &git_ref).await? else {
        let message = format!("`{}` not found on `{git_ref}` of `{repo}`", printable(&found.path));
        let hint = format!(
            "`{git_ref}` must be a branch or a tag with the workflow on it; the default branch, `{}`, needs it as well",
            printable(&info.default_branch)
        );
        return Err(ApiError::Invalid(Failure::config(message).hint(hint)));
    };
    Ok(RunnerWorkflow { git_ref, path: found.path, text: String::from_utf8_lossy(&text).into_owned() })
}

impl RunnerWorkflow {
    /// Checks that it accepts the inputs of a dispatch.
    pub fn check_inputs(&self, target: &RemoteTarget) -> Result<(), Failure> {
        check_inputs(&self.text, &self.path, &target.repo)
    }
}

/// Refuses a public repository whose branches would contain private data.
pub fn visibility(
    info: &RepositoryInfo,
    target: &RemoteTarget,
    branch_handover: bool,
) -> Result<(), Failure> {
    const PROMPTS: &str = "choose another hand-over with `--handover`";
    const ANSWERS: &str = "keep the results off the branches with `results_artifact: true`";
    let (what, ways) = match (branch_handover, &target.results) {
        _ if info.private => return Ok(()),
        (true, RemoteResults::Branch(_)) => ("prompts and answers", format!("{PROMPTS} and {ANSWERS}")),
        (true, RemoteResults::Artifact) => ("prompts", PROMPTS.to_owned()),
        (false, RemoteResults::Branch(_)) => ("answers", ANSWERS.to_owned()),
        (false, RemoteResults::Artifact) => return Ok(()),
    };
    let message = format!("`{}` is public: everyone could read the {what} on its branches", target.repo);
    Err(Failure::config(message).hint(format!("make it private, {ways}, or pass `--allow-public`")))
}

fn check_inputs(text: &str, path: &str, repo: &str) -> Result<(), Failure> {
    const COPY: &str =
        "copy `workflows/run-evals.yml` of this version of run-evals to the runner repository again";
    let path = printable(path);
    let inputs = match WorkflowInputs::read(&format!("{repo}/{path}"), text) {
        Ok(Some(inputs)) => inputs,
        Ok(None) => {
            let message =
                format!("`{path}` of `{repo}` cannot be dispatched: it has no `workflow_dispatch` trigger");
            return Err(Failure::config(message).hint(COPY));
        }
        Err(invalid) => return Err(invalid.into()),
    };
    let listed = |names: Vec<&str>| format!("`{}`", names.join("`, `"));
    let missing: Vec<&str> = DISPATCH_INPUTS
        .into_iter()
        .filter(|name| !inputs.declared.iter().any(|known| known == name))
        .collect();
    if !missing.is_empty() {
        let message = format!("`{path}` of `{repo}` does not declare the inputs {}", listed(missing));
        return Err(Failure::config(message).hint(COPY));
    }
    let foreign: Vec<&str> =
        inputs.required.iter().map(String::as_str).filter(|name| !DISPATCH_INPUTS.contains(name)).collect();
    if !foreign.is_empty() {
        let message =
            format!("`{path}` of `{repo}` requires inputs that run-evals does not send: {}", listed(foreign));
        return Err(Failure::config(message).hint("give them a `default`, or remove them"));
    }
    Ok(())
}
