//! What a client of Eval Protocol dispatches: four inputs, read only from the event file.

use std::path::Path;

use reqwest::Url;
use serde_json::{Map, Value};

use super::ids::Ids;
use super::{endpoint, fields};
use crate::model::{Failure, Secret, printable};
use crate::util::event;

/// The names of the inputs, as the workflow declares them.
pub const INPUTS: [&str; 4] = ["completion_params", "metadata", "model_base_url", "api_key"];
const HINT: &str = "Eval Protocol's client and `run-evals rollout dispatch` send these inputs";

/// The event of a dispatched workflow.
pub struct Event {
    inputs: Map<String, Value>,
    /// Who dispatched it.
    pub sender: Option<String>,
}

/// Where the calls go.
#[derive(Debug, Clone)]
pub struct Address {
    /// The base of the tracing endpoint.
    pub base: Url,
    /// The path with the ids, if the client added it.
    pub path: Option<String>,
}

// It contains the key.
impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Event").field("sender", &self.sender).finish_non_exhaustive()
    }
}

impl Event {
    /// Reads the event file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let event = event::read(path)?;
        let Some(inputs) = event.get("inputs").and_then(Value::as_object) else {
            return Err(Failure::config(
                "the event has no inputs: this run was not started by `workflow_dispatch`",
            )
            .hint(HINT));
        };
        let sender = event.pointer("/sender/login").and_then(Value::as_str).map(str::to_owned);
        Ok(Self { inputs: inputs.clone(), sender })
    }

    /// The key that was sent as an input, so it is not secret. `None` if it is empty or `null`.
    pub fn key(&self) -> Option<Secret> {
        let text = self.inputs.get("api_key")?.as_str()?.trim();
        (!text.is_empty() && text != "null" && text != "None").then(|| Secret::new(text))
    }

    /// Where the calls go.
    pub fn address(&self) -> Result<Address, Failure> {
        let (base, path) = endpoint::split(self.text("model_base_url")?)?;
        Ok(Address { base, path })
    }

    /// The requested rollouts: one, or those of `rows`.
    pub fn rollouts(&self) -> Result<Vec<Ids>, Failure> {
        let metadata = self.object("metadata")?;
        let own = ids(&metadata, None).map_err(|problem| invalid("metadata", &problem));
        let Some(rows) = metadata.get("rows").filter(|rows| !rows.is_null()) else { return Ok(vec![own?]) };
        let rows = rows.as_array().ok_or_else(|| invalid("metadata", "`rows` is not a list"))?;
        if rows.is_empty() {
            return Err(invalid("metadata", "`rows` is empty"));
        }
        let mut all: Vec<Ids> = Vec::new();
        for row in rows {
            let row =
                row.as_object().ok_or_else(|| invalid("metadata", "an entry of `rows` is not an object"))?;
            all.push(ids(&metadata, Some(row)).map_err(|problem| invalid("metadata", &problem))?);
        }
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = all.iter().find(|ids| !seen.insert(ids.rollout_id.as_str())) {
            return Err(invalid("metadata", &format!("`rows` has `{}` twice", printable(&twice.rollout_id))));
        }
        Ok(all)
    }

    /// The parameters of the n-th rollout's calls.
    pub fn completion_params(&self, index: usize) -> Result<Map<String, Value>, Failure> {
        let mut params = self.object("completion_params")?;
        if let Ok(metadata) = self.object("metadata")
            && let Some(own) = metadata.get("rows").and_then(|rows| rows.get(index)?.get("completion_params"))
        {
            let own = own
                .as_object()
                .ok_or_else(|| invalid("metadata", "`completion_params` of a row is not an object"))?;
            params.extend(own.clone());
        }
        Ok(params)
    }

    /// The models that the n-th rollout names anywhere in its parameters.
    pub fn models(&self, index: usize) -> Result<Vec<String>, Failure> {
        let mut models = Vec::new();
        find_models(&Value::Object(self.completion_params(index)?), &mut models);
        Ok(models)
    }

    /// Every address that the n-th rollout names anywhere in its parameters. A model that is an address is refused.
    pub fn addresses(&self, index: usize) -> Result<Vec<Url>, Failure> {
        // Unreadable parameters fail only their own row, which makes no call.
        let (Ok(params), Ok(models)) = (self.completion_params(index), self.models(index)) else {
            return Ok(Vec::new());
        };
        models.iter().try_for_each(|model| fields::check_model_name(model))?;
        fields::addresses(&params)
    }

    fn text(&self, name: &str) -> Result<&str, Failure> {
        match self.inputs.get(name) {
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
            None | Some(Value::Null | Value::String(_)) => Err(invalid(name, "it is missing")),
            Some(_) => Err(invalid(name, "it is not a string")),
        }
    }

    fn object(&self, name: &str) -> Result<Map<String, Value>, Failure> {
        let text = self.text(name)?;
        match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(map),
            Ok(_) => Err(invalid(name, "it is not a JSON object")),
            Err(error) => Err(invalid(name, &format!("invalid JSON: {error}"))),
        }
    }
}

/// A command may read the model from `extra_body`, or from fallbacks.
fn find_models(value: &Value, models: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        match (name.as_str(), value) {
            ("model", Value::Null) => {}
            ("model", Value::String(model)) => models.push(model.clone()),
            ("model", other) => models.push(other.to_string()),
            ("models", Value::Array(more)) => {
                models.extend(
                    more.iter().map(|model| model.as_str().map_or_else(|| model.to_string(), str::to_owned)),
                );
            }
            ("extra_body", more) => find_models(more, models),
            _ => {}
        }
    }
}

fn invalid(name: &str, problem: &str) -> Failure {
    Failure::config(format!("input `{name}`: {problem}")).hint(HINT)
}

/// The ids of a row, or of the whole batch if there are no rows; a number counts as text.
fn ids(metadata: &Map<String, Value>, row: Option<&Map<String, Value>>) -> Result<Ids, String> {
    let needed = |name: &str| {
        let value = row
            .and_then(|row| row.get(name))
            .or_else(|| metadata.get(name).filter(|_| row.is_none() || !is_own(name)));
        match value {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            None | Some(Value::Null) => Err(format!("`{name}` is missing")),
            Some(_) => Err(format!("`{name}` is not a string")),
        }
    };
    Ids::read(needed)
}

/// Whether each row of a batch has its own.
fn is_own(name: &str) -> bool {
    matches!(name, "rollout_id" | "row_id")
}

/// The fields of every call besides its messages: `completion_params` as Eval Protocol's worker passes them on. A field that is
/// not in the table is refused, because dropping it would change the rollout.
pub(super) fn call_fields(given: &Map<String, Value>) -> Result<Map<String, Value>, Failure> {
    fields::check_params(given)?;
    let mut flat = Map::new();
    flatten(given, &mut flat);
    // The address is already in the URL. The worker reads whole answers, streamed or not.
    for name in ["base_url", "stream", "stream_options"] {
        flat.shift_remove(name);
    }
    if flat.get("n").is_some_and(|count| *count != 1) {
        return Err(Failure::config("`completion_params`: `n` must be 1: a rollout is one conversation"));
    }
    let model = flat.get("model").and_then(Value::as_str);
    if model.is_none_or(|model| model.trim().is_empty()) {
        return Err(Failure::config("`completion_params` names no `model`"));
    }
    Ok(flat)
}

/// Removes nulls and merges the fields of `extra_body` into the others, as the client would send it.
fn flatten(from: &Map<String, Value>, to: &mut Map<String, Value>) {
    for (name, value) in from {
        match value {
            Value::Null => {}
            Value::Object(more) if name == "extra_body" => flatten(more, to),
            value => _ = to.insert(name.clone(), value.clone()),
        }
    }
}

/// The other model server that the client requests.
pub(super) fn asked_base_url(completion_params: &Map<String, Value>) -> Option<String> {
    let mut flat = Map::new();
    flatten(completion_params, &mut flat);
    flat.get("base_url").and_then(Value::as_str).filter(|url| !url.is_empty()).map(str::to_owned)
}
