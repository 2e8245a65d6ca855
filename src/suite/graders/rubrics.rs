//! The rubrics that a model checks one by one.

use super::entry::above_zero;
use crate::config::{Fields, Node};
use crate::model::{Grader, GraderKind, LlmGrader, Rubric, RubricOperator, ScoreRange};
use crate::suite::loader::{Loader, key_span};

const KEYS: [&str; 9] = [
    "id",
    "outcome",
    "criteria",
    "operator",
    "weight",
    "required",
    "min_score",
    "required_min_score",
    "score_ranges",
];

/// The grader of the texts in a list of assertions, with the weight of one assertion per text.
pub(super) fn of_texts(texts: Vec<String>) -> Grader {
    let rubrics: Vec<Rubric> = (1..).zip(texts).map(|(number, text)| of_text(number, text)).collect();
    #[expect(clippy::cast_precision_loss, reason = "a handful of sentences")]
    let weight = rubrics.len() as f64;
    grader(rubrics, weight)
}

/// The grader of a test's `rubrics`, an old key.
pub(in crate::suite) fn inline_rubrics(items: &[Node], loader: &mut Loader) -> Option<Grader> {
    let rubrics = read(items, true, loader);
    (!rubrics.is_empty()).then(|| grader(rubrics, 1.0))
}

fn grader(rubrics: Vec<Rubric>, weight: f64) -> Grader {
    Grader {
        name: "rubrics".to_owned(),
        weight,
        required: false,
        min_score: None,
        negate: false,
        kind: GraderKind::Llm(LlmGrader { rubrics, ..LlmGrader::default() }),
    }
}

fn of_text(number: usize, text: String) -> Rubric {
    Rubric {
        id: format!("rubric-{number}"),
        outcome: Some(text),
        operator: None,
        weight: 1.0,
        required: Some(true),
        min_score: None,
        score_ranges: Vec::new(),
    }
}

/// Reads a list of them.
pub(super) fn read(items: &[Node], texts_too: bool, loader: &mut Loader) -> Vec<Rubric> {
    let mut rubrics: Vec<Rubric> = Vec::new();
    for (number, item) in (1..).zip(items) {
        let rubric = match item.as_str() {
            Some(text) if texts_too && !text.is_empty() => Some(of_text(number, text.to_owned())),
            _ => one(number, item, loader),
        };
        if let Some(rubric) = rubric {
            if rubrics.iter().any(|known| known.id == rubric.id) {
                let message = format!("two rubrics have the id `{}`", rubric.id);
                loader.problems.error_with_hint(&item.span, message, "rename one of them");
            }
            rubrics.push(rubric);
        }
    }
    rubrics
}

fn one(number: usize, node: &Node, loader: &mut Loader) -> Option<Rubric> {
    let before = loader.problems.error_count();
    let mut fields = node.fields("rubric", &mut loader.problems)?;
    let id = fields.string("id", &mut loader.problems);
    let other = fields.string("criteria", &mut loader.problems);
    let outcome = fields.string("outcome", &mut loader.problems).or(other).filter(|text| !text.is_empty());
    let operator = match fields.string("operator", &mut loader.problems) {
        None => None,
        Some("correctness") => Some(RubricOperator::Correctness),
        Some("contradiction") => Some(RubricOperator::Contradiction),
        Some(word) => {
            let message = format!("unknown `operator`: `{word}`");
            let hint = "one of `correctness` and `contradiction`";
            loader.problems.error_with_hint(key_span(node, "operator"), message, hint);
            None
        }
    };
    let weight = fields.number("weight", &mut loader.problems).unwrap_or(1.0);
    let old = old_min_score(&mut fields, loader);
    let min_score = above_zero(&mut fields, "min_score", loader).or(old);
    let required = fields.boolean("required", &mut loader.problems);
    let score_ranges = match fields.get("score_ranges") {
        Some(ranges) => read_ranges(ranges, loader),
        None => Vec::new(),
    };
    let has_ranges = fields.get("score_ranges").is_some();
    loader.warn_unknown(&fields, "a rubric", &KEYS);
    if loader.problems.error_count() > before {
        return None;
    }
    if outcome.is_none() && !has_ranges {
        let hint = "`outcome` states what must hold";
        loader.problems.error_with_hint(&node.span, "a rubric without `outcome`, which AgentV skips", hint);
        return None;
    }
    Some(Rubric {
        id: id.map_or_else(|| format!("rubric-{number}"), ToOwned::to_owned),
        outcome: outcome.map(ToOwned::to_owned),
        operator,
        weight,
        required: if has_ranges { required } else { Some(required.unwrap_or(true)) },
        min_score,
        score_ranges,
    })
}

/// `required_min_score`, out of 10.
fn old_min_score(fields: &mut Fields, loader: &mut Loader) -> Option<f64> {
    let score = fields.count("required_min_score", &mut loader.problems)?;
    let span = key_span(fields.node, "required_min_score");
    #[expect(clippy::cast_precision_loss, reason = "0 to 10")]
    if score <= 10 {
        let message = "`required_min_score` is the old form of `min_score`".to_owned();
        loader.warn_once(span, message, Some(format!("write `min_score: {}`", score as f64 / 10.0)));
        return Some(score as f64 / 10.0);
    }
    loader.problems.error(span, format!("`required_min_score`: expected 0 to 10, found {score}"));
    None
}

/// A list of ranges, or a mapping of their lower ends; together they must cover 0 to 10.
fn read_ranges(node: &Node, loader: &mut Loader) -> Vec<ScoreRange> {
    let ranges = match (node.items(), node.entries()) {
        (Some(items), _) => items.iter().map(read_range).collect::<Option<Vec<_>>>(),
        (_, Some(entries)) => {
            let lower = |text: &str| text.parse::<u8>().ok().filter(|bound| *bound <= 10);
            let bounds: Option<Vec<(u8, &str)>> = entries
                .iter()
                .map(|(key, value)| {
                    Some((lower(&key.text)?, value.as_str().filter(|text| !text.is_empty())?))
                })
                .collect();
            bounds.map(|mut bounds| {
                bounds.sort_unstable();
                let ends: Vec<u8> =
                    bounds.iter().skip(1).map(|(bound, _)| bound.saturating_sub(1)).chain([10]).collect();
                bounds
                    .iter()
                    .zip(ends)
                    .map(|((from, outcome), to)| ScoreRange {
                        score_range: [*from, to],
                        outcome: (*outcome).to_owned(),
                    })
                    .collect()
            })
        }
        _ => None,
    };
    let covered = |ranges: &Vec<ScoreRange>| {
        (0..=10_u8).all(|score| {
            let has = |range: &&ScoreRange| (range.score_range[0]..=range.score_range[1]).contains(&score);
            ranges.iter().filter(has).count() == 1
        })
    };
    match ranges {
        Some(ranges) if covered(&ranges) => ranges,
        _ => {
            loader.problems.error_with_hint(
                &node.span,
                "`score_ranges`: every whole number from 0 to 10 belongs to exactly one range",
                "for example `{0: wrong, 4: partly right, 8: right}`, or a list of `{score_range: [0, 3], outcome: wrong}`",
            );
            Vec::new()
        }
    }
}

fn read_range(node: &Node) -> Option<ScoreRange> {
    let value = |name: &str| node.entries()?.iter().find(|(key, _)| key.text == name).map(|(_, value)| value);
    let bounds = value("score_range")?.items()?;
    let [from, to] = bounds else { return None };
    let bound = |node: &Node| node.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=10.0).contains(n));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10")]
    let score_range = [bound(from)? as u8, bound(to)? as u8];
    let outcome = value("outcome")?.as_str().filter(|text| !text.is_empty())?.to_owned();
    (score_range[0] <= score_range[1]).then_some(ScoreRange { score_range, outcome })
}
