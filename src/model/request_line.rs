//! A line of JSONL → a request, checked the same way wherever it is read.

use std::collections::HashSet;

use super::{Block, Content, Digest, Failure, Request, Role, printable};

/// The most characters of a message; a line may be hostile and long.
const LONGEST: usize = 400;

const ONE_A_LINE: &str =
    "one whole JSON object a line: {\"id\":…,\"messages\":[{\"role\":\"user\",\"content\":\"…\"}]}";

/// How serde calls a type, and how people do.
const WORDS: [(&str, &str); 8] = [
    ("expected struct Request", "expected an object"),
    ("expected struct Message", "expected an object"),
    ("expected struct Params", "expected an object"),
    ("expected f64", "expected a number"),
    ("expected i64", "expected a whole number"),
    ("expected u64", "expected a whole number, 0 or more"),
    ("expected a sequence", "expected a list"),
    ("invalid type: map,", "invalid type: object,"),
];

/// Why a line is no request.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidRequest {
    message: String,
    /// Where in the line, in bytes from 1, if it is one place.
    pub column: Option<usize>,
    /// The way out.
    pub hint: &'static str,
}

impl InvalidRequest {
    /// A problem of the line as a whole.
    pub fn new(message: impl Into<String>, hint: &'static str) -> Self {
        Self { message: message.into(), column: None, hint }
    }

    /// The same, as it is told of a line of a batch, which nobody writes by hand.
    pub fn in_batch(&self, line: u64) -> Failure {
        let column = self.column.map(|column| format!(", column {column}")).unwrap_or_default();
        Failure::config(format!("invalid batch: `requests.jsonl` line {line}{column}: {self}"))
            .hint("a batch is made by `run-evals dispatch` or `run-evals eval`")
    }
}

impl Request {
    /// The request on a line. What it says is checked as far as that needs nothing but the line.
    pub fn from_line(line: &[u8]) -> Result<Self, InvalidRequest> {
        // Serde would take a list for a struct too, its fields in order.
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
            let hint = "move it to the front: each vendor would put it elsewhere";
            return invalid("a `system` message after the first turn", hint);
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
                    return invalid(&message, "attachments travel with suites: use an EVAL.yaml");
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
    // Its position follows, with the line counted within the line.
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let mut message = printable(message);
    for (word, plain) in WORDS {
        message = message.replace(word, plain);
    }
    if message.chars().count() > LONGEST {
        message = message.chars().take(LONGEST).chain(['…']).collect();
    }
    let hint = if message.starts_with("unknown field") {
        "a request names no URL and no key; those, and settings for all requests, belong in the target"
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
    fn a_list_is_no_request_even_with_the_fields_in_order() {
        assert_eq!(
            told(r#"["a",[{"role":"user","content":"x"}]]"#),
            "expected a JSON object, column Some(1)"
        );
    }

    #[test]
    fn a_hostile_field_is_neither_obeyed_nor_repeated_at_length() {
        let line = format!(r#"{{"\n::error::{}":1}}"#, "z".repeat(10_000));
        let told = told(&line);
        assert!(told.starts_with("unknown field `\\n::error::zzz"), "{told}");
        assert!(told.chars().count() < 450 && !told.contains('\n'), "{told}");
    }
}
