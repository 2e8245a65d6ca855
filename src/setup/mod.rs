//! Sets up runner repositories and checks setups.
//!
//! `init_runner` creates or completes a runner repository: `survey` reads the current state, `steps` are the missing parts, `files` is what
//! they write, with `models` for the example models, `vendor_half` is the setup at a vendor without a stored key, and `local_target` adds the dispatcher's target. `doctor` checks a setup from the
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
