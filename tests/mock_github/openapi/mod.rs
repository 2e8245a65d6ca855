//! GitHub's own description of its routes, and validation of requests and responses.
//!
//! `fixtures/github/openapi.json` is created by `extract.mjs`. Undocumented responses of GitHub are listed in
//! `known`, one by one.

mod known;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::reply::{Query, decoded};

const DESCRIPTION: &str = include_str!("../../../fixtures/github/openapi.json");

/// The description.
pub(crate) struct OpenApi {
    routes: Vec<Route>,
    components: Value,
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

struct Route {
    name: String,
    method: String,
    segments: Vec<String>,
    operation: Value,
}

/// A request to one of GitHub's routes.
#[derive(Debug, Clone)]
pub(crate) struct Matched {
    /// `METHOD /path/{template}`.
    pub(crate) route: String,
    index: usize,
    parameters: Vec<(String, String)>,
}

impl OpenApi {
    /// Reads the fixture.
    pub(crate) fn load() -> anyhow::Result<Self> {
        let mut description: Value = serde_json::from_str(DESCRIPTION).context("the OpenAPI fixture")?;
        let Value::Object(operations) = description["routes"].take() else {
            anyhow::bail!("the OpenAPI fixture has no routes");
        };
        let routes = operations.into_iter().map(|(name, operation)| {
            let (method, path) = name.split_once(' ').unwrap_or_default();
            let segments = path.split('/').skip(1).map(str::to_owned).collect();
            Route { method: method.to_owned(), segments, operation, name }
        });
        Ok(Self {
            routes: routes.collect(),
            components: description["components"].take(),
            validators: Mutex::default(),
        })
    }

    /// The route of a request; the one with the most fixed segments, if several match.
    pub(crate) fn find(&self, method: &str, path: &str) -> Option<Matched> {
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let matches = self.routes.iter().enumerate().filter_map(|(index, route)| {
            let parameters = (route.method == method).then(|| route.parameters(&segments)).flatten()?;
            Some(Matched { route: route.name.clone(), index, parameters })
        });
        matches.min_by_key(|matched| matched.parameters.len())
    }

    /// The violations of a request.
    pub(crate) fn check_request(&self, matched: &Matched, query: &Query, body: &[u8]) -> Vec<String> {
        let operation = &self.routes[matched.index].operation;
        let declared = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
        let mut problems = Vec::new();
        let sent_in = |place: &str| -> &[(String, String)] {
            if place == "path" { &matched.parameters } else { &query.0 }
        };
        for parameter in declared {
            let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
            let sent: Vec<&String> =
                sent_in(place).iter().filter(|(key, _)| key == name).map(|(_, value)| value).collect();
            match sent[..] {
                [] if parameter["required"] == true => {
                    problems.push(format!("the {place} parameter `{name}` is missing"));
                }
                [] => {}
                [value] => {
                    // The description gives `created` the format of a date; in fact it accepts ranges of dates.
                    if !known::is_free_text(name) {
                        let key = format!("{} {place} {name}", matched.route);
                        problems.extend(
                            self.check(&key, &parameter["schema"], &typed(value, &parameter["schema"]))
                                .into_iter()
                                .map(|problem| format!("the {place} parameter `{name}`: {problem}")),
                        );
                    }
                }
                _ => problems.push(format!("the {place} parameter `{name}` is there twice")),
            }
        }
        for (name, _) in &query.0 {
            if !declared
                .iter()
                .any(|parameter| parameter["name"] == name.as_str() && parameter["in"] == "query")
            {
                problems.push(format!("there is no query parameter `{name}`"));
            }
        }
        let schema = &operation["body"]["application/json"];
        if body.is_empty() {
            if operation["body_required"] == true {
                problems.push("the body is missing".to_owned());
            }
        } else if schema.is_null() {
            // Clients may send an empty object where nothing is expected.
            if body != b"{}" && body != b"null" {
                problems.push("there should be no body".to_owned());
            }
        } else {
            match serde_json::from_slice::<Value>(body) {
                Ok(value) => problems.extend(self.check(&format!("{} body", matched.route), schema, &value)),
                Err(error) => problems.push(format!("the body is not JSON: {error}")),
            }
        }
        problems
    }

    /// The violations of a response.
    pub(crate) fn check_answer(
        &self,
        matched: &Matched,
        status: u16,
        content_type: &str,
        body: &[u8],
    ) -> Vec<String> {
        let responses = &self.routes[matched.index].operation["responses"];
        let content = match responses.get(status.to_string()) {
            Some(content) => content.clone(),
            None => match known::addition(&matched.route, status) {
                Some("") => json!({}),
                Some(schema) => {
                    json!({ "application/json": { "$ref": format!("#/components/schemas/{schema}") } })
                }
                None => return vec![format!("the status {status} is not described")],
            },
        };
        if known::is_other_media_type(content_type) {
            return Vec::new();
        }
        let error = known::undescribed_error(status);
        let schema =
            if content["application/json"].is_null() { &error } else { &content["application/json"] };
        if schema.is_null() {
            let is_empty = body.is_empty() || body == b"{}";
            return if is_empty {
                Vec::new()
            } else {
                vec![format!("the status {status} should have no body")]
            };
        }
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => self.check(&format!("{} {status}", matched.route), schema, &value),
            Err(error) => vec![format!("the answer {status} is not JSON: {error}")],
        }
    }

    fn check(&self, key: &str, schema: &Value, value: &Value) -> Vec<String> {
        let known = self.validators.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        let validator = match known.map_or_else(|| self.compile(schema).map(Arc::new), Ok) {
            Ok(validator) => validator,
            Err(error) => return vec![format!("the schema cannot be used: {error}")],
        };
        self.validators
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.to_owned(), Arc::clone(&validator));
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    fn compile(&self, schema: &Value) -> Result<Validator, String> {
        let mut components = Value::Null;
        self.add_components(schema, &mut components);
        let whole = json!({ "allOf": [schema], "components": components });
        let options =
            jsonschema::options().with_draft(jsonschema::Draft::Draft202012).should_validate_formats(true);
        options.build(&whole).map_err(|error| error.to_string())
    }

    /// Adds the components that a schema refers to, directly or indirectly: compiling all of them would take long.
    fn add_components(&self, schema: &Value, found: &mut Value) {
        let reference = schema["$ref"].as_str().and_then(|text| text.strip_prefix("#/components/"));
        if let Some((kind, name)) = reference.and_then(|path| path.split_once('/'))
            && found[kind][name].is_null()
        {
            let component = &self.components[kind][name];
            found[kind][name] = component.clone();
            self.add_components(component, found);
        }
        match schema {
            Value::Object(fields) => fields.values().for_each(|value| self.add_components(value, found)),
            Value::Array(items) => items.iter().for_each(|item| self.add_components(item, found)),
            _ => {}
        }
    }
}

impl Route {
    /// The values of the parameters in the path, if it matches this route.
    fn parameters(&self, segments: &[&str]) -> Option<Vec<(String, String)>> {
        let mut values = Vec::new();
        for (index, segment) in self.segments.iter().enumerate() {
            let Some(name) = segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}')) else {
                if segments.get(index) != Some(&segment.as_str()) {
                    return None;
                }
                continue;
            };
            let sent = segments.get(index).filter(|sent| !sent.is_empty())?;
            if matches!(name, "path" | "ref") {
                let rest: Vec<String> = segments[index..].iter().map(|segment| decoded(segment)).collect();
                values.push((name.to_owned(), rest.join("/")));
                return Some(values);
            }
            values.push((name.to_owned(), decoded(sent)));
        }
        (segments.len() == self.segments.len()).then_some(values)
    }
}

/// A parameter as the JSON value that its schema expects, if possible.
fn typed(text: &str, schema: &Value) -> Value {
    let wants = |name: &str| {
        schema["type"] == name
            || schema["oneOf"].as_array().is_some_and(|all| all.iter().any(|one| one["type"] == name))
    };
    if wants("integer")
        && let Ok(number) = text.parse::<i64>()
    {
        return Value::from(number);
    }
    match text {
        "true" if wants("boolean") => Value::from(true),
        "false" if wants("boolean") => Value::from(false),
        _ => Value::from(text),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, path: &str, query: &str, body: &str) -> Vec<String> {
        let openapi = OpenApi::load().unwrap();
        let matched = openapi.find(method, path).unwrap();
        openapi.check_request(&matched, &Query::parse(query), body.as_bytes())
    }

    #[test]
    fn routes_match_by_their_fixed_segments_first() {
        let openapi = OpenApi::load().unwrap();
        let route = |path: &str| openapi.find("GET", path).map(|matched| matched.route);
        assert_eq!(
            route("/repos/o/r/actions/artifacts/7/zip").unwrap(),
            "GET /repos/{owner}/{repo}/actions/artifacts/{artifact_id}/{archive_format}"
        );
        assert_eq!(
            route("/repos/o/r/contents/a/b%20c.txt").unwrap(),
            "GET /repos/{owner}/{repo}/contents/{path}"
        );
        assert_eq!(
            route("/repos/o/r/actions/workflows").unwrap(),
            "GET /repos/{owner}/{repo}/actions/workflows"
        );
        assert_eq!(route("/repos/o/r/nothing"), None);
        assert_eq!(route("/repos/o"), None);
    }

    #[test]
    fn undocumented_requests_are_violations() {
        let problems = [
            request("GET", "/repos/o/r/actions/runs", "per_page=x&display_title=a&created=%3E%3D2026", ""),
            request("GET", "/repos/o/r/actions/runs/seven", "", ""),
            request("POST", "/repos/o/r/actions/workflows/w.yml/dispatches", "", r#"{"inputs":[]}"#),
            request("POST", "/repos/o/r/actions/workflows/w.yml/dispatches", "", ""),
            request("POST", "/repos/o/r/actions/runs/1/cancel", "", r#"{"force":true}"#),
        ];
        insta::assert_snapshot!(problems.concat().join("\n"), @r#"
        the query parameter `per_page`: : "x" is not of type "integer"
        there is no query parameter `display_title`
        the path parameter `run_id`: : "seven" is not of type "integer"
        : "ref" is a required property
        /inputs: [] is not of type "object"
        the body is missing
        there should be no body
        "#);
    }

    #[test]
    fn undocumented_responses_are_violations() {
        let openapi = OpenApi::load().unwrap();
        let dispatch = openapi.find("POST", "/repos/o/r/actions/workflows/w.yml/dispatches").unwrap();
        let answer = |status: u16, body: &str| {
            openapi.check_answer(&dispatch, status, "application/json", body.as_bytes())
        };
        assert_eq!(answer(204, ""), Vec::<String>::new());
        assert_eq!(answer(422, r#"{"message":"No ref found for: x"}"#), Vec::<String>::new());
        insta::assert_snapshot!([answer(200, r#"{"workflow_run_id":"1"}"#), answer(418, "{}"), answer(204, "x")].concat().join("\n"), @r#"
        : "run_url" is a required property
        : "html_url" is a required property
        /workflow_run_id: "1" is not of type "integer"
        the status 418 is not described
        the status 204 should have no body
        "#);
    }
}
