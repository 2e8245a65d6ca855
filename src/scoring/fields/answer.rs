//! A model's answer, and how it is parsed.

use serde_json::Value;

use super::markdown;
use super::matcher::Matcher;
use crate::config::OutputFormat;
use crate::model::{FinishReason, Response, TokenUsage};

/// The result of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The answer, if there is one.
    pub outcome: Outcome,
    /// The tokens used, if the server reports them.
    pub tokens: Option<TokenUsage>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer.
    Text {
        /// The text.
        text: String,
        /// Whether it was truncated at the token limit.
        truncated: bool,
    },
    /// Without one.
    Failed,
}

impl Answer {
    /// A call without an answer.
    pub const FAILED: Self = Self { outcome: Outcome::Failed, tokens: None };

    /// The answer in a response.
    pub fn of(response: &Response) -> Self {
        let text = response.output.as_deref().and_then(<[_]>::last).map(|message| message.content.clone());
        let truncated = response.finish_reason == Some(FinishReason::Length);
        let outcome = text.map_or(Outcome::Failed, |text| Outcome::Text { text, truncated });
        Self { outcome, tokens: response.token_usage }
    }
}

/// The answer as a tree of fields; `None` if it is not in the skill's format.
pub(super) fn parse(text: &str, format: OutputFormat, rules: &Matcher<'_>) -> Option<Value> {
    let text = unfenced(text);
    match format {
        OutputFormat::Markdown => (!text.is_empty()).then(|| markdown::tree(text, rules)),
        OutputFormat::JsonObject | OutputFormat::JsonArray => serde_json::from_str(text).ok(),
    }
}

/// The text, trimmed, and without the fence if the whole text is one fenced block.
pub(super) fn unfenced(text: &str) -> &str {
    let text = text.trim_start_matches('\u{feff}').trim();
    let inner = || {
        let length = text.bytes().take_while(|byte| *byte == b'`').count();
        let (first, rest) = text.split_once('\n')?;
        let fence = &text[..length];
        let is_opening = length >= 3 && !first[length..].contains('`');
        let body = rest.strip_suffix(fence)?;
        // An inner fence ends the block, so the whole is not one block.
        let closes = |line: &str| line.trim().len() >= length && line.trim().bytes().all(|byte| byte == b'`');
        let is_whole = is_opening && (body.is_empty() || body.ends_with('\n')) && !body.lines().any(closes);
        is_whole.then(|| body.trim())
    };
    inner().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_around_the_whole_answer_is_removed() {
        for (text, inner) in [
            ("```json\n{\"a\": 1}\n```", "{\"a\": 1}"),
            ("\u{feff}\n```\n[]\n```\n", "[]"),
            ("````markdown\n# X\n```\ncode\n```\n````", "# X\n```\ncode\n```"),
            ("```json\r\n{}\r\n```\r\n", "{}"),
        ] {
            assert_eq!(unfenced(text), inner);
        }
        for whole in [
            "{}",
            "Here it is:\n```json\n{}\n```",
            "```json\n{}\n```\nDone.",
            "```json\n{}\n```\n```json\n{}\n```",
            "```json {} ```",
            "```json\n{}",
            "```",
            "",
        ] {
            assert_eq!(unfenced(whole), whole);
        }
    }
}
