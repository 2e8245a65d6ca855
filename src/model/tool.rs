//! Functions that a model may call, and the calls that it requests. run-evals sends the functions and keeps the calls; it
//! runs none of them.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The most tools of a request; OpenAI has the same limit.
const MOST_TOOLS: usize = 128;
/// The most bytes of all tools of a request, as JSON.
const MOST_BYTES: usize = 256 << 10;
/// The longest name that every provider accepts.
const LONGEST_NAME: usize = 64;

/// A tool in OpenAI's chat-completion format: `{"type": "function", "function": {…}}`. Each API has its own format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The kind of tool.
    pub r#type: ToolType,
    /// The function.
    pub function: ToolFunction,
}

/// The kinds of tools; this list is closed, because a provider runs the other kinds itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolType {
    /// A function of the caller.
    Function,
}

/// A function as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFunction {
    /// `[A-Za-z0-9_-]{1,64}`, unique in the request.
    pub name: String,
    /// Its description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON schema of its arguments, with keys in the author's order; without one it takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Map<String, Value>>,
}

/// A call that a model requests, with AgentV's keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The name of the tool.
    pub tool: String,
    /// The arguments; a text if the model wrote no JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The provider's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// How long the call took. Only a mock script has it: no tool is run for a model's answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// The first problem with the tools of a request, and the index of the tool.
pub fn check_tools(tools: &[Tool]) -> Result<(), (usize, String)> {
    if tools.len() > MOST_TOOLS {
        return Err((
            MOST_TOOLS,
            format!("`tools` has {} entries, at most {MOST_TOOLS} are allowed", tools.len()),
        ));
    }
    let (mut names, mut bytes) = (HashSet::new(), 0);
    for (position, tool) in tools.iter().enumerate() {
        let name = &tool.function.name;
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let wrong = if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_legal) {
            Some(format!("the name of a tool has 1 to {LONGEST_NAME} letters, digits, `_` and `-`"))
        } else if !names.insert(name) {
            Some(format!("two tools with the name `{name}`"))
        } else {
            bytes += serde_json::to_vec(tool).map_or(0, |json| json.len());
            (bytes > MOST_BYTES).then(|| format!("`tools` is larger than {} KiB", MOST_BYTES >> 10))
        };
        if let Some(wrong) = wrong {
            return Err((position, wrong));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str) -> Tool {
        serde_json::from_value(serde_json::json!({
            "type": "function", "function": {"name": name, "description": description},
        }))
        .unwrap()
    }

    #[test]
    fn tools_are_bounded() {
        let many =
            |count: usize| (0..count).map(|number| tool(&format!("t{number}"), "")).collect::<Vec<_>>();
        assert_eq!(check_tools(&many(128)), Ok(()));
        let cases = [
            (many(129), (128, "`tools` has 129 entries, at most 128 are allowed")),
            (
                vec![tool("a", ""), tool("a b", "")],
                (1, "the name of a tool has 1 to 64 letters, digits, `_` and `-`"),
            ),
            (
                vec![tool(&"a".repeat(65), "")],
                (0, "the name of a tool has 1 to 64 letters, digits, `_` and `-`"),
            ),
            (vec![tool("", "")], (0, "the name of a tool has 1 to 64 letters, digits, `_` and `-`")),
            (vec![tool("a", ""), tool("a", "x")], (1, "two tools with the name `a`")),
            (vec![tool("a", ""), tool("b", &"x".repeat(256 << 10))], (1, "`tools` is larger than 256 KiB")),
        ];
        for (tools, (position, message)) in cases {
            assert_eq!(check_tools(&tools), Err((position, message.to_owned())));
        }
    }
}
