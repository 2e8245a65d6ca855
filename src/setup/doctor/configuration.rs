//! Checks the files of the runner repository, and whether every key that they refer to reaches the runner.

use std::path::{Path, PathBuf};

use super::{RepositoryCheck, refused, unread};
use crate::config::{Env, Policy, RunnerJob, TargetsFile};
use crate::github::{ApiError, Client, SecretPlace};
use crate::model::{Finding, Level, RemoteTarget, RunnerTarget, Target, printable};

/// The default `target` of a dispatcher's target.
pub(super) const DEFAULT_TARGET: &str = "default";

/// The cost of one small request.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// The model, if the target names one.
    pub model: Option<String>,
    /// The maximum in US dollars, if the price is known.
    pub at_most_usd: Option<f64>,
}

pub(super) async fn findings(
    patient: &RepositoryCheck<'_>,
    targets: Result<Option<TargetsFile>, ApiError>,
    job: Option<&RunnerJob>,
) -> Vec<Finding> {
    let repo = patient.repo();
    let mut findings = Vec::new();
    match targets {
        Err(ApiError::Invalid(failure)) => {
            let hint = format!("`gh browse -R {repo} targets.yaml` opens the file");
            findings.push(Finding::failure(Level::Error, &failure).hint(hint));
        }
        Err(error) => findings.push(refused(error)),
        Ok(None) => {
            let text = format!("`targets.yaml` not found on `{}` of `{repo}`", branch(patient));
            findings.push(Finding::new(Level::Error, text).hint(patient.init()));
        }
        Ok(Some(targets)) => findings.extend(target(patient, &targets, job).await),
    }
    findings
}

fn branch(patient: &RepositoryCheck<'_>) -> String {
    printable(&patient.info.default_branch)
}

async fn target(
    patient: &RepositoryCheck<'_>,
    targets: &TargetsFile,
    job: Option<&RunnerJob>,
) -> Vec<Finding> {
    let (repo, name) = (patient.repo(), patient.target.target.as_deref().unwrap_or(DEFAULT_TARGET));
    let mut findings = Vec::new();
    if !targets.names().any(|known| known == name) {
        let names: Vec<String> = targets.names().map(|name| format!("`{}`", printable(name))).collect();
        let text = format!(
            "`{}` names the target `{name}`, which `targets.yaml` of `{repo}` does not have",
            patient.target.name
        );
        let hint = format!("set `target` of `{}` here to one of {}", patient.target.name, names.join(", "));
        return vec![Finding::new(Level::Error, text).hint(hint)];
    }
    let inspection = match targets.inspect(name, &Env::default()) {
        Ok(inspection) => inspection,
        Err(failure) => return vec![Finding::failure(Level::Error, &failure)],
    };
    let variables: Vec<String> = inspection
        .variables
        .iter()
        .filter(|variable| !variable.has_default)
        .map(|variable| variable.name.clone())
        .collect();
    let Some(resolved) = resolve(targets, name, &variables) else {
        let found = inspection.findings.into_iter().filter(|finding| finding.level == Level::Error);
        let hint = format!("`gh browse -R {repo} targets.yaml` opens the file");
        return found
            .map(|finding| if finding.hint.is_none() { finding.hint(hint.clone()) } else { finding })
            .collect();
    };
    let model = resolved.params.model.as_deref().map(|model| format!(", model `{}`", printable(model)));
    let provider = inspection.provider.unwrap_or_default();
    findings.push(Finding::ok(format!(
        "`targets.yaml`: target `{name}`, provider `{}`{}",
        printable(&provider),
        model.unwrap_or_default()
    )));
    findings.extend(policy(patient, name, &resolved).await);
    if let Some(job) = job {
        if targets.is_keyless(name) {
            if !job.may_request_identity {
                let text = format!(
                    "the job of the workflow lacks `id-token: write`, which `auth` of `{name}` needs"
                );
                findings.push(Finding::new(Level::Error, text).hint(patient.update_workflow()));
            }
            findings.extend(unused_keys(patient, targets, job, name));
        }
        findings.extend(keys(patient, job, &variables).await);
    } else if !variables.is_empty() {
        let text =
            format!("the workflow has no step with `mode: run` that could get `{}`", variables.join("`, `"));
        findings.push(Finding::new(Level::Error, text).hint(patient.update_workflow()));
    }
    findings
}

/// The target, as far as it is known without its keys.
fn resolve(targets: &TargetsFile, name: &str, variables: &[String]) -> Option<RunnerTarget> {
    let mut env = Env::default();
    // A value that is legal for every reference: as a key and in a URL.
    env.set_where_unset(variables.iter().cloned(), "https://unset.invalid");
    let plain = targets
        .resolve_without_keys(name, &Env::default())
        .or_else(|| targets.resolve_without_keys(name, &env));
    match plain? {
        Target::Runner(target) => Some(*target),
        Target::Remote(_) => None,
    }
}

async fn policy(patient: &RepositoryCheck<'_>, name: &str, target: &RunnerTarget) -> Vec<Finding> {
    let (repo, client) = (patient.repo(), patient.client);
    let mut found = None;
    for path in Policy::PLACES {
        match client.file(repo, path, &patient.info.default_branch).await {
            Ok(Some(bytes)) => found = found.or(Some((path, bytes))),
            Ok(None) => {}
            Err(error) => return vec![refused(error)],
        }
    }
    let Some((path, bytes)) = found else {
        let text = format!("`{repo}` has no policy: everyone who can dispatch can spend without a limit");
        return vec![Finding::new(Level::Warning, text).hint(patient.init())];
    };
    let edit = format!("`gh browse -R {repo} {path}` opens the file");
    let policy = match Policy::parse(&PathBuf::from(format!("{repo}: {path}")), bytes) {
        Ok(policy) => policy,
        Err(failure) => return vec![Finding::failure(Level::Error, &failure).hint(edit)],
    };
    let model = target.params.model.as_deref();
    let sender = patient.account.as_ref().map_or(Ok(()), |account| policy.check_sender(&account.login));
    let checks = [
        sender,
        policy.check_batch(name, target, 1),
        model.map_or(Ok(()), |model| policy.check_model(model)),
    ];
    let failures: Vec<Finding> = checks
        .into_iter()
        .filter_map(Result::err)
        .map(|failure| {
            let hint = failure.hint_text().map(|hint| format!("{hint}; ")).unwrap_or_default();
            Finding::failure(Level::Error, &failure).hint(format!("{hint}{edit}"))
        })
        .collect();
    if failures.is_empty() { vec![Finding::ok(format!("`{path}` allows it"))] } else { failures }
}

/// The secrets that the workflow passes although the target needs none and no other one refers to them.
fn unused_keys(
    patient: &RepositoryCheck<'_>,
    targets: &TargetsFile,
    job: &RunnerJob,
    name: &str,
) -> Vec<Finding> {
    let inspect = |name| targets.inspect(name, &Env::default()).ok();
    let used: Vec<_> =
        targets.names().filter_map(inspect).flat_map(|inspection| inspection.variables).collect();
    let is_unused =
        |name: &str| !Env::is_identity(name) && !used.iter().any(|variable| variable.name == name);
    let secrets = job.env.iter().filter(|(variable, _)| is_unused(variable));
    secrets
        .filter_map(|(variable, expression)| Some((variable, secret_of(expression)?)))
        .filter(|(_, secret)| !Env::is_identity(secret))
        .map(|(variable, secret)| {
            let text =
                format!("the workflow passes the secret `{secret}`, and `auth` of `{name}` needs none");
            let option = environment_option(job);
            Finding::new(Level::Warning, text).hint(format!(
                "remove the line `{}` from it, then `gh secret delete {secret}{option} -R {}`",
                printable(variable),
                patient.repo()
            ))
        })
        .collect()
}

/// The option of `gh secret` for the job's environment.
fn environment_option(job: &RunnerJob) -> String {
    job.environment.as_ref().map(|name| format!(" --env {}", printable(name))).unwrap_or_default()
}

/// Checks whether the workflow passes each variable, and whether its secret exists.
async fn keys(patient: &RepositoryCheck<'_>, job: &RunnerJob, variables: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut referenced = Vec::new();
    for variable in variables {
        match job.variable(variable) {
            None => {
                let text = format!("the workflow does not pass `{variable}` to the runner");
                let hint = format!(
                    "{} adds the line `{variable}: ${{{{ secrets.{variable} }}}}` to `env:`",
                    patient.update_workflow()
                );
                findings.push(Finding::new(Level::Error, text).hint(hint));
            }
            Some(expression) => referenced.extend(secret_of(expression)),
        }
    }
    if referenced.is_empty() {
        return findings;
    }
    let (client, repo) = (patient.client, patient.repo());
    let of_environment = match &job.environment {
        Some(name) => match client.secret_names(repo, SecretPlace::Environment(name)).await {
            // A missing environment is reported elsewhere.
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            names => names,
        },
        None => Ok(Vec::new()),
    };
    let (of_environment, of_repository) =
        match (of_environment, client.secret_names(repo, SecretPlace::Repository).await) {
            (Ok(environment), Ok(repository)) => (environment, repository),
            (Err(error), _) | (_, Err(error)) => {
                findings.push(unread("names of the secrets", error));
                return findings;
            }
        };
    let of_organization = client.secret_names(repo, SecretPlace::Organization).await.unwrap_or_default();
    let option = environment_option(job);
    for name in referenced {
        let has = |names: &[String]| names.iter().any(|known| known.eq_ignore_ascii_case(&name));
        let set = format!("`gh secret set {name}{option} -R {repo}`");
        findings.push(if has(&of_environment) {
            Finding::ok(format!("secret `{name}` of the environment"))
        } else if has(&of_repository) {
            let text = format!("secret `{name}` is one of the repository: everyone who can push can read it");
            Finding::new(Level::Warning, text)
                .hint(format!("{set}, then `gh secret delete {name} -R {repo}`"))
        } else if has(&of_organization) {
            Finding::ok(format!("secret `{name}` of the organization"))
        } else {
            Finding::new(Level::Error, format!("no secret `{name}`")).hint(set)
        });
    }
    findings
}

/// The secret of `${{ secrets.NAME }}`.
fn secret_of(expression: &str) -> Option<String> {
    let (_, rest) = expression.split_once("secrets.")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(rest[..end].to_owned()).filter(|name| !name.is_empty())
}

/// The targets file of the runner repository.
pub(super) async fn fetch_targets(
    client: &Client,
    repo: &str,
    branch: &str,
) -> Result<Option<TargetsFile>, ApiError> {
    for path in TargetsFile::PLACES {
        if let Some(bytes) = client.file(repo, path, branch).await? {
            let shown_as = PathBuf::from(format!("{repo}: {path}"));
            let read = TargetsFile::parse(bytes, &shown_as, Path::new("")).map_err(ApiError::Invalid)?;
            return Ok(Some(read.0));
        }
    }
    Ok(None)
}

/// The cost of one request with this many bytes and output tokens, by the runner's own targets file.
pub async fn ping_costs(
    client: &Client,
    target: &RemoteTarget,
    bytes: usize,
    output: u32,
) -> Result<Costs, ApiError> {
    let info = client.repository(&target.repo).await?;
    let name = target.target.as_deref().unwrap_or(DEFAULT_TARGET);
    let targets = fetch_targets(client, &target.repo, &info.default_branch).await?;
    let runner = targets.and_then(|targets| match targets.resolve_without_keys(name, &Env::default())? {
        Target::Runner(target) => Some(target),
        Target::Remote(_) => None,
    });
    Ok(runner.map_or(Costs { model: None, at_most_usd: None }, |runner| Costs::of(&runner, bytes, output)))
}

impl Costs {
    /// The cost by the price of a target. A prompt has at most one token per byte.
    #[expect(clippy::cast_precision_loss, reason = "a prompt of a few bytes")]
    pub fn of(target: &RunnerTarget, bytes: usize, output: u32) -> Self {
        let price = target.price.map(|price| {
            (bytes as f64 * price.input_per_mtok + f64::from(output) * price.output_per_mtok) / 1e6
        });
        Self { model: target.params.model.clone(), at_most_usd: price }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_expressions() {
        assert_eq!(secret_of("${{ secrets.OPENAI_API_KEY }}").as_deref(), Some("OPENAI_API_KEY"));
        assert_eq!(secret_of("${{secrets.A||''}}").as_deref(), Some("A"));
        assert_eq!(secret_of("${{ vars.A }}"), None);
    }
}
