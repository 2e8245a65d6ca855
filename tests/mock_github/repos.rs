//! Repositories, their files and their refs.

use std::sync::Arc;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::{delete, get};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::api::{Call, InRepo, Named, json_body};
use crate::auth::allow;
use crate::git::Entry;
use crate::reply::{Refused, Reply, empty, json_response, ok};
use crate::shapes;
use crate::wire::TokenKind;
use crate::world::{Repo, World};

/// Larger files are served only raw.
const LARGEST_IN_JSON: usize = 1_000_000;

/// The routes.
pub(crate) fn routes() -> axum::Router<Arc<World>> {
    axum::Router::new()
        .route("/repos/{owner}/{repo}", get(repository))
        .route("/repos/{owner}/{repo}/contents/{*path}", get(contents).put(put_contents))
        .route("/repos/{owner}/{repo}/git/ref/{*reference}", get(reference))
        .route("/repos/{owner}/{repo}/git/matching-refs/{*prefix}", get(matching))
        .route("/repos/{owner}/{repo}/git/refs/{*reference}", delete(delete_reference))
}

async fn repository(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "metadata", "read")?;
    Ok(ok(&shapes::repository_for(&world, &repo, asked.caller.token.as_ref())))
}

async fn contents(Call { world, asked }: Call, Path((owner, name, path)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "contents", "read")?;
    let reference = asked.query.get("ref").filter(|text| !text.is_empty()).unwrap_or(&repo.default_branch);
    let no_commit = || Refused::new(404, format!("No commit found for the ref {reference}"));
    let commit = repo.bare.resolve_any(reference).await.ok_or_else(no_commit)?;
    let path = path.trim_matches('/');
    let Some(content) = repo.bare.file(&commit, path).await else {
        let entries = repo.bare.list(&commit, path).await.ok_or_else(Refused::not_found)?;
        let listed: Vec<Value> =
            entries.iter().map(|entry| listed(&world, &repo, reference, path, entry)).collect();
        return Ok(ok(&Value::Array(listed)));
    };
    let wants_raw = asked.accept.contains("vnd.github.raw") || asked.accept.contains("vnd.github.v3.raw");
    if wants_raw {
        return Ok(([(header::CONTENT_TYPE, "application/vnd.github.raw+json; charset=utf-8")], content)
            .into_response());
    }
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let entries = repo.bare.list(&commit, folder).await.unwrap_or_default();
    let entry = entries.iter().find(|entry| entry.name == file).ok_or_else(Refused::not_found)?;
    let mut result = listed(&world, &repo, reference, folder, entry);
    let is_small = content.len() <= LARGEST_IN_JSON;
    // In lines of 60 characters, as GitHub wraps them.
    let encoded = STANDARD.encode(&content);
    let lines: Vec<&str> =
        encoded.as_bytes().chunks(60).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    result["encoding"] = Value::from(if is_small { "base64" } else { "none" });
    result["content"] = Value::from(if is_small { lines.join("\n") + "\n" } else { String::new() });
    Ok(ok(&result))
}

/// Creates or replaces a file on a branch.
async fn put_contents(Call { world, asked }: Call, Path((owner, name, path)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "contents", "write")?;
    let token = asked.caller.token.as_ref().ok_or_else(|| Refused::new(401, "Requires authentication"))?;
    if path.starts_with(".github/workflows/") {
        let has_scope = token.scopes.iter().any(|scope| scope == "workflow");
        if token.kind != TokenKind::Classic {
            allow(&world, &asked.caller, &owner, &name, "workflows", "write")?;
        } else if !has_scope {
            return Err(Refused::not_found());
        }
    }
    let body = json_body(&asked)?;
    let branch = body["branch"].as_str().unwrap_or(&repo.default_branch);
    if branch == repo.default_branch && !repo.rulesets.is_empty() && token.role != "admin" {
        return Err(Refused::new(
            409,
            "Repository rule violations found\n\nChanges must be made through a pull request.\n\n",
        ));
    }
    let before = match repo.bare.resolve(&format!("heads/{branch}")).await {
        Some(commit) => repo.bare.file(&commit, &path).await,
        None => None,
    };
    if before.is_some() && body["sha"].is_null() {
        return Err(Refused::new(422, "Invalid request.\n\n\"sha\" wasn't supplied."));
    }
    let content = STANDARD.decode(body["content"].as_str().unwrap_or_default()).unwrap_or_default();
    let subject = body["message"].as_str().unwrap_or_default();
    let sha = repo.bare.commit(branch, &path, &content, subject).await?;
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", &path));
    let entries = repo.bare.list(&sha, folder).await.unwrap_or_default();
    let entry = entries.iter().find(|entry| entry.name == file).ok_or_else(Refused::not_found)?;
    let status = if before.is_some() { StatusCode::OK } else { StatusCode::CREATED };
    let commit = json!({ "sha": sha, "message": subject });
    Ok(json_response(
        status,
        &json!({ "content": listed(&world, &repo, branch, folder, entry), "commit": commit }),
    ))
}

/// An entry of a directory as GitHub shows it.
fn listed(world: &World, repo: &Repo, reference: &str, folder: &str, entry: &Entry) -> Value {
    let path = if folder.is_empty() { entry.name.clone() } else { format!("{folder}/{}", entry.name) };
    let api = format!("{}/repos/{}", world.urls.api_url, repo.full_name());
    let url = format!("{api}/contents/{path}?ref={reference}");
    let is_file = entry.kind == "blob";
    let git_url = format!("{api}/git/{}s/{}", entry.kind, entry.sha);
    let html_url =
        format!("{}/{}/{}/{reference}/{path}", world.urls.server_url, repo.full_name(), entry.kind);
    json!({
        "name": entry.name,
        "path": path,
        "sha": entry.sha,
        "size": entry.size,
        "url": url,
        "html_url": html_url,
        "git_url": git_url,
        "download_url": is_file.then(|| format!("{}/raw/{}/{reference}/{path}", world.urls.server_url, repo.full_name())),
        "type": if is_file { "file" } else { "dir" },
        "_links": { "self": url, "git": git_url, "html": html_url },
    })
}

async fn reference(Call { world, asked }: Call, Path((owner, name, reference)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "contents", "read")?;
    let full = format!("refs/{reference}");
    let all = repo.bare.references(&full).await;
    let found = all.iter().find(|(name, ..)| *name == full).ok_or_else(Refused::not_found)?;
    Ok(ok(&shown(&world, &repo, found)))
}

async fn matching(Call { world, asked }: Call, Path((owner, name, prefix)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "contents", "read")?;
    let all = repo.bare.references(&format!("refs/{prefix}")).await;
    Ok(ok(&all.iter().map(|found| shown(&world, &repo, found)).collect()))
}

async fn delete_reference(Call { world, asked }: Call, Path((owner, name, reference)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "contents", "write")?;
    let full = format!("refs/{reference}");
    if !repo.bare.references(&full).await.iter().any(|(name, ..)| *name == full) {
        return Err(Refused::new(422, "Reference does not exist"));
    }
    repo.bare.delete(&full).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

fn shown(world: &World, repo: &Repo, (name, sha, kind): &(String, String, String)) -> Value {
    let api = format!("{}/repos/{}/git", world.urls.api_url, repo.full_name());
    json!({
        "ref": name,
        "node_id": format!("REF_{name}"),
        "url": format!("{api}/{name}"),
        "object": { "type": kind, "sha": sha, "url": format!("{api}/{kind}s/{sha}") },
    })
}
