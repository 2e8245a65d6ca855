//! The shape of a value, as JSON Schema.
//!
//! A pattern here may accept more than the reader, which can check more than a pattern, but never less: an editor must not
//! complain about a file that works.

use serde_json::{Map, Value, json};

use crate::model::ResponseFormat;
use crate::protocol::MOST_SHARDS;

/// The shape of a value; `${{ NAME }}` may replace each, unless noted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shape {
    /// The name of a target, without references.
    Name,
    /// The name of a provider.
    Provider,
    /// Text on one line.
    Text,
    /// Any text.
    Verbatim,
    /// Text that matches a pattern, and the message if it does not.
    Form(&'static str, &'static str),
    /// One of these words.
    Word(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
    /// A whole number in a range.
    Whole(Option<i64>, Option<i64>),
    /// A number in a range.
    Number(f64, Option<f64>),
    /// A number above 0, and not above this.
    Above0(Option<f64>),
    /// A duration with its unit, of at least this many milliseconds.
    Duration(u64),
    /// A text or a list of texts.
    Strings,
    /// `auto` or a number of jobs.
    Shards,
    /// One whole reference to the variable with the key.
    ApiKey,
    /// The same, or a short word for servers that accept any key.
    AnyKey,
    /// The mapping with this name in the schema; a reference cannot replace it.
    Mapping(&'static str),
    /// The format of an answer.
    ResponseFormat,
    /// A list of whole numbers that run-evals does not read.
    Wholes,
    /// Anything; only AgentV reads it.
    Any,
}

const DURATION: &str = r"^\s*([0-9]+\.?[0-9]*|\.[0-9]+)(ms|s|m|h)\s*$";
const NO_REFERENCE: &str = r"^(?![\s\S]*\$\{\{)";
const IN_FILE: &str = "A key must not be in this file: write `${{ NAME }}`.";
const NAME: &str = "[A-Za-z_][A-Za-z0-9_]*";

/// A text with at least one reference in it.
pub(super) fn reference() -> Value {
    json!({
        "description": "From the environment: `${{ NAME }}`, or `${{ NAME:-default }}`.",
        "type": "string",
        "pattern": format!(r"\$\{{\{{\s*{NAME}\s*(:-[\s\S]*?)?\}}\}}"),
    })
}

impl Shape {
    /// Whether the schema itself says where references are legal.
    pub(super) fn is_whole(self) -> bool {
        matches!(self, Self::Name | Self::ApiKey | Self::AnyKey | Self::Any)
    }

    /// The value itself.
    pub(super) fn schema(self) -> Map<String, Value> {
        let pattern = |rest: &str, expected| text(&format!("{NO_REFERENCE}{rest}"), expected);
        let schema = match self {
            Self::Name => pattern(r"\S(.*\S)?$", "Text on one line, without `${{ … }}`."),
            Self::Provider | Self::Mapping(_) | Self::Any => json!({}),
            Self::Text => {
                pattern(r"\s*\S(.*\S)?\s*$", "Text on one line; variables are written `${{ NAME }}`.")
            }
            Self::Verbatim => pattern("", "Variables are written `${{ NAME }}`."),
            Self::Form(form, expected) => text(form, expected),
            Self::Word(words) => json!({ "enum": words }),
            Self::Flag => json!({ "type": "boolean" }),
            Self::Whole(least, most) => range("integer", least.map(Value::from), most.map(Value::from)),
            Self::Number(least, most) => range("number", Some(least.into()), most.map(Value::from)),
            Self::Above0(most) => {
                let mut schema = range("number", None, most.map(Value::from));
                schema["exclusiveMinimum"] = 0.into();
                schema
            }
            Self::Duration(_) => text(DURATION, "A duration with its unit, such as `90s`, `10m` or `500ms`."),
            Self::Strings => {
                let text =
                    pattern(r"[\s\S]+$", "A text that is not empty; variables are written `${{ NAME }}`.");
                let item = json!({ "anyOf": [text, { "$ref": "#/definitions/reference" }] });
                json!({ "anyOf": [text, { "type": "array", "items": item }] })
            }
            Self::Shards => {
                let number = json!({ "type": "integer", "minimum": 1, "maximum": MOST_SHARDS });
                json!({ "anyOf": [{ "const": "auto" }, number] })
            }
            Self::ApiKey => key_reference(r"\s*"),
            Self::AnyKey => {
                let word = pattern(r"\s*[!-~]{0,7}\s*$", IN_FILE);
                json!({ "anyOf": [key_reference(r"[^}]{0,9}"), word] })
            }
            Self::ResponseFormat => response_format(),
            Self::Wholes => json!({ "type": "array", "items": { "type": "integer" } }),
        };
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }
}

fn range(kind: &str, least: Option<Value>, most: Option<Value>) -> Value {
    let mut schema = json!({ "type": kind });
    if let Some(least) = least {
        schema["minimum"] = least;
    }
    if let Some(most) = most {
        schema["maximum"] = most;
    }
    schema
}

fn key_reference(default: &str) -> Value {
    text(&format!(r"^\s*\$\{{\{{\s*{NAME}\s*(:-{default})?\}}\}}\s*$"), IN_FILE)
}

/// Text that matches a pattern. Editors that know `errorMessage` show it instead of the pattern.
fn text(pattern: &str, expected: &str) -> Value {
    json!({ "type": "string", "pattern": pattern, "patternErrorMessage": expected })
}

/// The three forms of [`ResponseFormat`]; references are legal inside.
fn response_format() -> Value {
    let named = [ResponseFormat::Text, ResponseFormat::JsonObject];
    let words: Vec<Value> = named
        .iter()
        .filter_map(|format| serde_json::to_value(format).ok()?.get("type").cloned())
        .chain([Value::from("json_schema")])
        .collect();
    let or_reference = |schema: Value| json!({ "anyOf": [schema, { "$ref": "#/definitions/reference" }] });
    json!({
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": or_reference(json!({ "enum": words })),
            "json_schema": {
                "type": "object",
                "required": ["name", "schema"],
                "additionalProperties": false,
                "properties": {
                    "name": or_reference(json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" })),
                    "strict": or_reference(json!({ "type": "boolean" })),
                    "schema": {},
                },
            },
        },
        "if": { "properties": { "type": { "const": "json_schema" } } },
        "then": { "required": ["json_schema"] },
    })
}
