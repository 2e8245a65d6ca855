//! What changed against the previous entry.

use super::Leaderboard;
use crate::model::{CommitSha, Entry, Ratio, SemVersion};

/// An entry compared with the previous one.
#[derive(Debug, Clone, PartialEq)]
pub struct Change<'a> {
    /// The previous entry.
    pub before: &'a Entry,
    /// The difference in accuracy, in ten-thousandths; `None` if the two were scored differently.
    pub accuracy: Option<i32>,
    /// The same for reproducibility.
    pub reproducibility: Option<i32>,
    /// Other differences that make the figures incomparable.
    pub differs: Vec<&'static str>,
}

/// The previous entry of the same skill and model: the nearest earlier commit by `rank` (how many commits before the evaluated
/// one; `None` if unknown), else the highest version that is not above its own. An entry with the same key is the same one, run
/// again. Among several of one commit, the most similar one.
pub fn previous<'a>(
    board: &'a Leaderboard,
    entry: &Entry,
    rank: &dyn Fn(&CommitSha) -> Option<u64>,
) -> Option<Change<'a>> {
    let version = |entry: &Entry| entry.skill_version.parse::<SemVersion>().ok();
    let is_before = |other: &Entry| rank(&other.prompt_commit).is_some() || version(other) <= version(entry);
    let key = entry.key();
    let is_candidate = |other: &&Entry| {
        other.skill == entry.skill && other.model == entry.model && other.key() != key && is_before(other)
    };
    let order = |other: &&Entry| {
        let is_known = rank(&other.prompt_commit).map(|back| u64::MAX - back);
        (is_known, version(other), u64::MAX - differences(entry, other).len() as u64)
    };
    let previous = board.entries().iter().filter(is_candidate).max_by_key(order)?;
    let less = |now: Option<Ratio>, before: Option<Ratio>| {
        Some(i32::from(now?.ten_thousandths()) - i32::from(before?.ten_thousandths()))
            .filter(|_| entry.scoring() == previous.scoring())
    };
    Some(Change {
        before: previous,
        accuracy: less(entry.accuracy.score, previous.accuracy.score),
        reproducibility: less(entry.reproducibility.score, previous.reproducibility.score),
        differs: differences(entry, previous),
    })
}

fn differences(entry: &Entry, before: &Entry) -> Vec<&'static str> {
    [
        (entry.cases_sha256 != before.cases_sha256, "cases"),
        (entry.params != before.params, "settings"),
        (entry.replicates != before.replicates, "replicates"),
        (entry.alias_target != before.alias_target, "the model behind the alias"),
        (entry.scoring() != before.scoring(), "scoring"),
    ]
    .into_iter()
    .filter_map(|(differs, what)| differs.then_some(what))
    .collect()
}
