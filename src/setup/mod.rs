//! Sets up runner repositories and checks set-ups.
//!
//! `init_runner` creates or completes a runner repository: `survey` reads what is there, `steps` are what is missing, `files` is what
//! they write, with `models` for the example models, `vendor_half` is what to set up at a vendor without a stored key, and `local_target` adds the dispatcher's target. `doctor` reads a set-up from the
//! token to the key, and changes nothing; `target_report` renders its findings.

mod doctor;
mod files;
mod init_runner;
mod local_target;
mod models;
mod ping;
mod steps;
mod survey;
mod target_report;
mod vendor_half;

pub use doctor::{Costs, examine, ping_costs, shutdown};
pub use init_runner::init_runner;
pub use models::{ModelChoice, is_supported};
pub use ping::{PING_BYTES, PING_TOKENS, Ping};
pub use survey::{Keyless, RunnerPlan};
pub use target_report::{Report, Status, TargetReport};
