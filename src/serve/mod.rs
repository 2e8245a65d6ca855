//! The service on a machine that can reach the models: accepts service jobs over HTTP.
//!
//! - `listen`, `router`, `peer`, `auth`: the port, the routes, and who may use them
//! - `api`: one file per endpoint; `app` is their shared state
//! - `jobs`, `worker`, `evaluation`: service jobs, each on its own thread; only `evaluation` knows how to
//!   evaluate
//! - `failures`: reports failed jobs to the skill's authors
//! - `log`: the log
//!
//! The pages (`crate::studio`) and gateways are separate routers, mounted in `router`.

mod api;
mod app;
pub mod auth;
mod body;
mod error;
mod evaluation;
mod failures;
pub mod jobs;
mod listen;
mod log;
mod peer;
mod router;
mod run;
mod signals;
mod worker;

pub use api::submit;
pub use app::App;
pub use body::read_body;
pub use error::Refusal;
pub use evaluation::{Evaluator, ReportFailures};
pub use listen::{ListenOptions, TlsFiles};
pub use log::{LogOptions, LogTo};
pub use peer::Peer;
pub use router::router;
pub use run::{Options, serve};
