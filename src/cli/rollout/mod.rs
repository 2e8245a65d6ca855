//! `rollout`: the worker, the client, and the trace gateway that `serve` mounts.

mod dispatch;
mod gateway;
mod run;

pub(super) use gateway::gateway;

use super::args::RolloutCommand;
use super::display::Display;
use crate::model::Exit;

pub(super) async fn rollout(command: RolloutCommand, display: &Display) -> anyhow::Result<Exit> {
    match command {
        RolloutCommand::Run(args) => Box::pin(run::run(args, display)).await,
        RolloutCommand::Dispatch(args) => Box::pin(dispatch::dispatch(*args, display)).await,
    }
}
