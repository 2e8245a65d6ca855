//! The Docker engine and the image built by `.ci/acceptance`.

use std::process::Command;

/// The image under test.
pub(crate) fn image() -> String {
    from_ci("RUN_EVALS_IMAGE")
}

/// A variable that `.ci/acceptance` sets. A test that lacks its counterpart fails; it is never skipped.
pub(crate) fn from_ci(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("`{name}` is not set: run the acceptance tests by `.ci/acceptance`"))
}

/// The output of `docker` with these arguments; it must succeed.
pub(crate) fn docker(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "docker {args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}
