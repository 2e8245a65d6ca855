//! GitHub: its REST API, its tokens, and the artifact service of a running job. The only place that knows octocrab.
//!
//! `transport` is the way out, `call` one request with its repetitions, `limits` and `patience` how long it waits, `error`
//! and `explain` what the user reads when GitHub says no. `repository`, `dispatch`, `runs`, `logs`, `artifacts`, `comments`, `issues` and `pulls` are
//! the routes.
//! `token` finds the credentials and `app` makes those of a GitHub App. `results` is the protocol by which a container
//! action uploads artifacts; no REST route can.

mod app;
mod artifacts;
mod call;
mod client;
mod comments;
mod dispatch;
mod error;
mod explain;
mod issues;
mod limits;
mod logs;
mod patience;
mod pulls;
mod repository;
mod results;
mod runs;
mod saved;
#[cfg(test)]
mod tests;
mod token;
mod transport;

pub use app::AppKey;
pub use artifacts::Artifact;
pub use client::{Auth, Client, ClientOptions, Notify, check_api_url};
pub use comments::CommentPut;
pub use dispatch::Dispatched;
pub use error::ApiError;
pub use patience::Patience;
pub use pulls::{NewPull, Pull};
pub use repository::{RepositoryInfo, Workflow};
pub use results::{DuplicateArtifact, ResultsService, ServiceArtifact};
pub use runs::{Etag, Job, Polled, Run, Step};
pub use token::{TokenSources, find_token};
