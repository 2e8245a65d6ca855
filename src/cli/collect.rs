//! `collect`: the responses of a batch from any machine.

use super::args::CollectArgs;
use super::display::Display;
use super::summary;
use crate::engine::report::Output;
use crate::model::Exit;

pub(super) async fn collect(args: CollectArgs, display: &Display) -> anyhow::Result<Exit> {
    let output = Output::open(args.output.output)?;
    let batch = args.batch.batch(args.delete_results);
    let (execution, finished) =
        Box::pin(batch.collect(args.batch.target.as_deref(), output, display.observer())).await?;
    summary::conclude(execution, finished, args.output.format, display).await
}
