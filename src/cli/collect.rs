//! `collect`: the responses of a batch, whoever ran it.

use super::args::CollectArgs;
use super::display::Display;
use super::output::Output;
use crate::dispatcher;
use crate::exchange::LocalExchange;
use crate::model::Exit;
use crate::report::Summary;

pub(super) fn collect(args: CollectArgs, display: &Display) -> anyhow::Result<Exit> {
    let exchange = LocalExchange::open(&args.exchange)?;
    let mut output = Output::open(args.output.output)?;
    let collection = dispatcher::collect(&exchange, &args.batch_id, &mut output)?;
    if collection.resumable {
        let command =
            format!("run-evals run --batch-id {} --exchange {}", args.batch_id, args.exchange.display());
        display.note(&format!("some requests have no answer yet; call them with `{command}`"));
    }
    output.finish(Summary::new(None, vec![collection.summary]), args.output.format)
}
