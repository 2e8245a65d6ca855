//! Routes outside of repositories: rate limits, versions, users, Apps, and GraphQL: the one query that `gh` sends, and the mutation of `pulls`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::api::{Asked, Call, InRepo, VERSIONS, json_body};
use crate::auth::{allow, not_accessible};
use crate::control;
use crate::limits;
use crate::reply::{OnPurpose, Refused, Reply, json_response, ok};
use crate::shapes;
use crate::wire::{NewRepo, TokenKind};
use crate::world::{Token, World, random_hex, shown};

type World_ = State<Arc<World>>;

/// The routes.
pub(crate) fn routes() -> axum::Router<Arc<World>> {
    axum::Router::new()
        .route("/rate_limit", get(rate_limit))
        .route("/meta", get(meta))
        .route("/user", get(user))
        .route("/user/repos", post(new_own_repo))
        .route("/orgs/{org}", get(organization))
        .route("/orgs/{org}/repos", post(new_organization_repo))
        .route("/app", get(app))
        .route("/app/installations", get(installations))
        .route("/app/installations/{installation}/access_tokens", post(access_token))
        .route("/repos/{owner}/{repo}/installation", get(installation))
}

async fn rate_limit(Call { world, asked }: Call) -> Reply {
    let (who, limit) = limits::bucket(asked.caller.token.as_ref());
    let window = world.lock().limits.take(&who, limit, 0);
    let core = json!({ "limit": window.limit, "used": window.used, "remaining": window.remaining(), "reset": window.reset });
    let mut body = json!({ "resources": { "core": core, "search": core, "graphql": core }, "rate": core });
    if asked.version == VERSIONS[1] {
        // Removed in this version, although the description, which is older, requires it.
        if let Value::Object(map) = &mut body {
            map.remove("rate");
        }
        let mut response = ok(&body);
        response.extensions_mut().insert(OnPurpose);
        return Ok(response);
    }
    Ok(ok(&body))
}

async fn meta(State(world): World_) -> Reply {
    let mut body = json!({ "verifiable_password_authentication": false });
    if world.options.tls {
        body["installed_version"] = Value::from("3.21.0");
    }
    Ok(ok(&body))
}

async fn user(Call { world, asked }: Call) -> Reply {
    let token = asked.caller.token.ok_or_else(|| Refused::new(401, "Requires authentication"))?;
    if matches!(token.kind, TokenKind::Installation | TokenKind::Job) {
        return Err(Refused::new(403, "Resource not accessible by integration"));
    }
    let mut user = shapes::user(&world, &token.login);
    let now = shown(crate::world::now());
    let more = json!({
        "name": null, "company": null, "blog": null, "location": null, "email": null, "hireable": null, "bio": null,
        "public_repos": 0, "public_gists": 0, "followers": 0, "following": 0, "created_at": now, "updated_at": now,
    });
    if let (Value::Object(user), Value::Object(more)) = (&mut user, more) {
        user.extend(more);
    }
    // Only for tokens that may read the whole profile; our fine-grained ones may.
    let plan = world.lock().plan_of(&token.login).to_owned();
    user["plan"] = json!({ "name": plan, "space": 1, "private_repos": 9999, "collaborators": 0 });
    Ok(ok(&user))
}

async fn organization(Call { world, asked }: Call, Path(org): Path<String>) -> Reply {
    asked.caller.token.ok_or_else(|| Refused::new(401, "Requires authentication"))?;
    let api = format!("{}/orgs/{org}", world.urls.api_url);
    let now = shown(crate::world::now());
    let plan = world.lock().plan_of(&org).to_owned();
    Ok(ok(&json!({
        "login": org, "id": 1, "node_id": "O_1", "url": api, "repos_url": format!("{api}/repos"),
        "events_url": format!("{api}/events"), "hooks_url": format!("{api}/hooks"),
        "issues_url": format!("{api}/issues"), "members_url": format!("{api}/members{{/member}}"),
        "public_members_url": format!("{api}/public_members{{/member}}"),
        "avatar_url": format!("{}/{org}.png", world.urls.server_url), "description": null,
        "has_organization_projects": false, "has_repository_projects": false, "public_repos": 0,
        "public_gists": 0, "followers": 0, "following": 0, "html_url": format!("{}/{org}", world.urls.server_url),
        "created_at": now, "updated_at": now, "archived_at": null, "type": "Organization",
        "plan": { "name": plan, "space": 1, "private_repos": 9999 },
    })))
}

async fn new_own_repo(Call { world, asked }: Call) -> Reply {
    let login = asked.caller.login();
    create_repo(&world, &asked, &login).await
}

async fn new_organization_repo(Call { world, asked }: Call, Path(org): Path<String>) -> Reply {
    create_repo(&world, &asked, &org).await
}

/// Creates a repository, with a first commit if `auto_init` asks for one.
async fn create_repo(world: &World, asked: &Asked, owner: &str) -> Reply {
    let token = asked.caller.token.as_ref().ok_or_else(|| Refused::new(401, "Requires authentication"))?;
    let body = json_body(asked)?;
    let full_name = format!("{owner}/{}", body["name"].as_str().unwrap_or_default());
    let grants = token.grants_in(&full_name);
    let may = grants.and_then(|grants| grants.get("administration")).is_some_and(|access| access == "write");
    if !(may || token.kind == TokenKind::Classic && grants.is_some()) {
        return Err(not_accessible(token).accepting("administration", "write"));
    }
    if world.repo(&full_name).is_some() {
        let message = "Repository creation failed.: name already exists on this account";
        return Err(Refused::new(422, message));
    }
    let repo =
        control::create(world, NewRepo { full_name, private: body["private"] == true, ..NewRepo::default() })
            .await?;
    if body["auto_init"] == true {
        let readme = format!("# {}\n", repo.name);
        repo.bare.commit(&repo.default_branch, "README.md", readme.as_bytes(), "Initial commit").await?;
    }
    let body = shapes::repository_for(world, &repo, Some(token));
    Ok(json_response(StatusCode::CREATED, &body))
}

fn app_of(asked: &Asked) -> Result<u64, Refused> {
    asked.caller.app.ok_or_else(|| Refused::new(401, "A JSON web token could not be decoded"))
}

async fn app(Call { world, asked }: Call) -> Reply {
    let id = app_of(&asked)?;
    let now = shown(crate::world::now());
    Ok(ok(&json!({
        "id": id,
        "slug": format!("app-{id}"),
        "node_id": format!("A_{id}"),
        "client_id": format!("Iv1.{id}"),
        "owner": shapes::user(&world, "owner-of-app"),
        "name": format!("App {id}"),
        "description": null,
        "external_url": format!("{}/app", world.urls.server_url),
        "html_url": format!("{}/apps/app-{id}", world.urls.server_url),
        "created_at": now,
        "updated_at": now,
        "permissions": {},
        "events": [],
    })))
}

async fn installations(Call { world, asked }: Call) -> Reply {
    let id = app_of(&asked)?;
    let all = world.lock().apps.get(&id).map(|app| app.installations.clone()).unwrap_or_default();
    let granted = permissions_of(&world, id, None);
    Ok(ok(&all.iter().map(|(owner, number)| installed(&world, id, owner, *number, &granted)).collect()))
}

async fn installation(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let id = app_of(&asked)?;
    let full_name = format!("{owner}/{name}").to_lowercase();
    let state = world.lock();
    let app = state.apps.get(&id).ok_or_else(Refused::not_found)?;
    let is_there = app.grants.keys().any(|repo| repo.to_lowercase() == full_name);
    let installation = app.installations.get(&owner.to_lowercase()).copied().filter(|_| is_there);
    drop(state);
    let granted = permissions_of(&world, id, Some(&full_name));
    Ok(ok(&installed(&world, id, &owner, installation.ok_or_else(Refused::not_found)?, &granted)))
}

/// What was granted to an App, in a repository or in the first one.
fn permissions_of(world: &World, app: u64, full_name: Option<&str>) -> Value {
    let state = world.lock();
    let grants = state.apps.get(&app).map(|app| &app.grants);
    let found = grants.and_then(|grants| {
        grants.iter().find(|(repo, _)| full_name.is_none_or(|name| repo.eq_ignore_ascii_case(name)))
    });
    let mut granted = json!(found.map(|(_, permissions)| permissions));
    granted["metadata"] = Value::from("read");
    granted
}

fn installed(world: &World, app: u64, owner: &str, installation: u64, permissions: &Value) -> Value {
    let now = shown(crate::world::now());
    json!({
        "id": installation,
        "account": shapes::user(world, owner),
        "access_tokens_url": format!("{}/app/installations/{installation}/access_tokens", world.urls.api_url),
        "repositories_url": format!("{}/installation/repositories", world.urls.api_url),
        "html_url": format!("{}/settings/installations/{installation}", world.urls.server_url),
        "app_id": app,
        "app_slug": format!("app-{app}"),
        "target_id": 1,
        "target_type": "Organization",
        "permissions": permissions,
        "events": [],
        "single_file_name": null,
        "repository_selection": "selected",
        "created_at": now,
        "updated_at": now,
        "suspended_at": null,
        "suspended_by": null,
    })
}

/// A token for the repositories of an installation, or for a subset of them.
async fn access_token(Call { world, asked }: Call, Path(installation): Path<u64>) -> Reply {
    let id = app_of(&asked)?;
    let body = json_body(&asked)?;
    let mut state = world.lock();
    let app = state.apps.get(&id).cloned().ok_or_else(Refused::not_found)?;
    let owner =
        app.installations.iter().find(|(_, number)| **number == installation).map(|(owner, _)| owner.clone());
    let owner = owner.ok_or_else(Refused::not_found)?;
    let wanted: Option<Vec<String>> = body["repositories"].as_array().map(|names| {
        names.iter().filter_map(Value::as_str).map(|name| format!("{owner}/{name}").to_lowercase()).collect()
    });
    let all = app.grants.into_iter().map(|(repo, grants)| (repo.to_lowercase(), grants));
    let grants: std::collections::BTreeMap<_, _> = all
        .filter(|(repo, _)| repo.starts_with(&format!("{owner}/")))
        .filter(|(repo, _)| wanted.as_ref().is_none_or(|wanted| wanted.contains(repo)))
        .collect();
    if wanted.is_some_and(|wanted| wanted.len() != grants.len()) {
        return Err(Refused::new(
            422,
            "There is at least one repository that does not exist or is not accessible to the parent installation.",
        ));
    }
    let permissions = grants.values().next().cloned().unwrap_or_default();
    let expires_at =
        crate::world::now() + SignedDuration::from_secs(i64::try_from(app.token_seconds).unwrap_or(3600));
    let text = format!("ghs_{}", random_hex(36));
    let login = format!("app-{id}[bot]");
    state.tokens.insert(
        text.clone(),
        Token {
            login,
            kind: TokenKind::Installation,
            grants,
            scopes: Vec::new(),
            role: "admin".to_owned(),
            expires_at: Some(expires_at),
        },
    );
    drop(state);
    let body = json!({ "token": text, "expires_at": shown(expires_at), "permissions": permissions, "repository_selection": "selected" });
    Ok(json_response(StatusCode::CREATED, &body))
}

/// The default branch of a repository, however the query is spelled.
pub(crate) async fn graphql(Call { world, asked }: Call) -> Reply {
    let body = json_body(&asked)?;
    let variables = &body["variables"];
    let part = |names: [&str; 2]| {
        names.iter().find_map(|name| variables[*name].as_str()).unwrap_or_default().to_owned()
    };
    if body["query"].as_str().is_some_and(|query| query.contains("enablePullRequestAutoMerge")) {
        return crate::pulls::enable_auto_merge(&world, &asked.caller, variables);
    }
    let (owner, name) = (part(["owner", "owner"]), part(["name", "repo"]));
    if asked.caller.token.is_none() {
        return Err(Refused::new(401, "Requires authentication"));
    }
    let Ok(repo) = allow(&world, &asked.caller, &owner, &name, "metadata", "read") else {
        let message = format!("Could not resolve to a Repository with the name '{owner}/{name}'.");
        return Ok(ok(
            &json!({ "data": { "repository": null }, "errors": [{ "type": "NOT_FOUND", "path": ["repository"], "message": message }] }),
        ));
    };
    Ok(ok(&json!({ "data": { "repository": {
        "id": format!("R_{}", repo.id),
        "name": repo.name,
        "owner": { "login": repo.owner },
        "isPrivate": repo.private,
        "defaultBranchRef": { "name": repo.default_branch },
        "hasIssuesEnabled": true,
        "description": "",
        "viewerPermission": "WRITE",
    } } })))
}
