//! The client's rows, before and after.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::config::{Problems, Source, parse_line};
use crate::model::{Digest, Failure};
use crate::rollout::endpoint::Trace;
use crate::rollout::ids::{Ids, check};
use crate::rollout::status::Status;

/// A row to roll out.
#[derive(Debug, Clone)]
pub struct ClientRow {
    /// The line of the file.
    pub line: Map<String, Value>,
    /// The row of the worker's data set.
    pub row_id: String,
    /// The parameters of its calls.
    pub completion_params: Map<String, Value>,
}

/// Reads the rows; a row without an id gets its number, counted from 0.
pub fn read_rows(path: &Path, params: &Map<String, Value>) -> Result<(Vec<ClientRow>, Digest), Failure> {
    let bytes = std::fs::read(path).map_err(|error| {
        Failure::config(format!("cannot read the rows `{}`: {error}", path.display())).hint(
            "pass a file with one row per line: `{\"messages\": […], \"input_metadata\": {\"row_id\": \"0\"}}`",
        )
    })?;
    let digest = Digest::of(&bytes);
    let source = Arc::new(Source::decode(path, bytes)?);
    let mut problems = Problems::default();
    let mut rows = Vec::new();
    for (number, text) in (1u32..).zip(source.text.lines()) {
        let node = match parse_line(&source, number, text) {
            Ok(Some(node)) => node,
            Ok(None) => continue,
            Err((span, message)) => {
                problems.error(&span, message);
                continue;
            }
        };
        match client_row(node.to_json(), rows.len(), params) {
            Ok(row) => rows.push(row),
            Err(problem) => problems.error(&node.span, problem),
        }
    }
    problems.finish()?;
    if rows.is_empty() {
        return Err(Failure::config(format!("`{}` has no rows", path.display())));
    }
    Ok((rows, digest))
}

fn client_row(json: Value, index: usize, params: &Map<String, Value>) -> Result<ClientRow, String> {
    let Value::Object(line) = json else { return Err("a row is a JSON object".to_owned()) };
    let at = |path: &str| {
        let mut parts = path.split('/');
        let first = line.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    };
    let row_id = match at("input_metadata/row_id").or_else(|| at("row_id")).or_else(|| at("id")) {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        None | Some(Value::Null) => index.to_string(),
        Some(_) => return Err("`row_id` is not a string".to_owned()),
    };
    check("row_id", &row_id)?;
    let mut completion_params = params.clone();
    if let Some(own) = at("input_metadata/completion_params").or_else(|| at("completion_params")) {
        match own {
            Value::Object(own) => completion_params.extend(own.clone()),
            Value::Null => {}
            _ => return Err("`completion_params` is not an object".to_owned()),
        }
    }
    let names_model =
        completion_params.get("model").and_then(Value::as_str).is_some_and(|model| !model.is_empty());
    if !names_model {
        return Err("no model: expected `model` in `completion_params`, or `--model NAME`".to_owned());
    }
    name_fireworks_model(&mut completion_params);
    Ok(ClientRow { line, row_id, completion_params })
}

/// Writes the model of a Fireworks account as Eval Protocol's client sends it: LiteLLM, which many endpoints use, chooses the
/// provider by a prefix.
fn name_fireworks_model(params: &mut Map<String, Value>) {
    let Some(Value::String(model)) = params.get_mut("model") else { return };
    let mut parts = model.splitn(4, '/');
    let is_fireworks = parts.next() == Some("accounts")
        && parts.next().is_some_and(|account| !account.is_empty())
        && matches!(parts.next(), Some("models" | "deployments"))
        && parts.next().is_some_and(|name| !name.is_empty());
    if is_fireworks {
        model.insert_str(0, "fireworks_ai/");
    }
}

/// The result of a row.
#[derive(Debug, Clone)]
pub(super) struct FinishedRow {
    pub(super) status: Status,
    pub(super) trace: Option<Trace>,
    pub(super) run_url: Option<String>,
    pub(super) seconds: f64,
}

impl ClientRow {
    /// Whether the row's tools were not offered to the model.
    pub(super) fn lacks_tools(&self, trace: &Trace) -> bool {
        let has_tools =
            |tools: Option<&Value>| tools.and_then(Value::as_array).is_some_and(|all| !all.is_empty());
        has_tools(self.line.get("tools")) && !has_tools(trace.tools.as_ref())
    }

    /// The row as Eval Protocol reads it: with the conversation, the status and the ids.
    pub(super) fn ended(&self, ids: &Ids, ended: &FinishedRow) -> Value {
        let mut row = self.line.clone();
        if let Some(trace) = &ended.trace {
            row.insert("messages".to_owned(), trace.conversation().into());
            // The tools that were offered, not those of the row.
            if trace.tools.is_some() || row.contains_key("tools") {
                row.insert("tools".to_owned(), trace.tools.clone().unwrap_or_default());
            }
        }
        row.insert("rollout_status".to_owned(), ended.status.to_json());
        let input = object(&mut row, "input_metadata");
        input.insert("row_id".to_owned(), self.row_id.as_str().into());
        input.insert("completion_params".to_owned(), self.completion_params.clone().into());
        if let Some(url) = &ended.run_url {
            object(input, "session_data").insert("github_actions_run_url".to_owned(), url.as_str().into());
        }
        let execution = object(&mut row, "execution_metadata");
        for (name, value) in ids.pairs().into_iter().filter(|(name, _)| *name != "row_id") {
            execution.insert(name.to_owned(), value.into());
        }
        execution
            .insert("rollout_duration_seconds".to_owned(), json!((ended.seconds * 1000.0).round() / 1000.0));
        Value::Object(row)
    }
}

fn object<'m>(map: &'m mut Map<String, Value>, name: &str) -> &'m mut Map<String, Value> {
    let value = map.entry(name).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was made one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_fireworks_accounts_get_the_prefix_of_the_official_client() {
        let named = |model: &str| {
            let line = json!({"completion_params": {"model": model}});
            let row = client_row(line, 0, &Map::new()).unwrap();
            row.completion_params["model"].as_str().unwrap().to_owned()
        };
        assert_eq!(named("accounts/me/models/x"), "fireworks_ai/accounts/me/models/x");
        assert_eq!(named("accounts/me/deployments/x/y"), "fireworks_ai/accounts/me/deployments/x/y");
        for plain in
            ["gpt-6-luna", "fireworks_ai/accounts/me/models/x", "accounts/me/models", "accounts//models/x"]
        {
            assert_eq!(named(plain), plain);
        }
    }
}
