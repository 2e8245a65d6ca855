//! `run-evals` makes GitHub Actions the compute backend of LLM evaluations.
//!
//! The modules are layers: each may use only what stands before it in the list of `docs/design.md`.

pub mod action;
pub mod adapter;
pub mod archive;
pub mod bundle;
pub mod cli;
pub mod config;
pub mod dispatcher;
pub mod error;
pub mod evaluate;
pub mod exchange;
pub mod git;
pub mod github;
pub mod grade;
pub mod leaderboard;
pub mod logging;
pub mod model;
pub mod providers;
pub mod report;
pub mod rollout;
pub mod runner;
pub mod scoring;
pub mod serve;
pub mod sync;
pub mod trigger;
