//! The difference of two texts, in pieces: common, only new, only old.

use similar::{Algorithm, DiffTag, capture_diff_slices};

/// The most comparisons between the first and the last difference; bounds the time to render a page.
const MOST_CELLS: usize = 250_000;

/// A piece and its origin: 0 in both, 1 only in the new text, 2 only in the old one.
pub(super) type DiffPiece = (u8, String);

/// Compares by words if that is cheap, else by lines, else as two whole texts.
pub(super) fn pieces(before: &str, now: &str) -> Vec<DiffPiece> {
    for split in [words, lines] {
        let (old, new) = (split(before), split(now));
        if cells(&old, &new) <= MOST_CELLS {
            let sides = capture_diff_slices(Algorithm::Myers, &old, &new).into_iter().flat_map(|op| {
                let (tag, removed, added) = op.as_tag_tuple();
                match tag {
                    DiffTag::Equal => vec![(0, old[removed].concat())],
                    _ => vec![(2, old[removed].concat()), (1, new[added].concat())],
                }
            });
            return sides.filter(|(_, text)| !text.is_empty()).collect();
        }
    }
    vec![(2, before.to_owned()), (1, now.to_owned())]
}

/// The number of comparisons between the first and the last difference.
fn cells(old: &[&str], new: &[&str]) -> usize {
    let head = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    (old.len() - tail) * (new.len() - tail)
}

/// Words, each with the white space after it.
fn words(text: &str) -> Vec<&str> {
    text.split_inclusive(char::is_whitespace).collect()
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn side(pieces: &[DiffPiece], other: u8) -> String {
        pieces.iter().filter(|(kind, _)| *kind != other).map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn changed_words_are_marked() {
        let pieces = pieces("Paris is the capital of France.", "Paris was once the capital of France.");
        let told: Vec<(u8, &str)> = pieces.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
        assert_eq!(told, [(0, "Paris "), (2, "is "), (1, "was once "), (0, "the capital of France.")]);
    }

    #[test]
    fn a_long_text_is_compared_by_lines_and_a_longer_one_not_at_all() {
        let long = |word: &str| format!("{}\nsame\n", format!("{word} ").repeat(2000));
        let by_lines = pieces(&long("a"), &long("b"));
        assert_eq!(by_lines.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [2, 1, 0]);
        let longer = |word: &str| format!("{word} x\n").repeat(2000);
        assert_eq!(pieces(&longer("a"), &longer("b")).len(), 2);
    }

    proptest! {
        #[test]
        fn both_texts_can_be_read_from_the_pieces(before in "[ab \n]{0,40}", now in "[ab \n]{0,40}") {
            let pieces = pieces(&before, &now);
            prop_assert_eq!(side(&pieces, 1), before);
            prop_assert_eq!(side(&pieces, 2), now);
        }
    }
}
