//! Matches the items of two lists without order or key: those that agree best.

use serde_json::Value;

use super::assignment;
use super::compare::{Case, Counts, count_item, present, whole_form};
use super::matcher::Matcher;
use super::pairing;

/// Above this, equal items are matched first and then the rest, or by position if that is still too much.
const MOST_COMPARED: usize = 2_000_000;
const MOST_STEPS: usize = 30_000_000;

/// As many pairs as the shorter list has items: those with the most correct fields in total; ties by the fewest hallucinated,
/// then the fewest missing, then the most correctly absent.
pub(super) fn pairs(
    expected: &[Value],
    found: &[Value],
    item: &Matcher<'_>,
    case: &Case<'_>,
) -> Vec<(usize, usize)> {
    let all = |list: &[Value]| (0..list.len()).collect::<Vec<_>>();
    if is_small(expected.iter(), found.iter()) {
        return best(expected, &all(expected), found, &all(found), item, case);
    }
    let forms = |list: &[Value]| list.iter().map(|value| whole_form(value, item)).collect::<Vec<_>>();
    let mut pairs = pairing::pairs(&forms(expected), &forms(found), |_, _| false);
    let rest = |count: usize, taken: Vec<usize>| {
        let mut is_taken = vec![false; count];
        for place in taken {
            is_taken[place] = true;
        }
        (0..count).filter(|place| !is_taken[*place]).collect::<Vec<_>>()
    };
    let open = rest(expected.len(), pairs.iter().map(|pair| pair.0).collect());
    let left = rest(found.len(), pairs.iter().map(|pair| pair.1).collect());
    if is_small(open.iter().map(|place| &expected[*place]), left.iter().map(|place| &found[*place])) {
        pairs.extend(best(expected, &open, found, &left, item, case));
    } else {
        pairs.extend(open.into_iter().zip(left));
    }
    pairs.sort_unstable();
    pairs
}

fn is_small<'v>(
    expected: impl ExactSizeIterator<Item = &'v Value>,
    found: impl ExactSizeIterator<Item = &'v Value>,
) -> bool {
    let (short, long) = (expected.len().min(found.len()), expected.len().max(found.len()));
    let [expected, found] = [expected.map(size).sum::<usize>(), found.map(size).sum()];
    expected.saturating_mul(found) <= MOST_COMPARED
        && short.saturating_mul(short).saturating_mul(long) <= MOST_STEPS
}

/// The number of values in a value.
fn size(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(size).sum::<usize>(),
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        _ => 1,
    }
}

fn best(
    expected: &[Value],
    open: &[usize],
    found: &[Value],
    left: &[usize],
    item: &Matcher<'_>,
    case: &Case<'_>,
) -> Vec<(usize, usize)> {
    let alone: Vec<i128> =
        open.iter().map(|place| worth(&count_item(&expected[*place], None, item, case))).collect();
    let extra: Vec<i128> = left
        .iter()
        .map(|place| worth(&Counts { hallucinated: present(&found[*place], item), ..Counts::default() }))
        .collect();
    let mut gains = Vec::with_capacity(open.len() * left.len());
    for (row, place) in open.iter().enumerate() {
        for (column, other) in left.iter().enumerate() {
            let together = worth(&count_item(&expected[*place], Some(&found[*other]), item, case));
            gains.push(together - alone[row] - extra[column]);
        }
    }
    let gain = |row: usize, column: usize| gains[row * left.len() + column];
    let mut pairs: Vec<(usize, usize)> = if open.len() <= left.len() {
        let columns = assignment::lowest(open.len(), left.len(), |row, column| -gain(row, column));
        columns.into_iter().enumerate().map(|(row, column)| (open[row], left[column])).collect()
    } else {
        let rows = assignment::lowest(left.len(), open.len(), |column, row| -gain(row, column));
        rows.into_iter().enumerate().map(|(column, row)| (open[row], left[column])).collect()
    };
    pairs.sort_unstable();
    pairs
}

/// The counts as one number for lexicographic comparison; in lists within the limit, none reaches 2²², and the last not 2³⁵.
fn worth(counts: &Counts) -> i128 {
    let at = |count: u64, place: u32| i128::from(count) << place;
    at(counts.correct, 101) - at(counts.hallucinated, 79) - at(counts.missing, 57)
        + at(counts.correct_absent, 35)
        + at(counts.prose.graded_overlap, 0)
}
