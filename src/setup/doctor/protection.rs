//! Checks who can reach the keys: the environment's branches and the rules of the default branch. Also checks the results branches.

use globset::GlobBuilder;

use super::{RepositoryCheck, refused, unread};
use crate::config::RunnerJob;
use crate::model::{Finding, Level, RemoteResults, printable};

/// Rules that prevent a job from pushing a results branch.
const BLOCKING: [&str; 7] = [
    "creation",
    "update",
    "required_signatures",
    "pull_request",
    "required_status_checks",
    "required_deployments",
    "merge_queue",
];
/// The folder of hand-over branches.
const BATCH_PREFIX: &str = "eval-batch";

pub(super) async fn findings(patient: &RepositoryCheck<'_>, job: Option<&RunnerJob>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(job) = job {
        if let Some(name) = &job.environment {
            findings.extend(environment(patient, name).await);
        } else {
            let text = "the job has no `environment:`: its keys are secrets that every branch can read";
            findings.push(Finding::new(Level::Warning, text).hint(patient.update_workflow()));
        }
    }
    findings.push(default_branch(patient).await);
    findings.extend(results(patient).await);
    findings
}

async fn environment(patient: &RepositoryCheck<'_>, name: &str) -> Vec<Finding> {
    let (client, repo) = (patient.client, patient.repo());
    let shown = printable(name);
    let found = match client.environment(repo, name).await {
        Ok(Some(found)) => found,
        Ok(None) => {
            let text = format!("no environment `{shown}`: GitHub would create it without restrictions");
            return vec![Finding::new(Level::Warning, text).hint(patient.init())];
        }
        Err(error) => return vec![unread("the environment", error)],
    };
    let mut findings = Vec::new();
    for rule in &found.protection_rules {
        let wait = match rule.kind.as_str() {
            "required_reviewers" => "an approval",
            "wait_timer" => "a timer",
            _ => continue,
        };
        let text = format!("every run waits for {wait} of the environment `{shown}`");
        let hint = format!("`gh browse -R {repo} --settings` opens the settings: Environments, {shown}");
        findings.push(Finding::new(Level::Warning, text).hint(hint));
    }
    let git_ref = patient.git_ref();
    let allow = |branch: &str| {
        format!(
            "`gh api -X POST repos/{repo}/environments/{shown}/deployment-branch-policies -f name={}`",
            printable(branch)
        )
    };
    match &found.deployment_branch_policy {
        None => {
            let text = format!("every branch can use the environment `{shown}`, and so read its keys");
            findings.push(Finding::new(Level::Warning, text).hint(patient.init()));
        }
        Some(policy) if policy.protected_branches => match client.is_protected(repo, git_ref).await {
            Ok(true) => {
                findings.push(Finding::ok(format!("environment `{shown}`, for protected branches only")));
            }
            Ok(false) => {
                let text = format!(
                    "the environment `{shown}` is for protected branches, and `{}` is not",
                    printable(git_ref)
                );
                findings.push(Finding::new(Level::Error, text).hint(patient.init()));
            }
            Err(error) => findings.push(unread("branch protection", error)),
        },
        Some(_) => match client.environment_branches(repo, name).await {
            Ok(branches) if branches.iter().any(|pattern| fits(pattern, git_ref)) => {
                findings.push(Finding::ok(format!(
                    "environment `{shown}`, for `{}` only",
                    branches.join("`, `")
                )));
            }
            Ok(_) => {
                let text = format!(
                    "`{}` may not use the environment `{shown}`: its jobs get no key",
                    printable(git_ref)
                );
                findings.push(Finding::new(Level::Error, text).hint(allow(git_ref)));
            }
            Err(error) => findings.push(unread("branches of the environment", error)),
        },
    }
    findings
}

/// Patterns of deployment branches: `*` does not match a slash.
fn fits(pattern: &str, branch: &str) -> bool {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    pattern == branch || glob.is_ok_and(|glob| glob.compile_matcher().is_match(branch))
}

async fn default_branch(patient: &RepositoryCheck<'_>) -> Finding {
    let (repo, branch) = (patient.repo(), patient.info.default_branch.as_str());
    match patient.client.is_protected(repo, branch).await {
        Ok(true) => Finding::ok(format!("branch `{}` is protected", printable(branch))),
        Ok(false) => {
            let text = format!(
                "branch `{}` is not protected: everyone who can push can change workflow, targets and policy",
                printable(branch)
            );
            Finding::new(Level::Warning, text).hint(patient.init())
        }
        Err(error) => unread("branch protection", error),
    }
}

/// Whether the branches of a batch can be created.
async fn results(patient: &RepositoryCheck<'_>) -> Vec<Finding> {
    let (client, repo) = (patient.client, patient.repo());
    let mut findings = Vec::new();
    let prefixes = match &patient.target.results {
        RemoteResults::Branch(prefix) => vec![prefix.as_str(), BATCH_PREFIX],
        RemoteResults::Artifact => vec![BATCH_PREFIX],
    };
    for prefix in prefixes {
        match client.has_branch(repo, prefix).await {
            Ok(true) => {
                let text = format!(
                    "the branch `{prefix}` is in the way: git cannot have `{prefix}/<batch-id>` beside it"
                );
                let hint = format!(
                    "`gh api -X POST repos/{repo}/branches/{prefix}/rename -f new_name={prefix}-old`"
                );
                findings.push(Finding::new(Level::Error, text).hint(hint));
            }
            Ok(false) => {}
            Err(error) => return vec![refused(error)],
        }
    }
    let RemoteResults::Branch(prefix) = &patient.target.results else { return findings };
    match client.branch_rules(repo, &format!("{prefix}/doctor")).await {
        Ok(rules) => {
            let blocking: Vec<String> = rules
                .iter()
                .filter(|rule| BLOCKING.contains(&rule.kind.as_str()))
                .map(|rule| format!("`{}`", rule.kind))
                .collect();
            if !blocking.is_empty() {
                let text =
                    format!("rules of `{repo}` keep results off `{prefix}/…`: {}", blocking.join(", "));
                let hint = format!(
                    "`gh ruleset list -R {repo}` shows them: exclude `{prefix}/**`, or set `results_artifact: true` in the target"
                );
                findings.push(Finding::new(Level::Error, text).hint(hint));
            } else if findings.is_empty() {
                findings.push(Finding::ok(format!("results can go to `{prefix}/<batch-id>`")));
            }
        }
        Err(error) => findings.push(unread("branch rules", error)),
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_deployment_branches() {
        assert!(fits("main", "main") && fits("release/*", "release/1") && fits("**/x", "a/b/x"));
        assert!(!fits("main", "maint") && !fits("*", "release/1") && !fits("[", "main"));
    }
}
