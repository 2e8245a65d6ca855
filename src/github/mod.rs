//! GitHub's REST API, its tokens, and the artifact service of a running job. Only this module uses
//! octocrab.
//!
//! - `client`, `call`, `transport`: requests with retries
//! - `limits`, `retry_policy`: rate limits and delays
//! - `error`, `hints`: errors for the user
//! - `access`, `token`, `app`: credentials
//! - `results`: the protocol by which a container action uploads artifacts; no REST route can
//! - the other modules: one per group of routes

mod access;
mod account;
mod app;
mod artifacts;
mod call;
mod client;
mod comments;
mod dispatch;
mod download;
mod error;
mod hints;
mod history;
mod issues;
mod limits;
mod logs;
mod open_pulls;
mod pulls;
mod repository;
mod results;
mod retry_policy;
mod runs;
mod secrets;
mod settings;
#[cfg(test)]
mod tests;
mod token;
mod transport;

pub use access::Access;
pub use account::Account;
pub use app::AppKey;
pub use artifacts::Artifact;
pub use client::{Auth, Client, ClientOptions, Notify, check_api_url};
pub use comments::CommentPut;
pub use dispatch::Dispatched;
pub use error::{ApiError, TokenKind};
pub use history::{ChangedFile, Commit, CommitQuery, MOST_COMPARED_FILES};
pub use open_pulls::OpenPull;
pub use pulls::NewPull;
pub use repository::RepositoryInfo;
pub use results::{DuplicateArtifact, ResultsService};
pub use runs::{Etag, PollResult, Run, WorkflowJob};
pub use secrets::SecretPlace;
pub use token::{TokenSources, find_token};
