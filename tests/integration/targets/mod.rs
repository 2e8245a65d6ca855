//! `run-evals targets`: what is told of a targets file before it is used.

mod agentv;
mod github;
mod links;
mod schema;
