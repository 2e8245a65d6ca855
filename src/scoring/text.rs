//! Graders that check the text of an answer.

use crate::model::Quantifier;

/// Whether a response contains the expected texts, and which it contains or lacks.
pub(super) fn contains(
    answer: &str,
    which: Quantifier,
    ignore_case: bool,
    values: &[String],
) -> (bool, String) {
    let folded = if ignore_case { &*answer.to_lowercase() } else { answer };
    let has = |value: &String| {
        if ignore_case { folded.contains(&value.to_lowercase()) } else { folded.contains(value.as_str()) }
    };
    let (found, missing): (Vec<&String>, Vec<&String>) = values.iter().partition(|value| has(value));
    let passed = if which == Quantifier::Any { !found.is_empty() } else { missing.is_empty() };
    let (how, values) = match (passed, which) {
        (true, _) => ("contains", found),
        (false, Quantifier::Any) => ("contains none of", missing),
        (false, Quantifier::One | Quantifier::All) => ("does not contain", missing),
    };
    let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
    let case = if ignore_case { ", in any case" } else { "" };
    (passed, format!("{how} {}{case}", quoted.join(", ")))
}

/// A check with the wording for both outcomes.
pub(super) fn check(passed: bool, holds: &str, fails: &str, value: &str) -> (bool, String) {
    (passed, format!("{} {value}", if passed { holds } else { fails }))
}

/// The text, trimmed as in JavaScript.
pub(super) fn trimmed(text: &str) -> &str {
    // Unicode counts U+0085 as blank but not U+FEFF; JavaScript does the opposite.
    text.trim_matches(|c: char| c != '\u{85}' && (c.is_whitespace() || c == '\u{feff}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whitespace_is_that_of_javascript() {
        assert_eq!(trimmed("\u{feff} \u{a0}x\u{2028}\n"), "x");
        assert_eq!(trimmed("\u{85}x"), "\u{85}x");
    }

    #[test]
    fn case_mapping_uses_the_whole_text() {
        let values = |value: &str| [value.to_owned()];
        assert!(contains("ΟΔΟΣ", Quantifier::One, true, &values("οδος")).0);
        assert!(contains("STRASSE", Quantifier::One, true, &values("strasse")).0);
        assert!(!contains("STRASSE", Quantifier::One, true, &values("straße")).0);
        assert!(contains("İstanbul", Quantifier::One, true, &values("i\u{307}stanbul")).0);
    }
}
