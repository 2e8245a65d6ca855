//! The settings of a repository: environments, secrets, rulesets and Actions, as far as a set-up reads and writes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, put};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::api::{Asked, Call, InRepo, Named, json_body};
use crate::auth::{allow, allow_admin};
use crate::reply::{Refused, Reply, empty, json_response, ok};
use crate::wire::EnvironmentView;
use crate::world::{Repo, World, shown};

const UPGRADE: &str = "Upgrade to GitHub Pro or make this repository public to enable this feature.";
const BILLING: &str = "Failed to create the environment protection rule. Please ensure the billing plan supports the \
                       branch policy protection rule.";

/// The routes.
pub(crate) fn routes() -> axum::Router<Arc<World>> {
    const REPO: &str = "/repos/{owner}/{repo}";
    const ENVIRONMENT: &str = "/repos/{owner}/{repo}/environments/{environment}";
    axum::Router::new()
        .route(ENVIRONMENT, get(environment).put(put_environment))
        .route(&format!("{ENVIRONMENT}/deployment-branch-policies"), get(policies).post(new_policy))
        .route(&format!("{ENVIRONMENT}/secrets"), get(environment_secrets))
        .route(&format!("{ENVIRONMENT}/secrets/public-key"), get(environment_key))
        .route(&format!("{ENVIRONMENT}/secrets/{{name}}"), put(put_environment_secret))
        .route(&format!("{REPO}/actions/secrets"), get(secrets))
        .route(&format!("{REPO}/actions/organization-secrets"), get(organization_secrets))
        .route(&format!("{REPO}/actions/secrets/public-key"), get(key))
        .route(&format!("{REPO}/actions/secrets/{{name}}"), put(put_secret))
        .route(&format!("{REPO}/actions/permissions"), get(actions_permissions))
        .route(&format!("{REPO}/actions/permissions/selected-actions"), get(selected_actions))
        .route(&format!("{REPO}/rulesets"), get(rulesets).post(new_ruleset))
        .route(&format!("{REPO}/rules/branches/{{*branch}}"), get(rules))
        .route(&format!("{REPO}/branches"), get(branches))
}

/// Whether the owner's plan has environments and rules for this repository.
pub(crate) fn has_protection(world: &World, repo: &Repo) -> bool {
    !repo.private || world.lock().plan_of(&repo.owner) != "free"
}

fn change<T>(world: &World, repo: &Repo, change: impl FnOnce(&mut Repo) -> T) -> Result<T, Refused> {
    let mut state = world.lock();
    let repo = state.repos.get_mut(&repo.full_name().to_lowercase()).ok_or_else(Refused::not_found)?;
    Ok(change(repo))
}

async fn environment(Call { world, asked }: Call, Path((owner, name, environment)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    let found = repo.environments.get(&environment).ok_or_else(Refused::not_found)?;
    Ok(ok(&described(&world, &repo, &environment, found)))
}

async fn put_environment(Call { world, asked }: Call, Path((owner, name, environment)): Named) -> Reply {
    let repo = allow_admin(&world, &asked.caller, &owner, &name)?;
    let body = json_body(&asked)?;
    let policy = &body["deployment_branch_policy"];
    if !policy.is_null() && !has_protection(&world, &repo) {
        return Err(Refused::new(422, BILLING));
    }
    let custom = policy["custom_branch_policies"].as_bool();
    let found = change(&world, &repo, |repo| {
        let found = repo.environments.entry(environment.clone()).or_default();
        found.custom_branch_policies = custom;
        found.clone()
    })?;
    Ok(ok(&described(&world, &repo, &environment, &found)))
}

fn described(world: &World, repo: &Repo, name: &str, environment: &EnvironmentView) -> Value {
    let now = shown(repo.created_at);
    let rule = |id: u64, kind: &str| json!({ "id": id, "node_id": format!("GA_{id}"), "type": kind });
    let mut rules = Vec::new();
    if environment.custom_branch_policies.is_some() {
        rules.push(rule(1, "branch_policy"));
    }
    if let Some(login) = &environment.reviewer {
        let mut required = rule(2, "required_reviewers");
        required["reviewers"] = json!([{ "type": "User", "reviewer": crate::shapes::user(world, login) }]);
        rules.push(required);
    }
    let policy = environment
        .custom_branch_policies
        .map(|custom| json!({ "protected_branches": !custom, "custom_branch_policies": custom }));
    let full_name = repo.full_name();
    json!({
        "id": 7, "node_id": "EN_7", "name": name,
        "url": format!("{}/repos/{full_name}/environments/{name}", world.urls.api_url),
        "html_url": format!("{}/{full_name}/deployments/activity_log?environments_filter={name}", world.urls.server_url),
        "created_at": now, "updated_at": now,
        "protection_rules": rules,
        "deployment_branch_policy": policy,
    })
}

async fn policies(Call { world, asked }: Call, Path((owner, name, environment)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "actions", "read")?;
    let found = repo.environments.get(&environment).ok_or_else(Refused::not_found)?;
    let all: Vec<Value> = found.branch_policies.iter().map(|pattern| branch_policy(pattern)).collect();
    Ok(ok(&json!({ "total_count": all.len(), "branch_policies": all })))
}

async fn new_policy(Call { world, asked }: Call, Path((owner, name, environment)): Named) -> Reply {
    let repo = allow_admin(&world, &asked.caller, &owner, &name)?;
    let pattern = json_body(&asked)?["name"].as_str().unwrap_or_default().to_owned();
    let found = change(&world, &repo, |repo| {
        let found = repo.environments.get_mut(&environment)?;
        (found.custom_branch_policies == Some(true)).then(|| found.branch_policies.push(pattern.clone()))
    })?;
    found.ok_or_else(Refused::not_found)?;
    Ok(ok(&branch_policy(&pattern)))
}

fn branch_policy(pattern: &str) -> Value {
    json!({ "id": 11, "node_id": "BP_11", "name": pattern, "type": "branch" })
}

async fn environment_secrets(Call { world, asked }: Call, Path((owner, name, environment)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "environments", "read")?;
    let found = repo.environments.get(&environment).ok_or_else(Refused::not_found)?;
    Ok(listed(&repo, &found.secrets))
}

async fn secrets(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "secrets", "read")?;
    Ok(listed(&repo, &repo.secrets))
}

async fn organization_secrets(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "secrets", "read")?;
    Ok(listed(&repo, &repo.organization_secrets))
}

fn listed(repo: &Repo, secrets: &BTreeMap<String, String>) -> Response {
    let now = shown(repo.created_at);
    let all: Vec<Value> =
        secrets.keys().map(|name| json!({ "name": name, "created_at": now, "updated_at": now })).collect();
    ok(&json!({ "total_count": all.len(), "secrets": all }))
}

async fn environment_key(Call { world, asked }: Call, Path((owner, name, environment)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "environments", "read")?;
    repo.environments.get(&environment).ok_or_else(Refused::not_found)?;
    Ok(public_key(&world))
}

async fn key(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    allow(&world, &asked.caller, &owner, &name, "secrets", "read")?;
    Ok(public_key(&world))
}

fn public_key(world: &World) -> Response {
    let key = STANDARD.encode(world.sealing_key.public_key().as_bytes());
    ok(&json!({ "key_id": "568250167242549743", "key": key }))
}

async fn put_environment_secret(
    Call { world, asked }: Call,
    Path((owner, name, environment, secret)): Path<(String, String, String, String)>,
) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "environments", "write")?;
    let value = opened(&world, &asked)?;
    let before = change(&world, &repo, |repo| {
        repo.environments.get_mut(&environment).map(|found| found.secrets.insert(secret, value))
    })?;
    Ok(stored(before.ok_or_else(Refused::not_found)?.is_some()))
}

async fn put_secret(Call { world, asked }: Call, Path((owner, name, secret)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "secrets", "write")?;
    let value = opened(&world, &asked)?;
    Ok(stored(change(&world, &repo, |repo| repo.secrets.insert(secret, value))?.is_some()))
}

fn stored(existed: bool) -> Response {
    if existed { empty(StatusCode::NO_CONTENT) } else { json_response(StatusCode::CREATED, &json!({})) }
}

/// The value in a sealed box.
fn opened(world: &World, asked: &Asked) -> Result<String, Refused> {
    let body = json_body(asked)?;
    let sealed = STANDARD.decode(body["encrypted_value"].as_str().unwrap_or_default()).unwrap_or_default();
    let value = world.sealing_key.unseal(&sealed).map_err(|_| Refused::new(422, "Bad Request"))?;
    String::from_utf8(value).map_err(|_| Refused::new(422, "Bad Request"))
}

async fn actions_permissions(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "administration", "read")?;
    let mut body = json!({ "enabled": repo.actions.enabled });
    if repo.actions.enabled {
        body["allowed_actions"] = Value::from(repo.actions.allowed.clone());
        body["sha_pinning_required"] = Value::from(repo.actions.sha_pinning_required);
    }
    Ok(ok(&body))
}

async fn selected_actions(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "administration", "read")?;
    if repo.actions.allowed != "selected" {
        return Err(Refused::new(409, "Conflict"));
    }
    Ok(ok(&json!({
        "github_owned_allowed": true, "verified_allowed": false, "patterns_allowed": repo.actions.patterns,
    })))
}

async fn rulesets(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "metadata", "read")?;
    if !has_protection(&world, &repo) {
        return Err(Refused::new(403, UPGRADE));
    }
    Ok(ok(&Value::Array(repo.rulesets)))
}

async fn new_ruleset(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow_admin(&world, &asked.caller, &owner, &name)?;
    if !has_protection(&world, &repo) {
        return Err(Refused::new(403, UPGRADE));
    }
    let mut ruleset = json_body(&asked)?;
    ruleset["id"] = Value::from(world.lock().new_id());
    ruleset["source_type"] = Value::from("Repository");
    ruleset["source"] = Value::from(repo.full_name());
    change(&world, &repo, |repo| repo.rulesets.push(ruleset.clone()))?;
    Ok(json_response(StatusCode::CREATED, &ruleset))
}

async fn rules(Call { world, asked }: Call, Path((owner, name, branch)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "metadata", "read")?;
    let all = repo.rulesets.iter().filter(|ruleset| applies(ruleset, &repo, &branch)).flat_map(|ruleset| {
        let rules = ruleset["rules"].as_array().cloned().unwrap_or_default();
        rules.into_iter().map(|mut rule| {
            rule["ruleset_source_type"] = Value::from("Repository");
            rule["ruleset_source"] = Value::from(repo.full_name());
            rule["ruleset_id"] = ruleset["id"].clone();
            rule
        })
    });
    Ok(ok(&all.collect()))
}

/// Whether a ruleset holds for a branch: `~DEFAULT_BRANCH`, `~ALL` or a full name.
fn applies(ruleset: &Value, repo: &Repo, branch: &str) -> bool {
    let included = ruleset["conditions"]["ref_name"]["include"].as_array();
    included.into_iter().flatten().any(|pattern| match pattern.as_str().unwrap_or_default() {
        "~DEFAULT_BRANCH" => branch == repo.default_branch,
        "~ALL" => true,
        name => name == format!("refs/heads/{branch}"),
    })
}

async fn branches(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "contents", "read")?;
    let only_protected = asked.query.get("protected") == Some("true");
    let mut all = Vec::new();
    for (reference, sha, _) in repo.bare.references("refs/heads/").await {
        let branch = reference.trim_start_matches("refs/heads/");
        let protected = repo.protected_branches.iter().any(|name| name == branch)
            || repo.rulesets.iter().any(|ruleset| applies(ruleset, &repo, branch));
        if protected || !only_protected {
            let url = format!("{}/repos/{}/commits/{sha}", world.urls.api_url, repo.full_name());
            all.push(json!({ "name": branch, "commit": { "sha": sha, "url": url }, "protected": protected }));
        }
    }
    Ok(ok(&Value::Array(all)))
}
