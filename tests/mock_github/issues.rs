//! Comments on pull requests, which are issues here as on GitHub.

use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::{get, patch};
use serde_json::{Value, json};

use crate::api::{Asked, json_body};
use crate::auth::allow;
use crate::reply::{Refused, Reply, json_response, ok, page};
use crate::shapes;
use crate::wire::CommentView;
use crate::world::{World, shown};

/// Every repository has the pull requests from 1 to this number.
const LAST_PULL_REQUEST: u64 = 9;
/// GitHub's limit.
const LONGEST_BODY: usize = 65_536;

type World_ = State<Arc<World>>;

/// The routes.
pub(crate) fn routes() -> axum::Router<Arc<World>> {
    axum::Router::new()
        .route("/repos/{owner}/{repo}/issues/{number}/comments", get(comments).post(new_comment))
        .route("/repos/{owner}/{repo}/issues/comments/{id}", patch(update_comment))
}

async fn comments(
    State(world): World_,
    Path((owner, name, number)): Path<(String, String, u64)>,
    Extension(asked): Extension<Asked>,
) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "pull_requests", "read")?.full_name();
    exists(number)?;
    let found: Vec<CommentView> = {
        let state = world.lock();
        let ours = |comment: &&CommentView| comment.repo == repo && comment.number == number;
        state.comments.iter().filter(ours).cloned().collect()
    };
    let (found, headers) = page(&found, &asked.query, &asked.url);
    let found: Vec<Value> = found.iter().map(|comment| shape(&world, comment)).collect();
    Ok((headers, ok(&Value::Array(found))).into_response())
}

async fn new_comment(
    State(world): World_,
    Path((owner, name, number)): Path<(String, String, u64)>,
    Extension(asked): Extension<Asked>,
) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "pull_requests", "write")?.full_name();
    exists(number)?;
    let body = body(&asked)?;
    let mut state = world.lock();
    let comment =
        CommentView { id: state.new_id(), repo, number, login: asked.caller.login(), body, updates: 0 };
    state.comments.push(comment.clone());
    drop(state);
    Ok(json_response(StatusCode::CREATED, &shape(&world, &comment)))
}

/// With write access, anyone's comment can be changed, as on GitHub.
async fn update_comment(
    State(world): World_,
    Path((owner, name, id)): Path<(String, String, u64)>,
    Extension(asked): Extension<Asked>,
) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "pull_requests", "write")?.full_name();
    let body = body(&asked)?;
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

fn body(asked: &Asked) -> Result<String, Refused> {
    let body = json_body(asked)?["body"].as_str().unwrap_or_default().to_owned();
    if body.chars().count() > LONGEST_BODY {
        return Err(Refused::new(422, "Validation Failed: body is too long (maximum is 65536 characters)"));
    }
    Ok(body)
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
