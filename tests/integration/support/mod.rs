//! What the tests share: a directory to work in, the binary to run there, and a server to call.

mod llm;
mod workspace;

pub(crate) use llm::MockLlm;
pub(crate) use workspace::Workspace;
