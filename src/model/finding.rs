//! Findings of checks, for people and programs.

use serde::Serialize;

use super::Failure;

/// One finding of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub level: Level,
    /// Message; may have several lines.
    pub text: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The check passed.
    Ok,
    /// Information only.
    Note,
    /// It works, at least for some, but is probably not intended.
    Warning,
    /// The check failed to run, for example because a server did not respond.
    Unknown,
    /// It does not work.
    Error,
}

impl Finding {
    pub fn new(level: Level, text: impl Into<String>) -> Self {
        Self { level, text: text.into(), hint: None }
    }

    /// A passed check.
    pub fn ok(text: impl Into<String>) -> Self {
        Self::new(Level::Ok, text)
    }

    /// A finding with the message and hint of a failure.
    pub fn failure(level: Level, failure: &Failure) -> Self {
        Self { level, text: failure.to_string(), hint: failure.hint_text().map(ToOwned::to_owned) }
    }

    /// Adds the hint: how to fix it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
