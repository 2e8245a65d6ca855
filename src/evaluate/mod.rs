//! Skill evaluations: an order in, entries of the leaderboard out; the same for the command and for the service.
//!
//! An `order` names a skill, how often, and maybe a commit. `place` is where the clones, the targets and the state are.
//! `check_out` brings the clones up to date (`clones`) and reads everything that is paid for later (`export` takes the files
//! out of the commit, `datasets` those that cases point at). `backends` finds who serves each model. `run` has every case answered by the runner and
//! scores the answers (`evaluated`); `plan` is what makes a second run under the same id a resume. `publish` commits the leaderboard on a
//! branch of its own and opens the pull request, whose text is `body`. `failure` is how any of it ends badly, `told`
//! what is said of a run, and `forget` deletes what nobody needs any more.

mod backends;
mod body;
mod check_out;
mod clones;
mod datasets;
mod evaluated;
mod export;
mod failure;
mod forget;
mod order;
mod place;
mod plan;
mod publish;
mod run;
mod told;

pub use backends::{NotServed, Served};
pub use body::{pull_request_body, render_text};
pub use check_out::{Checkout, check_out};
pub use evaluated::{CallCounts, Evaluated};
pub use failure::{CheckoutError, CheckoutProblem, Failure};
pub use forget::forget;
pub use order::{Order, Pinned};
pub use place::{Place, Source, Update};
pub use plan::recall;
pub use publish::{PublishOptions, Published, may_publish, publish};
pub use run::{Progress, run};
