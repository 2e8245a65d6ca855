//! The integration tests: everything through the binary, the wire and the files it leaves.

#![expect(clippy::unwrap_used, clippy::format_collect, reason = "tests: they panic to fail, and are short")]

mod action;
mod adapter;
mod agentv_batch;
mod bad_input;
mod budget;
mod bundle;
mod checkout_files;
mod checkout_links;
mod crash;
mod damage;
mod determinism;
mod docs;
mod evaluate;
mod github_sim;
mod grading;
mod hostile_batch;
mod hostile_suite;
mod init;
mod layers;
mod leaderboard;
mod power_cut;
mod quickstart;
mod remote;
mod replay_out;
mod report;
mod rollout;
mod run;
mod runner_in_actions;
mod secrets;
mod serve;
mod several_targets;
mod signals;
mod stale;
mod studio;
mod support;
mod sync;
mod targets;
mod tools;
mod trigger;
mod untrusted_git;
