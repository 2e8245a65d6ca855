//! `targets`: what a targets file says, told before it is used.
//!
//! `check` finds out, `show` tells it.

mod check;
mod show;

use super::args::TargetsCommand;
use super::display::Display;
use crate::config::targets_schema;
use crate::console;
use crate::model::Exit;

pub(super) async fn targets(command: TargetsCommand, display: &Display) -> anyhow::Result<Exit> {
    match command {
        TargetsCommand::Check(args) => check::check(args, display).await,
        TargetsCommand::Schema => {
            console::json(&format!("{}\n", serde_json::to_string_pretty(&targets_schema())?))?;
            Ok(Exit::Ok)
        }
    }
}
