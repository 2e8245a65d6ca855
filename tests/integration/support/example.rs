//! The servers of the tests are examples of this package.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The executable of an example. `cargo test` builds the examples, a narrower command does not: then it is built here, once.
pub(super) fn example(name: &'static str) -> PathBuf {
    static BUILT: LazyLock<Mutex<BTreeMap<&str, PathBuf>>> = LazyLock::new(Mutex::default);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    built.entry(name).or_insert_with(|| build(name)).clone()
}

fn build(name: &str) -> PathBuf {
    let profile_dir = Path::new(env!("CARGO_BIN_EXE_run-evals")).parent().unwrap();
    let profile = if profile_dir.ends_with("release") { "release" } else { "dev" };
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--example", name, "--profile", profile]);
    // With this variable, libtest prints times, and cargo would rebuild everything.
    assert!(build.env_remove("RUSTC_BOOTSTRAP").status().unwrap().success());
    profile_dir.join("examples").join(name)
}
