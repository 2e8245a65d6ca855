//! The acceptance tests: real counterparts, as `.ci/acceptance` installs and starts them.

#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    clippy::print_stderr,
    reason = "tests: they panic to fail, and print figures"
)]

mod act;
mod agentv;
mod agentv_batch;
mod agentv_grading;
mod agentv_replay;
mod agentv_results;
mod agentv_run;
mod browser;
mod bundle;
mod docker;
mod evaluate;
mod gh;
mod html_report;
mod image;
mod junit;
mod keyless;
mod pull_requests;
#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "../integration/rollout/stage.rs"]
mod rollout_stage;
mod rollouts;
mod serve;
mod site;
mod skills;
mod studio;
#[path = "../integration/studio/scene.rs"]
mod studio_scene;
#[expect(dead_code, unused_imports, reason = "the other tests use the rest")]
#[path = "../integration/support/mod.rs"]
mod support;
mod sync;
#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "../integration/studio/visitor.rs"]
mod visitor;
