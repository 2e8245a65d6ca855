//! Finds the target that serves each model: the first of the operator's targets that has it.

use std::time::Duration;

use serde::Serialize;

use super::failure::Failure;
use super::workspace::Workspace;
use crate::config::{Env, ModelSettings, TargetsFile};
use crate::model;
use crate::model::{Params, RunnerTarget, Target, printable};
use crate::providers::{ListedModel, list_models};

/// Gateways wait this long for their own backends before they report an error.
const LEAST_TIMEOUT: Duration = Duration::from_secs(330);

/// A model and the target that serves it.
#[derive(Debug, Clone)]
pub struct ServedModel {
    /// Its settings.
    pub settings: ModelSettings,
    /// The model behind its name, if the server says that it is an alias.
    pub alias_target: Option<String>,
    /// The name of the target that serves it.
    pub served_by: String,
    /// The target, restricted to this model.
    pub(super) target: RunnerTarget,
}

/// A model that no target serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotServed {
    /// Its name.
    pub model: String,
    /// The reason.
    pub reason: String,
    #[serde(skip)]
    asked: String,
}

/// Finds a target for each model; an error if there is none for any.
pub(super) async fn find(
    workspace: &Workspace,
    models: &[ModelSettings],
) -> Result<(Vec<ServedModel>, Vec<NotServed>, Env), Failure> {
    let (all, missing, env) = find_any(workspace, models).await?;
    if all.is_empty() {
        let names: Vec<String> =
            missing.iter().map(|model| format!("`{}`", printable(&model.model))).collect();
        let asked = missing.first().map(|model| model.asked.clone()).unwrap_or_default();
        let message = format!("no target serves any of the models: {} (checked: {asked})", names.join(", "));
        return Err(model::Failure::new(model::Exit::Failure, message)
            .hint("model names must be spelled as `GET /v1/models` of the server lists them; `--target` selects other targets")
            .into());
    }
    Ok((all, missing, env))
}

/// Finds a target for each model. Queries targets in order, and only as many as needed.
pub(super) async fn find_any(
    workspace: &Workspace,
    models: &[ModelSettings],
) -> Result<(Vec<ServedModel>, Vec<NotServed>, Env), Failure> {
    let (file, warnings) = TargetsFile::load(&workspace.targets, &workspace.targets)?;
    for warning in &warnings {
        workspace.say(warning);
    }
    let mut env = workspace.env.clone();
    env.mark_secret(file.secret_names());
    let targets = targets(workspace, &file, &env)?;
    let mut found: Vec<Option<ServedModel>> = models.iter().map(|_| None).collect();
    let mut held_back: Vec<Option<String>> = models.iter().map(|_| None).collect();
    let mut asked = Vec::new();
    for target in &targets {
        if found.iter().all(Option::is_some) {
            break;
        }
        let listed = list_models(target).await?;
        asked.push(format!("`{}`", target.name));
        for ((settings, found), held_back) in models.iter().zip(&mut found).zip(&mut held_back) {
            if found.is_some() {
                continue;
            }
            match has(target, listed.as_deref(), &settings.id) {
                ModelAvailability::Yes(alias_target) => *found = Some(served(target, settings, alias_target)),
                ModelAvailability::NotAllowed => {
                    *held_back =
                        Some(format!("target `{}` lists it, but its `allow_models` does not", target.name));
                }
                ModelAvailability::No => {}
            }
        }
    }
    let nowhere = format!("no target has it (checked: {})", asked.join(", "));
    let (mut all, mut missing) = (Vec::new(), Vec::new());
    for ((settings, found), held_back) in models.iter().zip(found).zip(held_back) {
        match found {
            Some(found) => all.push(found),
            None => missing.push(NotServed {
                model: settings.id.clone(),
                reason: held_back.unwrap_or_else(|| nowhere.clone()),
                asked: asked.join(", "),
            }),
        }
    }
    Ok((all, missing, env))
}

enum ModelAvailability {
    Yes(Option<String>),
    NotAllowed,
    No,
}

/// A server's own model list decides; without one, the target's `model` and `allow_models` do.
fn has(target: &RunnerTarget, listed: Option<&[ListedModel]>, id: &str) -> ModelAvailability {
    let is_allowed = target.allow_models.is_empty() || target.allows_model(id);
    match listed {
        Some(listed) => match listed.iter().find(|model| model.id == id) {
            Some(model) if is_allowed => ModelAvailability::Yes(model.stands_for().map(ToOwned::to_owned)),
            Some(_) => ModelAvailability::NotAllowed,
            None => ModelAvailability::No,
        },
        None if target.allows_model(id) => ModelAvailability::Yes(None),
        None => ModelAvailability::No,
    }
}

/// The target for one model. Its own settings are not used: an entry must be the same wherever it is made.
fn served(target: &RunnerTarget, settings: &ModelSettings, alias_target: Option<String>) -> ServedModel {
    let mut own = target.clone();
    own.name.clone_from(&settings.id);
    own.params = Params { model: Some(settings.id.clone()), ..Params::default() };
    own.timeout = settings.timeout.unwrap_or(target.timeout.max(LEAST_TIMEOUT));
    own.dedupe = false;
    own.keep_raw = false;
    ServedModel { settings: settings.clone(), alias_target, served_by: target.name.clone(), target: own }
}

/// The targets to query. Skips one that was not named explicitly and is not usable.
fn targets(workspace: &Workspace, file: &TargetsFile, env: &Env) -> Result<Vec<RunnerTarget>, Failure> {
    let named = !workspace.target_names.is_empty();
    let names: Vec<&str> = if named {
        workspace.target_names.iter().map(String::as_str).collect()
    } else {
        file.names().collect()
    };
    let mut targets: Vec<RunnerTarget> = Vec::new();
    let mut left_out = Vec::new();
    for name in names {
        match file.resolve(name, env) {
            Ok(Target::Runner(mut target)) => {
                if targets.iter().all(|known| known.name != target.name) {
                    if let Some(most) = workspace.max_concurrency {
                        target.limits.max_concurrency = most;
                    }
                    targets.push(*target);
                }
            }
            Ok(Target::Remote(target)) if named => {
                let message = format!(
                    "target `{}` is a runner repository on GitHub, not a server with models",
                    target.name
                );
                return Err(model::Failure::config(message).hint("choose a target with a model").into());
            }
            Ok(Target::Remote(_)) => {}
            Err(failure) if named => return Err(failure.into()),
            Err(failure) => {
                let why = failure.to_string();
                left_out
                    .push(format!("target `{name}` is left out: {}", why.lines().next().unwrap_or_default()));
            }
        }
    }
    if targets.is_empty() {
        let message = format!("no target in `{}` can serve a model", workspace.targets.display());
        let why = if left_out.is_empty() {
            "add one with `provider: openai-compatible`".to_owned()
        } else {
            left_out.join("; ")
        };
        return Err(model::Failure::config(message).hint(why).into());
    }
    for told in &left_out {
        workspace.say(told);
    }
    Ok(targets)
}
