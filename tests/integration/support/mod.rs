//! What the tests share: a directory to work in, the binary to run there, servers to call, and batches made by hand.

mod forgery;
pub(crate) mod github;
pub(crate) mod grades;
mod llm;
mod results;
mod scene;
mod workspace;

pub(crate) use forgery::{Forgery, git, hand_over, header};
pub(crate) use llm::MockLlm;
pub(crate) use results::{Came, Results};
pub(crate) use scene::Scene;
pub(crate) use workspace::{Output, Workspace};
