//! `run-evals targets`: checks of a targets file before it is used.

mod agentv;
mod github;
mod links;
mod schema;
