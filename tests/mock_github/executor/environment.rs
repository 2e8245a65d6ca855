//! The environment of a matrix job: its directories, its tokens, its variables.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::matrix_job::MatrixJob;
use crate::expression::{self, Context};
use crate::results_service;
use crate::shapes;
use crate::wire::TokenKind;
use crate::workflow_file;
use crate::world::{Token, World, random_hex};

/// The machine of a matrix job.
pub(super) struct Machine {
    /// The context for expressions in steps.
    pub(super) context: Context,
    dir: PathBuf,
    token: String,
    base: BTreeMap<String, String>,
    secrets: Vec<String>,
}

/// The variables of a step, and the files that it may write.
pub(super) struct StepEnvironment {
    /// All variables.
    pub(super) variables: BTreeMap<String, String>,
    /// Values that the log must not show.
    pub(super) secrets: Vec<String>,
    /// The `with:` values, as the log shows them.
    pub(super) with: BTreeMap<String, String>,
    /// The names of the variables that `env:` sets.
    pub(super) own: Vec<String>,
    /// `GITHUB_WORKSPACE`.
    pub(super) workspace: PathBuf,
}

/// What is known of a matrix job before it has a machine.
pub(super) struct Facts {
    /// The event file's content.
    pub(super) event: Value,
    /// The variables of every step.
    pub(super) variables: BTreeMap<String, String>,
    secrets: Vec<String>,
}

impl Machine {
    /// Creates the directories, the tokens and the event file.
    pub(super) fn prepare(world: &World, matrix_job: &MatrixJob) -> Result<Self, String> {
        let dir = world.options.dir.join("machines").join(format!("{}-{}", matrix_job.run, matrix_job.job));
        for folder in ["workspace", "temp", "home", "file_commands"] {
            fs::create_dir_all(dir.join(folder))
                .map_err(|error| format!("cannot make a machine: {error}"))?;
        }
        let Facts { event, variables, secrets } = facts(world, matrix_job, &dir)?;
        fs::write(dir.join("event.json"), event.to_string())
            .map_err(|error| format!("cannot write the event: {error}"))?;
        let token = issue_token(world, matrix_job);
        let mut context = matrix_job.context.clone();
        context.values["github"]["token"] = Value::from(token.clone());
        context.values["secrets"]["GITHUB_TOKEN"] = Value::from(token.clone());
        Ok(Self { context, dir, token, base: variables, secrets })
    }

    /// Revokes the job's token.
    pub(super) fn revoke(&self, world: &World) {
        world.lock().tokens.remove(&self.token);
    }

    /// Deletes all its files.
    pub(super) fn lose(&self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Collects the facts about a matrix job; its files are in `dir`.
pub(super) fn facts(world: &World, matrix_job: &MatrixJob, dir: &Path) -> Result<Facts, String> {
    let state = world.lock();
    let run = state.runs.get(&matrix_job.run).ok_or("the run is gone")?;
    let job = run.jobs.iter().find(|job| job.id == matrix_job.job).ok_or("the job is gone")?;
    let repo = state.repos.get(&run.repo.to_lowercase()).ok_or("the repository does not exist")?.clone();
    let event = json!({
        "inputs": run.inputs,
        "ref": run.reference,
        "repository": shapes::full_repository(world, &repo),
        "sender": shapes::user(world, &run.actor),
        "workflow": run.path,
    });
    let (owner, reference) = (&repo.owner, run.reference.as_str());
    let path = |name: &str| dir.join(name).display().to_string();
    let urls = &world.urls;
    let graphql = format!("{}/graphql", urls.api_url.trim_end_matches("/v3"));
    let mut base: BTreeMap<String, String> = [
        ("GITHUB_ACTIONS", "true".to_owned()),
        ("CI", "true".to_owned()),
        ("GITHUB_EVENT_PATH", path("event.json")),
        ("GITHUB_EVENT_NAME", "workflow_dispatch".to_owned()),
        ("GITHUB_REPOSITORY", run.repo.clone()),
        ("GITHUB_REPOSITORY_ID", repo.id.to_string()),
        ("GITHUB_REPOSITORY_OWNER", owner.clone()),
        ("GITHUB_SERVER_URL", urls.server_url.clone()),
        ("GITHUB_API_URL", urls.api_url.clone()),
        ("GITHUB_GRAPHQL_URL", graphql),
        ("GITHUB_RUN_ID", run.id.to_string()),
        ("GITHUB_RUN_NUMBER", run.number.to_string()),
        ("GITHUB_RUN_ATTEMPT", run.attempt.to_string()),
        ("GITHUB_ACTOR", run.actor.clone()),
        ("GITHUB_TRIGGERING_ACTOR", run.actor.clone()),
        ("GITHUB_WORKFLOW", run.name.clone()),
        ("GITHUB_WORKFLOW_REF", format!("{}/{}@{reference}", run.repo, run.path)),
        ("GITHUB_JOB", job.key.rsplit(" / ").next().unwrap_or_default().to_owned()),
        ("GITHUB_REF", reference.to_owned()),
        ("GITHUB_REF_NAME", run.head_branch().to_owned()),
        ("GITHUB_REF_TYPE", if reference.starts_with("refs/tags/") { "tag" } else { "branch" }.to_owned()),
        ("GITHUB_SHA", run.sha.clone()),
        ("GITHUB_RETENTION_DAYS", "90".to_owned()),
        ("GITHUB_WORKSPACE", path("workspace")),
        ("RUNNER_TEMP", path("temp")),
        ("RUNNER_OS", "Linux".to_owned()),
        ("RUNNER_ARCH", "X64".to_owned()),
        ("HOME", path("home")),
        ("ACTIONS_RESULTS_URL", format!("{}/", urls.results_url)),
        ("ACTIONS_RUNTIME_URL", format!("{}/", urls.results_url)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    let (backend, job_backend) = (run.backend_id.clone(), job.backend_id.clone());
    let of_environments = repo.environments.values().flat_map(|environment| environment.secrets.values());
    let secrets: Vec<String> = repo.secrets.values().chain(of_environments).cloned().collect();
    drop(state);
    let runtime_token =
        results_service::runtime_token(world, matrix_job.run, &backend, matrix_job.job, &job_backend);
    base.insert("ACTIONS_RUNTIME_TOKEN".to_owned(), runtime_token);
    // The tests shorten the waits of runners, too.
    for name in ["PATH", "RUN_EVALS_CLOCK_FACTOR"] {
        base.extend(std::env::var(name).map(|value| (name.to_owned(), value)));
    }
    // A job without the permission has no identity.
    let has_identity = matrix_job.definition["permissions"]["id-token"] == "write";
    let is_given = |name: &str| has_identity || !name.starts_with("ACTIONS_ID_TOKEN_REQUEST_");
    base.extend(repo.machine_env.into_iter().filter(|(name, _)| is_given(name)));
    Ok(Facts { event, variables: base, secrets })
}

/// `GITHUB_TOKEN` with the permissions of the job in the workflow file.
pub(super) fn issue_token(world: &World, matrix_job: &MatrixJob) -> String {
    let token = format!("ghs_{}", random_hex(36));
    let mut state = world.lock();
    let Some(run) = state.runs.get(&matrix_job.run) else { return token };
    let declared = [&matrix_job.definition["permissions"], &run.workflow["permissions"]];
    let mut permissions: BTreeMap<String, String> = match declared.into_iter().find(|one| !one.is_null()) {
        Some(Value::Object(map)) => {
            map.iter().map(|(name, value)| (name.clone(), expression::as_text(value))).collect()
        }
        Some(Value::String(all)) => {
            let access = all.trim_end_matches("-all").to_owned();
            ["actions", "contents", "checks"]
                .into_iter()
                .map(|name| (name.to_owned(), access.clone()))
                .collect()
        }
        _ => BTreeMap::from([("contents".to_owned(), "read".to_owned())]),
    };
    permissions.insert("metadata".to_owned(), "read".to_owned());
    let grants = BTreeMap::from([(run.repo.to_lowercase(), permissions)]);
    let expires_at = Some(crate::world::now() + SignedDuration::from_hours(6));
    let login = "github-actions[bot]".to_owned();
    state.tokens.insert(
        token.clone(),
        Token {
            login,
            kind: TokenKind::Job,
            grants,
            scopes: Vec::new(),
            role: "write".to_owned(),
            expires_at,
        },
    );
    token
}

/// The variables of a step, as a container action gets them.
pub(super) fn of_step(
    world: &World,
    matrix_job: &MatrixJob,
    machine: &Machine,
    step: &Value,
    number: usize,
) -> Result<StepEnvironment, String> {
    let mut variables = machine.base.clone();
    for (name, file) in [
        ("GITHUB_OUTPUT", "output"),
        ("GITHUB_STEP_SUMMARY", "step_summary"),
        ("GITHUB_ENV", "env"),
        ("GITHUB_PATH", "path"),
        ("GITHUB_STATE", "state"),
    ] {
        let path = machine.dir.join("file_commands").join(format!("{file}_{number}"));
        fs::write(&path, "").map_err(|error| format!("cannot make a file: {error}"))?;
        variables.insert(name.to_owned(), path.display().to_string());
    }
    let workflow = world.lock().runs.get(&matrix_job.run).map(|run| run.workflow.clone()).unwrap_or_default();
    let mut own = Vec::new();
    for level in [&workflow["env"], &matrix_job.definition["env"], &step["env"]] {
        for (name, value) in level.as_object().into_iter().flatten() {
            let value = expression::as_text(&expression::interpolate_all(value, &machine.context)?);
            own.push(name.clone());
            variables.insert(name.clone(), value);
        }
    }
    // Inputs of other actions are not simulated.
    let is_ours = |action: &str| action.contains("run-evals") || action.starts_with("./");
    let with = if step["uses"].as_str().is_some_and(is_ours) {
        inputs(world, step, &machine.context)?
    } else {
        BTreeMap::new()
    };
    for (name, value) in &with {
        variables.insert(format!("INPUT_{}", name.replace(' ', "_").to_uppercase()), value.clone());
    }
    let mut secrets = machine.secrets.clone();
    secrets.push(machine.token.clone());
    secrets.extend(variables.get("ACTIONS_RUNTIME_TOKEN").cloned());
    Ok(StepEnvironment { variables, secrets, with, own, workspace: machine.dir.join("workspace") })
}

/// The inputs of the action: those of `with:`, and the others with the defaults of `action.yml`.
fn inputs(world: &World, step: &Value, context: &Context) -> Result<BTreeMap<String, String>, String> {
    let action = world.options.action.as_ref().map(|dir| dir.join("action.yml")).filter(|file| file.exists());
    let mut inputs = BTreeMap::from([("token".to_owned(), "${{ github.token }}".to_owned())]);
    if let Some(file) = action {
        let content = fs::read(&file).map_err(|error| format!("cannot read action.yml: {error}"))?;
        let action = workflow_file::parse("action.yml", &content)?;
        inputs = action["inputs"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, input)| (name.clone(), expression::as_text(&input["default"])))
            .collect();
        for name in step["with"].as_object().into_iter().flat_map(|with| with.keys()) {
            if !inputs.contains_key(name) {
                return Err(format!("`action.yml` has no input `{name}`"));
            }
        }
    }
    inputs.extend(
        step["with"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), expression::as_text(value))),
    );
    let resolved = inputs.into_iter().map(|(name, text)| {
        let value = expression::interpolate(&text, context)?;
        Ok((name, expression::as_text(&value)))
    });
    resolved.collect()
}

/// The log before a step: its name, its `with:` and its `env:`.
pub(super) fn announcement(name: &str, environment: &StepEnvironment) -> Vec<String> {
    let mut lines = vec![format!("##[group]{name}")];
    let mut block = |title: &str, entries: Vec<(&String, &String)>| {
        if !entries.is_empty() {
            lines.push(title.to_owned());
            lines.extend(entries.into_iter().map(|(name, value)| format!("  {name}: {value}")));
        }
    };
    block("with:", environment.with.iter().filter(|(_, value)| !value.is_empty()).collect());
    block(
        "env:",
        environment.own.iter().filter_map(|name| environment.variables.get_key_value(name)).collect(),
    );
    lines.push("##[endgroup]".to_owned());
    lines
}
