//! What makes a second run under the same id a resume: what the first one was made of, kept beside the exchange.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;

use super::backends::Served;
use super::order::{Order, Pinned};
use super::place::Place;
use crate::model;
use crate::model::{BatchId, CommitSha, Digest, Entry};

/// The longest id that leaves room for what tells the models apart.
const LONGEST_ID: usize = 51;

/// The order that an earlier run under this id had, with the commits that it found; nothing where there was none.
pub fn recall(place: &Place, id: &BatchId) -> Result<Option<Order>, model::Failure> {
    let path = file(place, id, "json");
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(model::Failure::config(format!("cannot read `{}`: {error}", path.display())));
        }
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|_| {
        model::Failure::config(format!(
            "cannot read what the evaluation `{id}` was made of: `{}`",
            path.display()
        ))
        .hint("start it anew, under another id")
    })
}

/// Keeps what an evaluation is made of, before its first call.
pub(super) fn remember(place: &Place, id: &BatchId, order: &Order, pinned: &Pinned) -> anyhow::Result<()> {
    let order = Order { pinned: Some(pinned.clone()), ..order.clone() };
    write(&file(place, id, "json"), &serde_json::to_vec_pretty(&order)?)
}

/// Keeps the entries, before anybody tries to publish them. Gives the file.
pub(super) fn keep_entries(place: &Place, id: &BatchId, entries: &[Entry]) -> anyhow::Result<PathBuf> {
    let path = file(place, id, "entries.json");
    write(&path, format!("{}\n", serde_json::to_string_pretty(entries)?).as_bytes())?;
    Ok(path)
}

/// Keeps the name of the branch, before it is pushed: whoever publishes again after a crash finds what is there.
pub(super) fn remember_branch(place: &Place, id: &BatchId, branch: &str) -> anyhow::Result<()> {
    write(&file(place, id, "branch"), branch.as_bytes())
}

/// The branch that an earlier try has pushed, or was about to.
pub(super) fn recall_branch(place: &Place, id: &BatchId) -> Option<String> {
    std::fs::read_to_string(file(place, id, "branch")).ok().filter(|branch| !branch.is_empty())
}

/// Whether an order is that of an earlier run, so that it may go on.
pub(super) fn is_same(asked: &Order, earlier: &Order) -> bool {
    let commit = |pinned: &Pinned| pinned.prompt_commit.clone();
    let fits = |commit: CommitSha| {
        asked.git_sha.as_ref().is_none_or(|digits| commit.as_str().starts_with(digits.as_str()))
    };
    asked.skill == earlier.skill
        && asked.replicates == earlier.replicates
        && earlier.pinned.as_ref().map(commit).is_none_or(fits)
}

/// The batch of one model. Other settings, or another model behind an alias, are another batch; a server that moved is not.
pub(super) fn batch_id(id: &BatchId, served: &Served, params: &str) -> Result<BatchId, model::Failure> {
    let Served { settings, alias_target, .. } = served;
    let alias = alias_target.as_deref().unwrap_or_default();
    let digest = Digest::of(format!("{}\n{alias}\n{params}", settings.id).as_bytes()).to_string();
    let too_long = || {
        model::Failure::new(
            model::Exit::Usage,
            format!("the id `{id}` has more than {LONGEST_ID} characters"),
        )
        .hint(
            "each model has a batch of its own, whose name is longer by nine: choose a shorter `--batch-id`",
        )
    };
    format!("{id}-{}", &digest[..8]).parse().map_err(|_| too_long())
}

fn file(place: &Place, id: &BatchId, ending: &str) -> PathBuf {
    place.state.join("evaluations").join(format!("{id}.{ending}"))
}

/// Whole or not at all.
fn write(path: &std::path::Path, bytes: &[u8]) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    let folder = path.parent().with_context(cannot)?;
    std::fs::create_dir_all(folder).with_context(cannot)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(cannot)?;
    file.write_all(bytes).with_context(cannot)?;
    file.persist(path).map_err(|error| error.error).with_context(cannot)?;
    Ok(())
}
