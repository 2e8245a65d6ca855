//! A bundle that was just made, run once: a copy of it elsewhere, with a mock in the place of every model.

use std::path::Path;

use anyhow::Context as _;
use clap::Parser as _;

use super::args::{Cli, Command, Format};
use super::display::Display;
use super::eval;
use crate::bundle;
use crate::model::Exit;

const TARGETS: &str = "targets:\n  - name: mock\n    provider: mock\n";

pub(super) async fn verify_run(bundle: &Path, format: Format, display: &Display) -> anyhow::Result<Exit> {
    let temporary = tempfile::Builder::new().prefix("run-evals-verify-").tempdir()?;
    let dir = temporary.path();
    let copy = dir.join("bundle");
    bundle::copy(bundle, &copy, false)?;
    std::fs::write(dir.join("targets.yaml"), TARGETS)?;
    let format = if format == Format::Json { "json" } else { "text" };
    let words = ["run-evals", "eval", "--no-grade", "--target", "mock", "--format", format]
        .map(std::ffi::OsString::from);
    let paths = [
        ("--targets", dir.join("targets.yaml")),
        ("--exchange", dir.join("exchange.git")),
        ("--output", dir.join("results")),
    ];
    let paths = paths.into_iter().flat_map(|(option, path)| [option.into(), path.into_os_string()]);
    let suite = ["--".into(), copy.into_os_string()];
    let cli = Cli::try_parse_from(words.into_iter().chain(paths).chain(suite))?;
    let Command::Eval(args) = cli.command else { anyhow::bail!("`eval` is another command") };
    Box::pin(eval::eval(*args, display))
        .await
        .context("the bundle was written, but cannot be run without AgentV")
}
