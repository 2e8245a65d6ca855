//! The `run-evals` command.
fn main() {}
