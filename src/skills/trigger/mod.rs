//! The side of skill evaluations that lives on GitHub Actions: it finds what is to be evaluated and asks the service for it.
//!
//! `range` is the commits that are looked at, `bumps` the components whose version rose in them; both read GitHub's REST API and
//! clone nothing. `service` speaks to the service at its `address`, and `hints` is the way out where that fails. `request` asks it for
//! evaluations, once each; `outcome` is what becomes of one; `sweep` finds what is missing and waits for its turn. `render` makes what people and programs read of it,
//! `event` the push that a trigger looks at. `library` names the repository of the skills.

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
pub use outcome::Outcome;
pub use range::pushed;
pub use render::{TriggerReport, render_json, render_markdown, render_text};
pub use request::{Attempt, request};
pub use service::{Order, Service, ServiceOptions};
pub use sweep::{Patrol, sweep};
