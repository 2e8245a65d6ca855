//! Skill evaluations: an order in, entries of the leaderboard out; the same for the command and for the service.
//!
//! An `order` names a skill, how often, and maybe a commit. `workspace` is where the clones, the targets and the state are.
//! `check_out` brings the clones up to date (`clones`) and reads everything that is paid for later (`export` takes the files
//! out of the commit, `datasets` those that cases point at). `backends` finds who serves each model. `run` has every case answered by the runner and
//! scores the answers (`evaluated`), with `grade` where a model grades prose; `plan` is what makes a second run under the same id a resume. `publish` commits the leaderboard on a
//! branch of its own and opens the pull request, whose text is `body`. `failure` is how any of it ends badly, `messages`
//! what is said of a run, `cleanup` deletes what is no longer needed, `trust` keeps an evaluated commit from choosing targets, `forward` moves a clone so that a crash is repaired, and `maintain` keeps it small. `files` writes the output directory, with the statements of `attestation`.

mod attestation;
mod backends;
mod body;
mod check_out;
mod cleanup;
mod clones;
mod datasets;
mod details;
mod evaluated;
mod export;
mod failure;
mod files;
mod forward;
mod grade;
mod maintain;
mod messages;
mod order;
mod plan;
mod publish;
mod run;
pub mod trust;
mod workspace;

pub use body::{pull_request_body, render_text};
pub use check_out::{Checkout, check_out};
pub use cleanup::clean_up;
pub use evaluated::Evaluated;
pub use failure::{CheckoutError, CheckoutProblem, Failure};
pub use files::{render_json, write_files};
pub use maintain::maintain;
pub use order::{Order, Pinned};
pub use plan::{KeptEvaluation, has_begun, kept, resumed};
pub use publish::{PublishOptions, Published, check_repo, may_publish, publish};
pub use run::{Progress, RunProgress, run};
pub use workspace::{Source, Update, Workspace};
