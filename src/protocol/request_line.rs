//! Parses a JSONL line into a request, with the same checks for every source.

use std::collections::HashSet;

use crate::model::{Block, Content, Digest, Failure, Request, Role, check_tools, printable};
use crate::util::truncate::truncate;

/// Length limit of a message: the line may be hostile.
const LONGEST: usize = 400;

const ONE_A_LINE: &str =
    "one JSON object per line: {\"id\":…,\"messages\":[{\"role\":\"user\",\"content\":\"…\"}]}";

/// Hint for a malformed tool.
const TOOL: &str =
    "a tool is {\"type\":\"function\",\"function\":{\"name\":…,\"description\":…,\"parameters\":{…}}}";

/// serde's names of types, and plain ones.
const WORDS: [(&str, &str); 11] = [
    ("expected a map", "expected an object"),
    ("expected struct ToolFunction", "expected an object"),
    ("expected struct Tool", "expected an object"),
    ("expected struct Request", "expected an object"),
    ("expected struct Message", "expected an object"),
    ("expected struct Params", "expected an object"),
    ("expected f64", "expected a number"),
    ("expected i64", "expected a whole number"),
    ("expected u64", "expected a whole number, 0 or more"),
    ("expected a sequence", "expected a list"),
    ("invalid type: map,", "invalid type: object,"),
];

/// Why a line is not a valid request.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidRequest {
    message: String,
    /// Byte offset in the line from 1, if there is a single position.
    pub column: Option<usize>,
    pub hint: &'static str,
}

impl InvalidRequest {
    /// A problem of the whole line.
    pub fn new(message: impl Into<String>, hint: &'static str) -> Self {
        Self { message: message.into(), column: None, hint }
    }

    /// The error for a line of a batch, which no user writes by hand.
    pub fn in_batch(&self, line: u64) -> Failure {
        let column = self.column.map(|column| format!(", column {column}")).unwrap_or_default();
        Failure::config(format!("invalid batch: `requests.jsonl` line {line}{column}: {self}"))
            .hint("a batch is made by `run-evals dispatch` or `run-evals eval`")
    }
}

impl Request {
    /// Parses and validates a line, as far as that needs only the line.
    pub fn from_line(line: &[u8]) -> Result<Self, InvalidRequest> {
        // serde also accepts a list for a struct, with its fields in order.
        if !line.trim_ascii_start().starts_with(b"{") {
            return Err(not_an_object(line));
        }
        let request: Self = serde_json::from_slice(line).map_err(|error| not_a_request(line, &error))?;
        request.check()?;
        Ok(request)
    }

    fn check(&self) -> Result<(), InvalidRequest> {
        let invalid = |message: &str, hint| Err(InvalidRequest::new(message, hint));
        if self.id.trim().is_empty() {
            return invalid("`id` is empty", "any text that no other request of the batch has");
        }
        if self.id.contains(char::is_control) {
            return invalid("`id` has control characters", "any other text is an id");
        }
        if self.messages.is_empty() {
            let hint = "at least one message: {\"role\":\"user\",\"content\":\"…\"}";
            return invalid("`messages` is empty", hint);
        }
        let mut turns = self.messages.iter().skip_while(|message| message.role == Role::System);
        if turns.any(|message| message.role == Role::System) {
            let hint = "move it to the front: vendors treat later ones differently";
            return invalid("a `system` message after the first turn", hint);
        }
        if let Err((position, problem)) = check_tools(&self.tools) {
            return invalid(&format!("`tools[{position}]`: {problem}"), TOOL);
        }
        let mut listed: HashSet<(Digest, Option<&str>)> = HashSet::new();
        for file in &self.files {
            listed.extend([(file.sha256, None), (file.sha256, Some(file.name.as_str()))]);
        }
        for message in &self.messages {
            let Content::Blocks(blocks) = &message.content else { continue };
            for block in blocks {
                if let Block::File { sha256, name } | Block::Image { sha256, name } = block
                    && !listed.contains(&(*sha256, name.as_deref()))
                {
                    let message =
                        format!("a message refers to attachment {sha256}, which `files` does not list");
                    return invalid(&message, "attachments need a suite: use an EVAL.yaml");
                }
            }
        }
        Ok(())
    }
}

fn not_an_object(line: &[u8]) -> InvalidRequest {
    let (message, hint) = match std::str::from_utf8(line) {
        Ok(_) => ("expected a JSON object", ONE_A_LINE),
        Err(_) => ("the text is not UTF-8", "save the file as UTF-8"),
    };
    InvalidRequest { message: message.to_owned(), column: Some(1), hint }
}

fn not_a_request(line: &[u8], error: &serde_json::Error) -> InvalidRequest {
    if let Err(error) = std::str::from_utf8(line) {
        return InvalidRequest {
            message: "the text is not UTF-8".to_owned(),
            column: Some(error.valid_up_to() + 1),
            hint: "save the file as UTF-8",
        };
    }
    let column = Some(error.column()).filter(|column| *column > 0);
    if error.is_eof() {
        let message = "the line ends in the middle of a value".to_owned();
        return InvalidRequest { message, column, hint: ONE_A_LINE };
    }
    let message = error.to_string();
    // serde appends a position, relative to this line.
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let mut message = printable(message);
    for (word, plain) in WORDS {
        message = message.replace(word, plain);
    }
    let message = truncate(&message, LONGEST);
    // What serde would have accepted shows which fields of a tool are meant.
    let in_tool = [
        "expected `type` or `function`",
        "expected `function`",
        "expected one of `name`, `description`",
        "struct Tool",
    ];
    let is_tool =
        in_tool.iter().any(|words| message.contains(words)) || message.ends_with("missing field `function`");
    let hint = if is_tool {
        TOOL
    } else if message.starts_with("unknown field") {
        "the prompt belongs in `messages`, parameters in `params`; URLs, keys and settings for all requests belong in the target"
    } else {
        ONE_A_LINE
    };
    InvalidRequest { message, column, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> String {
        let invalid = Request::from_line(line.as_bytes()).unwrap_err();
        format!("{invalid}, column {:?}", invalid.column)
    }

    #[test]
    fn types_are_named_in_plain_words() {
        let with = |params: &str| {
            format!(r#"{{"id":"a","messages":[{{"role":"user","content":"x"}}],"params":{params}}}"#)
        };
        for (line, message) in [
            (with(r#"{"temperature":"hot"}"#), "invalid type: string \"hot\", expected a number"),
            (with(r#"{"max_tokens":-1}"#), "invalid value: integer `-1`, expected a whole number, 0 or more"),
            (with("7"), "invalid type: integer `7`, expected an object"),
            (r#"{"id":"a","messages":{}}"#.to_owned(), "invalid type: object, expected a list"),
            (r#"{"id":"a","messages":["x"]}"#.to_owned(), "invalid type: string \"x\", expected an object"),
        ] {
            assert!(told(&line).starts_with(message), "{}", told(&line));
        }
    }

    #[test]
    fn system_messages_come_first() {
        let line = |roles: [&str; 3]| {
            let messages = roles.map(|role| format!(r#"{{"role":"{role}","content":"x"}}"#));
            format!(r#"{{"id":"a","messages":[{}]}}"#, messages.join(","))
        };
        Request::from_line(line(["system", "system", "user"]).as_bytes()).unwrap();
        assert_eq!(
            told(&line(["system", "user", "system"])),
            "a `system` message after the first turn, column None"
        );
    }

    #[test]
    fn a_list_is_not_a_request_even_with_the_fields_in_order() {
        assert_eq!(
            told(r#"["a",[{"role":"user","content":"x"}]]"#),
            "expected a JSON object, column Some(1)"
        );
    }

    #[test]
    fn a_hostile_field_is_escaped_and_truncated() {
        let line = format!(r#"{{"\n::error::{}":1}}"#, "z".repeat(10_000));
        let told = told(&line);
        assert!(told.starts_with("unknown field `\\n::error::zzz"), "{told}");
        assert!(told.chars().count() < 450 && !told.contains('\n'), "{told}");
    }

    #[test]
    fn tools_are_closed() {
        let line = |tools: &str| {
            format!(r#"{{"id":"a","messages":[{{"role":"user","content":"x"}}],"tools":{tools}}}"#)
        };
        let tool =
            r#"{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}"#;
        Request::from_line(line(&format!("[{tool}]")).as_bytes()).unwrap();
        let mut told = Vec::new();
        for tools in [
            "{}",
            "[7]",
            "[{}]",
            r#"[{"type":"function"}]"#,
            r#"[{"type":"web_search"}]"#,
            r#"[{"type":"function","name":"f"}]"#,
            r#"[{"type":"function","function":{"name":"f","strict":true}}]"#,
            r#"[{"type":"function","function":{"name":"f","parameters":"x"}}]"#,
            r#"[{"type":"function","function":{"name":"a b"}}]"#,
            &format!("[{tool},{tool}]"),
        ] {
            let invalid = Request::from_line(line(tools).as_bytes()).unwrap_err();
            let is_tool = if invalid.hint == TOOL { "" } else { " (other hint)" };
            told.push(format!("{invalid}{is_tool}"));
        }
        insta::assert_snapshot!(told.join("\n"), @r#"
        invalid type: object, expected a list (other hint)
        invalid type: integer `7`, expected an object (other hint)
        missing field `type` (other hint)
        missing field `function`
        unknown variant `web_search`, expected `function`
        unknown field `name`, expected `type` or `function`
        unknown field `strict`, expected one of `name`, `description`, `parameters`
        invalid type: string "x", expected an object (other hint)
        `tools[0]`: the name of a tool has 1 to 64 letters, digits, `_` and `-`
        `tools[1]`: two tools with the name `f`
        "#);
    }
}
