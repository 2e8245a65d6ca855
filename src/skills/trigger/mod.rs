//! The part of skill evaluations that runs on GitHub Actions: finds what to evaluate and requests it from the service.
//!
//! `range` finds the commits to check, `bumps` the components with a version bump in them; both use GitHub's REST API without a
//! clone. `service` is the client of the service at its `address`, with `hints` for its errors. `request` requests
//! evaluations, once each; `outcome` is the result of one; `sweep` finds missing ones and waits while the service is busy. `render` formats the report,
//! `event` reads the push that triggered a step. `library` names the repository of the skills.

mod address;
mod bumps;
mod event;
mod hints;
mod library;
mod outcome;
mod range;
mod render;
mod request;
mod service;
mod sweep;

pub use bumps::find_bumps;
pub use event::Push;
pub use library::{library_url, repository};
pub use range::pushed;
pub use render::{TriggerReport, render_json, render_markdown, render_text};
pub use request::{Attempt, request};
pub use service::{Service, ServiceOptions, ServiceRequest};
pub use sweep::{Sweep, sweep};
