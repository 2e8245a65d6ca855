//! What a gateway in front of several models adds: a model list with aliases, answers that depend on model and message, and
//! its own error format (`{"detail": …}`, no `Retry-After`), like MindRouter.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::chat::json as bytes;

/// The models and their answers.
#[derive(Debug, Default)]
pub(crate) struct Gateway {
    /// Each model, with the target of an alias; if empty, any model is accepted.
    models: Vec<(String, Option<String>)>,
    answers: Vec<Answer>,
    /// Whether errors are MindRouter's.
    pub(crate) mindrouter: bool,
}

/// A line of the file with answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    /// Its model; any if not given.
    model: Option<String>,
    /// A part of the last user message.
    #[serde(default)]
    contains: String,
    /// What is answered.
    content: Option<String>,
    /// Or the status of an error.
    status: Option<u16>,
}

/// The outcome of a request.
pub(crate) enum Said {
    /// The message itself is the answer.
    Echo,
    /// This text is the answer.
    Content(String),
    /// It is rejected.
    Refused(u16, String),
}

impl Gateway {
    /// Adds `NAME`, or `NAME=TARGET` for an alias.
    pub(crate) fn add_model(&mut self, text: &str) {
        let (name, target) = text.split_once('=').map_or((text, None), |(name, target)| (name, Some(target)));
        self.models.push((name.to_owned(), target.map(str::to_owned)));
    }

    /// Reads the answers from a JSONL file.
    pub(crate) fn read_answers(&mut self, path: &Path) -> Result<(), String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let answer =
                serde_json::from_str(line).map_err(|error| format!("`{}`: {error}", path.display()))?;
            self.answers.push(answer);
        }
        Ok(())
    }

    /// `GET /v1/models`.
    pub(crate) fn list(&self) -> Vec<u8> {
        let entry = |(name, target): &(String, Option<String>)| {
            json!({
                "id": name, "object": "model", "created": 1_700_000_000, "owned_by": "mock",
                "capabilities": { "structured_output": true }, "context_length": 131_072,
                "is_alias": target.is_some(), "alias_target": target,
            })
        };
        bytes(&json!({ "object": "list", "data": self.models.iter().map(entry).collect::<Vec<_>>() }))
    }

    /// The answer to a message.
    pub(crate) fn answer(&self, model: &str, message: &str) -> Said {
        if !self.models.is_empty() && !self.models.iter().any(|(name, _)| name == model) {
            return Said::Refused(404, format!("Model '{model}' not found"));
        }
        let fits = |answer: &&Answer| {
            answer.model.as_deref().is_none_or(|name| name == model) && message.contains(&answer.contains)
        };
        match self.answers.iter().find(fits) {
            None => Said::Echo,
            Some(Answer { status: Some(status), content, .. }) => {
                Said::Refused(*status, content.clone().unwrap_or_else(|| "refused on purpose".to_owned()))
            }
            Some(answer) => Said::Content(answer.content.clone().unwrap_or_default()),
        }
    }

    /// An error in this gateway's format: a text, or an object for rate limits.
    pub(crate) fn shaped(&self, status: u16, body: Vec<u8>) -> Vec<u8> {
        let error: Value = serde_json::from_slice(&body).unwrap_or_default();
        match error.pointer("/error/message") {
            Some(message) if self.mindrouter && status == 429 => {
                bytes(&json!({ "detail": { "error": { "message": message, "type": "rate_limit_error" } } }))
            }
            Some(message) if self.mindrouter => bytes(&json!({ "detail": message })),
            _ => body,
        }
    }

    /// Status requests about the gateway itself; `/readyz` always returns 200.
    pub(crate) fn health(&self, path: &str) -> Option<Vec<u8>> {
        match path {
            "/healthz" if self.mindrouter => Some(bytes(&json!({ "status": "ok" }))),
            "/readyz" if self.mindrouter => Some(bytes(&json!({ "status": "not_ready", "database": false }))),
            _ => None,
        }
    }
}
