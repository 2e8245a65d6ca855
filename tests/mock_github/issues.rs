//! Comments on pull requests, which are issues here as on GitHub.

use std::sync::Arc;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::{get, patch};
use serde_json::{Value, json};

use crate::api::{Call, Numbered, text};
use crate::auth::allow;
use crate::reply::{Refused, Reply, json_response, ok, paged};
use crate::shapes;
use crate::wire::CommentView;
use crate::world::{World, shown};

/// Every repository has the pull requests from 1 to this number.
const LAST_PULL_REQUEST: u64 = 9;

/// The routes.
pub(crate) fn routes() -> axum::Router<Arc<World>> {
    axum::Router::new()
        .route("/repos/{owner}/{repo}/issues/{number}/comments", get(comments).post(new_comment))
        .route("/repos/{owner}/{repo}/issues/comments/{id}", patch(update_comment))
}

async fn comments(Call { world, asked }: Call, Path((owner, name, number)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "pull_requests", "read")?.full_name();
    exists(number)?;
    let found: Vec<CommentView> = {
        let state = world.lock();
        let ours = |comment: &&CommentView| comment.repo == repo && comment.number == number;
        state.comments.iter().filter(ours).cloned().collect()
    };
    Ok(paged(&found, &asked, |comment| shape(&world, comment)))
}

async fn new_comment(Call { world, asked }: Call, Path((owner, name, number)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "pull_requests", "write")?.full_name();
    exists(number)?;
    let body = text(&asked, "body")?;
    let mut state = world.lock();
    let comment =
        CommentView { id: state.new_id(), repo, number, login: asked.caller.login(), body, updates: 0 };
    state.comments.push(comment.clone());
    drop(state);
    Ok(json_response(StatusCode::CREATED, &shape(&world, &comment)))
}

/// With write access, anyone's comment can be changed, as on GitHub.
async fn update_comment(Call { world, asked }: Call, Path((owner, name, id)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "pull_requests", "write")?.full_name();
    let body = text(&asked, "body")?;
    let mut state = world.lock();
    let comment = state
        .comments
        .iter_mut()
        .find(|comment| comment.id == id && comment.repo == repo)
        .ok_or_else(Refused::not_found)?;
    comment.body = body;
    comment.updates += 1;
    let comment = comment.clone();
    drop(state);
    Ok(ok(&shape(&world, &comment)))
}

fn exists(number: u64) -> Result<(), Refused> {
    if (1..=LAST_PULL_REQUEST).contains(&number) { Ok(()) } else { Err(Refused::not_found()) }
}

fn shape(world: &World, comment: &CommentView) -> Value {
    let CommentView { id, repo, number, login, body, .. } = comment;
    let api = format!("{}/repos/{repo}/issues", world.urls.api_url);
    let now = shown(crate::world::now());
    json!({
        "id": id,
        "node_id": format!("IC_{id}"),
        "url": format!("{api}/comments/{id}"),
        "html_url": format!("{}/{repo}/pull/{number}#issuecomment-{id}", world.urls.server_url),
        "issue_url": format!("{api}/{number}"),
        "body": body,
        "user": shapes::user(world, login),
        "created_at": now,
        "updated_at": now,
        "author_association": "NONE",
    })
}
