//! Parses an error body in any format that vendors, servers and gateways use.

use std::time::Duration;

use serde_json::Value;

use super::headers::parse_duration;

/// The deepest nesting of errors that is read.
const DEEPEST: usize = 4;

/// A parsed error body.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Fault {
    /// The full message; may be empty.
    pub(super) message: String,
    /// Every code, type, status and reason, in lower case.
    pub(super) words: Vec<String>,
    /// The HTTP status in the error itself.
    pub(super) status: Option<u16>,
    /// The parameter at fault.
    pub(super) parameter: Option<String>,
    /// The exceeded quotas.
    pub(super) quotas: Vec<String>,
    /// The requested wait.
    pub(super) wait: Option<Duration>,
    /// When the limit is reset, as written.
    pub(super) reset: Option<String>,
    /// Whether it is a web page.
    pub(super) is_page: bool,
}

impl Fault {
    /// Reads a whole body.
    pub(super) fn read(body: &[u8]) -> Self {
        if let Ok(json) = serde_json::from_slice::<Value>(body) {
            let mut fault = Self::default();
            fault.body(&json, 0);
            return fault.or_say(&json);
        }
        let text = String::from_utf8_lossy(body);
        if text.trim_start().starts_with('<') {
            return Self { message: page(&text), is_page: true, ..Self::default() };
        }
        Self { message: text.trim().to_owned(), ..Self::default() }
    }

    /// Reads the value of `error`.
    pub(super) fn of_error(error: &Value) -> Self {
        let mut fault = Self::default();
        fault.error(error, 0);
        fault.or_say(error)
    }

    /// Whether it contains one of these words.
    pub(super) fn says(&self, words: &[&str]) -> bool {
        self.words.iter().any(|word| words.contains(&word.as_str()))
    }

    /// Whether the message contains one of these lower-case phrases.
    pub(super) fn mentions(&self, phrases: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        phrases.iter().any(|phrase| message.contains(phrase))
    }

    /// Uses the JSON itself if no message was found in it.
    fn or_say(mut self, json: &Value) -> Self {
        let is_blank = match json {
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => true,
        };
        if self.message.trim().is_empty() && !is_blank {
            self.message = json.to_string();
        }
        self
    }

    fn body(&mut self, json: &Value, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        match json {
            Value::Array(list) => {
                if let Some(first) = list.first() {
                    self.body(first, depth + 1);
                }
            }
            Value::Object(map) => {
                if let Some(error) = map.get("error").filter(|error| !error.is_null()) {
                    self.error(error, depth + 1);
                } else if let Some(detail) = map.get("detail").filter(|detail| !detail.is_null()) {
                    self.detail(detail, depth + 1);
                    self.words_of(json);
                } else {
                    self.error(json, depth + 1);
                }
            }
            Value::String(text) => self.say(text),
            other => self.say(&other.to_string()),
        }
    }

    fn error(&mut self, error: &Value, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        let Value::Object(map) = error else {
            self.say(error.as_str().unwrap_or(&error.to_string()));
            return;
        };
        if let Some(message) = map.get("message").or_else(|| map.get("msg")).and_then(Value::as_str) {
            self.say(message);
        }
        self.words_of(error);
        if self.parameter.is_none() {
            self.parameter = map.get("param").and_then(Value::as_str).map(str::to_owned);
        }
        match map.get("details") {
            Some(Value::Array(details)) => {
                for detail in details {
                    self.google_detail(detail);
                }
            }
            Some(details @ Value::Object(_)) => self.word(&details["error_code"]),
            _ => {}
        }
        if let Some(errors) = map.get("errors").and_then(Value::as_array) {
            for error in errors {
                self.word(&error["reason"]);
                self.say(error["message"].as_str().or(error.as_str()).unwrap_or_default());
            }
        }
        for inner in ["innererror", "inner_error", "provider_specific_fields"] {
            if let Some(inner) = map.get(inner) {
                self.word(&inner["code"]);
                self.word(&inner["innererror"]["code"]);
            }
        }
        if let Some(metadata) = map.get("metadata") {
            self.gateway(metadata, depth);
        }
    }

    /// `detail` of Python servers: a text, a list of problems, or an error of its own.
    fn detail(&mut self, detail: &Value, depth: usize) {
        match detail {
            Value::Array(complaints) => {
                for complaint in complaints {
                    let place: Vec<&str> = complaint["loc"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(Value::as_str)
                        .filter(|step| *step != "body")
                        .collect();
                    if !place.is_empty() && self.parameter.is_none() {
                        self.parameter = Some(place.join("."));
                    }
                    self.say(complaint["msg"].as_str().unwrap_or_default());
                }
            }
            other => self.body(other, depth),
        }
    }

    /// One of Google's typed details.
    fn google_detail(&mut self, detail: &Value) {
        let kind = detail["@type"].as_str().unwrap_or_default();
        match kind.rsplit('.').next().unwrap_or_default() {
            "ErrorInfo" => self.word(&detail["reason"]),
            "RetryInfo" => self.wait = detail["retryDelay"].as_str().and_then(parse_duration),
            "QuotaFailure" => {
                for violation in detail["violations"].as_array().into_iter().flatten() {
                    self.quotas.extend(violation["quotaId"].as_str().map(str::to_owned));
                }
            }
            "BadRequest" => {
                let field = detail["fieldViolations"][0]["field"].as_str();
                self.parameter = self.parameter.take().or_else(|| field.map(str::to_owned));
            }
            _ => {}
        }
    }

    /// OpenRouter's addition: the upstream's error, possibly as JSON inside a string.
    fn gateway(&mut self, metadata: &Value, depth: usize) {
        if metadata.get("flagged_input").is_some() {
            self.words.push("moderation".to_owned());
        }
        for (name, value) in metadata["headers"].as_object().into_iter().flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if name.eq_ignore_ascii_case("retry-after") {
                self.wait = parse_duration(&text);
            } else if name.eq_ignore_ascii_case("x-ratelimit-reset") {
                self.reset = Some(text);
            }
        }
        let mut upstream = Self::default();
        match &metadata["raw"] {
            Value::Null => return,
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Ok(json) => upstream.body(&json, depth + 1),
                Err(_) => upstream.say(text),
            },
            other => upstream.body(other, depth + 1),
        }
        if let Some(provider) = metadata["provider_name"].as_str() {
            upstream.message = format!("{provider}: {}", upstream.message);
        }
        self.say(&upstream.message);
        self.words.append(&mut upstream.words);
        self.quotas.append(&mut upstream.quotas);
        self.parameter = self.parameter.take().or(upstream.parameter);
        self.wait = self.wait.or(upstream.wait);
        self.status = self.status.or(upstream.status);
    }

    fn words_of(&mut self, error: &Value) {
        for key in ["code", "type", "status", "statusCode"] {
            self.word(&error[key]);
        }
    }

    /// A code: a status if it is a number, possibly quoted, otherwise a word.
    fn word(&mut self, code: &Value) {
        let number = match code {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        if let Some(status) = number.and_then(|number| u16::try_from(number).ok()) {
            self.status = self.status.or((400..600).contains(&status).then_some(status));
        } else if let Some(word) = code.as_str().filter(|word| !word.is_empty()) {
            self.words.push(word.to_lowercase());
        }
    }

    fn say(&mut self, text: &str) {
        if text.is_empty() || self.message.contains(text) {
            return;
        }
        if !self.message.is_empty() {
            self.message.push_str(": ");
        }
        self.message.push_str(text);
    }
}

/// The message for a web page in place of JSON.
fn page(html: &str) -> String {
    let lower = html.to_ascii_lowercase();
    let title = || {
        let start = lower.find("<title")?;
        let start = start + lower[start..].find('>')? + 1;
        let end = start + lower[start..].find("</title")?;
        Some(html[start..end].trim()).filter(|title| !title.is_empty())
    };
    title().map_or_else(
        || "the server returned a web page".to_owned(),
        |title| format!("the server returned a web page: `{title}`"),
    )
}
