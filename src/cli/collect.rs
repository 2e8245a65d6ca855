//! `collect`: the responses of a batch, whoever ran it.

use super::args::CollectArgs;
use super::display::Display;
use super::output::Output;
use super::resume;
use crate::dispatcher::{self, Record};
use crate::exchange::LocalExchange;
use crate::model::{Exit, Failure};
use crate::report::Summary;

pub(super) async fn collect(args: CollectArgs, display: &Display) -> anyhow::Result<Exit> {
    if let Some(name) = args.target.clone() {
        return resume::collect_from(&name, args, display).await;
    }
    let exchange = LocalExchange::open(&args.exchange).map_err(or_elsewhere)?;
    if let Some(record) = Record::read(&exchange, &args.batch_id)? {
        return resume::collect(record, &exchange, args, display).await;
    }
    let is_here = exchange.batch_bytes(&args.batch_id)?.is_some()
        || exchange.results_manifest(&args.batch_id)?.is_some();
    let mut output = Output::open(args.output.output)?;
    let collected = dispatcher::collect(&exchange, &args.batch_id, None, &mut output);
    let collection = collected.map_err(|error| match error.downcast::<Failure>() {
        Ok(failure) if !is_here => or_elsewhere(failure).into(),
        Ok(failure) => failure.into(),
        Err(error) => error,
    })?;
    display.warnings(&collection.warnings);
    if collection.resumable {
        let command =
            format!("run-evals run --batch-id {} --exchange {}", args.batch_id, args.exchange.display());
        display.note(&format!("some requests have no answer yet; call them with `{command}`"));
    }
    output.finish(Summary::new(None, vec![collection.summary]), args.output.format, display)
}

/// The failure, with the way to a batch that is not known here.
fn or_elsewhere(failure: Failure) -> Failure {
    let elsewhere = "`--target NAME` finds a batch that another machine dispatched";
    let hint = failure.hint_text().map_or(elsewhere.to_owned(), |hint| format!("{hint}; {elsewhere}"));
    failure.hint(hint)
}
