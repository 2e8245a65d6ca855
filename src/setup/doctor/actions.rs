//! Actions: enabled, and allowed to run this action in a version that exists.

use globset::Glob;

use super::{RepositoryCheck, refused, unread};
use crate::config::RunnerJob;
use crate::model::{Finding, Level, printable};

/// The action or reusable workflow of a step: `owner/name/path@ref`.
struct Uses<'a> {
    /// `owner/name`.
    repo: String,
    git_ref: &'a str,
    whole: &'a str,
}

impl<'a> Uses<'a> {
    /// `None` for a local action or an image.
    fn parse(text: &'a str) -> Option<Self> {
        let (path, git_ref) = text.split_once('@')?;
        let mut parts = path.split('/');
        let (owner, name) = (parts.next()?, parts.next()?);
        let is_remote = !owner.is_empty() && !owner.starts_with('.') && !owner.contains(':');
        is_remote.then(|| Self { repo: format!("{owner}/{name}"), git_ref, whole: text })
    }

    fn is_pinned(&self) -> bool {
        self.git_ref.len() == 40 && self.git_ref.bytes().all(|byte| byte.is_ascii_hexdigit())
    }
}

pub(super) async fn findings(patient: &RepositoryCheck<'_>, job: Option<&RunnerJob>) -> Vec<Finding> {
    let uses = job.and_then(|job| Uses::parse(&job.uses));
    let mut findings = settings(patient, uses.as_ref()).await;
    if let Some(uses) = &uses {
        findings.push(release(patient, uses).await);
    }
    findings
}

async fn settings(patient: &RepositoryCheck<'_>, uses: Option<&Uses<'_>>) -> Vec<Finding> {
    let repo = patient.repo();
    let permissions = match patient.client.actions_permissions(repo).await {
        Ok(permissions) => permissions,
        Err(error) => return vec![unread("settings of Actions", error)],
    };
    let error = |text: String, hint: String| vec![Finding::new(Level::Error, text).hint(hint)];
    let allow_all =
        format!("`gh api -X PUT repos/{repo}/actions/permissions -F enabled=true -f allowed_actions=all`");
    if !permissions.enabled {
        return error(format!("Actions are disabled in `{repo}`"), allow_all);
    }
    let Some(uses) = uses else { return vec![Finding::ok("Actions are enabled")] };
    let whole = printable(uses.whole);
    match permissions.allowed_actions.as_deref() {
        Some("local_only") => {
            return error(format!("`{repo}` allows only actions of its owner, not `{whole}`"), allow_all);
        }
        Some("selected") => {
            let patterns = match patient.client.allowed_action_patterns(repo).await {
                Ok(patterns) => patterns,
                Err(error) => return vec![unread("allowed actions", error)],
            };
            if !patterns.iter().any(|pattern| allows(pattern, uses.whole)) {
                let wanted = format!("{}@*", uses.repo);
                let all = patterns.iter().chain([&wanted]).map(|one| printable(one)).collect::<Vec<_>>();
                let all = all.join("' -f 'patterns_allowed[]=");
                let hint = format!(
                    "`gh api -X PUT repos/{repo}/actions/permissions/selected-actions -F github_owned_allowed=true -f 'patterns_allowed[]={all}'`"
                );
                return error(format!("`{repo}` does not allow the action `{whole}`"), hint);
            }
        }
        _ => {}
    }
    if permissions.sha_pinning_required && !uses.is_pinned() {
        let text =
            format!("`{repo}` requires actions that are pinned to a commit; the workflow uses `{whole}`");
        let hint = format!(
            "write the output of `gh api repos/{}/commits/{} --jq .sha` into the workflow, instead of `{}`",
            uses.repo,
            printable(uses.git_ref),
            printable(uses.git_ref)
        );
        return error(text, hint);
    }
    vec![Finding::ok(format!("Actions are enabled and allow `{whole}`"))]
}

fn allows(pattern: &str, action: &str) -> bool {
    // A pattern without a ref allows every ref.
    let versions = [pattern.to_owned(), format!("{pattern}@*")];
    versions
        .iter()
        .any(|pattern| Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(action)))
}

async fn release(patient: &RepositoryCheck<'_>, uses: &Uses<'_>) -> Finding {
    let (client, whole, action) = (patient.client, printable(uses.whole), &uses.repo);
    match client.has_release(patient.repo(), action, uses.git_ref).await {
        Ok(Some(true)) => Finding::ok(format!("the release `{whole}` exists")),
        Ok(Some(false)) => {
            let text = format!("the workflow uses `{whole}`, which does not exist");
            let hint = format!("`gh api repos/{action}/tags --jq '.[].name'` lists the versions");
            Finding::new(Level::Error, text).hint(hint)
        }
        Ok(None) if client.is_enterprise() => {
            let text = format!("`{action}` is not on this server: GitHub Connect must provide it");
            let hint =
                format!("without GitHub Connect, push a copy of https://github.com/{action} to this server");
            Finding::new(Level::Note, text).hint(hint)
        }
        Ok(None) => {
            let text = format!("the workflow uses `{whole}`, which this token cannot see");
            Finding::new(Level::Error, text).hint(format!("`gh repo view {action}` shows whether it exists"))
        }
        Err(error) => refused(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_allowed_actions() {
        let action = "agentv/run-evals@v1";
        for pattern in ["agentv/run-evals@v1", "agentv/run-evals@*", "agentv/*", "agentv/run-evals", "*/*"] {
            assert!(allows(pattern, action), "{pattern}");
        }
        for pattern in ["agentv/run-evals@other", "other/*", "", "["] {
            assert!(!allows(pattern, action), "{pattern}");
        }
        let called = Uses::parse("agentv/run-evals/.github/workflows/runner.yml@v1").unwrap();
        assert_eq!((called.repo.as_str(), called.git_ref), ("agentv/run-evals", "v1"));
        assert!(Uses::parse("./action").is_none() && Uses::parse("docker://ghcr.io/a/b@sha256:1").is_none());
    }
}
