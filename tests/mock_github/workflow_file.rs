//! Workflow files: the inputs of a dispatch, and the name of a run.

use std::collections::BTreeMap;

use run_evals::testing::Document;
use serde_json::{Value, json};

use crate::expression::{self, Context};
use crate::reply::Refused;

/// GitHub's limit for all inputs together.
const LONGEST_INPUTS: usize = 65_535;
const MOST_INPUTS: usize = 25;

/// Reads a workflow file.
pub(crate) fn parse(path: &str, content: &[u8]) -> Result<Value, String> {
    let text = String::from_utf8_lossy(content);
    Document::parse(path, text).map(|document| document.root.to_json()).map_err(|error| error.to_string())
}

/// The `workflow_dispatch` part of `on:`, in any of its spellings.
fn trigger(workflow: &Value) -> Option<Value> {
    match &workflow["on"] {
        Value::String(name) if name == "workflow_dispatch" => Some(json!({})),
        Value::Array(names) if names.iter().any(|name| name == "workflow_dispatch") => Some(json!({})),
        Value::Object(events) => events.get("workflow_dispatch").cloned(),
        _ => None,
    }
}

/// The inputs of a run, or GitHub's reason to reject them.
pub(crate) fn inputs(workflow: &Value, sent: &Value) -> Result<BTreeMap<String, String>, Refused> {
    let refused = |message: String| Refused::new(422, message);
    let trigger = trigger(workflow)
        .ok_or_else(|| refused("Workflow does not have 'workflow_dispatch' trigger".to_owned()))?;
    let nothing = serde_json::Map::new();
    let declared = trigger["inputs"].as_object().unwrap_or(&nothing);
    let sent = sent.as_object().unwrap_or(&nothing);
    if declared.len() > MOST_INPUTS {
        return Err(refused(format!(
            "you may only define up to {MOST_INPUTS} `inputs` for a `workflow_dispatch` event"
        )));
    }
    let unexpected: Vec<&String> = sent.keys().filter(|name| !declared.contains_key(*name)).collect();
    if !unexpected.is_empty() {
        return Err(refused(format!("Unexpected inputs provided: {}", json!(unexpected))));
    }
    if json!(sent).to_string().chars().count() > LONGEST_INPUTS {
        return Err(refused("inputs are too large.".to_owned()));
    }
    let mut inputs = BTreeMap::new();
    for (name, declaration) in declared {
        let value = match sent.get(name) {
            Some(value) => expression::as_text(value),
            None if !declaration["default"].is_null() => expression::as_text(&declaration["default"]),
            None if declaration["required"] == true => {
                return Err(refused(format!("Required input '{name}' not provided")));
            }
            None => String::new(),
        };
        let allowed: Option<Vec<String>> = match declaration["type"].as_str() {
            Some("choice") => {
                declaration["options"].as_array().map(|all| all.iter().map(expression::as_text).collect())
            }
            Some("boolean") => Some(vec!["true".to_owned(), "false".to_owned()]),
            _ => None,
        };
        if let Some(allowed) = allowed
            && sent.contains_key(name)
            && !allowed.contains(&value)
        {
            return Err(refused(format!(
                "Provided value '{value}' for input '{name}' not in the list of allowed values"
            )));
        }
        inputs.insert(name.clone(), value);
    }
    Ok(inputs)
}

/// The `run-name`, or the workflow's name.
pub(crate) fn title(workflow: &Value, path: &str, context: &Context) -> Result<String, String> {
    match workflow["run-name"].as_str() {
        Some(template) => expression::interpolate(template, context).map(|value| expression::as_text(&value)),
        None => Ok(name(workflow, path)),
    }
}

/// The name, or the path.
pub(crate) fn name(workflow: &Value, path: &str) -> String {
    workflow["name"].as_str().unwrap_or(path).to_owned()
}

/// The concurrency group.
pub(crate) fn group(workflow: &Value, context: &Context) -> Result<Option<String>, String> {
    let template = workflow["concurrency"].as_str().or_else(|| workflow["concurrency"]["group"].as_str());
    template
        .map(|text| expression::interpolate(text, context).map(|value| expression::as_text(&value)))
        .transpose()
}

/// Whether several runs may wait in the concurrency group.
pub(crate) fn queues(workflow: &Value) -> bool {
    workflow["concurrency"]["queue"] == "max"
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
name: Eval
run-name: eval ${{ inputs.batch_id }}
on:
  workflow_dispatch:
    inputs:
      batch_id: { type: string, required: true }
      mode: { type: choice, options: [fast, slow], default: fast }
concurrency: { group: 'eval-${{ inputs.batch_id }}', cancel-in-progress: false }
jobs: {}
";

    fn refusal(file: &str, sent: &Value) -> String {
        use axum::response::IntoResponse as _;
        let workflow = parse("w.yml", file.as_bytes()).unwrap();
        let response = inputs(&workflow, sent).unwrap_err().into_response();
        assert_eq!(response.status(), 422);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = runtime.block_on(axum::body::to_bytes(response.into_body(), 1 << 20)).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        body["message"].as_str().unwrap().to_owned()
    }

    #[test]
    fn defaults_fill_what_was_not_sent() {
        let workflow = parse("w.yml", FILE.as_bytes()).unwrap();
        let inputs = inputs(&workflow, &json!({ "batch_id": "b1" })).unwrap();
        assert_eq!(
            inputs,
            BTreeMap::from([("batch_id".into(), "b1".into()), ("mode".into(), "fast".into())])
        );
        let context = Context { values: json!({ "inputs": inputs }), ..Context::default() };
        assert_eq!(title(&workflow, "w.yml", &context).unwrap(), "eval b1");
        assert_eq!(group(&workflow, &context).unwrap().as_deref(), Some("eval-b1"));
        assert_eq!(name(&workflow, "w.yml"), "Eval");
    }

    #[test]
    fn invalid_inputs_are_rejected_with_githubs_messages() {
        let messages = [
            refusal("on: push", &json!({})),
            refusal(FILE, &json!({ "batch_id": "b1", "x": "1" })),
            refusal(FILE, &json!({})),
            refusal(FILE, &json!({ "batch_id": "b1", "mode": "" })),
            refusal(FILE, &json!({ "batch_id": "b".repeat(65_521) })),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r#"
        Workflow does not have 'workflow_dispatch' trigger
        Unexpected inputs provided: ["x"]
        Required input 'batch_id' not provided
        Provided value '' for input 'mode' not in the list of allowed values
        inputs are too large.
        "#);
        let workflow = parse("w.yml", FILE.as_bytes()).unwrap();
        assert!(inputs(&workflow, &json!({ "batch_id": "b".repeat(65_520) })).is_ok());
    }
}
