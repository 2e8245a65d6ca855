//! The side of skill evaluations that lives on GitHub Actions: it finds what is to be evaluated and asks the service for it.
//!
//! `range` is the commits that are looked at, `bumps` the components whose version rose in them; both read GitHub's REST API and
//! clone nothing. `service` speaks to the service at its `address`, and `advice` is the way out where that fails. `fire` asks it for
//! evaluations, once each; `sweep` finds what is missing and waits for its turn. `told` is what people and programs read of it,
//! `event` what GitHub says of a push.

mod address;
mod advice;
mod bumps;
mod event;
mod fire;
mod range;
mod service;
mod sweep;
mod told;

pub use bumps::{Bump, Found, find_bumps};
pub use event::PushEvent;
pub use fire::{Outcome, Shot, fire};
pub use range::{Range, pushed, recent};
pub use service::{Answer, CurrentJob, Job, Order, Service, ServiceOptions};
pub use sweep::{Patrol, sweep};
pub use told::{Told, render_json, render_markdown, render_text};
