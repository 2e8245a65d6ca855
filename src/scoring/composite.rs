//! `composite`: combines several scores into one.

use serde_json::Value;

use super::row::{Case, Scorer};
use super::{Ask, GraderCall, Pending, clamped, command, failed, judged, llm, prompts, share, verdict};
use crate::model::{Aggregator, Check, Grader, GraderScore, GraderVerdict};

const PLACE: &str = "{{EVALUATOR_RESULTS_JSON}}";
const PROMPT: &str = "\
These are the results of several graders:
{{EVALUATOR_RESULTS_JSON}}

Decide on one score for all of them.";

/// Grades with each member, and combines the results.
pub(super) fn grade(
    scorer: &mut Scorer,
    grader: &Grader,
    (members, aggregator): (&[Grader], &Aggregator),
    case: &Case<'_>,
    place: &str,
    ask: &mut Ask<'_>,
) -> Result<GraderScore, Pending> {
    let mut scores = Vec::with_capacity(members.len());
    let mut is_pending = false;
    for (position, member) in members.iter().enumerate() {
        // Request all before waiting for the first.
        match scorer.grade(member, case, &format!("{place}.{position}"), ask) {
            Ok(score) => scores.push(score),
            Err(Pending) => is_pending = true,
        }
    }
    if is_pending {
        return Err(Pending);
    }
    if let Some(error) = scores.iter().find_map(error_of) {
        return Ok(GraderScore { scores, ..failed(grader, error) });
    }
    let counted: Vec<&GraderScore> =
        scores.iter().filter(|score| score.verdict != GraderVerdict::Skip).collect();
    if counted.is_empty() {
        return Ok(GraderScore { scores, ..judged(grader, 0.0, GraderVerdict::Skip, Vec::new()) });
    }
    let joined = match aggregator {
        Aggregator::WeightedAverage(weights) => {
            let weight = |score: &GraderScore| weights.get(&score.name).copied().unwrap_or(1.0);
            let total: f64 = counted.iter().map(|score| weight(score)).sum();
            let sum: f64 = counted.iter().map(|score| score.score * weight(score)).sum();
            let score = if total > 0.0 { sum / total } else { 0.0 };
            let checks = member_checks(&counted);
            for score in &mut scores {
                score.weight = weight(score);
            }
            judged(grader, clamped(score), verdict(score), checks)
        }
        Aggregator::Threshold(threshold) => {
            let passed = counted.iter().filter(|score| score.verdict == GraderVerdict::Pass).count();
            let score = share(passed, counted.len());
            let verdict = if score >= *threshold { GraderVerdict::Pass } else { GraderVerdict::Fail };
            let text = format!(
                "{passed} of {} graders passed, at least {:.0} % expected",
                counted.len(),
                threshold * 100.0
            );
            let mut checks = vec![Check { text, passed: verdict == GraderVerdict::Pass, evidence: None }];
            checks.extend(member_checks(&counted));
            judged(grader, score, verdict, checks)
        }
        Aggregator::Code { command: line, cwd } => {
            let argv = ["sh", "-c", line].map(ToOwned::to_owned).to_vec();
            let need = GraderCall::Command { argv, cwd, input: command::join_input(&scores) };
            let given = ask(&format!("{place}.aggregator"), need).ok_or(Pending)?;
            if let super::GraderReply::Failed(error) = given {
                failed(grader, error)
            } else {
                match command::printed(given) {
                    Ok(stdout) => command::joined(grader, &stdout),
                    Err(error) => {
                        let text = format!("the command that combines the scores failed: {error}");
                        let check = Check { text, passed: false, evidence: None };
                        judged(grader, 0.0, GraderVerdict::Fail, vec![check])
                    }
                }
            }
        }
        Aggregator::Llm { prompt } => {
            let results = Value::Object(command::results(&scores));
            let prompt = prompt.as_deref().unwrap_or(PROMPT).replace(PLACE, &format!("{results:#}"));
            let need =
                GraderCall::Model { system: prompts::FREE_ANSWER, prompt, temperature: None, target: None };
            let given = ask(&format!("{place}.aggregator"), need).ok_or(Pending)?;
            match llm::said(given).and_then(|answer| llm::free(grader, &answer)) {
                Ok(score) => score,
                Err(error) => failed(grader, error),
            }
        }
    };
    Ok(GraderScore { scores, ..joined })
}

fn member_checks(scores: &[&GraderScore]) -> Vec<Check> {
    let checks = scores.iter().flat_map(|score| score.assertions.iter().map(|check| (&score.name, check)));
    checks.map(|(name, check)| Check { text: format!("[{name}] {}", check.text), ..check.clone() }).collect()
}

/// Why a member could not grade, if so.
fn error_of(score: &GraderScore) -> Option<String> {
    score.error.as_ref().map(|error| format!("{}: {error}", score.name))
}
