//! The fields of a call that a client may set: one closed table for the worker, for commands and for the gateway.
//!
//! An unknown field could name another host, another key or another model to the server that reads it.

use reqwest::Url;
use serde_json::{Map, Value};

use crate::model::{Failure, printable};

/// Who may use a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Sent by `rollout run`, allowed for commands, and in calls through the gateway.
    Setting,
    /// Only in a call, not in `completion_params`.
    Call,
    /// Only in `completion_params`: the address of another server, which the owner must allow.
    Address,
    /// Only in `completion_params`: an object with further fields.
    Nested,
}

/// The legal values of a field. Objects are closed like the table itself.
#[derive(Debug)]
enum Shape {
    /// Anything: messages, JSON schemas, and values checked elsewhere.
    Any,
    /// Neither a list nor an object.
    Scalar,
    Flag,
    /// A whole number in this range.
    Integer(i64, i64),
    /// This text.
    Word(&'static str),
    List(&'static Self),
    /// An object with any keys.
    Map(&'static Self),
    /// An object with these keys.
    Object(&'static [(&'static str, Self)]),
    /// A scalar, or this.
    ScalarOr(&'static Self),
}

const COUNT: Shape = Shape::Integer(0, i32::MAX as i64);

/// A function that a model may call.
const FUNCTION: Shape = Shape::Object(&[
    ("name", Shape::Scalar),
    ("description", Shape::Scalar),
    ("parameters", Shape::Any),
    ("strict", Shape::Scalar),
]);
/// Other types of tools make the upstream call other servers.
const TOOL: Shape = Shape::Object(&[("type", Shape::Word("function")), ("function", FUNCTION)]);
const TOOL_CHOICE: Shape = Shape::Object(&[("type", Shape::Word("function")), ("function", NAMED)]);
const NAMED: Shape = Shape::Object(&[("name", Shape::Scalar)]);
const RESPONSE_FORMAT: Shape = Shape::Object(&[
    ("type", Shape::Scalar),
    ("json_schema", JSON_SCHEMA),
    ("schema", Shape::Any),
    ("grammar", Shape::Scalar),
]);
const JSON_SCHEMA: Shape = Shape::Object(&[
    ("name", Shape::Scalar),
    ("description", Shape::Scalar),
    ("schema", Shape::Any),
    ("strict", Shape::Scalar),
]);
const THINKING: Shape = Shape::Object(&[("type", Shape::Scalar), ("budget_tokens", COUNT)]);
const REASONING: Shape = Shape::Object(&[
    ("effort", Shape::Scalar),
    ("summary", Shape::Scalar),
    ("generate_summary", Shape::Scalar),
    ("max_tokens", COUNT),
    ("exclude", Shape::Flag),
    ("enabled", Shape::Flag),
]);
const TEMPLATE: Shape = Shape::Object(&[("enable_thinking", Shape::Flag), ("thinking", Shape::Flag)]);
const STREAM_OPTIONS: Shape =
    Shape::Object(&[("include_usage", Shape::Flag), ("include_obfuscation", Shape::Flag)]);

/// All fields. In a call through the gateway `n` must be 1 unless the operator adds it: every further answer costs money.
const FIELDS: [(&str, Use, Shape); 35] = [
    ("model", Use::Setting, Shape::Scalar),
    ("temperature", Use::Setting, Shape::Scalar),
    ("top_p", Use::Setting, Shape::Scalar),
    ("seed", Use::Setting, Shape::Integer(i64::MIN, i64::MAX)),
    ("stop", Use::Setting, Shape::ScalarOr(&Shape::List(&Shape::Scalar))),
    ("max_tokens", Use::Setting, COUNT),
    ("max_completion_tokens", Use::Setting, COUNT),
    ("reasoning_effort", Use::Setting, Shape::Scalar),
    ("response_format", Use::Setting, RESPONSE_FORMAT),
    ("top_k", Use::Setting, Shape::Integer(-1, i32::MAX as i64)),
    ("min_p", Use::Setting, Shape::Scalar),
    ("n", Use::Setting, COUNT),
    ("presence_penalty", Use::Setting, Shape::Scalar),
    ("frequency_penalty", Use::Setting, Shape::Scalar),
    ("repetition_penalty", Use::Setting, Shape::Scalar),
    ("logit_bias", Use::Setting, Shape::Map(&Shape::Scalar)),
    ("logprobs", Use::Setting, Shape::Scalar),
    ("top_logprobs", Use::Setting, COUNT),
    ("tools", Use::Setting, Shape::List(&TOOL)),
    ("tool_choice", Use::Setting, Shape::ScalarOr(&TOOL_CHOICE)),
    ("parallel_tool_calls", Use::Setting, Shape::Scalar),
    ("functions", Use::Setting, Shape::List(&FUNCTION)),
    ("function_call", Use::Setting, Shape::ScalarOr(&NAMED)),
    ("verbosity", Use::Setting, Shape::Scalar),
    ("thinking", Use::Setting, Shape::ScalarOr(&THINKING)),
    ("reasoning", Use::Setting, REASONING),
    ("chat_template_kwargs", Use::Setting, TEMPLATE),
    ("user", Use::Setting, Shape::Scalar),
    ("safety_identifier", Use::Setting, Shape::Scalar),
    ("prompt_cache_key", Use::Setting, Shape::Scalar),
    ("stream", Use::Setting, Shape::Scalar),
    ("stream_options", Use::Setting, STREAM_OPTIONS),
    ("messages", Use::Call, Shape::Any),
    ("base_url", Use::Address, Shape::Any),
    ("extra_body", Use::Nested, Shape::Any),
];

/// Names that no operator can add: each is an address, a key, or sets headers.
const NEVER: [&str; 12] = [
    "base_url",
    "api_base",
    "api_key",
    "api_type",
    "api_version",
    "organization",
    "headers",
    "extra_headers",
    "extra_query",
    "extra_body",
    "custom_llm_provider",
    "proxy",
];

/// Fields whose values are models.
const MODELS: [&str; 2] = ["models", "fallbacks"];

fn field(name: &str) -> Option<&'static (&'static str, Use, Shape)> {
    FIELDS.iter().find(|(known, ..)| *known == name)
}

fn use_of(name: &str) -> Option<Use> {
    field(name).map(|(_, used, _)| *used)
}

/// Checks the tools of a row as those of `completion_params`.
pub(super) fn check_tools(tools: &Value) -> Result<(), String> {
    check_value("tools", tools, &Shape::List(&TOOL))
}

/// Checks the value of a field; `path` is its position. `null` is always legal.
fn check_value(path: &str, value: &Value, shape: &Shape) -> Result<(), String> {
    let must = |what: &str| Err(format!("`{}` must be {what}", printable(path)));
    let is_scalar = !value.is_array() && !value.is_object();
    match shape {
        _ if value.is_null() => Ok(()),
        Shape::Any => Ok(()),
        Shape::Scalar | Shape::ScalarOr(_) if is_scalar => Ok(()),
        Shape::Scalar => must("a string, a number or a boolean"),
        Shape::ScalarOr(other) => check_value(path, value, other),
        Shape::Flag if value.is_boolean() => Ok(()),
        Shape::Flag => must("true or false"),
        Shape::Integer(least, most) => match value.as_i64() {
            Some(number) if (*least..=*most).contains(&number) => Ok(()),
            _ => must(&format!("a whole number from {least} to {most}")),
        },
        Shape::Word(word) if value == word => Ok(()),
        Shape::Word(word) => must(&format!("`{word}`")),
        Shape::List(item) => match value.as_array() {
            Some(items) => items
                .iter()
                .enumerate()
                .try_for_each(|(index, value)| check_value(&format!("{path}[{index}]"), value, item)),
            None => must("a list"),
        },
        Shape::Map(entry) => match value.as_object() {
            Some(entries) => entries
                .iter()
                .try_for_each(|(name, value)| check_value(&format!("{path}.{name}"), value, entry)),
            None => must("an object"),
        },
        Shape::Object(known) => match value.as_object() {
            Some(entries) => entries.iter().try_for_each(|(name, value)| {
                let inner = format!("{path}.{name}");
                if let Some((_, shape)) = known.iter().find(|(known, _)| known == name) {
                    check_value(&inner, value, shape)
                } else {
                    let legal: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                    let inner = printable(&inner);
                    Err(format!("`{inner}` is not accepted; legal there: `{}`", legal.join("`, `")))
                }
            }),
            None => must("an object"),
        },
    }
}

/// A field that the operator of a gateway adds to the table.
pub(super) fn parse_added(name: &str) -> Result<String, String> {
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err("a field name consists of letters, digits and `_`".to_owned());
    }
    if NEVER.contains(&name.to_ascii_lowercase().as_str()) {
        return Err("a caller must not choose the host, the key or the headers of a call".to_owned());
    }
    if matches!(use_of(name), Some(Use::Call)) || name == "model" || name.starts_with("stream") {
        return Err("this field is always accepted".to_owned());
    }
    Ok(name.to_owned())
}

/// Removes fields without a value from a call through the gateway; the error is the first field that is not legal. Fields that
/// the operator added may have any value.
pub(super) fn check_call(call: &mut Map<String, Value>, added: &[String]) -> Result<(), String> {
    call.retain(|_, value| !value.is_null());
    for (name, value) in &*call {
        if added.iter().any(|added| added == name) {
            continue;
        }
        match field(name) {
            Some(_) if name == "n" && *value != 1 => return Err("`n` must be 1".to_owned()),
            Some((_, Use::Setting | Use::Call, shape)) => check_value(name, value, shape)?,
            Some((_, Use::Address | Use::Nested, _)) | None => {
                return Err(format!("this gateway does not accept the field `{}`", printable(name)));
            }
        }
    }
    Ok(())
}

/// The models that a call names besides `model`.
pub(super) fn further_models(call: &Map<String, Value>) -> Vec<&str> {
    fn strings<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::String(text) => found.push(text),
            Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
            Value::Object(entries) => {
                for (name, value) in entries {
                    if name != "model" && name != "models" {
                        found.push(name);
                    }
                    strings(value, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    MODELS.iter().filter_map(|name| call.get(*name)).for_each(|value| strings(value, &mut found));
    found
}

/// Refuses `completion_params` with a field or a value that is not in the table, also inside `extra_body`.
pub(super) fn check_params(params: &Map<String, Value>) -> Result<(), Failure> {
    for (name, value) in params.iter().filter(|(_, value)| !value.is_null()) {
        match (field(name), value) {
            (Some((_, Use::Nested, _)), Value::Object(more)) => check_params(more)?,
            (Some((_, Use::Setting | Use::Address, shape)), _) => {
                check_value(name, value, shape)
                    .map_err(|problem| Failure::config(format!("`completion_params`: {problem}")))?;
            }
            _ => {
                let legal = FIELDS.iter().filter(|(_, used, _)| *used != Use::Call).map(|(name, ..)| *name);
                let legal: Vec<&str> = legal.collect();
                return Err(Failure::config(format!(
                    "`completion_params`: rollouts of this repository may not set `{}`; allowed: `{}`",
                    printable(name),
                    legal.join("`, `")
                )));
            }
        }
    }
    Ok(())
}

/// Every address in `completion_params`, also inside `extra_body`; an error if one is malformed.
pub(super) fn addresses(params: &Map<String, Value>) -> Result<Vec<Url>, Failure> {
    let mut found = Vec::new();
    for (name, value) in params.iter().filter(|(_, value)| !value.is_null()) {
        match (use_of(name), value) {
            (Some(Use::Address), value) => found.push(address(value)?),
            (Some(Use::Nested), Value::Object(more)) => found.extend(addresses(more)?),
            _ => {}
        }
    }
    Ok(found)
}

/// Servers parse addresses differently, so only plain spellings are legal.
fn address(value: &Value) -> Result<Url, Failure> {
    let is_plain = |text: &&str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:/[]".contains(&byte))
            && !text.contains("..")
    };
    let url = value.as_str().filter(is_plain).and_then(|text| Url::parse(text).ok());
    url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host()).ok_or_else(|| {
        Failure::config("`completion_params.base_url` is not a plain `http` or `https` URL")
            .hint("such as `https://models.example.com/v1`: no user name, no query, no escapes")
    })
}

/// Refuses a model that is an address: some clients would call it.
pub(super) fn check_model_name(model: &str) -> Result<(), Failure> {
    if model.contains("//") || model.contains('\\') {
        return Err(Failure::config("`completion_params.model` is an address")
            .hint("name a model; the address of a server belongs in `base_url`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn addresses_are_found_wherever_they_are() {
        let of = |value| {
            addresses(&map(value)).map(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(of(json!({"model": "m", "base_url": null})).unwrap(), Vec::<String>::new());
        assert_eq!(
            of(json!({"base_url": "https://a/v1", "extra_body": {"extra_body": {"base_url": "http://b"}}}))
                .unwrap(),
            ["https://a/v1", "http://b/"]
        );
        for odd in [
            json!("ftp://a"),
            json!(" https://a"),
            json!("https://a\\@b"),
            json!("https://a@b"),
            json!("https://a?b"),
            json!("https://a/%2e%2e/b"),
            json!("https://a/../b"),
            json!(["https://a"]),
            json!(1),
        ] {
            assert!(of(json!({"base_url": odd})).is_err(), "{odd}");
        }
    }

    #[test]
    fn only_the_fields_of_the_table_are_legal() {
        check_params(&map(json!({"model": "m", "top_k": 1, "extra_body": {"min_p": 0}, "other": null})))
            .unwrap();
        for odd in [
            json!({"api_base": "x"}),
            json!({"Base_URL": "x"}),
            json!({"extra_body": {"api_key": "x"}}),
            json!({"extra_body": [1]}),
            json!({"messages": []}),
            json!({"extra_body": {"reasoning": {"base_url": "x"}}}),
            json!({"tools": [{"type": "mcp"}]}),
            json!({"max_tokens": 1e308}),
        ] {
            assert!(check_params(&map(odd.clone())).is_err(), "{odd}");
        }
        let mut call = map(json!({"messages": [], "n": 1, "base_url": null}));
        check_call(&mut call, &[]).unwrap();
        assert!(!call.contains_key("base_url"));
        assert!(check_call(&mut map(json!({"n": 2})), &[]).is_err());
        assert!(check_call(&mut map(json!({"n": 1.5})), &[]).is_err());
        check_call(&mut map(json!({"n": 2})), &["n".to_owned()]).unwrap();
    }

    #[test]
    fn models_are_found_in_every_format() {
        let call = map(json!({"models": ["a", {"model": "b"}], "fallbacks": [{"c": ["d"]}], "model": "e"}));
        assert_eq!(further_models(&call), ["a", "b", "c", "d"]);
    }
}
