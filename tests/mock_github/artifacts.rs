//! Artifacts, as the REST API lists and serves them.

use std::sync::Arc;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::{Value, json};

use crate::api::{Asked, Call, InRepo, Numbered};
use crate::auth::allow;
use crate::reply::{Refused, Reply, empty, found, ok, page};
use crate::results_service;
use crate::wire::What;
use crate::world::{Artifact, Repo, State as Everything, World, shown};

/// The routes.
pub(crate) fn routes() -> axum::Router<Arc<World>> {
    const ARTIFACTS: &str = "/repos/{owner}/{repo}/actions/artifacts";
    axum::Router::new()
        .route("/repos/{owner}/{repo}/actions/runs/{run}/artifacts", get(list_of_run))
        .route(ARTIFACTS, get(list))
        .route(&format!("{ARTIFACTS}/{{artifact}}"), get(one).delete(remove))
        .route(&format!("{ARTIFACTS}/{{artifact}}/{{format}}"), get(download))
}

async fn list_of_run(Call { world, asked }: Call, Path((owner, name, run)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    if !world.lock().runs.get(&run).is_some_and(|run| run.repo == repo.full_name() && run.is_visible()) {
        return Err(Refused::not_found());
    }
    Ok(listed(&world, &repo, Some(run), &asked))
}

async fn list(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    Ok(listed(&world, &repo, None, &asked))
}

fn listed(world: &World, repo: &Repo, run: Option<u64>, asked: &Asked) -> axum::response::Response {
    let state = world.lock();
    let wanted = asked.query.get("name");
    let is_here = |artifact: &&Artifact| {
        run.is_none_or(|run| artifact.run == run)
            && state.runs.get(&artifact.run).is_some_and(|run| run.repo == repo.full_name())
            && wanted.is_none_or(|name| artifact.name == name)
    };
    // Newest first.
    let all: Vec<Value> = state
        .artifacts
        .values()
        .rev()
        .filter(is_here)
        .map(|artifact| described(world, &state, repo, artifact))
        .collect();
    let (items, headers) = page(&all, &asked.query, &asked.url);
    let mut response = ok(&json!({ "total_count": all.len(), "artifacts": items }));
    response.headers_mut().extend(headers);
    response
}

fn find(world: &World, repo: &Repo, id: u64) -> Result<Artifact, Refused> {
    let state = world.lock();
    let artifact = state.artifacts.get(&id).ok_or_else(Refused::not_found)?;
    let is_here = state.runs.get(&artifact.run).is_some_and(|run| run.repo == repo.full_name());
    is_here.then(|| artifact.clone()).ok_or_else(Refused::not_found)
}

async fn one(Call { world, asked }: Call, Path((owner, name, id)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    let artifact = find(&world, &repo, id)?;
    let body = described(&world, &world.lock(), &repo, &artifact);
    Ok(ok(&body))
}

async fn remove(Call { world, asked }: Call, Path((owner, name, id)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "write")?;
    find(&world, &repo, id)?;
    world.lock().artifacts.remove(&id);
    Ok(empty(StatusCode::NO_CONTENT))
}

async fn download(
    Call { world, asked }: Call,
    Path((owner, name, id, format)): Path<(String, String, u64, String)>,
) -> Reply {
    // Without a token there is no download, not even from a public repository.
    if asked.caller.token.is_none() {
        return Err(Refused::new(401, "Requires authentication"));
    }
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    let artifact = find(&world, &repo, id)?;
    if format != "zip" {
        return Err(Refused::not_found());
    }
    let struck = world.lock().faults.strike(|what| expires(what, &artifact.name)).is_some();
    if struck || artifact.expires_at <= crate::world::now() {
        return Err(Refused::new(410, "Artifact has expired"));
    }
    Ok(found(&results_service::offer_blob(&world, &artifact.blob)))
}

fn expires(what: &What, artifact: &str) -> bool {
    matches!(what, What::ArtifactExpired { name } if artifact.starts_with(name.as_str()))
}

fn described(world: &World, state: &Everything, repo: &Repo, artifact: &Artifact) -> Value {
    let run = state.runs.get(&artifact.run);
    let url = format!("{}/repos/{}/actions/artifacts/{}", world.urls.api_url, repo.full_name(), artifact.id);
    let is_struck = state
        .faults
        .all()
        .iter()
        .any(|one| one.fault.times != Some(0) && expires(&one.fault.what, &artifact.name));
    json!({
        "id": artifact.id,
        "node_id": format!("MDg6QXJ0aWZhY3Q{}", artifact.id),
        "name": artifact.name,
        "size_in_bytes": artifact.size,
        "url": url,
        "archive_download_url": format!("{url}/zip"),
        "expired": is_struck || artifact.expires_at <= crate::world::now(),
        "digest": artifact.digest,
        "created_at": shown(artifact.created_at),
        "updated_at": shown(artifact.created_at),
        "expires_at": shown(artifact.expires_at),
        "workflow_run": run.map(|run| json!({
            "id": run.id,
            "repository_id": repo.id,
            "head_repository_id": repo.id,
            "head_branch": run.head_branch(),
            "head_sha": run.sha,
        })),
    })
}
