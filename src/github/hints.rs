//! Messages and hints for rejections by GitHub.

use super::error::{About, ApiError, ErrorBody, Refusal, TokenKind};
use crate::model::{Exit, Failure};

/// A repository permission: its name in GitHub's settings, its key in a workflow's `permissions:`, and the
/// level.
#[derive(Clone, Copy)]
struct Permission {
    name: &'static str,
    key: &'static str,
    level: &'static str,
}

const ACTIONS_READ: Permission = Permission { name: "Actions", key: "actions", level: "read" };
const ACTIONS_WRITE: Permission = Permission { name: "Actions", key: "actions", level: "write" };
const CONTENTS_READ: Permission = Permission { name: "Contents", key: "contents", level: "read" };
const COMMENTS_WRITE: Permission = Permission { name: "Pull requests", key: "pull-requests", level: "write" };
const ISSUES_WRITE: Permission = Permission { name: "Issues", key: "issues", level: "write" };
const PULLS_READ: Permission = Permission { name: "Pull requests", key: "pull-requests", level: "read" };
const CONTENTS_WRITE: Permission = Permission { name: "Contents", key: "contents", level: "write" };
/// The key is empty where a job's token cannot have the permission.
const ADMINISTRATION: Permission = Permission { name: "Administration", key: "", level: "write" };
const ADMINISTRATION_READ: Permission = Permission { name: "Administration", key: "", level: "read" };
const ENVIRONMENTS: Permission = Permission { name: "Environments", key: "", level: "write" };
const SECRETS: Permission = Permission { name: "Secrets", key: "", level: "write" };
const METADATA_READ: Permission = Permission { name: "Metadata", key: "contents", level: "read" };

const OLD_WORKFLOW: &str =
    "the runner repo's workflow is older than this run-evals: copy `workflows/run-evals.yml` again";

const NOT_GITHUB: &str = "the response is not from GitHub's API: check `--github-api-url` (`https://<host>/api/v3` on GitHub \
                          Enterprise Server), `HTTPS_PROXY` and `NO_PROXY`";

/// What failed, and GitHub's response.
pub(super) fn message(refusal: &Refusal) -> String {
    let Refusal { status, said, .. } = refusal;
    let tried = tried(refusal);
    let code = status.as_u16();
    match said {
        ErrorBody::Message(text) => format!("cannot {tried}: GitHub returned {code}: {text}"),
        ErrorBody::Page => {
            format!("cannot {tried}: got {code} with a web page instead of a response of GitHub's API")
        }
        ErrorBody::Nothing => format!("cannot {tried}: GitHub returned {code}"),
    }
}

/// The error with its exit code and hint.
pub(super) fn failure(error: ApiError) -> Failure {
    let message = error.to_string();
    let (exit, hint) = match error {
        ApiError::Invalid(failure) => return failure,
        ApiError::Refused(refusal) => (exit(&refusal), hint(&refusal)),
        ApiError::Limited { .. } => (
            Exit::Failure,
            Some(
                "wait until then, or use a token with a larger limit: a GitHub App's own, or a person's instead of \
                 `GITHUB_TOKEN`"
                    .to_owned(),
            ),
        ),
        ApiError::Unreachable { host, cause, .. } => (Exit::Failure, Some(unreachable(&host, &cause))),
        ApiError::BadAnswer { host, .. } => (
            Exit::Failure,
            Some(format!("`{host}` may not be GitHub's API: check `--github-api-url` and the proxy variables")),
        ),
        ApiError::Store { host, .. } => {
            (Exit::Failure, Some(format!("GitHub stores such files at `{host}`: try again, and allow it in your proxy")))
        }
        ApiError::Expired { .. } => (
            Exit::Failure,
            Some("its retention has ended: dispatch the batch again, and keep the results on a branch (`results_branch`)"
.to_owned()),
        ),
        ApiError::Digest { .. } => {
            (Exit::Failure, Some("it was truncated or changed in transit: try again".to_owned()))
        }
        ApiError::TooLarge { .. } => (Exit::Failure, Some("run-evals never uploads files that large".to_owned())),
        ApiError::Write { .. } => {
            (Exit::Failure, Some("free some space or choose another directory".to_owned()))
        }
    };
    let failure = Failure::new(exit, message);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn tried(Refusal { about, repo, subject, .. }: &Refusal) -> String {
    match about {
        About::Repository => format!("read the repository `{repo}`"),
        About::Workflow => format!("read the workflow `{subject}` of `{repo}`"),
        About::File => format!("read `{subject}` of `{repo}`"),
        About::History => format!("read the commits `{subject}` of `{repo}`"),
        About::Pulls => format!("list the {subject} pull requests of `{repo}`"),
        About::Dispatch => format!("start the workflow `{subject}` of `{repo}`"),
        About::Runs => format!("list the runs of `{subject}` in `{repo}`"),
        About::Run => format!("read the run {subject} of `{repo}`"),
        About::Jobs => format!("list the jobs of the run {subject} of `{repo}`"),
        About::Log => format!("read the log of the job {subject} of `{repo}`"),
        About::Cancel => format!("cancel the run {subject} of `{repo}`"),
        About::Artifacts => format!("list the artifacts of the run {subject} of `{repo}`"),
        About::Download => format!("download the artifact `{subject}` of `{repo}`"),
        About::Comment => format!("comment on pull request {subject} of `{repo}`"),
        About::Issue => format!("report a failure in `{repo}`"),
        About::Pull => format!("open a pull request for `{subject}` in `{repo}`"),
        About::Label => format!("label pull request {subject} of `{repo}`"),
        About::AutoMerge => format!("enable auto-merge for pull request {subject} of `{repo}`"),
        About::Installation => format!("find the installation of the GitHub App {subject} in `{repo}`"),
        About::InstallationToken => format!("get a token of the GitHub App {subject} for `{repo}`"),
        About::Account => "read the account of the token".to_owned(),
        About::NewRepository => format!("create the repository `{repo}`"),
        About::NewFile => format!("add `{subject}` to `{repo}`"),
        About::Environment => format!("read the environment `{subject}` of `{repo}`"),
        About::NewEnvironment => format!("set up the environment `{subject}` of `{repo}`"),
        About::EnvironmentSecrets => format!("access the secrets of an environment of `{repo}`"),
        About::Secrets => format!("access the secrets of `{repo}`"),
        About::Rules => format!("read the branch rules of `{repo}`"),
        About::NewRule => format!("protect the default branch of `{repo}`"),
        About::ActionsSettings => format!("read the Actions settings of `{repo}`"),
    }
}

/// A configured name that GitHub does not know is a configuration error.
fn exit(refusal: &Refusal) -> Exit {
    let named = [About::Repository, About::Workflow, About::File, About::Dispatch, About::Installation]
        .contains(&refusal.about);
    match refusal.status.as_u16() {
        404 | 422 if named => Exit::Config,
        _ => Exit::Failure,
    }
}

fn hint(refusal: &Refusal) -> Option<String> {
    match refusal.status.as_u16() {
        ..500 if refusal.said == ErrorBody::Page => Some(NOT_GITHUB.to_owned()),
        401 => Some(unknown_token(refusal)),
        403 => Some(forbidden(refusal)),
        404 => Some(not_found(refusal)),
        422 => unprocessable(refusal),
        300..=399 => Some(
            "the URL redirects to another host: fix `--github-api-url` or the repository's name".to_owned(),
        ),
        500.. => Some("GitHub failed: see https://www.githubstatus.com and try again".to_owned()),
        _ => None,
    }
}

fn unknown_token(refusal: &Refusal) -> String {
    match refusal.about {
        About::Installation | About::InstallationToken => {
            "check that `--app-id` and the key belong to the same GitHub App, and that this machine's clock is right"
                .to_owned()
        }
        _ => "the token is wrong, expired or revoked: create a new one; on GitHub Enterprise Server it must be a \
              token of that server"
            .to_owned(),
    }
}

fn forbidden(refusal: &Refusal) -> String {
    let said = refusal.said.text().to_lowercase();
    if said.contains("saml") || said.contains("single sign") {
        return "the organization requires single sign-on: authorize the token for it (Configure SSO in the token's \
                settings)"
            .to_owned();
    }
    if said.contains("ip address") || said.contains("ip allow list") {
        return "the organization has an IP allow list: run this from an allowed address, or add this one"
            .to_owned();
    }
    if said.contains("archived") {
        return "an archived repository runs no workflows: unarchive it or choose another".to_owned();
    }
    if said.contains("must have admin rights") && permission(refusal.about).key.is_empty() {
        return format!("an admin of `{}` must do this, or make you one", refusal.repo);
    }
    if said.contains("not permitted to create or approve pull requests") {
        return format!(
            "allow it in the settings of `{}` and of its owner (Actions, General, Workflow permissions: \"Allow GitHub Actions to \
             create and approve pull requests\"), or use the token of a GitHub App or of a user",
            refusal.repo
        );
    }
    if refusal.about == About::Comment && refusal.token == TokenKind::Job {
        return "add `pull-requests: write` to the `permissions:` of the workflow's job; the token of a pull request from a fork is \
                read-only, and the step summary has the same report"
            .to_owned();
    }
    if said.contains("suspended") {
        return "the installation of the GitHub App is suspended: an owner can resume it in its settings"
            .to_owned();
    }
    granting(refusal)
}

fn not_found(refusal: &Refusal) -> String {
    let Refusal { repo, subject, .. } = refusal;
    match refusal.about {
        About::Installation => {
            format!("install the GitHub App on `{repo}`: its settings, Install App, choose the repository")
        }
        About::Workflow | About::Dispatch => format!(
            "the file `.github/workflows/{subject}` must exist on the default branch of `{repo}` (copy \
             `workflows/run-evals.yml` there), and the token must see the repository: {}",
            granting(refusal)
        ),
        About::Repository => {
            format!(
                "check the name; GitHub also returns this for anything that the token may not see: {}",
                granting(refusal)
            )
        }
        About::Run | About::Jobs | About::Log | About::Cancel | About::Runs => {
            "it was deleted, or belongs to another repository".to_owned()
        }
        About::Comment => {
            format!(
                "check `--repo` and `--pr`; GitHub also returns this for anything that the token may not see: {}",
                granting(refusal)
            )
        }
        About::NewRepository => format!(
            "`{}` must be your own login or an organization that lets you create repositories: {}",
            repo.split('/').next().unwrap_or_default(),
            granting(refusal)
        ),
        About::NewFile if subject.starts_with(".github/workflows/") => format!(
            "to add a workflow, a classic token needs the scope `workflow` too (`gh auth refresh --scopes workflow`): {}",
            granting(refusal)
        ),
        About::NewFile => {
            format!(
                "the branch or the repository does not exist, or the token may not write: {}",
                granting(refusal)
            )
        }
        About::History => format!(
            "check the commit; GitHub also returns this for anything that the token may not see: {}",
            granting(refusal)
        ),
        About::Issue => {
            format!("check the name, and allow issues in the settings of `{repo}`: {}", granting(refusal))
        }
        About::File
        | About::Artifacts
        | About::Download
        | About::Pull
        | About::Pulls
        | About::Label
        | About::AutoMerge
        | About::InstallationToken
        | About::Account
        | About::Environment
        | About::NewEnvironment
        | About::EnvironmentSecrets
        | About::Secrets
        | About::Rules
        | About::NewRule
        | About::ActionsSettings => {
            format!("it does not exist, or the token may not see it: {}", granting(refusal))
        }
    }
}

/// A 422 explains itself only in its message.
fn unprocessable(refusal: &Refusal) -> Option<String> {
    let said = refusal.said.text().to_lowercase();
    let Refusal { repo, subject, .. } = refusal;
    let says = |text: &str| said.contains(text);
    Some(if says("no ref found") {
        format!("`ref` must be a branch or a tag of `{repo}`; a commit's SHA is not accepted")
    } else if says("workflow_dispatch' trigger") || says("workflow_dispatch trigger") {
        format!(
            "`.github/workflows/{subject}` has no `on: workflow_dispatch` at that `ref`: copy `workflows/run-evals.yml` \
             there, or correct `workflow` or `ref` of the target"
        )
    } else if says("disabled workflow") {
        format!(
            "enable it on the Actions page of `{repo}`, or with `gh workflow enable {subject} --repo {repo}`"
        )
    } else if says("unexpected inputs") || says("required input") || says("list of allowed values") {
        OLD_WORKFLOW.to_owned()
    } else if says("you may only define up to") {
        format!(
            "`.github/workflows/{subject}` declares too many inputs: copy `workflows/run-evals.yml` again"
        )
    } else if refusal.about == About::Dispatch
        && ["too large", "too long", "maximum", "65535", "65,535"].into_iter().any(says)
    {
        "the inputs of a workflow are limited to 65,535 characters: use `--handover branch` or `--handover artifact`"
            .to_owned()
    } else if refusal.about == About::Dispatch {
        format!(
            "open `.github/workflows/{subject}` of `{repo}` on GitHub: its page shows what is wrong with the file"
        )
    } else {
        return None;
    })
}

/// How to grant the permission to this kind of token.
fn granting(refusal: &Refusal) -> String {
    let Refusal { repo, about, .. } = refusal;
    let needed = permission(*about);
    let Permission { name, key, level } = needed;
    let named = match &refusal.permissions {
        // GitHub's own list is more precise.
        Some(permissions) => format!("`{permissions}`"),
        None => format!("`{name}: {level}`"),
    };
    let fine =
        format!("a fine-grained token needs access to `{repo}` with the repository permission {named}");
    let classic =
        format!("a classic token needs the scope `repo`, and its owner must have {level} access to `{repo}`");
    let job = if key.is_empty() {
        "a job's `GITHUB_TOKEN` cannot do this: use a user's token or a GitHub App".to_owned()
    } else {
        job_granting(key, level)
    };
    let app = format!(
        "a GitHub App needs the repository permission {named} (accepted by the owner of `{repo}`), with `{repo}` among its \
         installation's repositories"
    );
    match refusal.token {
        TokenKind::FineGrained => fine,
        TokenKind::Classic => classic,
        TokenKind::Job => job,
        TokenKind::App => app,
        TokenKind::Unknown => [fine, classic, job, app].join("; "),
    }
}

fn job_granting(key: &str, level: &str) -> String {
    format!(
        "a job's `GITHUB_TOKEN` needs `permissions: {key}: {level}` and reaches only its own repository; for another one \
         use a fine-grained token or a GitHub App"
    )
}

fn permission(about: About) -> Permission {
    match about {
        About::Dispatch | About::Cancel => ACTIONS_WRITE,
        About::Issue => ISSUES_WRITE,
        About::Comment | About::Pull | About::Label | About::AutoMerge => COMMENTS_WRITE,
        About::File | About::History => CONTENTS_READ,
        About::NewFile => CONTENTS_WRITE,
        About::NewRepository | About::NewEnvironment | About::NewRule => ADMINISTRATION,
        About::ActionsSettings => ADMINISTRATION_READ,
        About::EnvironmentSecrets => ENVIRONMENTS,
        About::Secrets => SECRETS,
        About::Pulls => PULLS_READ,
        About::Repository
        | About::Installation
        | About::InstallationToken
        | About::Account
        | About::Rules => METADATA_READ,
        About::Environment
        | About::Workflow
        | About::Runs
        | About::Run
        | About::Jobs
        | About::Log
        | About::Artifacts
        | About::Download => ACTIONS_READ,
    }
}

fn unreachable(host: &str, cause: &str) -> String {
    if cause.to_lowercase().contains("certificate") {
        return "a server with a private CA needs `SSL_CERT_FILE=<file with the CA certificate>`".to_owned();
    }
    format!("check the network, `HTTPS_PROXY` and `NO_PROXY`, and `--github-api-url` (now `{host}`)")
}
