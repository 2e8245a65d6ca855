//! `tools` of a suite or a test: the functions that the model may call. AgentV does not read the key; its targets have their own tools.

use serde_json::Value;

use super::loader::Loader;
use super::vars;
use crate::config::Fields;
use crate::model::{Tool, check_tools};

const HINT: &str =
    "a tool is `{type: function, function: {name: get_weather, description: …, parameters: {type: object}}}`";

/// The tools of a mapping, if any; records problems.
pub(super) fn read(fields: &mut Fields, loader: &mut Loader) -> Option<Vec<Tool>> {
    let items = fields.list("tools", &mut loader.problems)?;
    let mut tools = Vec::with_capacity(items.len());
    for item in items {
        let json = vars::json(item);
        // Serde would also accept a list for a struct, with its fields in order.
        let tool = if json.is_object() { from_json(json) } else { Err(format!("found {}", item.kind())) };
        match tool {
            Ok(tool) => tools.push(tool),
            Err(problem) => {
                loader.problems.error_with_hint(&item.span, format!("`tools`: {problem}"), HINT);
                return None;
            }
        }
    }
    if let Err((position, problem)) = check_tools(&tools) {
        let at = items.get(position).map_or(&fields.node.span, |item| &item.span);
        loader.problems.error_with_hint(at, format!("`tools`: {problem}"), HINT);
        return None;
    }
    Some(tools)
}

/// The size of tools as JSON.
pub(super) fn bytes(tools: &[Tool]) -> usize {
    serde_json::to_vec(tools).map_or(0, |json| json.len())
}

fn from_json(json: Value) -> Result<Tool, String> {
    serde_json::from_value(json).map_err(|error| error.to_string())
}
