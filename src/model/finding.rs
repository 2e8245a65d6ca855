//! What a check found out, for people and for programs.

use serde::Serialize;

use super::Failure;

/// One thing that a check found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub level: Level,
    /// What it is; may have several lines.
    pub text: String,
    /// The way out, where one is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// It is as it should be.
    Ok,
    /// Good to know.
    Note,
    /// It works, or works for some, but is probably not meant.
    Warning,
    /// Nobody could say: the one who knows did not answer.
    Unknown,
    /// It does not work.
    Error,
}

impl Finding {
    /// A finding without a hint.
    pub fn new(level: Level, text: impl Into<String>) -> Self {
        Self { level, text: text.into(), hint: None }
    }

    /// Something is as it should be.
    pub fn ok(text: impl Into<String>) -> Self {
        Self::new(Level::Ok, text)
    }

    /// What a failure says.
    pub fn failure(level: Level, failure: &Failure) -> Self {
        Self { level, text: failure.to_string(), hint: failure.hint_text().map(ToOwned::to_owned) }
    }

    /// Adds the way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
