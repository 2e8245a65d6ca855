//! The service on a machine that can reach the models: it takes orders over HTTP, and has no logic of its own.
//!
//! `listen` opens the port (TLS, limits), `router` says who answers what, `auth` who may ask, `api` has a file an
//! endpoint, `app` what they share, `log` what is written down. `jobs` are kept there, made on a thread of their own by
//! `worker`, through `work`, the only file that knows evaluations; `failures` reach whoever wrote the skill. Pages and gateways are routers of their own, mounted in
//! `router`.

mod answer;
mod api;
mod app;
pub mod auth;
mod body;
mod failures;
pub mod jobs;
mod listen;
mod log;
mod peer;
mod router;
mod run;
mod signals;
mod work;
mod worker;

pub use answer::Refusal;
pub use app::App;
pub use body::read_body;
pub use listen::{ListenOptions, TlsFiles};
pub use log::{LogOptions, LogTo};
pub use peer::Peer;
pub use router::router;
pub use run::{Options, serve};
pub use work::{ReportFailures, Work};
