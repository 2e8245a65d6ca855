//! The connection to GitHub that the command line describes.

use std::sync::Arc;

use super::args::GithubArgs;
use super::display::Display;
use crate::github::Client;
use crate::util::process_env::ProcessEnv;

/// A client that prints what it waits for.
pub(super) fn client(args: &GithubArgs, env: &ProcessEnv, display: &Display) -> anyhow::Result<Client> {
    args.access().client(env, Arc::new(display.say()))
}
