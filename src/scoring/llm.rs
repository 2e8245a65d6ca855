//! LLM graders.

use serde::Deserialize;
use serde_json::Value;

use super::row::Case;
use super::{Ask, GraderCall, GraderReply, Pending, command, failed, json, judged, prompts, scored, verdict};
use crate::model::{Check, Grader, GraderScore, GraderVerdict, LlmGrader, Prompt, Rubric};
use crate::util::truncate::truncate;

/// The most checks kept of a grade without rubrics.
const MOST_CHECKS: usize = 8;
/// How often a model is called for a readable grade.
const ATTEMPTS: u32 = 2;
/// How much of an unreadable grade is repeated to the model.
const LONGEST_EXCERPT: usize = 200;

#[derive(Deserialize)]
struct Free {
    score: f64,
    #[serde(default)]
    assertions: Option<Vec<FreeCheck>>,
    /// Any figures; only their names are checked.
    #[serde(default, rename = "details")]
    _details: Option<serde_json::Map<String, Value>>,
    #[serde(default)]
    reasoning: Option<Value>,
}

#[derive(Deserialize)]
struct FreeCheck {
    text: String,
    passed: bool,
    #[serde(default)]
    evidence: Option<String>,
}

#[derive(Deserialize)]
struct Checks<C> {
    checks: Vec<C>,
    #[serde(default)]
    overall_reasoning: Option<String>,
}

#[derive(Deserialize)]
struct RubricCheck {
    id: String,
    satisfied: bool,
    reasoning: String,
}

#[derive(Deserialize)]
struct RangeCheck {
    id: String,
    score: f64,
    #[serde(default)]
    reasoning: Option<String>,
}

/// Calls a model and reads its grade.
pub(super) fn grade(
    grader: &Grader,
    llm: &LlmGrader,
    case: &Case<'_>,
    place: &str,
    ask: &mut Ask<'_>,
) -> Result<GraderScore, Pending> {
    let has_ranges = llm.rubrics.iter().any(|rubric| !rubric.score_ranges.is_empty());
    let mut criteria = case.test.grading.criteria.as_str();
    let template = match &llm.prompt {
        None => None,
        Some(Prompt::Template(template)) => Some(template.clone()),
        Some(Prompt::Criteria(text)) => {
            criteria = text;
            None
        }
        Some(Prompt::Command { argv, cwd, config }) => {
            let input = command::prompt_input(case, config.as_ref());
            let need = GraderCall::Command { argv: argv.clone(), cwd, input };
            match command::printed(ask(&format!("{place}.prompt"), need).ok_or(Pending)?) {
                Ok(text) if !text.is_empty() => Some(text),
                Ok(_) => return Ok(failed(grader, "the command of the prompt printed nothing")),
                Err(error) => {
                    return Ok(failed(grader, format!("the command of the prompt failed: {error}")));
                }
            }
        }
    };
    let (system, prompt) = match (template, llm.rubrics.is_empty(), has_ranges) {
        (Some(template), true, _) => (prompts::FREE_ANSWER, prompts::custom(case, &template, llm)),
        (Some(template), false, false) => (prompts::RUBRICS_ANSWER, prompts::custom(case, &template, llm)),
        (Some(template), false, true) => (prompts::RANGES_ANSWER, prompts::custom(case, &template, llm)),
        (None, true, _) => (prompts::FREE_ANSWER, prompts::free(case, criteria)),
        (None, false, false) => (prompts::RUBRICS_ANSWER, prompts::rubrics(case, criteria, &llm.rubrics)),
        (None, false, true) => (prompts::RANGES_ANSWER, prompts::ranges(case, criteria, &llm.rubrics)),
    };
    let (temperature, target) = (llm.temperature, llm.target.as_deref());
    let read = |answer: &str| {
        if llm.rubrics.is_empty() {
            free(grader, answer)
        } else if has_ranges {
            ranges(grader, &llm.rubrics, answer)
        } else {
            rubrics(grader, &llm.rubrics, answer)
        }
    };
    let mut asked = ask(place, GraderCall::Model { system, prompt, temperature, target }).ok_or(Pending)?;
    for attempt in 1.. {
        let answer = match said(asked) {
            Ok(answer) => answer,
            Err(error) => return Ok(failed(grader, error)),
        };
        let problem = match read(&answer) {
            Ok(score) => return Ok(score),
            Err(problem) => problem,
        };
        if attempt == ATTEMPTS {
            return Ok(failed(grader, format!("{problem}: {}", excerpt(&answer))));
        }
        let prompt = prompts::again(&problem, &answer);
        let need = GraderCall::Model { system, prompt, temperature, target };
        asked = ask(&format!("{place}.again"), need).ok_or(Pending)?;
    }
    Ok(failed(grader, "the grade is unreadable"))
}

/// The model's reply, or why there is none.
pub(super) fn said(given: GraderReply) -> Result<String, String> {
    match given {
        GraderReply::Text(text) => Ok(text),
        GraderReply::Failed(error) => Err(format!("the grading model gave no answer: {error}")),
        GraderReply::Ended { .. } => Err("the grading model gave no answer".to_owned()),
    }
}

/// A grade without rubrics.
pub(super) fn free(grader: &Grader, answer: &str) -> Result<GraderScore, String> {
    let Free { score, assertions, reasoning, .. } = read(answer)?;
    if !(0.0..=1.0).contains(&score) {
        return Err(format!("the grade has the score {score}, which is not 0 to 1"));
    }
    let checks = assertions.unwrap_or_default().into_iter().take(MOST_CHECKS);
    let checks =
        checks.map(|check| Check { text: check.text, passed: check.passed, evidence: check.evidence });
    let reasoning = reasoning.and_then(|reasoning| reasoning.as_str().map(ToOwned::to_owned));
    Ok(GraderScore { reasoning, ..scored(grader, score, checks.collect()) })
}

/// A grade by rubrics: each is satisfied or not, by weight. Rubrics that the grade leaves out do not count, as in AgentV.
fn rubrics(grader: &Grader, rubrics: &[Rubric], answer: &str) -> Result<GraderScore, String> {
    let Checks::<RubricCheck> { checks, overall_reasoning } = read(answer)?;
    let Some(reasoning) = overall_reasoning else {
        return Err("the grade has no `overall_reasoning`".to_owned());
    };
    let (mut total, mut earned, mut failed_required, mut out) = (0.0, 0.0, false, Vec::new());
    for check in checks {
        let Some(rubric) = rubrics.iter().find(|rubric| rubric.id == check.id) else { continue };
        total += rubric.weight;
        if check.satisfied {
            earned += rubric.weight;
        } else if rubric.required == Some(true) {
            failed_required = true;
        }
        let text = format!("[{}] {}", rubric.id, rubric.outcome.as_deref().unwrap_or_default());
        out.push(Check { text, passed: check.satisfied, evidence: Some(check.reasoning) });
    }
    Ok(joined(grader, (earned, total), failed_required, out, Some(reasoning)))
}

/// A grade by rubrics with scores from 0 to 10.
fn ranges(grader: &Grader, rubrics: &[Rubric], answer: &str) -> Result<GraderScore, String> {
    let Checks::<RangeCheck> { checks, overall_reasoning } = read(answer)?;
    let is_legal = |check: &RangeCheck| check.score.fract() == 0.0 && (0.0..=10.0).contains(&check.score);
    if let Some(check) = checks.iter().find(|check| !is_legal(check)) {
        return Err(format!(
            "the grade has the score {}, which is not a whole number from 0 to 10",
            check.score
        ));
    }
    let (mut total, mut earned, mut failed_required, mut out) = (0.0, 0.0, false, Vec::new());
    for check in checks {
        let Some(rubric) = rubrics.iter().find(|rubric| rubric.id == check.id) else { continue };
        let score = check.score / 10.0;
        total += rubric.weight;
        earned += score * rubric.weight;
        let least = rubric.min_score.or((rubric.required == Some(true)).then_some(1.0));
        let is_too_low = least.is_some_and(|least| score < least);
        failed_required |= is_too_low;
        let range = rubric.score_ranges.iter().find(|range| {
            (f64::from(range.score_range[0])..=f64::from(range.score_range[1])).contains(&check.score)
        });
        let text = format!(
            "[{}] {}: {} of 10{}",
            rubric.id,
            rubric.outcome.as_deref().unwrap_or(&rubric.id),
            check.score,
            range.map(|range| format!(" ({})", range.outcome)).unwrap_or_default()
        );
        out.push(Check { text, passed: !is_too_low && check.score >= 7.0, evidence: check.reasoning });
    }
    Ok(joined(grader, (earned, total), failed_required, out, overall_reasoning))
}

fn joined(
    grader: &Grader,
    (earned, total): (f64, f64),
    failed_required: bool,
    checks: Vec<Check>,
    reasoning: Option<String>,
) -> GraderScore {
    let score = if total > 0.0 { (earned / total).clamp(0.0, 1.0) } else { 0.0 };
    let verdict = if failed_required { GraderVerdict::Fail } else { verdict(score) };
    GraderScore { reasoning, ..judged(grader, score, verdict, checks) }
}

fn read<T: for<'de> Deserialize<'de>>(answer: &str) -> Result<T, String> {
    let value = json::in_text(answer).ok_or_else(|| "the grade is not JSON".to_owned())?;
    serde_json::from_value(value)
        .map_err(|error| format!("the grade does not have the requested format ({error})"))
}

fn excerpt(text: &str) -> String {
    format!("{:?}", truncate(text, LONGEST_EXCERPT))
}
