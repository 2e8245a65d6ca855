//! Sets up projects and runner repositories, and checks setups.
//!
//! `project` writes a first project. `init_runner` creates or completes a runner repository: `survey` reads the current state, `steps` are the missing parts, `files` is what
//! they write, with `models` for the example models, `provider_choice` for the provider, `vendor_half` is the setup at a vendor without a stored key, and `local_target` adds the dispatcher's target. `doctor` checks a setup from the
//! token to the key, and changes nothing; `target_report` renders its findings.

mod doctor;
mod files;
mod init_runner;
mod local_target;
mod models;
mod ping;
mod preflight;
mod project;
mod provider_choice;
mod steps;
mod target_report;
mod vendor_half;

pub use doctor::{DoctorOptions, check_targets};
pub use init_runner::init_runner;
pub use models::ModelChoice;
pub use preflight::RunnerPlan;
pub use project::init_project;
pub use provider_choice::{choose_provider, known_providers};
pub use target_report::Status;
