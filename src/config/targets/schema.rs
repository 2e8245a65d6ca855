//! The JSON Schema of `targets.yaml`, for editors: the same keys and values as the readers.
//!
//! `keys` lists every key with its shape and one sentence; `shape` turns a shape into JSON. A test gives the readers and the
//! schema the same values, so that they cannot drift apart.
//!
//! It is draft 7, which every editor supports. Each kind of target has all its keys in one place, chosen by `if` and `then`: editors
//! complete and explain the branch that matches, and a closed list of keys works only in one piece.

use serde_json::{Map, Value, json};

use super::auth_keys::auth_of;
use super::keys::{Key, KeyGroup, LINK, PRICE, of_kind};
use super::shape::{Shape, reference};
use crate::model::{ONLY_AGENTV, PROVIDERS, ProviderKind};

/// The URL of the newest schema of this major version.
const ID: &str = "https://raw.githubusercontent.com/agentv/run-evals/v1/docs/targets.schema.json";

/// The schema of a targets file.
pub fn targets_schema() -> Value {
    let mut definitions = Map::new();
    definitions.insert("target".to_owned(), target());
    definitions.insert("reference".to_owned(), reference());
    let mut groups: Vec<(String, KeyGroup)> = vec![("link".to_owned(), LINK)];
    groups.extend(PROVIDERS.iter().map(|kind| (kind.name.to_owned(), of_kind(kind))));
    groups.push(("price".to_owned(), PRICE));
    for kind in &PROVIDERS {
        if let Some((auth, oidc)) = kind.api().and_then(auth_of) {
            groups.push((format!("auth-{}", kind.name), auth));
            groups.push((format!("github_oidc-{}", kind.name), oidc));
        }
    }
    let mut keys = Map::new();
    for (name, group) in &groups {
        definitions.insert(name.clone(), group.closed());
        for key in group.keys() {
            keys.insert(format!("key-{}", key.id), key.described());
        }
    }
    definitions.extend(keys);
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": ID,
        "title": "targets.yaml",
        "description": "The models and runner repositories that `run-evals` and `agentv eval` use.",
        "type": "object",
        "required": ["targets"],
        "additionalProperties": false,
        "properties": {
            "$schema": { "description": "Where this schema is, for editors." },
            "targets": {
                "description": "The targets, each with a unique name.",
                "type": "array",
                "items": { "$ref": "#/definitions/target" },
            },
        },
        "definitions": definitions,
    })
}

/// Any target: what it may say depends on its provider.
fn target() -> Value {
    let ours = PROVIDERS.iter().flat_map(ProviderKind::names);
    let words: Vec<&str> = ours.chain(ONLY_AGENTV).collect();
    let provider = json!({ "anyOf": [{ "enum": words }, { "$ref": "#/definitions/reference" }] });
    let mut rules: Vec<Value> = PROVIDERS
        .iter()
        .map(|kind| {
            let words: Vec<&str> = kind.names().collect();
            json!({
                "if": { "required": ["provider"], "properties": { "provider": { "enum": words } } },
                "then": { "$ref": format!("#/definitions/{}", kind.name) },
            })
        })
        .collect();
    // With a `command`, any other word is a provider for AgentV.
    rules.push(json!({
        "if": { "not": { "required": ["command"] } },
        "then": { "properties": { "provider": provider } },
    }));
    json!({
        "type": "object",
        "required": ["name"],
        "anyOf": [{ "required": ["provider"] }, { "required": ["use_target"] }],
        "properties": {
            "name": { "$ref": "#/definitions/key-name" },
            "provider": { "$ref": "#/definitions/key-provider" },
            "use_target": { "$ref": "#/definitions/key-use_target" },
        },
        "if": { "required": ["use_target"] },
        "then": { "$ref": "#/definitions/link" },
        "else": { "allOf": rules },
    })
}

impl KeyGroup {
    /// A mapping with these keys and no others.
    fn closed(&self) -> Value {
        let properties: Map<String, Value> = self
            .keys()
            .map(|key| (key.name.to_owned(), json!({ "$ref": format!("#/definitions/key-{}", key.id) })))
            .collect();
        let mut rules: Vec<Value> = Vec::new();
        for spellings in self.needs {
            let one = |key: &&str| json!({ "required": [key] });
            rules.push(match spellings {
                [key] => one(key),
                _ => json!({ "anyOf": spellings.iter().map(one).collect::<Vec<_>>() }),
            });
        }
        for excluding in self.excluding {
            for (at, first) in excluding.iter().enumerate() {
                // Not `not`: editors can only report that it does not match.
                rules.extend(excluding[at + 1..].iter().map(|second| {
                    json!({
                        "if": { "required": [first] },
                        "then": {
                            "properties": { *second: false },
                            "errorMessage": format!("`{second}` and `{first}` exclude each other."),
                        },
                    })
                }));
            }
        }
        if self.keys().any(|key| key.name == "results_artifact") {
            let off = json!({
                "const": false,
                "errorMessage": "`results_branch` and `results_artifact: true` exclude each other.",
            });
            let off = json!({ "anyOf": [off, { "$ref": "#/definitions/reference" }] });
            rules.push(json!({
                "if": { "required": ["results_branch"] },
                "then": { "properties": { "results_artifact": off } },
            }));
        }
        let mut schema = json!({ "type": "object", "additionalProperties": false, "properties": properties });
        if self.keys().any(|key| key.name == "budget_usd") {
            schema["dependencies"] = json!({ "budget_usd": ["price"] });
        }
        if !rules.is_empty() {
            schema["allOf"] = rules.into();
        }
        schema
    }
}

impl Key {
    /// The shape and its description.
    fn described(&self) -> Value {
        let mut schema = Map::from_iter([("description".to_owned(), Value::from(self.about))]);
        match self.shape {
            Shape::Mapping(name) => {
                let definition = format!("#/definitions/{name}");
                schema.insert("allOf".to_owned(), json!([{ "$ref": definition }]));
            }
            Shape::Provider => {
                // All words for completion; other keys decide which of them are legal.
                let words: Vec<&str> = PROVIDERS.iter().map(|kind| kind.name).chain(ONLY_AGENTV).collect();
                schema.insert("anyOf".to_owned(), json!([{ "enum": words }, { "type": "string" }]));
            }
            shape if shape.is_whole() => schema.extend(shape.schema()),
            shape => {
                let literal = Value::Object(shape.schema());
                schema.insert("anyOf".to_owned(), json!([literal, { "$ref": "#/definitions/reference" }]));
            }
        }
        Value::Object(schema)
    }
}
