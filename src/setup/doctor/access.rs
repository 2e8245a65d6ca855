//! The token: its scopes, the role of its owner, the permissions of an App.

use super::{RepositoryCheck, refused};
use crate::github::TokenKind;
use crate::model::{Finding, Level, printable};

/// The permissions for a dispatch, by their names in GitHub's settings.
const NEEDED: [(&str, &str); 2] = [("actions", "Actions"), ("contents", "Contents")];

pub(super) async fn findings(patient: &RepositoryCheck<'_>) -> Vec<Finding> {
    let repo = patient.repo();
    let mut findings = Vec::new();
    let login = patient.account.as_ref().map(|account| printable(&account.login));
    if patient.info.permissions.is_some_and(|permissions| !permissions.push) {
        let login = login.unwrap_or_else(|| "LOGIN".to_owned());
        let text = format!("`{login}` can only read `{repo}`: starting runs needs write access");
        let hint =
            format!("an admin runs `gh api -X PUT repos/{repo}/collaborators/{login} -f permission=push`");
        return vec![Finding::new(Level::Error, text).hint(hint)];
    }
    let scopes = patient.account.as_ref().and_then(|account| account.scopes.as_ref());
    match (patient.client.token_kind(), scopes) {
        (TokenKind::App, _) => findings.extend(app(patient).await),
        (_, Some(scopes)) if !scopes.iter().any(|scope| scope == "repo") => {
            let text = "the token lacks the scope `repo`: it cannot start runs";
            findings.push(Finding::new(Level::Error, text).hint("`gh auth refresh --scopes repo`"));
        }
        (_, Some(_)) => {
            let who = login.map(|login| format!(" of `{login}`")).unwrap_or_default();
            findings.push(Finding::ok(format!("the token{who} may start runs and push batches")));
        }
        (TokenKind::Job, None) => {
            findings.push(untold("a job's token", "`permissions: { actions: write, contents: write }`"));
        }
        (_, None) => findings.push(untold("a fine-grained token", "Actions and Contents: read and write")),
    }
    findings
}

/// GitHub does not report the permissions of some tokens.
fn untold(token: &str, needed: &str) -> Finding {
    let text = format!("GitHub does not report the permissions of {token}; it needs {needed}");
    Finding::new(Level::Note, text).hint("`run-evals doctor --ping` tests it")
}

async fn app(patient: &RepositoryCheck<'_>) -> Vec<Finding> {
    let repo = patient.repo();
    let permissions = match patient.client.installation_permissions(repo).await {
        Ok(permissions) => permissions.unwrap_or_default(),
        Err(error) => return vec![refused(error)],
    };
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(key, _)| permissions.get(*key).is_none_or(|level| level != "write"))
        .map(|(_, name)| *name)
        .collect();
    if missing.is_empty() {
        return vec![Finding::ok("the GitHub App may start runs and push batches")];
    }
    let text = format!("the GitHub App lacks {}: read and write, in `{repo}`", missing.join(" and "));
    let hint = "its owner grants it (App settings, Permissions), then the owner of the repository accepts it";
    vec![Finding::new(Level::Error, text).hint(hint)]
}
