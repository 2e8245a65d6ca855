//! `collect`: the responses of a batch, whoever ran it.

use super::args::CollectArgs;
use super::display::Display;
use super::output::Output;
use super::resume;
use crate::dispatcher::{self, Record};
use crate::exchange::LocalExchange;
use crate::model::Exit;
use crate::report::Summary;

pub(super) async fn collect(args: CollectArgs, display: &Display) -> anyhow::Result<Exit> {
    if let Some(name) = args.target.clone() {
        return resume::collect_from(&name, args, display).await;
    }
    let exchange = LocalExchange::open(&args.exchange)?;
    if let Some(record) = Record::read(&exchange, &args.batch_id)? {
        return resume::collect(record, &exchange, args, display).await;
    }
    let mut output = Output::open(args.output.output)?;
    let collection = dispatcher::collect(&exchange, &args.batch_id, &mut output)?;
    if collection.resumable {
        let command =
            format!("run-evals run --batch-id {} --exchange {}", args.batch_id, args.exchange.display());
        display.note(&format!("some requests have no answer yet; call them with `{command}`"));
    }
    output.finish(Summary::new(None, vec![collection.summary]), args.output.format)
}
