//! One request: a line of `requests.jsonl`. It names no URL, no key and no environment variable.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::Digest;

/// What is asked of the model, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Unique in the batch: `<test-id>`, or `<test-id>#<n>` from the second replicate on.
    pub id: String,
    /// The conversation, in order.
    pub messages: Vec<Message>,
    /// What the request itself sets; the rest comes from the runner's target.
    #[serde(default, skip_serializing_if = "Params::is_empty")]
    pub params: Params,
    /// The attachments that blocks of `messages` refer to, each digest and name once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Attachment>,
    /// Where the request comes from; never sent to a model.
    #[serde(default)]
    pub metadata: Metadata,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions above the conversation.
    System,
    /// The person.
    User,
    /// The model, in earlier turns.
    Assistant,
}

/// One turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Content,
}

/// The content of a turn: plain text, or blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// A JSON string.
    Text(String),
    /// A JSON array of blocks.
    Blocks(Vec<Block>),
}

// Written by hand because an untagged enum answers every mistake with "did not match any variant".
impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Content;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string or a list of content blocks")
            }

            fn visit_str<E>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<Content, E> {
                Ok(Content::Text(text))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, seq: A) -> Result<Content, A::Error> {
                Vec::deserialize(serde::de::value::SeqAccessDeserializer::new(seq)).map(Content::Blocks)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A piece of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum Block {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A document: text files reach the model as text, a PDF as a document.
    File {
        /// Which of the request's `files`.
        sha256: Digest,
        /// Its name there, where several have these bytes; without it the first of them is meant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A picture.
    Image {
        /// Which of the request's `files`.
        sha256: Digest,
        /// Its name there, where several have these bytes; without it the first of them is meant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

/// A file that travels with the batch as `files/<sha256>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// The digest of its bytes, and its name in the archive.
    pub sha256: Digest,
    /// The name that the suite gave it, relative; for the model to read, never a path to open.
    pub name: String,
    /// For example `text/markdown` or `image/png`.
    pub media_type: String,
    /// Its length in bytes.
    pub size: u64,
}

/// The settings that a request may bring; this list is closed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Another model than the target's; only where the runner's policy allows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Sampling temperature; most current models refuse or ignore it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Best-effort seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Sequences that end the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The most tokens of output, reasoning included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// How hard to think; the legal words differ by model, so they are passed on as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// The shape of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
}

impl Params {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These settings, with `defaults` where they say nothing.
    #[must_use]
    pub fn or(&self, defaults: &Self) -> Self {
        Self {
            model: self.model.clone().or_else(|| defaults.model.clone()),
            temperature: self.temperature.or(defaults.temperature),
            top_p: self.top_p.or(defaults.top_p),
            seed: self.seed.or(defaults.seed),
            stop: if self.stop.is_empty() { defaults.stop.clone() } else { self.stop.clone() },
            max_tokens: self.max_tokens.or(defaults.max_tokens),
            reasoning_effort: self.reasoning_effort.clone().or_else(|| defaults.reasoning_effort.clone()),
            response_format: self.response_format.clone().or_else(|| defaults.response_format.clone()),
        }
    }
}

/// The shape that the answer must have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ResponseFormat {
    /// No constraint.
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that fits a schema.
    JsonSchema {
        /// The schema with its name.
        json_schema: JsonSchema,
    },
}

/// A named JSON schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonSchema {
    /// `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// Whether the vendor must enforce it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// The schema itself, its keys in the author's order.
    pub schema: Value,
}

/// Where a request comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// The test; empty where a requests file did not name one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub test_id: String,
    /// Counted from 1; 0 where a requests file did not say.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replicate: u32,
    /// Anything else the author noted.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_closed() {
        let error = serde_json::from_str::<Request>(
            r#"{"id":"a","messages":[],"params":{"base_url":"https://evil.example"}}"#,
        )
        .unwrap_err();
        assert!(
            error.to_string().starts_with("unknown field `base_url`, expected one of `model`"),
            "{error}"
        );
    }

    #[test]
    fn content_is_a_string_or_blocks() {
        let text: Message = serde_json::from_str(r#"{"role":"user","content":"hi"}"#).unwrap();
        assert_eq!(text.content, Content::Text("hi".into()));
        let blocks: Message =
            serde_json::from_str(r#"{"role":"user","content":[{"type":"text","text":"hi"}]}"#).unwrap();
        assert_eq!(blocks.content, Content::Blocks(vec![Block::Text { text: "hi".into() }]));
        let error = serde_json::from_str::<Message>(r#"{"role":"user","content":7}"#).unwrap_err();
        assert!(error.to_string().contains("a string or a list of content blocks"), "{error}");
    }
}
