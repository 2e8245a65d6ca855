//! Pull requests, their labels, and the one GraphQL mutation that enables auto-merge.

use std::sync::Arc;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use serde_json::{Value, json};

use crate::api::{Call, InRepo, Numbered, json_body};
use crate::auth::{Caller, allow};
use crate::reply::{Refused, Reply, json_response, ok, page};
use crate::shapes;
use crate::wire::PullView;
use crate::world::{Repo, World, shown};

/// Lower numbers are the pull requests that every repository has, and the issues.
const FIRST_NUMBER: u64 = 1001;
/// GitHub's limit.
const LONGEST_BODY: usize = 65_536;

/// The routes.
pub(crate) fn routes() -> axum::Router<Arc<World>> {
    axum::Router::new()
        .route("/repos/{owner}/{repo}/pulls", get(pulls).post(new_pull))
        .route("/repos/{owner}/{repo}/pulls/{number}", get(pull).patch(update_pull))
        .route("/repos/{owner}/{repo}/issues/{number}/labels", post(add_labels))
}

async fn pulls(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "pull_requests", "read")?;
    let wanted = asked.query.get("state").unwrap_or("open");
    let head = asked.query.get("head").map(ToOwned::to_owned);
    let found: Vec<PullView> = {
        let state = world.lock();
        let is_meant = |pull: &&PullView| {
            let label = format!("{}:{}", repo.owner, pull.head);
            pull.repo == repo.full_name()
                && (wanted == "all" || pull.state == wanted)
                && head.as_ref().is_none_or(|head| *head == label)
        };
        // Newest first.
        state.pulls.iter().rev().filter(is_meant).cloned().collect()
    };
    let (found, headers) = page(&found, &asked.query, &asked.url);
    let mut shapes = Vec::new();
    for pull in &found {
        shapes.push(shape(&world, &repo, pull, false).await);
    }
    Ok((headers, ok(&Value::Array(shapes))).into_response())
}

async fn new_pull(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "pull_requests", "write")?;
    let body = json_body(&asked)?;
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let (head, base, title) = (text("head"), text("base"), text("title"));
    let head = head.strip_prefix(&format!("{}:", repo.owner)).unwrap_or(&head).to_owned();
    if text("body").chars().count() > LONGEST_BODY {
        return Err(Refused::new(422, "Validation Failed: body is too long (maximum is 65536 characters)"));
    }
    for (field, branch) in [("base", &base), ("head", &head)] {
        if repo.bare.resolve(&format!("heads/{branch}")).await.is_none() {
            return Err(Refused::new(422, format!("Validation Failed: {field} invalid")));
        }
    }
    let range = format!("refs/heads/{base}..refs/heads/{head}");
    if repo.bare.run(&["rev-list", "--count", &range], b"").await?.trim() == "0" {
        let message = format!("Validation Failed: No commits between {base} and {head}");
        return Err(Refused::new(422, message));
    }
    let new = PullView {
        id: 0,
        number: 0,
        repo: repo.full_name(),
        login: asked.caller.login(),
        head,
        base,
        title,
        body: text("body"),
        state: "open".to_owned(),
        labels: Vec::new(),
        auto_merge: None,
    };
    let pull = add(&world, &repo, new)?;
    Ok(json_response(StatusCode::CREATED, &shape(&world, &repo, &pull, true).await))
}

/// A branch has at most one open pull request.
fn add(world: &World, repo: &Repo, new: PullView) -> Result<PullView, Refused> {
    let mut state = world.lock();
    let is_twin = |pull: &PullView| pull.repo == new.repo && pull.head == new.head && pull.state == "open";
    if state.pulls.iter().any(is_twin) {
        let message =
            format!("Validation Failed: A pull request already exists for {}:{}.", repo.owner, new.head);
        return Err(Refused::new(422, message));
    }
    let (id, number) = (state.new_id(), FIRST_NUMBER + state.pulls.len() as u64);
    let pull = PullView { id, number, ..new };
    state.pulls.push(pull.clone());
    Ok(pull)
}

async fn pull(Call { world, asked }: Call, Path((owner, name, number)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "pull_requests", "read")?;
    let pull = find(&world, &repo, number)?;
    Ok(ok(&shape(&world, &repo, &pull, true).await))
}

async fn update_pull(Call { world, asked }: Call, Path((owner, name, number)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "pull_requests", "write")?;
    let body = json_body(&asked)?;
    find(&world, &repo, number)?;
    let changed = {
        let mut state = world.lock();
        let is_it = |pull: &&mut PullView| pull.repo == repo.full_name() && pull.number == number;
        let pull = state.pulls.iter_mut().find(is_it).ok_or_else(Refused::not_found)?;
        for (name, field) in [
            ("title", &mut pull.title),
            ("body", &mut pull.body),
            ("state", &mut pull.state),
            ("base", &mut pull.base),
        ] {
            if let Some(value) = body[name].as_str() {
                value.clone_into(field);
            }
        }
        pull.clone()
    };
    Ok(ok(&shape(&world, &repo, &changed, true).await))
}

/// Missing labels are created, as on GitHub.
async fn add_labels(Call { world, asked }: Call, Path((owner, name, number)): Numbered) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "pull_requests", "write")?;
    let body = json_body(&asked)?;
    let names = body["labels"].as_array().cloned().unwrap_or_default();
    let names = names.iter().filter_map(|label| label.as_str().or_else(|| label["name"].as_str()));
    find(&world, &repo, number)?;
    let mut state = world.lock();
    let is_it = |pull: &&mut PullView| pull.repo == repo.full_name() && pull.number == number;
    let pull = state.pulls.iter_mut().find(is_it).ok_or_else(Refused::not_found)?;
    for name in names {
        if !pull.labels.iter().any(|known| known == name) {
            pull.labels.push(name.to_owned());
        }
    }
    let labels: Vec<Value> = pull.labels.iter().map(|name| label(&world, &repo, name)).collect();
    drop(state);
    Ok(ok(&Value::Array(labels)))
}

/// `enablePullRequestAutoMerge`: errors come with status 200.
pub(crate) fn enable_auto_merge(world: &World, caller: &Caller, variables: &Value) -> Reply {
    let id = variables["id"].as_str().unwrap_or_default();
    let refuse = |kind: &str, message: String| {
        Ok(ok(&json!({
            "data": { "enablePullRequestAutoMerge": null },
            "errors": [{ "type": kind, "path": ["enablePullRequestAutoMerge"], "message": message }],
        })))
    };
    let found = world.lock().pulls.iter().find(|pull| node_id(pull) == id).cloned();
    let Some(pull) = found else {
        return refuse("NOT_FOUND", format!("Could not resolve to a node with the global id of '{id}'"));
    };
    let (owner, name) = pull.repo.split_once('/').unwrap_or_default();
    if allow(world, caller, owner, name, "contents", "write").is_err() {
        return refuse("FORBIDDEN", "Resource not accessible by personal access token".to_owned());
    }
    let repo = world.repo(&pull.repo).ok_or_else(Refused::not_found)?;
    if !repo.allow_auto_merge {
        return refuse("UNPROCESSABLE", "Auto merge is not allowed for this repository".to_owned());
    }
    let mut state = world.lock();
    if let Some(pull) = state.pulls.iter_mut().find(|pull| node_id(pull) == id) {
        pull.auto_merge = Some("squash".to_owned());
    }
    drop(state);
    Ok(ok(&json!({ "data": { "enablePullRequestAutoMerge": { "pullRequest": { "id": id } } } })))
}

fn find(world: &World, repo: &Repo, number: u64) -> Result<PullView, Refused> {
    let state = world.lock();
    let found = state.pulls.iter().find(|pull| pull.repo == repo.full_name() && pull.number == number);
    found.cloned().ok_or_else(Refused::not_found)
}

fn node_id(pull: &PullView) -> String {
    format!("PR_{}", pull.id)
}

fn label(world: &World, repo: &Repo, name: &str) -> Value {
    let id = name.bytes().fold(1_u64, |id, byte| (id * 31 + u64::from(byte)) % 100_000_000);
    json!({
        "id": id,
        "node_id": format!("LA_{id}"),
        "url": format!("{}/repos/{}/labels/{id}", world.urls.api_url, repo.full_name()),
        "name": name,
        "description": null,
        "color": "ededed",
        "default": false,
    })
}

/// A `pull-request-simple`, or a full `pull-request` with `whole`.
async fn shape(world: &World, repo: &Repo, pull: &PullView, whole: bool) -> Value {
    let PullView { number, login, head, base, title, body, state, labels, auto_merge, .. } = pull;
    let full_name = repo.full_name();
    let api = format!("{}/repos/{full_name}", world.urls.api_url);
    let (url, issue) = (format!("{api}/pulls/{number}"), format!("{api}/issues/{number}"));
    let html_url = format!("{}/{full_name}/pull/{number}", world.urls.server_url);
    let head_sha = repo.bare.resolve(&format!("heads/{head}")).await.unwrap_or_else(|| "0".repeat(40));
    let base_sha = repo.bare.resolve(&format!("heads/{base}")).await.unwrap_or_else(|| "0".repeat(40));
    let statuses = format!("{api}/statuses/{head_sha}");
    let now = shown(crate::world::now());
    let side = |name: &str, sha: &str| {
        json!({
            "label": format!("{}:{name}", repo.owner),
            "ref": name,
            "sha": sha,
            "user": shapes::user(world, &repo.owner),
            "repo": shapes::full_repository(world, repo),
        })
    };
    let link = |href: &str| json!({ "href": href });
    let mut shape = json!({
        "id": pull.id,
        "node_id": node_id(pull),
        "number": number,
        "url": url,
        "html_url": html_url,
        "diff_url": format!("{html_url}.diff"),
        "patch_url": format!("{html_url}.patch"),
        "issue_url": issue,
        "commits_url": format!("{url}/commits"),
        "review_comments_url": format!("{url}/comments"),
        "review_comment_url": format!("{api}/pulls/comments{{/number}}"),
        "comments_url": format!("{issue}/comments"),
        "statuses_url": statuses,
        "state": state,
        "locked": false,
        "title": title,
        "body": body,
        "user": shapes::user(world, login),
        "labels": labels.iter().map(|name| label(world, repo, name)).collect::<Vec<_>>(),
        "milestone": null,
        "assignee": null,
        "created_at": now,
        "updated_at": now,
        "closed_at": null,
        "merged_at": null,
        "merge_commit_sha": null,
        "head": side(head, &head_sha),
        "base": side(base, &base_sha),
        "author_association": "NONE",
        "auto_merge": auto_merge.as_ref().map(|method| json!({
            "enabled_by": shapes::user(world, login),
            "merge_method": method,
            "commit_title": title,
            "commit_message": "",
        })),
        "_links": {
            "self": link(&url), "html": link(&html_url), "issue": link(&issue),
            "comments": link(&format!("{issue}/comments")),
            "review_comments": link(&format!("{url}/comments")),
            "review_comment": link(&format!("{api}/pulls/comments{{/number}}")),
            "commits": link(&format!("{url}/commits")), "statuses": link(&statuses),
        },
    });
    if whole && let Value::Object(map) = &mut shape {
        let more = json!({
            "additions": 1, "deletions": 0, "changed_files": 1, "comments": 0, "review_comments": 0, "commits": 1,
            "mergeable": null, "mergeable_state": "unknown", "merged": false, "merged_by": null,
            "maintainer_can_modify": false,
        });
        if let Value::Object(more) = more {
            map.extend(more);
        }
    }
    shape
}
