//! The mock provider's script: a file of answers, one per line.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::model::{Failure, ToolCall};
use crate::util::regular_file;

const HINT: &str = r#"a line is `{"id": "…", "response": "…", "tool_calls": [{"tool": "…", "input": {}}]}`, with one of the two or both, or `{"id": "…", "status": 429, "error": "…", "retry_after": 2}`"#;

/// The answers of a script, by request.
#[derive(Debug)]
pub(super) struct Script {
    path: PathBuf,
    steps: HashMap<String, Vec<ScriptStep>>,
}

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ScriptStep {
    /// The model returns this text and these tool calls.
    Say { text: String, tool_calls: Vec<ToolCall> },
    /// The server returns an error.
    Fail {
        /// The HTTP status.
        status: u16,
        /// The message.
        error: String,
        /// The seconds in `retry-after`.
        retry_after: Option<f64>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptLine {
    id: String,
    response: Option<String>,
    tool_calls: Option<Vec<ScriptedCall>>,
    status: Option<u16>,
    error: Option<String>,
    retry_after: Option<f64>,
}

/// A tool call as a script writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedCall {
    tool: String,
    input: Option<Value>,
    id: Option<String>,
    duration_ms: Option<u64>,
}

impl From<ScriptedCall> for ToolCall {
    fn from(ScriptedCall { tool, input, id, duration_ms }: ScriptedCall) -> Self {
        Self { tool, input, id, duration_ms }
    }
}

impl Script {
    /// Reads a script file; reports all problems at once.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = regular_file::read_to_string(path, regular_file::CONTENT)
            .map_err(|error| Failure::config(format!("cannot read mock script `{shown}`: {error}")))?;
        let mut steps: HashMap<String, Vec<ScriptStep>> = HashMap::new();
        let mut problems = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            match parse(line) {
                Ok((id, step)) => steps.entry(id).or_default().push(step),
                Err(problem) => problems.push(format!("{problem}\n --> {shown}:{number}")),
            }
        }
        if problems.is_empty() {
            Ok(Self { path: path.to_owned(), steps })
        } else {
            Err(Failure::config(problems.join("\n\nerror: ")).hint(HINT))
        }
    }

    /// The step for this attempt, counted from 1; the last one is repeated.
    pub(super) fn step(&self, id: &str, attempt: u32) -> Option<&ScriptStep> {
        let steps = self.steps.get(id)?;
        let index = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        steps.get(index).or_else(|| steps.last())
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

fn parse(line: &str) -> Result<(String, ScriptStep), String> {
    let line: ScriptLine = serde_json::from_str(line).map_err(|error| {
        let text = error.to_string();
        // The line number is reported next to the file name; only the column is useful here.
        let text = text.replace(" at line 1 column ", " at column ");
        format!("invalid line in mock script: {text}")
    })?;
    let said = line.response.is_some() || line.tool_calls.is_some();
    let step = match (said, line.status, line.error, line.retry_after) {
        (true, None, None, None) => ScriptStep::Say {
            text: line.response.unwrap_or_default(),
            tool_calls: line.tool_calls.into_iter().flatten().map(ToolCall::from).collect(),
        },
        (false, Some(status @ 400..=599), Some(error), retry_after) => {
            if retry_after.is_some_and(|seconds| !(0.0..=86_400.0).contains(&seconds)) {
                return Err("invalid `retry_after` in mock script: 0 to 86400 seconds".to_owned());
            }
            ScriptStep::Fail { status, error, retry_after }
        }
        (false, Some(status), Some(_), _) => {
            return Err(format!("invalid `status` in mock script: {status} is not 400 to 599"));
        }
        _ => {
            return Err(
                "a line of a mock script has either `response` or `tool_calls`, or `status` and `error`"
                    .to_owned(),
            );
        }
    };
    Ok((line.id, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Result<Script, Failure> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("script.jsonl");
        std::fs::write(&path, text).unwrap();
        Script::read(&path)
    }

    #[test]
    fn lines_of_one_id_are_played_in_turn_and_the_last_repeats() {
        let script = script(concat!(
            r#"{"id":"a","status":429,"error":"slow","retry_after":0.5}"#,
            "\n\n",
            r#"{"id":"b","response":"other"}"#,
            "\n",
            r#"{"id":"a","response":"yes"}"#,
        ))
        .unwrap();
        let say = |text: &str| ScriptStep::Say { text: text.to_owned(), tool_calls: Vec::new() };
        let slow = ScriptStep::Fail { status: 429, error: "slow".to_owned(), retry_after: Some(0.5) };
        assert_eq!(script.step("a", 1), Some(&slow));
        assert_eq!(script.step("a", 2), Some(&say("yes")));
        assert_eq!(script.step("a", 9), Some(&say("yes")));
        assert_eq!(script.step("b", 1), Some(&say("other")));
        assert_eq!(script.step("c", 1), None);
    }

    #[test]
    fn all_problems_are_reported_with_their_lines() {
        let failure = script(concat!(
            "{\"id\":\"a\",\"respons\":\"x\"}\n",
            "{\"id\":\"a\",\"response\":\"x\"}\n",
            "{\"id\":\"a\"}\n",
            "{\"id\":\"a\",\"status\":200,\"error\":\"x\"}\n",
            "{\"id\":\"a\",\"status\":429,\"error\":\"x\",\"retry_after\":-1}\n",
            "nonsense\n",
        ))
        .unwrap_err();
        assert_eq!(failure.exit(), crate::model::Exit::Config);
        let text = failure.to_string();
        let dir = text.lines().nth(1).unwrap().trim_start_matches(" --> ");
        let dir = dir.strip_suffix("script.jsonl:1").unwrap();
        insta::assert_snapshot!(text.replace(dir, ""), @r"
        invalid line in mock script: unknown field `respons`, expected one of `id`, `response`, `tool_calls`, `status`, `error`, `retry_after` at column 19
         --> script.jsonl:1

        error: a line of a mock script has either `response` or `tool_calls`, or `status` and `error`
         --> script.jsonl:3

        error: invalid `status` in mock script: 200 is not 400 to 599
         --> script.jsonl:4

        error: invalid `retry_after` in mock script: 0 to 86400 seconds
         --> script.jsonl:5

        error: invalid line in mock script: expected ident at column 2
         --> script.jsonl:6
        ");
        insta::assert_snapshot!(failure.hint_text().unwrap(), @r#"a line is `{"id": "…", "response": "…", "tool_calls": [{"tool": "…", "input": {}}]}`, with one of the two or both, or `{"id": "…", "status": 429, "error": "…", "retry_after": 2}`"#);
    }

    #[test]
    fn a_missing_script_is_named() {
        let failure = Script::read(Path::new("no/such.jsonl")).unwrap_err();
        insta::assert_snapshot!(failure, @"cannot read mock script `no/such.jsonl`: No such file or directory (os error 2)");
    }
}
