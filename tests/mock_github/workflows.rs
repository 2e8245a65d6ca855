//! Workflows: look up, enable, disable and dispatch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post, put};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::api::{Asked, VERSIONS, json_body};
use crate::auth::allow;
use crate::executor;
use crate::expression::Context;
use crate::reply::{Refused, Reply, empty, ok, page};
use crate::run::{Run, Stop, html_url};
use crate::wire::What;
use crate::workflow_file;
use crate::world::{Repo, WorkflowState, World, random_uuid, shown};

const FOLDER: &str = ".github/workflows";

/// The routes.
pub(crate) fn routes() -> axum::Router<Arc<World>> {
    axum::Router::new()
        .route("/repos/{owner}/{repo}/actions/workflows", get(list))
        .route("/repos/{owner}/{repo}/actions/workflows/{workflow}", get(one))
        .route("/repos/{owner}/{repo}/actions/workflows/{workflow}/enable", put(enable))
        .route("/repos/{owner}/{repo}/actions/workflows/{workflow}/disable", put(disable))
        .route("/repos/{owner}/{repo}/actions/workflows/{workflow}/dispatches", post(dispatch))
}

type Parts = Path<(String, String, String)>;

async fn list(
    State(world): State<Arc<World>>,
    Path((owner, name)): Path<(String, String)>,
    Extension(asked): Extension<Asked>,
) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    let mut all = Vec::new();
    for (path, state) in known(&world, &repo).await {
        all.push(described(&world, &repo, &path, &state).await);
    }
    let (items, headers) = page(&all, &asked.query, &asked.url);
    let mut response = ok(&json!({ "total_count": all.len(), "workflows": items }));
    response.headers_mut().extend(headers);
    Ok(response)
}

async fn one(
    State(world): State<Arc<World>>,
    Path((owner, name, key)): Parts,
    Extension(asked): Extension<Asked>,
) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    let (path, state) = find(&world, &repo, &key).await?;
    Ok(ok(&described(&world, &repo, &path, &state).await))
}

async fn enable(
    State(world): State<Arc<World>>,
    Path((owner, name, key)): Parts,
    Extension(asked): Extension<Asked>,
) -> Reply {
    switch(&world, (&owner, &name, &key), &asked, "active").await
}

async fn disable(
    State(world): State<Arc<World>>,
    Path((owner, name, key)): Parts,
    Extension(asked): Extension<Asked>,
) -> Reply {
    switch(&world, (&owner, &name, &key), &asked, "disabled_manually").await
}

async fn switch(world: &World, (owner, name, key): (&str, &str, &str), asked: &Asked, to: &str) -> Reply {
    let repo = allow(world, &asked.caller, owner, name, "actions", "write")?;
    let (path, _) = find(world, &repo, key).await?;
    set_state(world, &repo.full_name(), &path, to);
    Ok(empty(StatusCode::NO_CONTENT))
}

/// Enables or disables a workflow.
pub(crate) fn set_state(world: &World, repo: &str, path: &str, to: &str) {
    if let Some(repo) = world.lock().repos.get_mut(&repo.to_lowercase())
        && let Some(workflow) = repo.workflows.get_mut(path)
    {
        to.clone_into(&mut workflow.state);
    }
}

async fn dispatch(
    State(world): State<Arc<World>>,
    Path((owner, name, key)): Parts,
    Extension(asked): Extension<Asked>,
) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "write")?;
    let (path, workflow_state) = find(&world, &repo, &key).await?;
    let body = json_body(&asked)?;
    let is_new_version = asked.version == VERSIONS[1];
    let is_old_server = world.lock().faults.strike(|what| matches!(what, What::OldGhes)).is_some();
    for name in body.as_object().into_iter().flat_map(|body| body.keys()) {
        let is_details = name == "return_run_details" && !is_old_server && !is_new_version;
        if !is_details && name != "ref" && name != "inputs" {
            return Err(Refused::new(422, format!("\"{name}\" is not a permitted key.")));
        }
    }
    let reference = body["ref"].as_str().unwrap_or_default();
    let no_reference = || Refused::new(422, format!("No ref found for: {reference}"));
    let sha =
        repo.bare.resolve(reference).await.filter(|_| !reference.is_empty()).ok_or_else(no_reference)?;
    if workflow_state.state != "active" {
        return Err(Refused::new(422, "Cannot trigger a 'workflow_dispatch' on a disabled workflow"));
    }
    // The file at that ref runs, although the one on the default branch decides whether the workflow exists.
    let content = repo.bare.file(&sha, &path).await.ok_or_else(Refused::not_found)?;
    let workflow = workflow_file::parse(&path, &content).map_err(|error| Refused::new(422, error))?;
    let inputs = workflow_file::inputs(&workflow, &body["inputs"])?;
    let run = create(
        &world,
        &repo,
        (&path, &workflow_state),
        workflow,
        inputs,
        (reference, &sha),
        &asked.caller.login(),
    )
    .map_err(|problem| Refused::new(422, problem))?;
    executor::start(&world, run);
    let gives_details = is_new_version || body["return_run_details"] == true;
    let is_silent = world.lock().faults.strike(|what| matches!(what, What::NoRunDetails)).is_some();
    if !gives_details || is_silent {
        return Ok(empty(StatusCode::NO_CONTENT));
    }
    let full_name = repo.full_name();
    Ok(ok(&json!({
        "workflow_run_id": run,
        "run_url": format!("{}/repos/{full_name}/actions/runs/{run}", world.urls.api_url),
        "html_url": html_url(&world, &full_name, run),
    })))
}

/// Creates the run, without starting it.
fn create(
    world: &World,
    repo: &Repo,
    (path, workflow_state): (&str, &WorkflowState),
    workflow: Value,
    inputs: BTreeMap<String, String>,
    (reference, sha): (&str, &str),
    actor: &str,
) -> Result<u64, String> {
    let full_name = repo.full_name();
    let context = Context {
        values: json!({ "inputs": inputs, "github": { "repository": full_name, "actor": actor, "event": { "inputs": inputs } } }),
        ..Context::default()
    };
    let title = workflow_file::title(&workflow, path, &context)?;
    let group = workflow_file::group(&workflow, &context)?;
    let reference =
        if reference.starts_with("refs/") { reference.to_owned() } else { format!("refs/heads/{reference}") };
    let now = crate::world::now();
    let mut state = world.lock();
    let faults = state.faults.strike_all(|what| {
        matches!(
            what,
            What::RunInvisible { .. }
                | What::SlowQueue { .. }
                | What::NeverStarts
                | What::StartupFailure
                | What::RunCancelled { .. }
                | What::RunTimesOut { .. }
                | What::JobKilled { .. }
        )
    });
    let invisible = faults.iter().find_map(|what| match what {
        What::RunInvisible { seconds } => Some(Duration::from_secs_f64(*seconds)),
        _ => None,
    });
    let id = state.new_id();
    let number = state
        .repos
        .get_mut(&full_name.to_lowercase())
        .and_then(|repo| repo.workflows.get_mut(path))
        .map_or(1, |workflow| {
            workflow.runs += 1;
            workflow.runs
        });
    let run = Run {
        id,
        repo: full_name,
        workflow_id: workflow_state.id,
        path: path.to_owned(),
        name: workflow_file::name(&workflow, path),
        title,
        number,
        attempt: 1,
        status: "queued",
        conclusion: None,
        reference,
        sha: sha.to_owned(),
        actor: actor.to_owned(),
        inputs,
        workflow,
        group,
        machine_at: Instant::now(),
        visible_at: Instant::now() + invisible.unwrap_or_default(),
        created_at: now,
        started_at: now,
        updated_at: now,
        faults,
        jobs: Vec::new(),
        backend_id: random_uuid(),
        stop: watch::Sender::new(Stop::No),
    };
    state.runs.insert(id, run);
    drop(state);
    world.changed.notify_waiters();
    Ok(id)
}

/// The workflow with this number or file name, if its file is on the default branch.
pub(crate) async fn find(world: &World, repo: &Repo, key: &str) -> Result<(String, WorkflowState), Refused> {
    let all = known(world, repo).await;
    let path = format!("{FOLDER}/{key}");
    let is_it = |(known, state): &(String, WorkflowState)| *known == path || key.parse() == Ok(state.id);
    all.into_iter().find(is_it).ok_or_else(Refused::not_found)
}

/// The workflows on the default branch.
async fn known(world: &World, repo: &Repo) -> Vec<(String, WorkflowState)> {
    let Some(commit) = repo.bare.resolve(&format!("heads/{}", repo.default_branch)).await else {
        return Vec::new();
    };
    let entries = repo.bare.list(&commit, FOLDER).await.unwrap_or_default();
    let mut state = world.lock();
    let mut result = Vec::new();
    for entry in entries.iter().filter(|entry| matches!(entry.name.rsplit('.').next(), Some("yml" | "yaml")))
    {
        let path = format!("{FOLDER}/{}", entry.name);
        let id = state.new_id();
        if let Some(repo) = state.repos.get_mut(&repo.full_name().to_lowercase()) {
            let fresh = || WorkflowState { id, state: "active".to_owned(), runs: 0 };
            result.push((path.clone(), repo.workflows.entry(path).or_insert_with(fresh).clone()));
        }
    }
    result
}

async fn described(world: &World, repo: &Repo, path: &str, state: &WorkflowState) -> Value {
    let full_name = repo.full_name();
    let content = match repo.bare.resolve(&format!("heads/{}", repo.default_branch)).await {
        Some(commit) => repo.bare.file(&commit, path).await.unwrap_or_default(),
        None => Vec::new(),
    };
    let file = path.rsplit('/').next().unwrap_or(path);
    json!({
        "id": state.id,
        "node_id": format!("W_{}", state.id),
        "name": workflow_file::parse(path, &content).map_or_else(|_| path.to_owned(), |file| workflow_file::name(&file, path)),
        "path": path,
        "state": state.state,
        "created_at": shown(repo.created_at),
        "updated_at": shown(repo.created_at),
        "url": format!("{}/repos/{full_name}/actions/workflows/{}", world.urls.api_url, state.id),
        "html_url": format!("{}/{full_name}/blob/{}/{path}", world.urls.server_url, repo.default_branch),
        "badge_url": format!("{}/{full_name}/workflows/{file}/badge.svg", world.urls.server_url),
    })
}
