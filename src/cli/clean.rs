//! `clean` and `cancel`: delete old data, and cancel workflow runs.

use super::args::{CancelArgs, CleanArgs};
use super::display::Display;
use crate::console;
use crate::engine::Clean;
use crate::model::{Exit, printable};
use crate::util::process_env::ProcessEnv;

pub(super) async fn clean(args: CleanArgs, display: &Display) -> anyhow::Result<Exit> {
    let clean = Clean {
        older_than: args.older_than,
        unfinished: args.unfinished,
        exchange: args.exchange,
        github: args.github.access(),
    };
    let cleanup = clean.find(&ProcessEnv::read(), display.observer())?;
    for line in &cleanup.kept {
        display.note(&format!("kept: {line}"));
    }
    let lines = cleanup.lines();
    if lines.is_empty() {
        display.note("nothing to delete");
        return Ok(Exit::Ok);
    }
    console::stdout(&format!("{}\n", lines.join("\n")))?;
    if args.yes {
        cleanup.delete().await?;
        display.note("deleted");
    } else {
        display.note("nothing was deleted; `--yes` deletes these");
    }
    Ok(Exit::Ok)
}

pub(super) async fn cancel(args: CancelArgs, display: &Display) -> anyhow::Result<Exit> {
    let CancelArgs { batch } = args;
    let cancelled = Box::pin(batch.batch(false).cancel(batch.target.as_deref(), display.observer())).await?;
    for url in &cancelled.runs {
        display.note(&format!("cancelled: {}", printable(url)));
    }
    if cancelled.runs.is_empty() {
        display.note(&format!("batch `{}` has no unfinished workflow run", batch.batch_id));
    }
    display.note(&format!("responses so far are kept: {}", cancelled.collect));
    Ok(Exit::Ok)
}
