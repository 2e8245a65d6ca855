//! The data set that the worker owns: a client sends no messages, only a row id.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::fields::check_tools;
use crate::config::{Env, Problems, Source, parse_line};
use crate::model::{Attachment, Digest, Failure, Message, Role, Suite, printable};
use crate::suite::{SuiteOptions, load_suite};

/// The largest data set.
const LARGEST: u64 = 512 << 20;

/// A data set.
#[derive(Debug)]
pub struct Dataset {
    shown: String,
    rows: Vec<DatasetRow>,
    /// The paths of attachments.
    pub attachments: BTreeMap<Digest, PathBuf>,
}

/// A row.
#[derive(Debug, Clone)]
pub struct DatasetRow {
    /// Its own id.
    pub id: Option<String>,
    /// The row as written in the file, for commands.
    pub raw: Value,
    /// The messages, without the answers that the rollout requests.
    pub conversation: Conversation,
    /// The tools that the model may call.
    pub tools: Option<Value>,
}

/// The messages of a row.
#[derive(Debug, Clone)]
pub enum Conversation {
    /// In chat-completion format.
    Chat(Vec<Value>),
    /// The messages of a test, and the attachments they refer to.
    Test(Vec<Message>, Vec<Attachment>),
}

impl Dataset {
    /// Reads a data set: rows of Eval Protocol (`.jsonl`, with `messages`), or a suite.
    pub fn load(path: &Path, env: &Env, cwd: &Path) -> Result<(Self, Vec<String>), Failure> {
        let shown = path.display().to_string();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if extension.eq_ignore_ascii_case("jsonl")
            && let Some(rows) = read_rows(path, &cwd.join(path))?
        {
            return Ok((Self { shown, rows, attachments: BTreeMap::new() }, Vec::new()));
        }
        let (suite, warnings) = load_suite(path, &SuiteOptions { env, cwd, graders: None })?;
        let Suite { tests, attachments, .. } = suite;
        let rows = tests.into_iter().map(|test| {
            let tools = (!test.tools.is_empty()).then(|| serde_json::json!(test.tools));
            let mut raw = serde_json::json!({"id": test.id, "messages": test.messages});
            if let Some(tools) = &tools {
                raw["tools"] = tools.clone();
            }
            let conversation = Conversation::Test(test.messages, test.files);
            DatasetRow { id: Some(test.id), raw, conversation, tools }
        });
        Ok((Self { shown, rows: rows.collect(), attachments }, warnings))
    }

    /// The row with this id, or with this number, counted from 0.
    pub fn find(&self, row_id: &str) -> Result<&DatasetRow, String> {
        if let Some(row) = self.rows.iter().find(|row| row.id.as_deref() == Some(row_id)) {
            return Ok(row);
        }
        let by_number = row_id.parse::<usize>().ok().and_then(|number| self.rows.get(number));
        by_number.ok_or_else(|| {
            let (row_id, count) = (printable(row_id), self.rows.len());
            format!("row `{row_id}` not found in `{}`: none of its {count} rows has this id", self.shown)
        })
    }
}

impl DatasetRow {
    /// The number of messages before each answer of the model: between two consecutive user messages the model answers, too.
    pub fn turns(&self) -> Result<Vec<usize>, String> {
        let mut turns: Vec<usize> = Vec::new();
        let mut before: Option<&str> = None;
        for role in self.conversation.roles() {
            let asks_again = before == Some("user") && role == "user";
            match turns.last_mut() {
                Some(turn) if !asks_again => *turn += 1,
                _ => turns.push(1),
            }
            before = Some(role);
        }
        match before {
            None => Err("the row has no messages".to_owned()),
            Some("user" | "tool" | "function") => Ok(turns),
            Some(_) => Err(
                "the row does not end with a message of the user or a tool: the model has nothing to answer"
                    .to_owned(),
            ),
        }
    }
}

impl Conversation {
    fn roles(&self) -> Vec<&str> {
        match self {
            Self::Chat(messages) => {
                messages.iter().map(|message| message["role"].as_str().unwrap_or_default()).collect()
            }
            Self::Test(messages, _) => {
                let role = |message: &Message| match message.role {
                    Role::System => "system",
                    Role::User => "user",
                    Role::Assistant => "assistant",
                };
                messages.iter().map(role).collect()
            }
        }
    }
}

/// The rows of an Eval Protocol file; `None` if it is another kind of file.
fn read_rows(path: &Path, absolute: &Path) -> Result<Option<Vec<DatasetRow>>, Failure> {
    let cannot = |problem: &dyn std::fmt::Display| {
        Failure::config(format!("cannot read the data set `{}`: {problem}", path.display()))
            .hint("name a file of this repository with `--dataset`; a workflow has to check it out first")
    };
    let size = fs::metadata(absolute).map_err(|error| cannot(&error))?.len();
    if size > LARGEST {
        return Err(cannot(&format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    let bytes = fs::read(absolute).map_err(|error| cannot(&error))?;
    let source = Arc::new(Source::decode(path, bytes)?);
    let mut problems = Problems::default();
    let mut rows: Vec<DatasetRow> = Vec::new();
    for (number, line) in (1u32..).zip(source.text.lines()) {
        let node = match parse_line(&source, number, line) {
            Ok(Some(node)) => node,
            Ok(None) => continue,
            Err((span, message)) => {
                problems.error(&span, message);
                continue;
            }
        };
        let json = node.to_json();
        if rows.is_empty() && json.get("messages").is_none() && !problems.has_errors() {
            return Ok(None);
        }
        match read_row(json) {
            Ok(row) => rows.push(row),
            Err(problem) => problems.error(&node.span, problem),
        }
    }
    problems.finish()?;
    Ok(Some(rows))
}

fn read_row(raw: Value) -> Result<DatasetRow, String> {
    let id = ["/input_metadata/row_id", "/row_id", "/id"].iter().find_map(|at| match raw.pointer(at) {
        Some(Value::String(id)) => Some(id.clone()),
        Some(Value::Number(id)) => Some(id.to_string()),
        _ => None,
    });
    let messages = raw.get("messages").and_then(Value::as_array).ok_or("the row has no list `messages`")?;
    let messages = messages.iter().map(read_message).collect::<Result<_, _>>()?;
    let tools = match raw.get("tools") {
        None | Some(Value::Null) => None,
        Some(Value::Array(tools)) if tools.is_empty() => None,
        Some(tools) => {
            check_tools(tools)?;
            Some(tools.clone())
        }
    };
    Ok(DatasetRow { id, conversation: Conversation::Chat(messages), tools, raw })
}

/// A message with the fields of Eval Protocol's contract; its other fields are notes that no model reads.
fn read_message(message: &Value) -> Result<Value, String> {
    let role = match message["role"].as_str() {
        Some(role @ ("system" | "developer" | "user" | "assistant" | "tool" | "function")) => role,
        Some(other) => {
            return Err(format!(
                "a message has the role `{}`; legal: `system`, `developer`, `user`, `assistant`, `tool`, `function`",
                printable(other)
            ));
        }
        None => return Err("a message has no `role`".to_owned()),
    };
    let calls_function = match &message["function_call"] {
        Value::Null => false,
        Value::Object(call) if role == "assistant" && call.get("name").is_some_and(Value::is_string) => true,
        _ => {
            return Err("`function_call` must be an object with a `name` in an assistant message".to_owned());
        }
    };
    let calls_tool = match &message["tool_calls"] {
        Value::Null => false,
        Value::Array(calls) if role == "assistant" && calls.iter().all(Value::is_object) => !calls.is_empty(),
        _ => return Err("`tool_calls` must be a list of objects in an assistant message".to_owned()),
    };
    if role == "tool" && !message["tool_call_id"].is_string() {
        return Err("a tool message has no `tool_call_id`".to_owned());
    }
    if role == "function" && !message["name"].is_string() {
        return Err("a function message has no `name`".to_owned());
    }
    match &message["content"] {
        Value::String(_) => {}
        Value::Null if calls_tool || calls_function => {}
        Value::Array(parts) if parts.iter().all(|part| part["type"].is_string()) => {}
        Value::Array(_) => return Err("a message part has no `type`".to_owned()),
        _ => return Err("a message has no `content`".to_owned()),
    }
    let fields = ["role", "content", "tool_calls", "tool_call_id", "function_call", "name"];
    let kept = fields.iter().map(|name| ((*name).to_owned(), message[*name].clone()));
    Ok(Value::Object(kept.filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(messages: &str) -> DatasetRow {
        read_row(serde_json::from_str(&format!(r#"{{"messages":{messages}}}"#)).unwrap()).unwrap()
    }

    fn shape(row: &DatasetRow) -> Vec<usize> {
        row.turns().unwrap()
    }

    #[test]
    fn the_model_answers_between_two_user_messages() {
        let (system, user, assistant) = (
            r#"{"role":"system","content":"s"}"#,
            r#"{"role":"user","content":"u"}"#,
            r#"{"role":"assistant","content":"a"}"#,
        );
        assert_eq!(shape(&row(&format!("[{system},{user}]"))), [2]);
        assert_eq!(
            shape(&row(&format!("[{user},{assistant},{user}]"))),
            [3],
            "an answer that is given stays"
        );
        assert_eq!(shape(&row(&format!("[{system},{user},{user},{user}]"))), [2, 1, 1]);
        assert_eq!(shape(&row(&format!("[{user},{assistant},{user},{user}]"))), [3, 1]);
        insta::assert_snapshot!(row("[]").turns().unwrap_err(), @"the row has no messages");
        insta::assert_snapshot!(row(&format!("[{user},{assistant}]")).turns().unwrap_err(), @"the row does not end with a message of the user or a tool: the model has nothing to answer");
    }

    #[test]
    fn a_message_has_the_fields_of_the_contract() {
        let calls = r#"{"role":"assistant","tool_calls":[{"id":"c1","type":"function"}],"weight":0}"#;
        let result =
            r#"{"role":"tool","tool_call_id":"c1","name":"add","content":"3","reasoning_content":"x"}"#;
        let row = row(&format!(r#"[{{"role":"user","content":"u"}},{calls},{result}]"#));
        assert_eq!(shape(&row), [3], "the result of a tool is answered");
        let Conversation::Chat(messages) = &row.conversation else { panic!("{row:?}") };
        insta::assert_snapshot!(Value::from(messages[1..].to_vec()), @r#"[{"role":"assistant","tool_calls":[{"id":"c1","type":"function"}]},{"role":"tool","content":"3","tool_call_id":"c1","name":"add"}]"#);
        // OpenAI's older format, before `tool_calls`.
        let old = r#"{"role":"assistant","content":null,"function_call":{"name":"add","arguments":"{}"}},{"role":"function","name":"add","content":"3"}"#;
        let row = self::row(&format!(r#"[{{"role":"user","content":"u"}},{old}]"#));
        assert_eq!(shape(&row), [3], "the result of a function is answered");
        let Conversation::Chat(messages) = &row.conversation else { panic!("{row:?}") };
        insta::assert_snapshot!(Value::from(messages[1..].to_vec()), @r#"[{"role":"assistant","function_call":{"name":"add","arguments":"{}"}},{"role":"function","content":"3","name":"add"}]"#);
        let refused = |message: &str| {
            let raw = format!(r#"{{"messages":[{message}]}}"#);
            read_row(serde_json::from_str(&raw).unwrap()).unwrap_err()
        };
        insta::assert_snapshot!(refused(r#"{"role":"tool","content":"3"}"#), @"a tool message has no `tool_call_id`");
        insta::assert_snapshot!(refused(r#"{"role":"user","content":"u","tool_calls":[]}"#), @"`tool_calls` must be a list of objects in an assistant message");
        insta::assert_snapshot!(refused(r#"{"role":"assistant","tool_calls":[]}"#), @"a message has no `content`");
        insta::assert_snapshot!(refused(r#"{"role":"user","content":"u","function_call":{"name":"f"}}"#), @"`function_call` must be an object with a `name` in an assistant message");
        insta::assert_snapshot!(refused(r#"{"role":"function","content":"3"}"#), @"a function message has no `name`");
        insta::assert_snapshot!(refused(r#"{"role":"user","content":[{}]}"#), @"a message part has no `type`");
        let tools = serde_json::json!({"messages": [], "tools": {"type": "function"}});
        insta::assert_snapshot!(read_row(tools).unwrap_err(), @"`tools` must be a list");
        let mcp = serde_json::json!({"messages": [], "tools": [{"type": "mcp", "server_url": "http://h"}]});
        insta::assert_snapshot!(read_row(mcp).unwrap_err(), @"`tools[0].type` must be `function`");
    }

    #[test]
    fn rows_are_found_by_id_and_by_number() {
        let dir = tempfile::tempdir().unwrap();
        let line = |id: &str| {
            format!(
                r#"{{"messages":[{{"role":"user","content":"{id}"}}],"input_metadata":{{"row_id":"{id}"}}}}"#
            )
        };
        fs::write(dir.path().join("d.jsonl"), format!("{}\n\n{}\n{}\n", line("b"), line("0"), line("x")))
            .unwrap();
        let (set, _) = Dataset::load(Path::new("d.jsonl"), &Env::from([]), dir.path()).unwrap();
        let found = |id: &str| set.find(id).map(|row| row.id.clone().unwrap());
        assert_eq!(found("x").unwrap(), "x");
        assert_eq!(found("0").unwrap(), "0", "an id before a number");
        assert_eq!(found("2").unwrap(), "x");
        insta::assert_snapshot!(found("3\n").unwrap_err(), @r"row `3\n` not found in `d.jsonl`: none of its 3 rows has this id");
    }

    #[test]
    fn all_mistakes_are_shown_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let text = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n{\"messages\":[{\"role\":\"narrator\"}]}\n{\"messages\":\n";
        fs::write(dir.path().join("d.jsonl"), text).unwrap();
        let error = Dataset::load(Path::new("d.jsonl"), &Env::from([]), dir.path()).unwrap_err();
        insta::assert_snapshot!(error, @r#"
        a message has the role `narrator`; legal: `system`, `developer`, `user`, `assistant`, `tool`, `function`
          --> d.jsonl:2:1
           |
         2 | {"messages":[{"role":"narrator"}]}
           | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

        error: invalid JSON: the line ends in the middle of a value
          --> d.jsonl:3:12
           |
         3 | {"messages":
           |            ^
        "#);
    }
}
