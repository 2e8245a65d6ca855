//! `targets`: the schema of targets files.

use super::args::TargetsCommand;
use crate::config::targets_schema;
use crate::console;
use crate::model::Exit;

pub(super) fn targets(command: &TargetsCommand) -> anyhow::Result<Exit> {
    match command {
        TargetsCommand::Schema => {
            console::json_document(&targets_schema())?;
            Ok(Exit::Ok)
        }
    }
}
