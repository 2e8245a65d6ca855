//! Shared by the tests: a working directory, the binary to run there, servers to call, and batches made by hand.

mod example;
mod forgery;
pub(crate) mod github;
pub(crate) mod grades;
mod llm;
mod paid_results;
pub(crate) mod power;
mod results;
mod server;
pub(crate) mod stage;
mod tls_model;
mod until;
mod vendors;
mod workspace;

use example::example;
pub(crate) use forgery::{Forgery, git, hand_over, header};
pub(crate) use llm::MockLlm;
pub(crate) use paid_results::PaidResults;
pub(crate) use results::{Came, Results};
pub(crate) use server::Server;
pub(crate) use tls_model::tls_model;
pub(crate) use until::{PATIENCE, until};
pub(crate) use vendors::{MockVendors, REQUEST_TOKEN};
pub(crate) use workspace::{CLOCK_FACTOR, Output, Workspace, temporary, write_program};
