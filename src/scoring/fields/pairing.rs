//! Matches the items of two unordered lists.

use std::collections::HashMap;

/// Above this, items are matched only by form.
const MOST_COMPARED: usize = 250_000;

/// Pairs of an expected and a found item, each used once: first items of equal form, in order, then as many of the rest as
/// are equal.
pub(super) fn pairs(
    expected: &[String],
    found: &[String],
    same: impl Fn(usize, usize) -> bool,
) -> Vec<(usize, usize)> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, form) in found.iter().enumerate().rev() {
        places.entry(form).or_default().push(place);
    }
    let mut is_taken = vec![false; found.len()];
    let (mut pairs, mut open) = (Vec::new(), Vec::new());
    for (place, form) in expected.iter().enumerate() {
        match places.get_mut(form.as_str()).and_then(Vec::pop) {
            Some(other) => {
                is_taken[other] = true;
                pairs.push((place, other));
            }
            None => open.push(place),
        }
    }
    let rest: Vec<usize> = (0..found.len()).filter(|place| !is_taken[*place]).collect();
    if !open.is_empty() && !rest.is_empty() && open.len().saturating_mul(rest.len()) <= MOST_COMPARED {
        pairs.extend(most_pairs(&open, &rest, same));
    }
    pairs.sort_unstable();
    pairs
}

/// A maximum matching, by augmenting paths.
fn most_pairs(open: &[usize], rest: &[usize], same: impl Fn(usize, usize) -> bool) -> Vec<(usize, usize)> {
    let fits: Vec<Vec<usize>> = open
        .iter()
        .map(|expected| (0..rest.len()).filter(|place| same(*expected, rest[*place])).collect())
        .collect();
    let mut partner: Vec<Option<usize>> = vec![None; rest.len()];
    for start in 0..open.len() {
        let mut seen = vec![false; rest.len()];
        free(start, &fits, &mut partner, &mut seen, 0);
    }
    partner.iter().enumerate().filter_map(|(place, from)| Some((open[(*from)?], rest[place]))).collect()
}

fn free(
    from: usize,
    fits: &[Vec<usize>],
    partner: &mut [Option<usize>],
    seen: &mut [bool],
    depth: usize,
) -> bool {
    // Bound the recursion.
    if depth > 200 {
        return false;
    }
    for place in &fits[from] {
        if seen[*place] {
            continue;
        }
        seen[*place] = true;
        let is_free = match partner[*place] {
            None => true,
            Some(other) => free(other, fits, partner, seen, depth + 1),
        };
        if is_free {
            partner[*place] = Some(from);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_first_then_as_many_as_possible() {
        let forms = |list: &[&str]| list.iter().map(|form| (*form).to_owned()).collect::<Vec<_>>();
        assert_eq!(pairs(&forms(&["a", "b", "a"]), &forms(&["a", "a", "c"]), |_, _| false), [(0, 0), (2, 1)]);
        // 0 fits both, 1 only the first: both find one.
        let fits = |expected: usize, found: usize| expected == 0 || found == 0;
        assert_eq!(pairs(&forms(&["a", "b"]), &forms(&["x", "y"]), fits), [(0, 1), (1, 0)]);
        assert_eq!(pairs(&[], &forms(&["x"]), |_, _| true), []);
    }
}
