//! The acceptance tests: real counterparts, as `.ci/acceptance` installs and starts them.

#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    clippy::print_stderr,
    reason = "tests: they panic to fail, and print figures"
)]

mod act;
mod agentv_grading;
mod docker;
mod gh;
mod image;
#[expect(dead_code, unused_imports, reason = "the other tests use the rest")]
#[path = "../integration/support/mod.rs"]
mod support;
