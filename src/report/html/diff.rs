//! Two texts, piece by piece: what both have, what only the new one has, what only the old one had.

/// The most cells of the table that finds what two texts have in common; it bounds the time that a page takes.
const MOST_CELLS: usize = 250_000;

/// A piece and where it stands: 0 in both, 1 only in the new text, 2 only in the old one.
pub(super) type Piece = (u8, String);

/// The pieces by words where that is little work, else by lines, else as two whole texts.
pub(super) fn pieces(before: &str, now: &str) -> Vec<Piece> {
    for split in [words, lines] {
        let (old, new) = (split(before), split(now));
        let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let rest = old.len().min(new.len()) - head;
        let tail =
            old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
        let (old_middle, new_middle) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
        if old_middle.len() * new_middle.len() <= MOST_CELLS {
            let mut out = Vec::new();
            old[..head].iter().for_each(|part| push(&mut out, 0, part));
            middle(old_middle, new_middle, &mut out);
            old[old.len() - tail..].iter().for_each(|part| push(&mut out, 0, part));
            return out;
        }
    }
    vec![(2, before.to_owned()), (1, now.to_owned())]
}

/// The longest sequence that both have, by a table of lengths from the end.
fn middle(old: &[&str], new: &[&str], out: &mut Vec<Piece>) {
    let width = new.len() + 1;
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            lengths[i * width + j] = if old[i] == new[j] {
                lengths[(i + 1) * width + j + 1] + 1
            } else {
                lengths[(i + 1) * width + j].max(lengths[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            push(out, 0, old[i]);
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || i < old.len() && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]
        {
            push(out, 2, old[i]);
            i += 1;
        } else {
            push(out, 1, new[j]);
            j += 1;
        }
    }
}

fn push(out: &mut Vec<Piece>, kind: u8, part: &str) {
    match out.last_mut() {
        Some((last, text)) if *last == kind => text.push_str(part),
        _ => out.push((kind, part.to_owned())),
    }
}

/// Words, each with the space behind it.
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

    fn side(pieces: &[Piece], other: u8) -> String {
        pieces.iter().filter(|(kind, _)| *kind != other).map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn words_that_changed() {
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
