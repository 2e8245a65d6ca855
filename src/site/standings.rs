//! The ranking of the models over all skills.

use std::collections::HashMap;

use super::board::{Board, EntryRow};
use crate::scoring::{Estimate, PairedCases, mean_of_shares};

/// The rank of a model.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    pub(super) model: usize,
    /// The best and worst possible rank; `None` for a model without entries.
    pub(super) ranks: Option<[usize; 2]>,
    /// The mean over its skills.
    pub(super) mean: Option<Estimate>,
    /// The number of skills with an entry.
    pub(super) skills: usize,
    /// The number of skills with only one case, which have no interval.
    pub(super) without_interval: usize,
    pub(super) calls: CallSums,
}

/// The calls of the newest entries, by outcome.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CallSums {
    pub(super) attempted: u64,
    pub(super) ok: u64,
    pub(super) failed: u64,
    pub(super) unreadable: u64,
}

/// Two models, compared on their common cases.
#[derive(Debug, Clone, Copy)]
pub(super) struct ModelComparison {
    /// The number of common skills.
    pub(super) skills: usize,
    /// The accuracy of the first minus that of the second.
    pub(super) difference: f64,
    pub(super) interval: Option<[f64; 2]>,
    /// Whether the difference is significant.
    pub(super) is_significant: bool,
}

impl ModelComparison {
    /// The same for the reversed pair.
    pub(super) fn reversed(self) -> Self {
        let interval = self.interval.map(|[low, high]| [-high, -low]);
        Self { difference: -self.difference, interval, ..self }
    }
}

/// All models, best first, and the pairs that can be compared. A model ranks above another only if it is significantly better on
/// their common cases; models without a significant difference share their ranks.
pub(super) fn standings(board: &Board) -> (Vec<Standing>, HashMap<[usize; 2], ModelComparison>) {
    let count = board.models.len();
    let pairs: Vec<([usize; 2], PairedCases)> = (0..count)
        .flat_map(|a| (a + 1..count).map(move |b| [a, b]))
        .filter_map(|pair| Some((pair, paired(board, pair)?)))
        .collect();
    let comparisons = pairs.len();
    let (mut better, mut worse) = (vec![0; count], vec![0; count]);
    let mut compared = HashMap::new();
    for ([a, b], cases) in &pairs {
        let Some(difference) = cases.difference() else { continue };
        let seed = (*a as u64) << 32 | *b as u64;
        let is_significant = cases.is_significant(comparisons, seed);
        if is_significant {
            let (winner, loser) = if difference > 0.0 { (*a, *b) } else { (*b, *a) };
            worse[winner] += 1;
            better[loser] += 1;
        }
        let skills = cases.skills.len();
        compared.insert(
            [*a, *b],
            ModelComparison { skills, difference, interval: cases.interval(), is_significant },
        );
    }
    let mut standings: Vec<Standing> = (0..count).map(|model| standing(board, model)).collect();
    let ranked = standings.iter().filter(|standing| standing.mean.is_some()).count();
    for standing in &mut standings {
        let (better, worse) = (better[standing.model], worse[standing.model]);
        standing.ranks = standing.mean.map(|_| [1 + better, ranked.saturating_sub(worse).max(1 + better)]);
    }
    let mean = |standing: &Standing| standing.mean.map_or(-1.0, |(mean, _)| mean);
    standings.sort_by(|a, b| {
        let ranks = |standing: &Standing| standing.ranks.unwrap_or([usize::MAX; 2]);
        ranks(a)
            .cmp(&ranks(b))
            .then_with(|| mean(b).total_cmp(&mean(a)))
            .then_with(|| board.models[a.model].name.cmp(&board.models[b.model].name))
    });
    (standings, compared)
}

fn standing(board: &Board, model: usize) -> Standing {
    let latest: Vec<&EntryRow> =
        (0..board.skills.len()).filter_map(|skill| board.latest(skill, model)).collect();
    let shares: Vec<Estimate> = latest.iter().filter_map(|row| row.estimate()).collect();
    let mut calls = CallSums::default();
    for row in &latest {
        let of = &row.entry.calls;
        calls.attempted += of.attempted;
        calls.ok += of.ok;
        calls.failed += of.api_error;
        calls.unreadable += of.parse_error;
    }
    Standing {
        model,
        ranks: None,
        mean: mean_of_shares(&shares),
        skills: shares.len(),
        without_interval: latest
            .iter()
            .filter(|row| row.accuracy().is_some() && row.entry.accuracy.interval.is_none())
            .count(),
        calls,
    }
}

/// The differences of two models, case by case, for skills that both were evaluated on under the same conditions.
fn paired(board: &Board, pair: [usize; 2]) -> Option<PairedCases> {
    let skills: Vec<Vec<f64>> = (0..board.skills.len())
        .filter_map(|skill| board.comparable(skill, pair))
        .map(differences)
        .filter(|cases| !cases.is_empty())
        .collect();
    (!skills.is_empty()).then_some(PairedCases { skills })
}

/// The first minus the second, case by case. A case whose calls failed has an accuracy of 0, so it is included.
pub(super) fn differences([first, second]: [&EntryRow; 2]) -> Vec<f64> {
    let of = &second.entry.per_case;
    first
        .entry
        .per_case
        .iter()
        .filter_map(|case| {
            let other = of.iter().find(|other| other.case == case.case)?;
            Some(case.accuracy?.as_f64() - other.accuracy?.as_f64())
        })
        .collect()
}
