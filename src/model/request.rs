//! A request: one line of `requests.jsonl`. It names no URL, no key and no environment variable.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{Digest, Tool};

/// One call to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Unique in the batch: `<test-id>`, or `<test-id>#<n>` from the second replicate on.
    pub id: String,
    /// The conversation, in order.
    pub messages: Vec<Message>,
    /// Parameters of this request; the rest comes from the runner's target.
    #[serde(default, skip_serializing_if = "Params::is_empty")]
    pub params: Params,
    /// Tools that the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// Attachments that blocks of `messages` refer to; each pair of digest and name occurs once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Attachment>,
    /// Origin of the request; never sent to a model.
    #[serde(default)]
    pub metadata: Metadata,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions above the conversation.
    System,
    User,
    /// The model, in earlier turns.
    Assistant,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    pub role: Role,
    pub content: Content,
}

/// Content of a message: plain text or blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// A JSON string.
    Text(String),
    /// A JSON array of blocks.
    Blocks(Vec<Block>),
}

// Implemented by hand: for an untagged enum, every error would be "did not match any variant".
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

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum Block {
    Text {
        text: String,
    },
    /// A document. The model gets text files as text and a PDF as a document.
    File {
        /// One of the request's `files`.
        sha256: Digest,
        /// Name in `files`, if several have this digest; defaults to the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    Image {
        /// One of the request's `files`.
        sha256: Digest,
        /// Name in `files`, if several have this digest; defaults to the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
}

/// A file that travels with the batch as `files/<sha256>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// Digest of its bytes, which is its name in the archive.
    pub sha256: Digest,
    /// Relative name from the suite. The model reads it; it is never opened as a path.
    pub name: String,
    /// For example `text/markdown` or `image/png`.
    pub media_type: String,
    pub size: u64,
}

/// Parameters that a request may set. The list is closed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Overrides the target's model, if the runner's policy allows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Sampling temperature; most current models reject or ignore it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Best-effort seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Stop sequences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Limit on output tokens, including reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Reasoning effort. Legal values differ by model, so any value is passed through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
}

impl Params {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These parameters, with `defaults` for those that are not set.
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

/// Format of the output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ResponseFormat {
    /// No constraint.
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema { json_schema: JsonSchema },
}

/// A named JSON schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonSchema {
    /// `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// Whether the provider must enforce the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// The schema, with its keys in the author's order.
    pub schema: Value,
}

/// Origin of a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// Test id; empty if the requests file has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub test_id: String,
    /// Counted from 1; 0 if the requests file has none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replicate: u32,
    /// Other metadata from the requests file.
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
