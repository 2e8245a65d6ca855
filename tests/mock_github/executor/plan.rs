//! The jobs of a workflow file: order, conditions and matrices.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::called::{self, Defined};
use super::matrix_job::{self, MatrixJob};
use crate::expression::{self, Context};
use crate::run::{Run, Stop};
use crate::world::{Repo, State, World};

/// GitHub's limit of jobs per matrix.
const MAX_MATRIX_JOBS: usize = 256;

/// Runs the jobs, each after the jobs it needs.
pub(super) async fn run(world: &Arc<World>, id: u64, only_failed: bool) -> Result<(), String> {
    let jobs = {
        let state = world.lock();
        let run = state.runs.get(&id).ok_or("the run is gone")?;
        let repo = state.repos.get(&run.repo.to_lowercase()).ok_or("the repository does not exist")?;
        called::expand(&run.workflow, &context(run, &repo.secrets), world.options.action.as_deref())?
    };
    // By key: the result, and whether it ran in this attempt.
    let mut done: BTreeMap<String, (&'static str, bool)> = BTreeMap::new();
    while done.len() < jobs.len() {
        let is_ready = |job: &&Defined| {
            !done.contains_key(&job.key) && job.needs.iter().all(|need| done.contains_key(need))
        };
        let ready: Vec<&Defined> = jobs.iter().filter(is_ready).collect();
        if ready.is_empty() {
            return Err("`needs:` leads in a circle or to nothing".to_owned());
        }
        let mut matrix_jobs: JoinSet<()> = JoinSet::new();
        let mut begun: Vec<(&str, bool)> = Vec::new();
        let mut skipped: Vec<&str> = Vec::new();
        for job in ready {
            let needed: Vec<(&'static str, bool)> =
                job.needs.iter().filter_map(|need| done.get(need).copied()).collect();
            let must = !only_failed || needed.iter().any(|(_, ran)| *ran);
            match planned(world, id, job, &needed, must)? {
                Planned::Skipped => skipped.push(&job.key),
                Planned::Jobs(all) => {
                    begun.push((&job.key, !all.is_empty()));
                    for matrix_job in all {
                        let world = Arc::clone(world);
                        matrix_jobs.spawn(async move { matrix_job::run(&world, matrix_job).await });
                    }
                }
            }
        }
        while matrix_jobs.join_next().await.is_some() {}
        for key in skipped {
            matrix_job::skip(world, id, key);
            done.insert(key.to_owned(), ("skipped", false));
        }
        for (key, ran) in begun {
            done.insert(key.to_owned(), (how_it_went(world, id, key), ran));
        }
    }
    Ok(())
}

enum Planned {
    Skipped,
    Jobs(Vec<MatrixJob>),
}

fn planned(
    world: &World,
    id: u64,
    defined: &Defined,
    needed: &[(&'static str, bool)],
    must: bool,
) -> Result<Planned, String> {
    let (key, job) = (defined.key.as_str(), &defined.definition);
    let mut state = world.lock();
    let repo = {
        let run = state.runs.get(&id).ok_or("the run is gone")?;
        state.repos.get(&run.repo.to_lowercase()).cloned().ok_or("the repository does not exist")?
    };
    let (mut context, attempt, earlier) = {
        let run = state.runs.get(&id).ok_or("the run is gone")?;
        let earlier: Vec<(String, Option<&'static str>)> = run
            .latest_jobs()
            .iter()
            .filter(|job| job.key == key)
            .map(|job| (job.name.clone(), job.conclusion))
            .collect();
        (context(run, &secrets_of(&state, &repo, job, run)?), run.attempt, earlier)
    };
    if let Some((inputs, secrets)) = &defined.given {
        context.values["inputs"] = inputs.clone();
        context.values["secrets"] = secrets.clone();
    }
    context.failed = needed.iter().any(|(how, _)| matches!(*how, "failure" | "timed_out"));
    context.cancelled = state.runs.get(&id).is_some_and(|run| *run.stop.borrow() != Stop::No);
    let is_skipped_before = needed.iter().any(|(how, _)| *how == "skipped");
    if !expression::holds(job["if"].as_str(), &context)? || is_skipped_before && job["if"].is_null() {
        return Ok(Planned::Skipped);
    }
    let combinations = matrix(&job["strategy"]["matrix"], &context)?;
    if combinations.len() > MAX_MATRIX_JOBS {
        return Err(format!("the matrix of `{key}` has {} matrix_jobs", combinations.len()));
    }
    let mut matrix_jobs = Vec::new();
    for (index, values) in combinations.into_iter().enumerate() {
        let name = job_name(defined, &values, &context)?;
        let had_success = earlier.iter().any(|(known, how)| *known == name && *how == Some("success"));
        if had_success && !must {
            continue;
        }
        let mut context = context.clone();
        context.values["matrix"] = Value::Object(values);
        let job_id = state.new_id();
        let matrix_job = MatrixJob { run: id, job: job_id, index, definition: job.clone(), context };
        if let Some(run) = state.runs.get_mut(&id) {
            run.jobs.push(matrix_job::queued(job_id, key, &name, attempt, job));
        }
        matrix_jobs.push(matrix_job);
    }
    drop(state);
    world.changed.notify_waiters();
    Ok(Planned::Jobs(matrix_jobs))
}

/// The secrets of a job: the repository's, and those of its environment if its branch may use it.
fn secrets_of(
    state: &State,
    repo: &Repo,
    job: &Value,
    run: &Run,
) -> Result<BTreeMap<String, String>, String> {
    let mut secrets = repo.organization_secrets.clone();
    secrets.extend(repo.secrets.clone());
    let name =
        job["environment"].as_str().or_else(|| job["environment"]["name"].as_str()).unwrap_or_default();
    let has_environments = !repo.private || state.plan_of(&repo.owner) != "free";
    let Some(environment) = repo.environments.get(name).filter(|_| has_environments) else {
        return Ok(secrets);
    };
    let branch = run.reference.trim_start_matches("refs/heads/");
    let allowed = match environment.custom_branch_policies {
        None => true,
        Some(true) => environment.branch_policies.iter().any(|pattern| pattern == branch),
        Some(false) => repo.protected_branches.iter().any(|protected| protected == branch),
    };
    if !allowed {
        return Err(format!(
            "Branch \"{branch}\" is not allowed to deploy to {name} due to environment protection rules."
        ));
    }
    secrets.extend(environment.secrets.clone());
    Ok(secrets)
}

/// The context for expressions of a job, without the matrix and the token.
fn context(run: &Run, secrets: &BTreeMap<String, String>) -> Context {
    let github = json!({
        "repository": run.repo,
        "repository_owner": run.repo.split('/').next(),
        "run_id": run.id.to_string(),
        "run_attempt": run.attempt.to_string(),
        "actor": run.actor,
        "ref": run.reference,
        "sha": run.sha,
        "event_name": "workflow_dispatch",
        "event": { "inputs": run.inputs },
    });
    Context {
        values: json!({ "inputs": run.inputs, "github": github, "secrets": secrets, "matrix": {}, "vars": {} }),
        cancelled: false,
        failed: false,
    }
}

/// All combinations of a matrix; one empty combination if there is none.
fn matrix(definition: &Value, context: &Context) -> Result<Vec<Map<String, Value>>, String> {
    let resolved = expression::interpolate_all(definition, context)?;
    let mut combinations = vec![Map::new()];
    for (name, values) in resolved.as_object().into_iter().flatten() {
        let values = values.as_array().ok_or_else(|| format!("`matrix.{name}` is not a list"))?;
        let extended = |combination: &Map<String, Value>, value: &Value| {
            let mut combination = combination.clone();
            combination.insert(name.clone(), value.clone());
            combination
        };
        combinations = combinations
            .iter()
            .flat_map(|combination| values.iter().map(move |value| extended(combination, value)))
            .collect();
    }
    Ok(combinations)
}

/// The job's name, with the values of its matrix.
fn job_name(job: &Defined, values: &Map<String, Value>, context: &Context) -> Result<String, String> {
    if let Some(template) = job.definition["name"].as_str() {
        let mut context = context.clone();
        context.values["matrix"] = Value::Object(values.clone());
        let name = expression::as_text(&expression::interpolate(template, &context)?);
        return Ok(format!("{}{name}", job.prefix));
    }
    let shown: Vec<String> = values.values().map(expression::as_text).collect();
    Ok(if shown.is_empty() { job.key.clone() } else { format!("{} ({})", job.key, shown.join(", ")) })
}

fn how_it_went(world: &World, id: u64, key: &str) -> &'static str {
    let state = world.lock();
    let jobs = state.runs.get(&id).map(Run::latest_jobs).unwrap_or_default();
    let conclusions: Vec<&str> =
        jobs.iter().filter(|job| job.key == key).filter_map(|job| job.conclusion).collect();
    ["timed_out", "cancelled", "failure"]
        .into_iter()
        .find(|how| conclusions.contains(how))
        .unwrap_or("success")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_the_product_of_its_lists() {
        let context = Context { values: json!({ "inputs": { "shards": "[0,2]" } }), ..Context::default() };
        let matrix_jobs =
            matrix(&json!({ "shard": "${{ fromJSON(inputs.shards) }}", "os": ["a", "b"] }), &context)
                .unwrap();
        let job = Defined {
            key: "run".into(),
            definition: json!({}),
            needs: Vec::new(),
            prefix: String::new(),
            given: None,
        };
        let shown: Vec<String> =
            matrix_jobs.iter().map(|values| job_name(&job, values, &context).unwrap()).collect();
        assert_eq!(shown, ["run (0, a)", "run (0, b)", "run (2, a)", "run (2, b)"]);
        assert_eq!(matrix(&Value::Null, &context).unwrap().len(), 1);
        assert!(matrix(&json!({ "shard": "x" }), &context).is_err());
    }
}
