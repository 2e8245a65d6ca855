//! The data set that the worker owns: a client sends no messages, only the name of a row.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::config::{Env, Problems, Source, SuiteOptions, load_suite, parse_line};
use crate::model::{Attachment, Block, Content, Digest, Failure, Message, Role, Suite, printable};

/// The largest data set.
const LARGEST: u64 = 512 << 20;

/// A data set.
#[derive(Debug)]
pub struct Dataset {
    shown: String,
    rows: Vec<Row>,
    /// Where the bytes of attachments are.
    pub attachments: BTreeMap<Digest, PathBuf>,
}

/// A row.
#[derive(Debug, Clone)]
pub struct Row {
    /// The id that it has of its own.
    pub id: Option<String>,
    /// The row as it stands in the file, for commands.
    pub raw: Value,
    /// What is said, the model's answers left out.
    pub messages: Vec<Message>,
    /// The attachments that `messages` refer to.
    pub files: Vec<Attachment>,
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
        let rows = tests.into_iter().map(|test| Row {
            raw: serde_json::json!({"id": test.id, "messages": test.messages}),
            id: Some(test.id),
            messages: test.messages,
            files: test.files,
        });
        Ok((Self { shown, rows: rows.collect(), attachments }, warnings))
    }

    /// The row with this id, or with this number, counted from 0.
    pub fn find(&self, row_id: &str) -> Result<&Row, String> {
        if let Some(row) = self.rows.iter().find(|row| row.id.as_deref() == Some(row_id)) {
            return Ok(row);
        }
        let by_number = row_id.parse::<usize>().ok().and_then(|number| self.rows.get(number));
        by_number.ok_or_else(|| {
            let (row_id, count) = (printable(row_id), self.rows.len());
            format!(
                "there is no row `{row_id}` in `{}`: it has {count} rows, and none with this id",
                self.shown
            )
        })
    }
}

impl Row {
    /// What is said before each answer of the model: where a person speaks twice in a row, the model answers in between.
    pub fn turns(&self) -> Result<Vec<Vec<Message>>, String> {
        let mut turns: Vec<Vec<Message>> = Vec::new();
        let mut before: Option<Role> = None;
        for message in &self.messages {
            let asks_again = before == Some(Role::User) && message.role == Role::User;
            match turns.last_mut() {
                Some(turn) if !asks_again => turn.push(message.clone()),
                _ => turns.push(vec![message.clone()]),
            }
            before = Some(message.role);
        }
        match before {
            None => Err("the row has no messages".to_owned()),
            Some(Role::User) => Ok(turns),
            Some(_) => {
                Err("the row does not end with a message of the user: there is nothing to answer".to_owned())
            }
        }
    }
}

/// The rows of a file of Eval Protocol; nothing where it is another kind of file.
fn read_rows(path: &Path, absolute: &Path) -> Result<Option<Vec<Row>>, Failure> {
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
    let mut rows: Vec<Row> = Vec::new();
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

fn read_row(raw: Value) -> Result<Row, String> {
    let id = ["/input_metadata/row_id", "/row_id", "/id"].iter().find_map(|at| match raw.pointer(at) {
        Some(Value::String(id)) => Some(id.clone()),
        Some(Value::Number(id)) => Some(id.to_string()),
        _ => None,
    });
    let messages = raw.get("messages").and_then(Value::as_array).ok_or("the row has no list `messages`")?;
    let messages = messages.iter().map(read_message).collect::<Result<_, _>>()?;
    Ok(Row { id, messages, files: Vec::new(), raw })
}

/// A message; what only tools need is refused, because this worker has none.
fn read_message(message: &Value) -> Result<Message, String> {
    let role = match message["role"].as_str() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some(other) => {
            return Err(format!(
                "a message has the role `{}`: an agent with tools is run by `--command`",
                printable(other)
            ));
        }
        None => return Err("a message has no `role`".to_owned()),
    };
    if ["tool_calls", "tool_call_id"].iter().any(|key| !message[*key].is_null()) {
        return Err("a message calls a tool: an agent with tools is run by `--command`".to_owned());
    }
    let content = match &message["content"] {
        Value::String(text) => Content::Text(text.clone()),
        Value::Array(parts) => {
            let text = |part: &Value| match part["type"].as_str() {
                Some("text") => part["text"].as_str().map(|text| Block::Text { text: text.to_owned() }),
                _ => None,
            };
            let blocks: Option<Vec<Block>> = parts.iter().map(text).collect();
            Content::Blocks(
                blocks.ok_or("a message has a part that is no text; pictures and files go into a suite")?,
            )
        }
        _ => return Err("a message has no `content`".to_owned()),
    };
    Ok(Message { role, content })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(messages: &str) -> Row {
        read_row(serde_json::from_str(&format!(r#"{{"messages":{messages}}}"#)).unwrap()).unwrap()
    }

    fn shape(row: &Row) -> Vec<usize> {
        row.turns().unwrap().iter().map(Vec::len).collect()
    }

    #[test]
    fn the_model_answers_where_a_person_speaks_twice() {
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
        insta::assert_snapshot!(row(&format!("[{user},{assistant}]")).turns().unwrap_err(), @"the row does not end with a message of the user: there is nothing to answer");
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
        insta::assert_snapshot!(found("3\n").unwrap_err(), @r"there is no row `3\n` in `d.jsonl`: it has 3 rows, and none with this id");
    }

    #[test]
    fn mistakes_are_drawn_all_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let text = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n{\"messages\":[{\"role\":\"tool\"}]}\n{\"messages\":\n";
        fs::write(dir.path().join("d.jsonl"), text).unwrap();
        let error = Dataset::load(Path::new("d.jsonl"), &Env::from([]), dir.path()).unwrap_err();
        insta::assert_snapshot!(error, @r#"
        a message has the role `tool`: an agent with tools is run by `--command`
          --> d.jsonl:2:1
           |
         2 | {"messages":[{"role":"tool"}]}
           | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

        error: invalid JSON: the line ends in the middle of a value
          --> d.jsonl:3:12
           |
         3 | {"messages":
           |            ^
        "#);
    }
}
