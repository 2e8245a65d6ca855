//! The entries as the screen needs them: the newest first, with the names to filter by.

use std::collections::{BTreeSet, HashMap, HashSet};

use jiff::Timestamp;

use crate::leaderboard::Entry;
use crate::model::{CommitSha, Digest, Ratio};

/// A share, and where it may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) value: Ratio,
    pub(super) interval: Option<[Ratio; 2]>,
}

impl Share {
    /// The ends of the interval.
    pub(super) fn ends(self) -> Option<[f64; 2]> {
        self.interval.map(|ends| ends.map(Ratio::as_f64))
    }

    /// The same; where there is no interval, the value.
    pub(super) fn low_high(self) -> [f64; 2] {
        self.ends().unwrap_or([self.value.as_f64(); 2])
    }
}

/// One entry.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) skill: String,
    pub(super) version: String,
    pub(super) commit: CommitSha,
    /// When the commit was made, where its history is here.
    pub(super) time: Option<Timestamp>,
    /// With what the name stood for.
    pub(super) model: String,
    pub(super) params: String,
    /// By which rules it was scored.
    pub(super) scoring: (u32, Option<Digest>),
    pub(super) replicates: String,
    pub(super) accuracy: Option<Share>,
    pub(super) reproducibility: Option<Share>,
    pub(super) schema: Option<Ratio>,
    pub(super) cases: (u64, u64),
    /// Calls without an answer that can be read, and all.
    pub(super) lost: (u64, u64),
    /// No entry of the same skill and model is newer.
    pub(super) is_latest: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The newest first; those of a commit by skill, and the most accurate first.
    pub(super) rows: Vec<Row>,
    pub(super) skills: Vec<String>,
    pub(super) models: Vec<String>,
}

/// Which entries are asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    pub(super) skill: Option<String>,
    pub(super) model: Option<String>,
    pub(super) latest: bool,
}

impl Index {
    pub(super) fn of(entries: &[Entry], times: &HashMap<String, Timestamp>) -> Self {
        let mut rows: Vec<Row> = entries
            .iter()
            .map(|entry| row(entry, times.get(entry.prompt_commit.as_str()).copied()))
            .collect();
        rows.sort_by(|a, b| {
            let age = |row: &Row| (row.time, number(&row.version));
            let score = |row: &Row| row.accuracy.map(|share| share.value);
            age(b)
                .cmp(&age(a))
                .then_with(|| b.commit.cmp(&a.commit))
                .then_with(|| a.skill.cmp(&b.skill))
                .then_with(|| score(b).cmp(&score(a)))
                .then_with(|| (&a.model, &a.params, &a.replicates).cmp(&(&b.model, &b.params, &b.replicates)))
        });
        let mut seen = HashSet::new();
        for row in &mut rows {
            row.is_latest = seen.insert((row.skill.clone(), row.model.clone()));
        }
        let names = |of: fn(&Row) -> &String| {
            rows.iter().map(of).collect::<BTreeSet<_>>().into_iter().cloned().collect::<Vec<String>>()
        };
        Self { skills: names(|row| &row.skill), models: names(|row| &row.model), rows }
    }

    pub(super) fn select(&self, filter: &Filter) -> Vec<&Row> {
        let fits =
            |wanted: &Option<String>, name: &String| wanted.as_ref().is_none_or(|wanted| wanted == name);
        let is_one = |row: &&Row| {
            fits(&filter.skill, &row.skill)
                && fits(&filter.model, &row.model)
                && (row.is_latest || !filter.latest)
        };
        self.rows.iter().filter(is_one).collect()
    }
}

fn row(entry: &Entry, time: Option<Timestamp>) -> Row {
    let share =
        |value: Option<Ratio>, interval: Option<[Ratio; 2]>| value.map(|value| Share { value, interval });
    let (accuracy, again) = (&entry.accuracy, &entry.reproducibility);
    Row {
        skill: entry.skill.as_str().to_owned(),
        version: entry.skill_version.clone(),
        commit: entry.prompt_commit.clone(),
        time,
        model: entry.model_shown(),
        params: entry.params.text(),
        scoring: entry.scoring(),
        replicates: entry.replicates.to_string(),
        accuracy: share(accuracy.score, accuracy.interval),
        reproducibility: share(again.score, again.interval),
        schema: entry.schema_valid.rate,
        cases: (entry.cases.run, entry.cases.total),
        lost: (entry.calls.attempted.saturating_sub(entry.calls.ok), entry.calls.attempted),
        is_latest: false,
    }
}

/// A version by its numbers: `1.10.0` is later than `1.9.2`.
fn number(version: &str) -> Vec<u64> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}
