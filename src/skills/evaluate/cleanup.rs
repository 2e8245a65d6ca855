//! Deletes the data of evaluations that are no longer needed.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use anyhow::Context as _;

use super::workspace::Workspace;
use crate::exchange::LocalExchange;

/// Deletes the stored data of evaluations whose ids start with the prefix, except those still needed.
///
/// `needed` is called after listing, so that evaluations that begin meanwhile are not affected.
pub fn clean_up(state: &Path, prefix: &str, needed: impl FnOnce() -> BTreeSet<String>) -> anyhow::Result<()> {
    let folder = state.join("evaluations");
    let cannot = || format!("cannot tidy `{}`", folder.display());
    let files = match std::fs::read_dir(&folder) {
        Ok(files) => files.collect::<io::Result<Vec<_>>>().with_context(cannot)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(cannot),
    };
    let path = Workspace::exchange_in(state);
    let exchange = path.exists().then(|| LocalExchange::open(&path)).transpose()?;
    let batches = exchange.as_ref().map(LocalExchange::known).transpose()?.unwrap_or_default();

    let needed = needed();
    let is_over = |id: &str| id.starts_with(prefix) && !needed.contains(id);
    for file in files {
        let name = file.file_name();
        let id = name.to_str().and_then(|name| name.split('.').next());
        if id.is_some_and(is_over) {
            std::fs::remove_file(file.path()).with_context(cannot)?;
        }
    }
    let Some(exchange) = exchange else { return Ok(()) };
    for batch in batches {
        // Each model has a batch named after the evaluation, and one for each round of its grades: `-g`, `-g2`.
        let is_grades =
            |end: &str| end.strip_prefix('g').is_some_and(|rest| rest.bytes().all(|c| c.is_ascii_digit()));
        let of_model = match batch.as_str().rsplit_once('-') {
            Some((name, end)) if is_grades(end) => name,
            _ => batch.as_str(),
        };
        if of_model.rsplit_once('-').is_some_and(|(id, _)| is_over(id)) {
            exchange.forget(&batch)?;
        }
    }
    Ok(())
}
