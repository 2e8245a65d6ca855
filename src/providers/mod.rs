//! The APIs of model vendors: no other module knows them.
//!
//! A [`Caller`] encodes a request once and sends it as often as its user needs; waiting and retrying are the user's
//! task. Everything between the bytes is pure: `openai`, `azure`, `anthropic`, `gemini`, `bedrock` and `vertex` each define a
//! `Wire`, which turns requests into bodies and bodies into replies, `fault` and `classify` read errors, `headers` reads limits and waits. Only
//! `http` uses the network, and `mock` replaces it. `auth` adds the credentials.

mod anthropic;
mod attachments;
mod auth;
mod azure;
mod base_url;
mod bedrock;
mod caller;
mod classify;
mod fault;
mod gemini;
mod headers;
mod http;
mod lenient;
mod mock;
mod models;
mod openai;
mod reply;
mod script;
mod vertex;
mod wire;

#[cfg(test)]
mod tests;

pub use auth::{accepted_identity, check_identity};
pub use base_url::chat_completions_url;
pub use caller::{Call, Caller};
pub use headers::{Allowance, RateHints};
pub use models::{ListedModel, list_models};
use reply::Refusal;
pub use reply::{CallError, Reply, Retry};
