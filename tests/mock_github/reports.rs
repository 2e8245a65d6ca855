//! Issues, and comments on commits.

use std::sync::Arc;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::{get, patch};
use serde_json::{Value, json};

use crate::api::{Call, InRepo, Named, Numbered, json_body, text};
use crate::auth::allow;
use crate::reply::{Refused, Reply, json_response, ok, paged};
use crate::shapes;
use crate::wire::{CommitCommentView, IssueView};
use crate::world::{World, shown};

/// Lower numbers are the pull requests that every repository has.
const FIRST_NUMBER: u64 = 101;

/// The routes.
pub(crate) fn routes() -> axum::Router<Arc<World>> {
    axum::Router::new()
        .route("/repos/{owner}/{repo}/issues", get(issues).post(new_issue))
        .route("/repos/{owner}/{repo}/issues/{number}", get(issue).patch(update_issue))
        .route("/repos/{owner}/{repo}/commits/{reference}/comments", get(comments).post(new_comment))
        .route("/repos/{owner}/{repo}/comments/{id}", patch(update_comment))
}

async fn issues(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "issues", "read")?.full_name();
    let wanted = asked.query.get("state").unwrap_or("open");
    let creator = asked.query.get("creator");
    let found: Vec<IssueView> = {
        let state = world.lock();
        let is_meant = |issue: &&IssueView| {
            issue.repo == repo
                && (wanted == "all" || issue.state == wanted)
                && creator.is_none_or(|creator| issue.login == creator)
        };
        state.issues.iter().rev().filter(is_meant).cloned().collect()
    };
    Ok(paged(&found, &asked, |issue| issue_shape(&world, issue)))
}

async fn issue(Call { world, asked }: Call, Path((owner, name, number)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "issues", "read")?.full_name();
    let found =
        world.lock().issues.iter().find(|issue| issue.repo == repo && issue.number == number).cloned();
    Ok(ok(&issue_shape(&world, &found.ok_or_else(Refused::not_found)?)))
}

async fn new_issue(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "issues", "write")?.full_name();
    let (title, body) = (text(&asked, "title")?, text(&asked, "body")?);
    let mut state = world.lock();
    let number = FIRST_NUMBER + state.issues.iter().filter(|issue| issue.repo == repo).count() as u64;
    let issue = IssueView {
        id: state.new_id(),
        number,
        repo,
        login: asked.caller.login(),
        title,
        body,
        state: "open".to_owned(),
        updates: 0,
    };
    state.issues.push(issue.clone());
    drop(state);
    Ok(json_response(StatusCode::CREATED, &issue_shape(&world, &issue)))
}

async fn update_issue(Call { world, asked }: Call, Path((owner, name, number)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "issues", "write")?.full_name();
    let given = json_body(&asked)?;
    text(&asked, "body")?;
    let mut state = world.lock();
    let issue = state
        .issues
        .iter_mut()
        .find(|issue| issue.number == number && issue.repo == repo)
        .ok_or_else(Refused::not_found)?;
    let fields = [("title", &mut issue.title), ("body", &mut issue.body), ("state", &mut issue.state)];
    for (name, field) in fields {
        if let Some(text) = given[name].as_str() {
            text.clone_into(field);
        }
    }
    issue.updates += 1;
    let issue = issue.clone();
    drop(state);
    Ok(ok(&issue_shape(&world, &issue)))
}

async fn comments(Call { world, asked }: Call, Path((owner, name, sha)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "contents", "read")?.full_name();
    let found: Vec<CommitCommentView> = {
        let state = world.lock();
        let ours = |comment: &&CommitCommentView| comment.repo == repo && comment.commit == sha;
        state.commit_comments.iter().filter(ours).cloned().collect()
    };
    Ok(paged(&found, &asked, |comment| comment_shape(&world, comment)))
}

async fn new_comment(Call { world, asked }: Call, Path((owner, name, sha)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "contents", "write")?;
    let body = text(&asked, "body")?;
    if repo.bare.run(&["cat-file", "-e", &format!("{sha}^{{commit}}")], b"").await.is_err() {
        return Err(Refused::new(422, format!("No commit found for SHA: {sha}")));
    }
    let mut state = world.lock();
    let comment = CommitCommentView {
        id: state.new_id(),
        repo: repo.full_name(),
        commit: sha,
        login: asked.caller.login(),
        body,
        updates: 0,
    };
    state.commit_comments.push(comment.clone());
    drop(state);
    Ok(json_response(StatusCode::CREATED, &comment_shape(&world, &comment)))
}

async fn update_comment(Call { world, asked }: Call, Path((owner, name, id)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "contents", "write")?.full_name();
    let body = text(&asked, "body")?;
    let mut state = world.lock();
    let comment = state
        .commit_comments
        .iter_mut()
        .find(|comment| comment.id == id && comment.repo == repo)
        .ok_or_else(Refused::not_found)?;
    comment.body = body;
    comment.updates += 1;
    let comment = comment.clone();
    drop(state);
    Ok(ok(&comment_shape(&world, &comment)))
}

fn issue_shape(world: &World, issue: &IssueView) -> Value {
    let IssueView { id, number, repo, login, title, body, state, .. } = issue;
    let api = format!("{}/repos/{repo}", world.urls.api_url);
    let now = shown(crate::world::now());
    let url = format!("{api}/issues/{number}");
    json!({
        "id": id,
        "node_id": format!("I_{id}"),
        "number": number,
        "url": url,
        "repository_url": api,
        "labels_url": format!("{url}/labels{{/name}}"),
        "comments_url": format!("{url}/comments"),
        "events_url": format!("{url}/events"),
        "html_url": format!("{}/{repo}/issues/{number}", world.urls.server_url),
        "title": title,
        "body": body,
        "state": state,
        "user": shapes::user(world, login),
        "labels": [],
        "assignee": null,
        "assignees": [],
        "milestone": null,
        "locked": false,
        "comments": 0,
        "created_at": now,
        "updated_at": now,
        "closed_at": if state == "open" { Value::Null } else { json!(now) },
        "author_association": "NONE",
    })
}

fn comment_shape(world: &World, comment: &CommitCommentView) -> Value {
    let CommitCommentView { id, repo, commit, login, body, .. } = comment;
    let now = shown(crate::world::now());
    json!({
        "id": id,
        "node_id": format!("CC_{id}"),
        "url": format!("{}/repos/{repo}/comments/{id}", world.urls.api_url),
        "html_url": format!("{}/{repo}/commit/{commit}#commitcomment-{id}", world.urls.server_url),
        "path": null,
        "position": null,
        "line": null,
        "commit_id": commit,
        "user": shapes::user(world, login),
        "created_at": now,
        "updated_at": now,
        "body": body,
        "author_association": "NONE",
    })
}
