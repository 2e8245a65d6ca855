//! Skill evaluations: a request in, leaderboard entries out; the same for the command and the service.
//!
//! An `order` is a request: a skill, the number of replicates, and optionally a commit. `workspace` has the paths of the clones, the targets and the state.
//! `check_out` updates the clones (`clones`) and reads everything needed later (`export` takes the files
//! from the commit, `datasets` those that cases refer to). `backends` finds the target of each model. `run` runs all cases and
//! scores the answers (`evaluated`), with `grade` if a model grades prose; `plan` makes a second run with the same id a resume. `publish` commits the leaderboard to a
//! separate branch and opens the pull request, whose text is `body`. `failure` has the errors, `messages`
//! the warnings of a run, `cleanup` deletes what is no longer needed, `trust` keeps an evaluated commit from choosing targets, `forward` updates a clone crash-safely, and `maintain` keeps it small. `files` writes the output directory, with the statements of `attestation`.

mod attestation;
mod backends;
mod body;
mod check_out;
mod cleanup;
mod clones;
mod datasets;
mod details;
mod export;
mod failure;
mod files;
mod forward;
mod grade;
mod latest;
mod maintain;
mod messages;
mod plan;
mod publish;
mod request;
mod result;
mod run;
pub mod trust;
mod workspace;

pub use body::{pull_request_body, render_text};
pub use check_out::{Checkout, check_out};
pub use cleanup::clean_up;
pub use failure::{CheckoutError, CheckoutProblem, Failure};
pub use files::{render_json, write_files};
pub use latest::{Latest, LatestResults, latest};
pub use maintain::maintain;
pub use plan::{KeptEvaluation, has_begun, kept, resumed};
pub use publish::{PublishOptions, Published, check_repo, may_publish, publish};
pub use request::{EvaluationRequest, Pinned};
pub use result::EvaluationResult;
pub use run::{Progress, RunProgress, run};
pub use workspace::{CloneSource, Update, Workspace};
