//! Long texts: two wordings of the same content share most words, and all facts.
//!
//! `docs/scoring.md` has the rules; `fixtures/scoring/count.py` implements the same page independently.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::reading::CODES;
use crate::model::Ratio;
use crate::scoring::dates::LONG_MONTHS;

/// A text with this many words is prose, and so is a shorter one that ends like a sentence.
const LEAST_WORDS: usize = 12;
const LEAST_WORDS_OF_A_SENTENCE: usize = 8;
/// A `phrase` with this many words is compared as prose.
const LEAST_WORDS_OF_A_PHRASE: usize = 6;
/// A text shorter than this must keep its names, and contain `not` as often.
const SHORT: usize = 40;
/// In a text shorter than this, the first word may be a name.
const VERY_SHORT: usize = 8;
/// The share of words that two texts must have in common, unless a rule sets another.
pub(super) const LEAST_OVERLAP: f64 = 0.4;

const STOP_WORDS: [&str; 60] = [
    "a", "an", "the", "of", "to", "in", "on", "at", "by", "for", "with", "from", "and", "or", "as", "is",
    "are", "was", "were", "be", "been", "being", "it", "its", "this", "that", "these", "those", "which",
    "who", "will", "would", "shall", "should", "has", "have", "had", "do", "does", "did", "there", "their",
    "they", "than", "then", "so", "such", "into", "under", "over", "within", "during", "per", "via", "may",
    "can", "could", "must", "also", "any",
];
const NEGATIONS: [&str; 8] = ["not", "no", "never", "without", "none", "neither", "nor", "cannot"];
/// `no more than` and `not exceed` are bounds: `at most` says the same without a negation.
const BOUNDS: [&str; 11] = [
    "more", "less", "fewer", "longer", "later", "earlier", "larger", "smaller", "higher", "lower", "greater",
];
const EXCEED: &str = "exceed";
const OPPOSITES: [&str; 4] = ["un", "non", "dis", "in"];
const SPELLED: [(&str, &str); 11] = [
    ("two", "2"),
    ("three", "3"),
    ("four", "4"),
    ("five", "5"),
    ("six", "6"),
    ("seven", "7"),
    ("eight", "8"),
    ("nine", "9"),
    ("ten", "10"),
    ("eleven", "11"),
    ("twelve", "12"),
];

/// Whether a text looks like prose.
pub(super) fn is_prose(text: &str) -> bool {
    let words = text.split_whitespace().count();
    let is_sentence = text.trim_end().ends_with(['.', '!', '?']);
    words >= LEAST_WORDS || (words >= LEAST_WORDS_OF_A_SENTENCE && is_sentence)
}

/// Whether a phrase is long enough to be compared as prose.
pub(super) fn is_long_phrase(text: &str) -> bool {
    text.split_whitespace().count() >= LEAST_WORDS_OF_A_PHRASE
}

/// Whether a text contains a fact: a number or a name.
pub(super) fn has_facts(text: &str) -> bool {
    let read = Reading::of(text);
    !read.facts.is_empty() || read.is_named
}

/// All words of a text: facts and names of an answer may come from the input.
pub(super) fn vocabulary(text: &str) -> HashSet<String> {
    tokens(text).into_iter().map(|token| stem(&token.text)).collect()
}

/// Two texts, compared.
pub(super) struct Comparison {
    /// The words they share.
    pub(super) overlap: Ratio,
    /// Whether they mean the same.
    pub(super) is_right: bool,
}

/// Compares an answer with an expected text; `input` is the vocabulary of the input.
pub(super) fn compare(expected: &str, found: &str, least: f64, input: &HashSet<String>) -> Comparison {
    let (wanted, got) = (Reading::of(expected), Reading::of(found));
    let overlap = wanted.overlap(&got);
    let is_grounded = got.facts.union(&got.names).all(|word| wanted.knows(word) || input.contains(word));
    let keeps_facts = wanted.facts.iter().all(|fact| got.knows(fact));
    let is_long = wanted.words >= SHORT;
    let keeps_sense = is_long
        || (wanted.names.iter().all(|name| got.knows(name))
            && wanted.negations == got.negations
            && wanted.bounds.is_disjoint(&got.unbounded)
            && got.bounds.is_disjoint(&wanted.unbounded)
            && !wanted.contradicts(&got)
            && !got.contradicts(&wanted));
    let is_right = overlap.as_f64() >= least && keeps_facts && is_grounded && keeps_sense;
    Comparison { overlap, is_right }
}

/// The words of a text by role. All are stems.
#[derive(Default)]
struct Reading {
    words: usize,
    /// The significant words and their counts.
    stems: BTreeMap<String, u64>,
    /// Words that contain a digit.
    facts: BTreeSet<String>,
    /// Capitalized words. The first word of a sentence counts only if the next one is capitalized, too, or if the text is very
    /// short.
    names: BTreeSet<String>,
    /// Every word, and the digits of numbers.
    all: HashSet<String>,
    /// Negations that are not part of a bound.
    negations: usize,
    /// The words of bounds, and the same words without a negation.
    bounds: BTreeSet<&'static str>,
    unbounded: BTreeSet<&'static str>,
    /// Whether a name is more than the first word of a short text.
    is_named: bool,
}

impl Reading {
    fn of(text: &str) -> Self {
        let tokens = tokens(text);
        let mut read = Self { words: tokens.len(), ..Self::default() };
        let capitals = tokens.iter().filter(|token| token.is_capital).count();
        let is_title = capitals * 2 > tokens.len() && tokens.len() >= VERY_SHORT;
        for (place, token) in tokens.iter().enumerate() {
            let word = token.text.as_str();
            let stem = stem(word);
            let is_stop_word = STOP_WORDS.contains(&word);
            let next_is_capital =
                tokens.get(place + 1).is_some_and(|next| next.is_capital && !next.starts_sentence);
            let may_be_name = !token.starts_sentence || next_is_capital || tokens.len() < VERY_SHORT;
            if word.bytes().any(|byte| byte.is_ascii_digit()) {
                read.facts.insert(stem.clone());
            } else if token.is_capital && may_be_name && !is_title && !is_stop_word {
                read.names.insert(stem.clone());
                read.is_named |= !token.starts_sentence || next_is_capital;
            }
            read.negations += usize::from(NEGATIONS.contains(&word));
            if let Some(bound) = bound(&tokens, place) {
                // `not exceed`, `not to exceed`, `not be exceeded`.
                let mut before = tokens[..place].iter().rev().map(|token| token.text.as_str());
                let before = before.find(|word| !["to", "be"].contains(word));
                if before.is_some_and(|word| NEGATIONS.contains(&word)) {
                    read.negations -= 1;
                    read.bounds.insert(bound);
                } else {
                    read.unbounded.insert(bound);
                }
            }
            if let Some((_, number)) = SPELLED.iter().find(|(spelled, _)| *spelled == word) {
                read.all.insert((*number).to_owned());
            }
            if !is_stop_word {
                *read.stems.entry(stem.clone()).or_default() += 1;
            }
            read.all.insert(stem);
        }
        read
    }

    fn knows(&self, word: &str) -> bool {
        self.all.contains(word)
    }

    /// Twice the shared words, divided by the words of both.
    fn overlap(&self, other: &Self) -> Ratio {
        let sum = |stems: &BTreeMap<String, u64>| stems.values().sum::<u64>();
        let shared = self.stems.iter().map(|(stem, count)| *count.min(other.stems.get(stem).unwrap_or(&0)));
        let all = sum(&self.stems) + sum(&other.stems);
        // Two texts without significant words are equal.
        Ratio::of(2 * shared.sum::<u64>(), all).unwrap_or(Ratio::WHOLE)
    }

    /// Whether a word of one is the opposite of a word of the other: `unallowable` and `allowable`.
    fn contradicts(&self, other: &Self) -> bool {
        let is_opposite = |word: &&String| {
            OPPOSITES.iter().any(|prefix| {
                word.strip_prefix(prefix).is_some_and(|rest| {
                    rest.chars().count() >= 5
                        && other.stems.contains_key(rest)
                        && !self.stems.contains_key(rest)
                })
            }) && !other.stems.contains_key(*word)
        };
        self.stems.keys().any(|word| is_opposite(&word))
    }
}

#[derive(Debug)]
struct Token {
    text: String,
    is_capital: bool,
    starts_sentence: bool,
}

/// The words and numbers of a text, in lower case. Numbers are normalized, month names next to a number become numbers, and
/// currency codes are dropped.
fn tokens(text: &str) -> Vec<Token> {
    let text = text.replace('\u{2019}', "'").replace("n't", " not").replace("'s", "");
    let chars: Vec<char> = text.chars().collect();
    let mut tokens: Vec<Token> = Vec::new();
    let (mut place, mut starts_sentence) = (0, true);
    while place < chars.len() {
        let first = chars[place];
        if !first.is_alphanumeric() {
            starts_sentence |= matches!(first, '.' | '!' | '?' | '\n');
            place += 1;
            continue;
        }
        let start = place;
        let is_digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
        while place < chars.len()
            && (chars[place].is_alphanumeric()
                || (matches!(chars[place], ',' | '.') && is_digit(place - 1) && is_digit(place + 1)))
        {
            place += 1;
        }
        let word: String = chars[start..place].iter().collect();
        // `$5`, `USD 5` and `5` are one number.
        if CODES.contains(&word.as_str()) {
            continue;
        }
        tokens.push(Token { text: plain(&word), is_capital: first.is_uppercase(), starts_sentence });
        starts_sentence = false;
    }
    let is_number = |token: &Token| token.text.starts_with(|c: char| c.is_ascii_digit());
    for at in 0..tokens.len() {
        let beside = (at > 0 && is_number(&tokens[at - 1])) || tokens.get(at + 1).is_some_and(is_number);
        if let Some(month) = month(&tokens[at].text).filter(|_| beside && tokens[at].is_capital) {
            tokens[at].text = month;
        }
    }
    tokens
}

/// The word of a comparison with a number, such as `more than`.
fn bound(tokens: &[Token], place: usize) -> Option<&'static str> {
    let word = tokens.get(place)?.text.as_str();
    if word.starts_with(EXCEED) {
        return Some(EXCEED);
    }
    let is_compared = tokens.get(place + 1).is_some_and(|next| next.text == "than");
    BOUNDS.into_iter().find(|bound| is_compared && *bound == word)
}

/// A word in lower case; a number in canonical form: `1,234.50` is `1234.5`, `007` is `7`, `3rd` is `3`.
fn plain(word: &str) -> String {
    let word = word.to_lowercase();
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(&word);
    let number = digits.replace(',', "");
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return word;
    }
    let number = match number.split_once('.') {
        // A version or a code, not a number.
        Some((_, rest)) if rest.contains('.') => return number,
        Some(_) => number.trim_end_matches('0').trim_end_matches('.'),
        None => &number,
    };
    match number.trim_start_matches('0') {
        "" => "0".to_owned(),
        rest if rest.starts_with('.') => format!("0{rest}"),
        rest => rest.to_owned(),
    }
}

fn month(word: &str) -> Option<String> {
    let word = if word == "sept" { "sep" } else { word };
    let is_one = |month: &&str| *month == word || (word.len() == 3 && month.starts_with(word));
    LONG_MONTHS.iter().position(is_one).map(|place| (place + 1).to_string())
}

/// A word without its ending, so that `booked`, `booking` and `books` are equal.
fn stem(word: &str) -> String {
    if word.bytes().any(|byte| byte.is_ascii_digit()) {
        return word.to_owned();
    }
    let long = |stem: &str, least: usize| stem.chars().count() >= least;
    let mut stem = match word.strip_suffix("ies") {
        Some(rest) if long(rest, 3) => format!("{rest}y"),
        _ => match word.strip_suffix('s') {
            Some(rest) if long(rest, 3) && !rest.ends_with('s') => rest.to_owned(),
            _ => word.to_owned(),
        },
    };
    let without_ending = stem.strip_suffix("ing").or_else(|| stem.strip_suffix("ed"));
    if let Some(rest) = without_ending.filter(|rest| long(rest, 3)) {
        let mut end = rest.chars().rev();
        let last = end.next().filter(|last| end.next() == Some(*last) && !"aeiou".contains(*last));
        let length = rest.len() - last.map_or(0, char::len_utf8);
        stem.truncate(length);
    }
    match stem.strip_suffix('e') {
        Some(rest) if long(rest, 4) => rest.to_owned(),
        _ => stem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: &str = "The flight with Meadow Air cost $612.40, was booked in economy class on March 2, 2026, and is \
        allowable because the award pays travel to conferences.";

    fn is_right(expected: &str, found: &str, input: &str) -> bool {
        compare(expected, found, LEAST_OVERLAP, &vocabulary(input)).is_right
    }

    #[test]
    fn reworded_texts_are_right() {
        for found in [
            EXPECTED,
            "Travel to conferences is paid by the award, so the economy class flight (Meadow Air, USD 612.4, 2026-03-02) \
             is allowable.",
            "Because conferences are covered by the award's travel budget, booking an economy flight with Meadow Air on \
             2 Mar 2026 for 612.40 dollars was allowable.",
        ] {
            assert!(is_right(EXPECTED, found, ""), "{found}");
        }
        assert!(is_right(
            "Three people went to the workshop by train.",
            "By train, 3 people went to the workshop.",
            ""
        ));
    }

    #[test]
    fn changed_facts_names_and_senses_are_wrong() {
        for (from, to) in [
            ("612.40", "621.40"),
            ("Meadow Air", "Granite Air"),
            ("March 2", "March 3"),
            ("2026", "2025"),
            ("allowable", "unallowable"),
            ("is allowable", "is not allowable"),
        ] {
            let found = EXPECTED.replace(from, to);
            assert_ne!(found, EXPECTED);
            assert!(!is_right(EXPECTED, &found, ""), "{found}");
        }
        assert!(!is_right(EXPECTED, "The coffee machine is food and drink, which is never paid.", ""));
        assert!(!is_right(EXPECTED, &format!("{EXPECTED} It cost 9 more."), ""));
        assert!(is_right(EXPECTED, &format!("{EXPECTED} It cost 9 more."), "Invoice 9"));
    }

    #[test]
    fn bounds_are_not_negations() {
        let expected = "The total may not exceed 25 percent of the award without prior approval.";
        for found in [
            "Without prior approval, the total may be at most 25 percent of the award.",
            "The total may be no more than 25 percent of the award without prior approval.",
            "Without prior approval, the total is not to exceed 25 percent of the award.",
        ] {
            assert!(is_right(expected, found, ""), "{found}");
            assert!(is_right(found, expected, ""), "{found}");
        }
        for wrong in [
            "The total may exceed 25 percent of the award without prior approval.",
            "The total may not exceed 25 percent of the award with prior approval.",
        ] {
            assert!(!is_right(expected, wrong, ""), "{wrong}");
            assert!(!is_right(wrong, expected, ""), "{wrong}");
        }
        let expected = "The report must be sent no later than the first of June.";
        assert!(is_right(expected, "The report must be sent by the first of June.", ""));
        assert!(!is_right(expected, "The report must be sent later than the first of June.", ""));
        // No bound: nothing follows that is compared.
        assert!(!is_right("The plan is no longer required here.", "The plan is required here.", ""));
    }

    #[test]
    fn words_have_one_form() {
        let texts = |text: &str| tokens(text).into_iter().map(|token| token.text).collect::<Vec<_>>();
        assert_eq!(
            texts("It isn't Okafor’s: 1,234.50, 007 and 3rd."),
            ["it", "is", "not", "okafor", "1234.5", "7", "and", "3"]
        );
        assert_eq!(texts("31 January 2026, may, v1.10.0"), ["31", "1", "2026", "may", "v1.10.0"]);
        let stems = ["booked", "booking", "books", "book"].map(stem);
        assert_eq!(stems, ["book"; 4]);
        assert_eq!(["policies", "policy"].map(stem), ["policy", "policy"]);
        assert_eq!(["approved", "approve", "approves"].map(stem), ["approv"; 3]);
        assert_eq!(["planned", "plans", "class"].map(stem), ["plan", "plan", "class"]);
    }

    #[test]
    fn short_texts_are_not_prose() {
        assert!(is_prose("This is a sentence of at least eight words."));
        assert!(!is_prose("This is a title of at least eight words"));
        assert!(!is_prose("Two words."));
        assert!(is_prose(&"word ".repeat(12)));
    }
}
