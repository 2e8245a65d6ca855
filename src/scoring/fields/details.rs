//! All fields of a model's answers, for the page of a case. It judges as `compare` does.

use std::collections::HashMap;

use serde_json::Value;

use super::answer::{self, Answer, Outcome};
use super::assemble::{Answers, Scorer, Subject};
use super::compare::{self, Case, Counts, whole_form};
use super::grader::Verdicts;
use super::matcher::{Matcher, RulesHere};
use super::walk::{Visitor, walk};
use crate::config::SkillCase;
use crate::model::{CallOutcome, CaseDetails, FieldAnswer, FieldDetails, FieldVerdict};
use crate::util::truncate::truncate;

/// The longest value that is kept.
const LONGEST_VALUE: usize = 300;
/// How many different answers to a field are kept.
const MOST_ANSWERS: usize = 8;

/// The fields of all cases, up to a number each. Values are truncated; secrets were redacted when the responses were stored.
pub fn details(
    subject: &Subject<'_>,
    answers: &Answers,
    verdicts: &Verdicts,
    most: usize,
) -> Vec<CaseDetails> {
    let scorer = Scorer::new(subject.skill);
    let of_case = |case| of_case(subject, &scorer, case, answers, verdicts, most);
    subject.skill.cases.iter().map(of_case).collect()
}

fn of_case(
    subject: &Subject<'_>,
    scorer: &Scorer,
    case: &SkillCase,
    answers: &Answers,
    verdicts: &Verdicts,
    most: usize,
) -> CaseDetails {
    let rules = Matcher::new(&scorer.rules);
    let expected = scorer.expected(case);
    let asked = Case::new(&case.message).with_verdicts(verdicts);
    let (mut fields, mut calls) = (Fields::default(), Vec::new());
    for replicate in 1..=subject.replicates.get() {
        let answer = answers.get(&(case.id.clone(), replicate)).unwrap_or(&Answer::FAILED);
        let (outcome, found) = match &answer.outcome {
            Outcome::Failed => (CallOutcome::Failed, None),
            Outcome::Text { text, .. } => match answer::parse(text, scorer.format(), &rules) {
                None => (CallOutcome::Unreadable, None),
                found => (CallOutcome::Ok, found),
            },
        };
        calls.push(outcome);
        let mut lister = Lister { fields: &mut fields, case: &asked, is_answered: found.is_some() };
        walk(&mut lister, &asked, &String::new(), &expected, found.as_ref(), &rules);
    }
    let (fields, left_out) = fields.finish(most);
    CaseDetails { case: case.id.clone(), calls, fields, left_out }
}

/// The fields in order of appearance.
#[derive(Default)]
struct Fields {
    places: HashMap<(String, bool), usize>,
    seen: Vec<Field>,
}

struct Field {
    path: String,
    expected: Option<String>,
    /// The key of each distinct answer, its first occurrence, and its count.
    answers: Vec<(String, FieldAnswer)>,
}

impl Fields {
    fn add(
        &mut self,
        path: &str,
        expected: Option<&Value>,
        found: Option<&Value>,
        meaning: String,
        verdict: FieldVerdict,
    ) {
        let key = (path.to_owned(), expected.is_some());
        let seen = &mut self.seen;
        let place = *self.places.entry(key).or_insert_with(|| {
            seen.push(Field { path: path.to_owned(), expected: expected.map(shown), answers: Vec::new() });
            seen.len() - 1
        });
        let answers = &mut self.seen[place].answers;
        match answers.iter_mut().find(|(known, answer)| *known == meaning && answer.verdict == verdict) {
            Some((_, answer)) => answer.times += 1,
            None => answers.push((meaning, FieldAnswer { value: found.map(shown), verdict, times: 1 })),
        }
    }

    /// Expected fields first; also returns the number of fields left out.
    fn finish(mut self, most: usize) -> (Vec<FieldDetails>, u64) {
        self.seen.sort_by_key(|field| field.expected.is_none());
        let left_out = self.seen.len().saturating_sub(most) as u64;
        let field = |Field { path, expected, mut answers }: Field| {
            answers.sort_by_key(|(_, answer)| std::cmp::Reverse(answer.times));
            let mut kept: Vec<FieldAnswer> = answers.into_iter().map(|(_, answer)| answer).collect();
            // Keep counting the rest.
            for rest in kept.split_off(kept.len().min(MOST_ANSWERS)) {
                let other = |answer: &&mut FieldAnswer| {
                    answer.verdict == rest.verdict && answer.value.as_deref() == Some("…")
                };
                match kept.iter_mut().skip(MOST_ANSWERS).find(other) {
                    Some(other) => other.times += rest.times,
                    None => kept.push(FieldAnswer { value: Some("…".to_owned()), ..rest }),
                }
            }
            FieldDetails { path: truncate(&path, LONGEST_VALUE), expected, answers: kept }
        };
        (self.seen.into_iter().take(most).map(field).collect(), left_out)
    }
}

/// A value as text: strings as they are, the rest as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => truncate(text, LONGEST_VALUE),
        other => truncate(&other.to_string(), LONGEST_VALUE),
    }
}

struct Lister<'w> {
    fields: &'w mut Fields,
    case: &'w Case<'w>,
    is_answered: bool,
}

impl Visitor for Lister<'_> {
    type Path = String;

    fn key(path: &String, key: &str) -> String {
        if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
    }

    fn item(path: &String, place: Option<usize>) -> String {
        place.map_or_else(|| format!("{path}[+]"), |place| format!("{path}[{place}]"))
    }

    /// As counted by `compare`.
    fn plain(
        &mut self,
        path: &String,
        expected: &Value,
        found: Option<&Value>,
        rules: &Matcher<'_>,
        _here: RulesHere<'_>,
    ) {
        let counts = match found {
            Some(found) => compare::count(expected, found, rules, self.case),
            None => compare::count_item(expected, None, rules, self.case),
        };
        let Some(verdict) = verdict(&counts) else { return };
        // A call without an answer has nothing correctly absent.
        if verdict == FieldVerdict::CorrectAbsent && !self.is_answered {
            return;
        }
        let is_expected =
            matches!(verdict, FieldVerdict::Correct | FieldVerdict::Incorrect | FieldVerdict::Missing);
        let found = found.filter(|_| !matches!(verdict, FieldVerdict::Missing | FieldVerdict::CorrectAbsent));
        let meaning = match (verdict, found) {
            (FieldVerdict::Correct, _) | (_, None) => String::new(),
            (_, Some(found)) => whole_form(found, rules),
        };
        self.fields.add(path, is_expected.then_some(expected), found, meaning, verdict);
    }

    fn extra(&mut self, path: &String, found: &Value, rules: &Matcher<'_>, _fields: u64) {
        let meaning = whole_form(found, rules);
        self.fields.add(path, None, Some(found), meaning, FieldVerdict::Hallucinated);
    }

    fn set_item(&mut self, path: &String, expected: &Value, found: Option<&Value>, _item: &Matcher<'_>) {
        let verdict = if found.is_some() { FieldVerdict::Correct } else { FieldVerdict::Missing };
        self.fields.add(path, Some(expected), found, String::new(), verdict);
    }
}

fn verdict(counts: &Counts) -> Option<FieldVerdict> {
    let first = [
        (counts.correct, FieldVerdict::Correct),
        (counts.incorrect, FieldVerdict::Incorrect),
        (counts.missing, FieldVerdict::Missing),
        (counts.hallucinated, FieldVerdict::Hallucinated),
        (counts.correct_absent, FieldVerdict::CorrectAbsent),
    ];
    first.into_iter().find(|(count, _)| *count > 0).map(|(_, verdict)| verdict)
}
