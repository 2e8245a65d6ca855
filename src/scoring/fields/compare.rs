//! Compares an answer with the expected one: five counts, and those of prose among them.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::grader::{GradedText, Verdicts};
use super::matcher::{List, Matcher, RulesHere, WordMatch};
use super::pairing;
use super::prose;
use super::reading::{form, is_nothing, number_in, other_currency, plain_text, same};
use super::walk::{Visitor, walk};
use crate::model::{Accuracy, FieldType, Prose, Ratio, Tolerance, folded};

/// Counts of fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Expected and equal.
    pub correct: u64,
    /// Expected and different.
    pub incorrect: u64,
    /// Expected and missing.
    pub missing: u64,
    /// Not expected but present.
    pub hallucinated: u64,
    /// Expected to be empty, and empty.
    pub correct_absent: u64,
    /// The counts where prose is expected.
    pub prose: ProseCounts,
}

/// Counts of fields where prose is expected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProseCounts {
    /// Similar enough.
    pub correct: u64,
    /// Not similar enough, or with other facts.
    pub incorrect: u64,
    /// Not there.
    pub missing: u64,
    /// Their word overlap with the answers, in ten-thousandths, summed.
    pub overlap: u64,
    /// The same for fields that a model grades. It only pairs list items, and is in no figure.
    pub graded_overlap: u64,
}

/// The input of a case, for rules that refer to it.
#[derive(Debug)]
pub(super) struct Case<'i> {
    message: &'i str,
    folded: OnceCell<String>,
    vocabulary: OnceCell<HashSet<String>>,
    /// The verdicts of a grading model.
    verdicts: Option<&'i Verdicts>,
    /// The texts still to be graded.
    undecided: RefCell<BTreeMap<String, GradedText>>,
}

impl<'i> Case<'i> {
    pub(super) fn new(message: &'i str) -> Self {
        Self {
            message,
            folded: OnceCell::new(),
            vocabulary: OnceCell::new(),
            verdicts: None,
            undecided: RefCell::default(),
        }
    }

    /// The same with the verdicts of a model.
    pub(super) fn with_verdicts(mut self, verdicts: &'i Verdicts) -> Self {
        self.verdicts = Some(verdicts);
        self
    }

    /// The texts without a verdict, by id. Until then they count as wrong.
    pub(super) fn into_undecided(self) -> BTreeMap<String, GradedText> {
        self.undecided.into_inner()
    }

    fn is_graded_right(&self, expected: &str, answer: &str) -> bool {
        let text = GradedText::new(expected, answer);
        if text.is_too_long() {
            return false;
        }
        let id = text.id();
        let verdict = self.verdicts.and_then(|verdicts| verdicts.get(&id));
        if verdict.is_none() {
            self.undecided.borrow_mut().insert(id, text);
        }
        verdict.copied().unwrap_or(false)
    }

    fn folded(&self) -> &str {
        self.folded.get_or_init(|| folded(self.message))
    }

    fn vocabulary(&self) -> &HashSet<String> {
        self.vocabulary.get_or_init(|| prose::vocabulary(self.message))
    }
}

impl Counts {
    /// The denominator of accuracy.
    pub fn counted(&self) -> u64 {
        self.correct + self.incorrect + self.missing + self.hallucinated
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.correct += other.correct;
        self.incorrect += other.incorrect;
        self.missing += other.missing;
        self.hallucinated += other.hallucinated;
        self.correct_absent += other.correct_absent;
        self.prose.correct += other.prose.correct;
        self.prose.incorrect += other.prose.incorrect;
        self.prose.missing += other.prose.missing;
        self.prose.overlap += other.prose.overlap;
        self.prose.graded_overlap += other.prose.graded_overlap;
    }

    /// The accuracy of an entry, without the figures.
    pub(super) fn accuracy(&self) -> Accuracy {
        Accuracy {
            score: None,
            interval: None,
            n_correct: self.correct,
            n_incorrect: self.incorrect,
            n_missing: self.missing,
            n_hallucinated: self.hallucinated,
            n_correct_absent: self.correct_absent,
        }
    }

    /// The same of the prose.
    pub(super) fn prose(&self) -> Prose {
        let ProseCounts { correct, incorrect, missing, overlap, .. } = self.prose;
        let compared = correct + incorrect + missing;
        Prose {
            score: Ratio::of(correct, compared),
            overlap: Ratio::of(overlap, compared * u64::from(Ratio::WHOLE.ten_thousandths())),
            n_correct: correct,
            n_incorrect: incorrect,
            n_missing: missing,
        }
    }
}

/// Counts the fields of an answer.
pub(super) fn count(expected: &Value, found: &Value, rules: &Matcher<'_>, case: &Case<'_>) -> Counts {
    counted(expected, Some(found), rules, case, true)
}

/// The same for a part of an answer that may be absent or unmatched: it is not sent to a grading model.
pub(super) fn count_item(
    expected: &Value,
    found: Option<&Value>,
    rules: &Matcher<'_>,
    case: &Case<'_>,
) -> Counts {
    counted(expected, found, rules, case, false)
}

fn counted(
    expected: &Value,
    found: Option<&Value>,
    rules: &Matcher<'_>,
    case: &Case<'_>,
    is_final: bool,
) -> Counts {
    let mut counter = Counter { counts: Counts::default(), case, is_final };
    walk(&mut counter, case, &(), expected, found, rules);
    counter.counts
}

/// Counts a case without an answer: all expected fields are missing, and none is correctly absent.
pub(super) fn count_unanswered(expected: &Value, rules: &Matcher<'_>) -> Counts {
    Counts { correct_absent: 0, ..count_item(expected, None, rules, &Case::new("")) }
}

/// The number of fields that are neither empty nor ignored. Each item of a set is one field.
pub(super) fn present(value: &Value, rules: &Matcher<'_>) -> u64 {
    let here = rules.here();
    if here.is_ignored {
        return 0;
    }
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| present(value, &rules.key(key))).sum(),
        Value::Array(items) => {
            let item = rules.item();
            let is_set = matches!(here.list, List::Set) || here.words == WordMatch::Contains;
            let one = |value| if is_set { present(value, &item).min(1) } else { present(value, &item) };
            items.iter().map(one).sum()
        }
        plain => u64::from(!is_nothing(plain)),
    }
}

struct Counter<'c> {
    counts: Counts,
    case: &'c Case<'c>,
    /// Whether graded texts count as their grader decided.
    is_final: bool,
}

impl Visitor for Counter<'_> {
    type Path = ();

    fn key((): &(), _key: &str) {}

    fn item((): &(), _place: Option<usize>) {}

    fn plain(
        &mut self,
        (): &(),
        expected: &Value,
        found: Option<&Value>,
        rules: &Matcher<'_>,
        here: RulesHere<'_>,
    ) {
        if here.words == WordMatch::Contains && expected.is_array() {
            // Expected to be empty, but anything is allowed.
            return;
        }
        let is_empty = is_nothing(expected) || expected.is_object() || expected.is_array();
        let there = found.map_or(0, |found| present(found, rules));
        let counts = &mut self.counts;
        match (is_empty, found) {
            (true, _) if there == 0 => counts.correct_absent += 1,
            (true, _) => counts.hallucinated += there,
            (false, Some(found)) if there > 0 => {
                let judge = if self.is_final { judge_finally } else { judge };
                let ValueVerdict { is_right, overlap } = judge(expected, found, here, self.case);
                counts.correct += u64::from(is_right);
                counts.incorrect += u64::from(!is_right);
                if let Some(overlap) = overlap {
                    counts.prose.correct += u64::from(is_right);
                    counts.prose.incorrect += u64::from(!is_right);
                    counts.prose.overlap += u64::from(overlap.ten_thousandths());
                    if here.is_graded {
                        counts.prose.graded_overlap += u64::from(overlap.ten_thousandths());
                    }
                }
            }
            _ => {
                counts.missing += 1;
                counts.prose.missing += u64::from(least_overlap(expected, here).is_some());
            }
        }
    }

    fn extra(&mut self, (): &(), _found: &Value, _rules: &Matcher<'_>, fields: u64) {
        self.counts.hallucinated += fields;
    }

    fn set_item(&mut self, (): &(), expected: &Value, found: Option<&Value>, item: &Matcher<'_>) {
        let here = item.here();
        let Some(found) = found else {
            self.counts.missing += 1;
            let is_prose = is_plain(expected) && least_overlap(expected, here).is_some();
            self.counts.prose.missing += u64::from(is_prose);
            return;
        };
        self.counts.correct += 1;
        if let Some(overlap) = judge(expected, found, here, self.case).overlap {
            self.counts.prose.correct += 1;
            self.counts.prose.overlap += u64::from(overlap.ten_thousandths());
        }
    }
}

/// Whether the items of a list are unordered and one field each: by a rule, or by default if they are plain values. Texts that a
/// model grades are paired first, then graded.
pub(super) fn is_set(expected: &[Value], here: RulesHere<'_>, item: RulesHere<'_>) -> bool {
    let is_plain_list = || expected.iter().all(is_plain);
    match here.list {
        _ if here.words == WordMatch::Contains => true,
        _ if item.is_graded && is_plain_list() => false,
        List::Set => true,
        List::Best => is_plain_list(),
        List::Order | List::Key(_) => false,
    }
}

/// The equal items of two sets.
pub(super) fn set_pairs(
    expected: &[Value],
    found: &[Value],
    item: &Matcher<'_>,
    case: &Case<'_>,
) -> Vec<(usize, usize)> {
    let forms = |list: &[Value]| list.iter().map(|value| whole_form(value, item)).collect::<Vec<_>>();
    let here = item.here();
    let same = |a: usize, b: usize| {
        is_plain(&expected[a]) && is_plain(&found[b]) && judge(&expected[a], &found[b], here, case).is_right
    };
    pairing::pairs(&forms(expected), &forms(found), same)
}

pub(super) fn is_plain(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

/// The required word overlap where prose is expected; `None` for a plain value.
pub(super) fn least_overlap(expected: &Value, here: RulesHere<'_>) -> Option<f64> {
    let Value::String(text) = expected else { return None };
    let least = || Some(here.overlap.unwrap_or(prose::LEAST_OVERLAP));
    match here.kind {
        _ if here.words != WordMatch::Same || here.tolerance.is_some() => None,
        _ if here.overlap.is_some() || here.is_graded => least(),
        Some(FieldType::Prose) => least(),
        Some(FieldType::Phrase) if prose::is_long_phrase(text) => least(),
        None if prose::is_prose(text) => least(),
        _ => None,
    }
}

/// Whether a value is correct, and the word overlap of its prose.
struct ValueVerdict {
    is_right: bool,
    overlap: Option<Ratio>,
}

fn judge(expected: &Value, found: &Value, here: RulesHere<'_>, case: &Case<'_>) -> ValueVerdict {
    let Some(least) = least_overlap(expected, here) else {
        return ValueVerdict { is_right: is_right(expected, found, here, case), overlap: None };
    };
    let Value::String(text) = found else {
        return ValueVerdict { is_right: false, overlap: Ratio::of(0, 1) };
    };
    let compared = prose::compare(&plain_text(expected), text, least, case.vocabulary());
    let is_right = compared.is_right || same(expected, found, here.kind);
    ValueVerdict { is_right, overlap: Some(compared.overlap) }
}

/// The same for values that are matched for certain: where a model grades, its verdict counts.
fn judge_finally(expected: &Value, found: &Value, here: RulesHere<'_>, case: &Case<'_>) -> ValueVerdict {
    let judged = judge(expected, found, here, case);
    match (expected, found) {
        (Value::String(wanted), Value::String(text))
            if here.is_graded && judged.overlap.is_some() && !same(expected, found, here.kind) =>
        {
            ValueVerdict { is_right: case.is_graded_right(wanted, text), ..judged }
        }
        _ => judged,
    }
}

/// Whether an answer is correct where prose is expected; `None` for a plain value.
pub(super) fn is_right_prose(
    expected: &Value,
    found: &Value,
    here: RulesHere<'_>,
    case: &Case<'_>,
) -> Option<bool> {
    let ValueVerdict { is_right, overlap } = judge_finally(expected, found, here, case);
    overlap.map(|_| is_right)
}

/// Whether a value matches the expected one under its rules.
fn is_right(expected: &Value, found: &Value, here: RulesHere<'_>, case: &Case<'_>) -> bool {
    if found.is_object() || found.is_array() {
        return false;
    }
    match here.words {
        WordMatch::Same => {}
        WordMatch::Contains => return folded(&plain_text(found)).contains(&folded(&plain_text(expected))),
        WordMatch::InInput => return case.folded().contains(&folded(&plain_text(found))),
    }
    if let Some(tolerance) = here.tolerance
        && let (Some(wanted), Some(got)) = (number_in(expected, here.kind), number_in(found, here.kind))
    {
        return is_near(wanted, got, tolerance) && !other_currency(expected, found, here.kind);
    }
    same(expected, found, here.kind)
}

fn is_near(expected: f64, found: f64, tolerance: Tolerance) -> bool {
    let most = match tolerance {
        Tolerance::Absolute(most) => most,
        Tolerance::Relative(share) => share * expected.abs(),
    };
    // 0.8 and 0.75 are 0.05 apart, despite binary rounding, which adds only a few units in the last place.
    let slack = 4.0 * f64::EPSILON * expected.abs().max(found.abs()).max(most);
    (expected - found).abs() <= most + slack
}

/// The key of a list item.
pub(super) fn key_form(value: &Value, fields: &[String], item: &Matcher<'_>) -> String {
    let part = |field: &String| {
        let kind = item.key(field).here().kind;
        value.get(field).filter(|value| !is_nothing(value)).map_or_else(String::new, |value| match value {
            Value::Object(_) | Value::Array(_) => whole_form(value, &item.key(field)),
            plain => form(plain, kind),
        })
    };
    // An item that is not a mapping has no key, and is matched in order.
    let mark = if value.is_object() { "o" } else { "-" };
    fields.iter().fold(mark.to_owned(), |key, field| {
        let part = part(field);
        format!("{key}|{}:{part}", part.len())
    })
}

pub(super) fn same_key(a: &Value, b: &Value, fields: &[String], item: &Matcher<'_>) -> bool {
    let both = a.is_object() && b.is_object();
    both && fields.iter().all(|field| match (a.get(field), b.get(field)) {
        (None, None) => true,
        (Some(a), Some(b)) if is_nothing(a) || is_nothing(b) => is_nothing(a) && is_nothing(b),
        (Some(a), Some(b)) => is_plain(a) && is_plain(b) && same(a, b, item.key(field).here().kind),
        (Some(one), None) | (None, Some(one)) => is_nothing(one),
    })
}

/// One text per meaning of a value and everything in it; key order does not matter.
pub(super) fn whole_form(value: &Value, rules: &Matcher<'_>) -> String {
    let here = rules.here();
    match value {
        Value::Object(map) => {
            let mut parts: Vec<String> = map
                .iter()
                .filter(|(key, value)| present(value, &rules.key(key)) > 0)
                .map(|(key, value)| {
                    let inner = whole_form(value, &rules.key(key));
                    format!("{}:{key}={}:{inner}", key.len(), inner.len())
                })
                .collect();
            parts.sort_unstable();
            format!("{{{}}}", parts.join(","))
        }
        Value::Array(items) => {
            let item = rules.item();
            let is_ordered = matches!(here.list, List::Order);
            let mut parts: Vec<String> = items
                .iter()
                .filter(|value| is_ordered || present(value, &item) > 0)
                .map(|value| whole_form(value, &item))
                .collect();
            if !is_ordered {
                parts.sort_unstable();
            }
            let parts: Vec<String> = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
            format!("[{}]", parts.join(","))
        }
        plain => form(plain, here.kind),
    }
}
