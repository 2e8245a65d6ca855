//! The schema of a skill's answers, bundled with everything it refers to.
//!
//! Schemas refer to those of other components by relative paths. A server gets a single schema, so every referenced part is
//! moved under `$defs`. References never leave the components of the library.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::expansion;
use super::library::{Library, is_inside, json, place};
use crate::config::{Problems, Span};
use crate::util::percent;

const MOST_BYTES: u64 = 4 << 20;
const MOST_FILES: usize = 64;
const MOST_PARTS: usize = 5_000;
const MOST_NODES: usize = 200_000;

/// Keywords whose values are mappings of names to schemas.
const NAMED: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];
/// Keywords whose values are data.
const DATA: [&str; 4] = ["const", "enum", "default", "examples"];
/// Keywords that a server may know; some servers reject others.
const KNOWN: [&str; 55] = [
    "$schema",
    "$ref",
    "title",
    "description",
    "type",
    "format",
    "deprecated",
    "readOnly",
    "writeOnly",
    "const",
    "enum",
    "default",
    "examples",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "maxContains",
    "minContains",
    "maxItems",
    "minItems",
    "uniqueItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "required",
    "maxProperties",
    "minProperties",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "$defs",
    "definitions",
    "$comment",
];

/// A place in a schema file: the file, and a JSON pointer into it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    file: String,
    pointer: String,
}

struct Bundler<'l> {
    library: &'l Library,
    files: BTreeMap<String, Value>,
    /// The `$id` of each component's schema, read once a reference needs it.
    ids: Option<BTreeMap<String, String>>,
    /// The name of each target under `$defs`, and those not written yet.
    names: BTreeMap<Target, String>,
    open: Vec<Target>,
    nodes: usize,
}

/// An error: where, and what.
type SchemaError = (Option<Span>, String);

/// The part `entrypoint` of a schema file, with everything it refers to.
pub(super) fn bundle(
    library: &Library,
    path: &str,
    entrypoint: &str,
    from: Option<&Span>,
    problems: &mut Problems,
) -> Option<Value> {
    let mut bundler = Bundler {
        library,
        files: BTreeMap::new(),
        ids: None,
        names: BTreeMap::new(),
        open: Vec::new(),
        nodes: 0,
    };
    let bundled = bundler.run(path, entrypoint).and_then(|schema| match expansion::check(&schema) {
        Ok(()) => Ok(schema),
        Err(message) => Err((None, message)),
    });
    match bundled {
        Ok(schema) => Some(schema),
        Err((span, message)) => {
            let hint = "references may lead to schemas below `components/` of the same library";
            let span = span.or_else(|| from.cloned()).unwrap_or_else(|| place(path));
            problems.error_with_hint(&span, message, hint);
            None
        }
    }
}

/// The `type` at the root of a schema file.
pub(super) fn root_type(library: &Library, path: &str, problems: &mut Problems) -> Option<String> {
    let source = library.text(path, MOST_BYTES, problems)?;
    json(&source, problems)?["type"].as_str().map(str::to_owned)
}

/// The entry point if the catalog names none: the root, or `$defs/output` if the root has no keywords of its own.
pub(super) fn default_entrypoint(
    library: &Library,
    path: &str,
    problems: &mut Problems,
) -> Option<&'static str> {
    let source = library.text(path, MOST_BYTES, problems)?;
    let schema = json(&source, problems)?;
    let speaks = ["type", "$ref", "properties", "items", "allOf", "anyOf", "oneOf", "enum", "const"]
        .iter()
        .any(|key| schema.get(key).is_some());
    let has_output = schema.pointer("/$defs/output").is_some();
    Some(if !speaks && has_output { "#/$defs/output" } else { "#" })
}

impl Bundler<'_> {
    fn run(&mut self, path: &str, entrypoint: &str) -> Result<Value, SchemaError> {
        let mut entry = self.resolve(path, entrypoint)?;
        // Follow a schema that only refers to another one.
        for _ in 0..MOST_FILES {
            let Some(next) = self.file(&entry.file)?.pointer(&entry.pointer).and_then(handed_on) else {
                break;
            };
            entry = self.resolve(&entry.file.clone(), &next)?;
        }
        let dialect = self.file(path)?.get("$schema").cloned();
        self.names.insert(entry.clone(), String::new());
        let mut root = self.write(&entry)?;
        let mut defs = Map::new();
        while let Some(target) = self.open.pop() {
            let schema = self.write(&target)?;
            defs.insert(self.names[&target].clone(), schema);
        }
        let Value::Object(map) = &mut root else { return Ok(root) };
        if let Some(dialect) = dialect {
            map.shift_insert(0, "$schema".to_owned(), dialect);
        }
        if !defs.is_empty() {
            let mut sorted: Vec<(String, Value)> = defs.into_iter().collect();
            sorted.sort_by(|a, b| a.0.cmp(&b.0));
            map.insert("$defs".to_owned(), sorted.into_iter().collect());
        }
        Ok(root)
    }

    /// The schema at a place, with references rewritten and its own definitions left out.
    fn write(&mut self, target: &Target) -> Result<Value, SchemaError> {
        let file = self.file(&target.file)?;
        let Some(schema) = file.pointer(&target.pointer) else {
            return Err((None, format!("`{}` has nothing at `#{}`", target.file, target.pointer)));
        };
        let schema = schema.clone();
        if !schema.is_object() && !schema.is_boolean() {
            return Err((None, format!("`{}#{}` is not a schema", target.file, target.pointer)));
        }
        self.schema(&target.file, schema)
    }

    /// A schema, or a list of them.
    fn schema(&mut self, file: &str, value: Value) -> Result<Value, SchemaError> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return Err((None, format!("the schema has more than {MOST_NODES} parts")));
        }
        let map = match value {
            Value::Object(map) => map,
            Value::Array(items) => {
                return items.into_iter().map(|item| self.schema(file, item)).collect();
            }
            other => return Ok(other),
        };
        let mut written = Map::new();
        for (key, value) in map {
            let value = match key.as_str() {
                "$schema" | "$defs" | "definitions" | "$comment" => continue,
                "$dynamicRef" | "$recursiveRef" => {
                    return Err((None, format!("`{file}`: `{key}` is not supported; write `$ref`")));
                }
                "$ref" => {
                    let Value::String(reference) = value else {
                        return Err((None, format!("`{file}`: `$ref` is not a text")));
                    };
                    let target = self.resolve(file, &reference)?;
                    Value::from(self.reference(target)?)
                }
                key if DATA.contains(&key) => value,
                key if !KNOWN.contains(&key) => continue,
                key if NAMED.contains(&key) => match value {
                    Value::Object(named) => {
                        let mut out = Map::new();
                        for (name, schema) in named {
                            let schema = self.schema(file, schema)?;
                            out.insert(name, schema);
                        }
                        Value::Object(out)
                    }
                    other => other,
                },
                _ => self.schema(file, value)?,
            };
            written.insert(key, value);
        }
        Ok(Value::Object(written))
    }

    /// The reference within the bundle; queues the target if it is new.
    fn reference(&mut self, target: Target) -> Result<String, SchemaError> {
        let shown = |name: &str| if name.is_empty() { "#".to_owned() } else { format!("#/$defs/{name}") };
        if let Some(name) = self.names.get(&target) {
            return Ok(shown(name));
        }
        if self.names.len() > MOST_PARTS {
            return Err((None, format!("the schema refers to more than {MOST_PARTS} others")));
        }
        let component = target.file.split('/').nth(1).unwrap_or("schema");
        let last = target.pointer.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or(component);
        let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
        let base: String = last.chars().take(60).map(legal).collect();
        let mut name = base.clone();
        let mut number = 1;
        while self.names.values().any(|known| *known == name) {
            number += 1;
            name = format!("{base}_{number}");
        }
        self.names.insert(target.clone(), name.clone());
        self.open.push(target);
        Ok(shown(&name))
    }

    /// The place that a reference in a file points to.
    fn resolve(&mut self, from: &str, reference: &str) -> Result<Target, SchemaError> {
        let (path, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let outside = || {
            (
                None,
                format!("`{from}`: the reference `{reference}` points outside the components of the library"),
            )
        };
        let file = if path.is_empty() {
            from.to_owned()
        } else if path.contains("://") {
            self.by_id(path)?.ok_or_else(outside)?
        } else {
            joined(from, path)
                .filter(|file| file.starts_with("components/") && is_inside(file))
                .ok_or_else(outside)?
        };
        let fragment =
            percent::decode(fragment).and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(outside)?;
        let document = self.file(&file)?;
        let pointer = if fragment.is_empty() || fragment.starts_with('/') {
            fragment
        } else {
            anchor(document, &fragment, String::new(), 0)
                .ok_or_else(|| (None, format!("`{file}` has no `$anchor` named `{fragment}`")))?
        };
        if document.pointer(&pointer).is_none() {
            return Err((None, format!("`{from}`: the reference `{reference}` does not resolve")));
        }
        Ok(Target { file, pointer })
    }

    fn file(&mut self, path: &str) -> Result<&Value, SchemaError> {
        if !self.files.contains_key(path) {
            if self.files.len() >= MOST_FILES {
                return Err((None, format!("the schema is spread over more than {MOST_FILES} files")));
            }
            let mut problems = Problems::default();
            let value = match self.library.text(path, MOST_BYTES, &mut problems) {
                Some(source) => json(&source, &mut problems),
                None => None,
            };
            let Some(value) = value else {
                let message = match problems.finish() {
                    Ok(_) => format!("schema `{path}` not found"),
                    Err(invalid) => invalid.to_string(),
                };
                return Err((None, message));
            };
            self.files.insert(path.to_owned(), value);
        }
        Ok(&self.files[path])
    }

    /// The file whose `$id` this is.
    fn by_id(&mut self, id: &str) -> Result<Option<String>, SchemaError> {
        if self.ids.is_none() {
            let components = self
                .library
                .folders("components")
                .map_err(|refused| (None, refused.explain("components")))?;
            let mut ids = BTreeMap::new();
            for component in components {
                let path = format!("components/{component}/schema.json");
                let Ok(Some(bytes)) = self.library.read(&path, MOST_BYTES) else { continue };
                let Ok(schema) = serde_json::from_slice::<Value>(&bytes) else { continue };
                if let Some(id) = schema["$id"].as_str() {
                    ids.insert(id.trim_end_matches('#').to_owned(), path);
                }
            }
            self.ids = Some(ids);
        }
        Ok(self.ids.as_ref().and_then(|ids| ids.get(id)).cloned())
    }
}

/// The reference of a schema that contains nothing else.
fn handed_on(schema: &Value) -> Option<String> {
    let silent = ["$ref", "$schema", "title", "description", "$defs", "definitions", "$comment"];
    let map = schema.as_object()?;
    let speaks = |key: &String| KNOWN.contains(&key.as_str()) && !silent.contains(&key.as_str());
    if map.keys().any(speaks) { None } else { map.get("$ref")?.as_str().map(str::to_owned) }
}

/// A relative path from the folder of a file; `None` if it leaves the library.
fn joined(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The pointer to the schema with this `$anchor`.
fn anchor(value: &Value, name: &str, pointer: String, depth: usize) -> Option<String> {
    if depth > 100 {
        return None;
    }
    match value {
        Value::Object(map) => {
            if map.get("$anchor").is_some_and(|anchor| anchor == name) {
                return Some(pointer);
            }
            map.iter().find_map(|(key, value)| {
                let key = key.replace('~', "~0").replace('/', "~1");
                anchor(value, name, format!("{pointer}/{key}"), depth + 1)
            })
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(place, item)| anchor(item, name, format!("{pointer}/{place}"), depth + 1)),
        _ => None,
    }
}
