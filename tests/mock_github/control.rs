//! The control API, for tests: creates repositories, tokens and faults, and shows what happened.

use std::sync::Arc;

use anyhow::Context as _;
use axum::extract::{Json, Path, State};
use axum::routing::{delete, get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::git::Bare;
use crate::reply::{Refused, Reply, ok};
use crate::run::Stop;
use crate::wire::{
    Fault, FaultState, NewAccount, NewApp, NewFile, NewRepo, NewToken, RepoView, RunView, TokenKind,
};
use crate::workflows;
use crate::world::{App, Repo, Token, World};

type World_ = State<Arc<World>>;

/// The routes.
pub(crate) fn routes() -> axum::Router<Arc<World>> {
    axum::Router::new()
        .route("/repos", post(new_repo).get(repos))
        .route("/accounts", post(new_account))
        .route("/files", post(new_file))
        .route("/tokens", post(new_token))
        .route("/apps", post(new_app))
        .route("/workflow-state", post(workflow_state))
        .route("/faults", post(new_fault).get(faults).delete(no_faults))
        .route("/faults/{id}", delete(no_fault))
        .route("/requests", get(requests))
        .route("/violations", get(violations).delete(forget_violations))
        .route("/pushes", get(pushes))
        .route("/comments", get(comments))
        .route("/pulls", get(pulls))
        .route("/issues", get(issues))
        .route("/commit-comments", get(commit_comments))
        .route("/runs", get(runs))
        .route("/runs/{id}/stop", post(stop))
}

async fn new_repo(State(world): World_, Json(new): Json<NewRepo>) -> Reply {
    let repo = create(&world, new).await?;
    Ok(ok(&json!({ "git_dir": repo.bare.dir })))
}

/// Creates a repository.
pub(crate) async fn create(world: &World, new: NewRepo) -> Result<Repo, Refused> {
    let (owner, name) =
        new.full_name.split_once('/').ok_or_else(|| Refused::new(422, "`full_name` is `owner/name`"))?;
    let default_branch = new.default_branch.unwrap_or_else(|| "main".to_owned());
    let dir = world.git_root().join(owner).join(format!("{name}.git"));
    let bare = Bare::init(&dir, &default_branch).await?;
    let mut state = world.lock();
    let repo = Repo {
        id: state.new_id(),
        owner: owner.to_owned(),
        name: name.to_owned(),
        private: new.private,
        archived: new.archived,
        allow_auto_merge: new.allow_auto_merge,
        default_branch,
        secrets: new.secrets,
        organization_secrets: new.organization_secrets,
        environments: new.environments,
        rulesets: new.rulesets,
        protected_branches: new.protected_branches,
        actions: new.actions,
        variables: new.variables,
        machine_env: new.machine_env,
        workflows: std::collections::BTreeMap::new(),
        created_at: crate::world::now(),
        bare,
    };
    state.repos.insert(new.full_name.to_lowercase(), repo.clone());
    Ok(repo)
}

async fn repos(State(world): World_) -> Json<Vec<RepoView>> {
    let view = |repo: &Repo| RepoView {
        full_name: repo.full_name(),
        private: repo.private,
        secrets: repo.secrets.clone(),
        environments: repo.environments.clone(),
        rulesets: repo.rulesets.clone(),
    };
    Json(world.lock().repos.values().map(view).collect())
}

async fn new_account(State(world): World_, Json(new): Json<NewAccount>) -> Reply {
    world.lock().plans.insert(new.login.to_lowercase(), new.plan);
    Ok(ok(&json!({})))
}

async fn new_file(State(world): World_, Json(new): Json<NewFile>) -> Reply {
    let repo = world.repo(&new.repo).ok_or_else(Refused::not_found)?;
    let content = STANDARD.decode(&new.content_base64).context("`content_base64`")?;
    let sha = repo.bare.commit(&new.branch, &new.path, &content, &format!("Add {}", new.path)).await?;
    Ok(ok(&json!({ "sha": sha })))
}

async fn new_token(State(world): World_, Json(new): Json<NewToken>) -> Reply {
    let grants = new.grants.into_iter().map(|(repo, grants)| (repo.to_lowercase(), grants)).collect();
    let all_scopes = || ["repo", "workflow"].map(str::to_owned).to_vec();
    let scopes =
        if new.kind == TokenKind::Classic { new.scopes.unwrap_or_else(all_scopes) } else { Vec::new() };
    let role = new.role.unwrap_or_else(|| "admin".to_owned());
    let token = Token { login: new.login, kind: new.kind, grants, scopes, role, expires_at: None };
    world.lock().tokens.insert(new.token, token);
    Ok(ok(&json!({})))
}

async fn new_app(State(world): World_, Json(new): Json<NewApp>) -> Reply {
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).context("cannot make a key")?;
    let mut state = world.lock();
    let mut installations = std::collections::BTreeMap::new();
    for owner in new.grants.keys().filter_map(|repo| repo.split('/').next()) {
        let id = state.new_id();
        installations.entry(owner.to_lowercase()).or_insert(id);
    }
    let app = App {
        public_key_pem: key.public_key_pem(),
        grants: new.grants,
        installations,
        token_seconds: new.token_seconds.unwrap_or(3600),
    };
    state.apps.insert(new.id, app);
    drop(state);
    Ok(ok(&json!({ "private_key": key.serialize_pem() })))
}

#[derive(Deserialize)]
struct WorkflowSwitch {
    repo: String,
    file: String,
    state: String,
}

async fn workflow_state(State(world): World_, Json(switch): Json<WorkflowSwitch>) -> Reply {
    let repo = world.repo(&switch.repo).ok_or_else(Refused::not_found)?;
    let (path, _) = workflows::find(&world, &repo, &switch.file).await?;
    workflows::set_state(&world, &switch.repo, &path, &switch.state);
    Ok(ok(&json!({})))
}

async fn new_fault(State(world): World_, Json(fault): Json<Fault>) -> Reply {
    let id = world.lock().faults.add(fault);
    Ok(ok(&json!({ "id": id })))
}

async fn faults(State(world): World_) -> Json<Vec<FaultState>> {
    Json(world.lock().faults.all().to_vec())
}

async fn no_faults(State(world): World_) -> Reply {
    world.lock().faults.remove(None);
    Ok(ok(&json!({})))
}

async fn no_fault(State(world): World_, Path(id): Path<u64>) -> Reply {
    world.lock().faults.remove(Some(id));
    Ok(ok(&json!({})))
}

async fn requests(State(world): World_) -> Json<Value> {
    Json(json!(world.lock().requests))
}

async fn violations(State(world): World_) -> Json<Value> {
    Json(json!(world.lock().violations))
}

async fn forget_violations(State(world): World_) -> Reply {
    world.lock().violations.clear();
    Ok(ok(&json!({})))
}

async fn pushes(State(world): World_) -> Json<Value> {
    Json(json!(world.lock().pushes))
}

async fn comments(State(world): World_) -> Json<Value> {
    Json(json!(world.lock().comments))
}

async fn issues(State(world): World_) -> Json<Value> {
    Json(json!(world.lock().issues))
}

async fn commit_comments(State(world): World_) -> Json<Value> {
    Json(json!(world.lock().commit_comments))
}

async fn pulls(State(world): World_) -> Json<Value> {
    Json(json!(world.lock().pulls))
}

async fn runs(State(world): World_) -> Json<Vec<RunView>> {
    let state = world.lock();
    Json(state.runs.values().map(|run| run.view(&state)).collect())
}

#[derive(Deserialize)]
struct StopRun {
    timed_out: bool,
}

async fn stop(State(world): World_, Path(id): Path<u64>, Json(how): Json<StopRun>) -> Reply {
    let state = world.lock();
    let run = state.runs.get(&id).ok_or_else(Refused::not_found)?;
    run.stop.send_replace(if how.timed_out { Stop::TimedOut } else { Stop::Cancelled });
    Ok(ok(&json!({})))
}
