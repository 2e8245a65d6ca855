//! The ids of the exchanges that this user's commands created: one file each in `$XDG_STATE_HOME/run-evals/exchanges`.
//!
//! An exchange may come with a checkout or from another machine. Its record of an interrupted run is not trusted: its responses
//! would count as those of the user's own calls.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::Observer;
use crate::exchange::LocalExchange;
use crate::util::process_env::ProcessEnv;
use crate::util::{durable, regular_file};

/// What a used exchange has besides branches.
const USED: [&str; 6] = ["collected", "dispatch", "graders", "journal", "started", "tips"];

/// Whether this user created the exchange. Changes nothing.
pub(super) fn is_recorded(exchange: &LocalExchange, env: &ProcessEnv) -> bool {
    folder(env).zip(exchange.id()).is_some_and(|(folder, id)| is_at(&folder, &id, exchange))
}

/// Whether the id was recorded for the exchange at this path: a copy has the id of the original.
fn is_at(folder: &Path, id: &str, exchange: &LocalExchange) -> bool {
    let recorded = regular_file::read(&folder.join(id), regular_file::SETTINGS);
    recorded.is_ok_and(|recorded| recorded == place(exchange.path()))
}

/// The recorded path of an exchange.
fn place(exchange: &Path) -> Vec<u8> {
    let exchange = exchange.canonicalize().unwrap_or_else(|_| exchange.to_path_buf());
    format!("{}\n", exchange.display()).into_bytes()
}

/// Whether the exchange is empty.
fn is_unused(exchange: &LocalExchange) -> bool {
    let root = exchange.path();
    let has_file = |dir: PathBuf| {
        let entries = walkdir::WalkDir::new(dir).into_iter().flatten();
        entries.into_iter().any(|entry| !entry.file_type().is_dir())
    };
    !root.join("packed-refs").exists()
        && !has_file(root.join("refs"))
        && !USED.iter().any(|name| has_file(root.join(name)))
}

/// Whether this user created the exchange. An empty exchange without an id is new: it gets an id, which is
/// recorded.
pub(super) fn is_own(exchange: &LocalExchange, env: &ProcessEnv, observer: &dyn Observer) -> bool {
    let Some(folder) = folder(env) else { return false };
    if let Some(id) = exchange.id() {
        return is_at(&folder, &id, exchange);
    }
    if !is_unused(exchange) {
        return false;
    }
    let id = LocalExchange::new_id();
    // Record first: after a crash in between, the exchange is still new.
    if let Err(error) = record(&folder, &id, exchange.path()).and_then(|()| exchange.set_id(&id)) {
        let message = format!("{error:#}: if this run is interrupted, only `--batch-id` continues it");
        observer.warning(&message);
        return false;
    }
    // Another command may have set an id at the same time: the last one counts for both.
    exchange.id().is_some_and(|id| is_at(&folder, &id, exchange))
}

fn record(folder: &Path, id: &str, exchange: &Path) -> anyhow::Result<()> {
    let path = folder.join(id);
    let cannot = || format!("cannot record the exchange in `{}`", folder.display());
    durable::create_dir_all(folder).with_context(cannot)?;
    durable::write(&path, &place(exchange)).with_context(cannot)
}

/// The folder of the ids. As specified for `XDG_STATE_HOME`, relative paths are ignored.
fn folder(env: &ProcessEnv) -> Option<PathBuf> {
    let absolute = |name: &str| env.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("run-evals/exchanges"))
}
