//! `collect`: the responses of a batch from any machine.

use super::args::CollectArgs;
use super::display::Display;
use super::summary;
use crate::engine::report::Output;
use crate::engine::{EarlierBatch, RemoteOptions};
use crate::model::Exit;

pub(super) async fn collect(args: CollectArgs, display: &Display) -> anyhow::Result<Exit> {
    let output = Output::open(args.output.output)?;
    let batch = EarlierBatch {
        id: args.batch_id,
        exchange: args.exchange,
        targets_file: args.targets,
        github: args.github.access(),
        remote: RemoteOptions { delete_results: args.delete_results, ..RemoteOptions::default() },
    };
    let (execution, finished) =
        Box::pin(batch.collect(args.target.as_deref(), output, display.observer())).await?;
    summary::conclude(execution, finished, args.output.format, display).await
}
