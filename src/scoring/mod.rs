//! Scores answers: pure functions from a test and its answer to AgentV's scores.
//!
//! `row` grades a whole answer and combines its graders. `text`, `json`, `field_accuracy` (with `dates`, and `native_date` for V8's
//! date parsing), `metrics` and `trajectory` only need the answer. The others need the output of a model or a command, and request
//! it through `Need`: `llm` writes the `prompts` and reads the replies, `command` does the same for commands, `composite` combines
//! several.
//!
//! From scores to a verdict: `assess` sums up, `compare` compares results with a baseline, `judge` decides whether they are good
//! enough. `fields` scores skills: it counts the fields of their answers and makes leaderboard entries. `ranking` compares models. `stats` has the formulas; everything random is seeded, so that the same results always give the same figures.

mod assess;
mod command;
mod compare;
mod composite;
mod dates;
mod field_accuracy;
pub mod fields;
mod json;
mod judge;
mod llm;
mod metrics;
mod native_date;
mod prompts;
mod ranking;
mod row;
mod stats;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod text;
mod trajectory;

use std::path::Path;

use crate::model::{Check, Grader, GraderScore, GraderVerdict};

pub use self::assess::assess;
pub use self::compare::{ComparisonOptions, compare};
pub use self::judge::{Gate, judge};
pub use self::prompts::question;
pub use self::ranking::{Estimate, PairedCases, mean_of_shares};
pub use self::row::Scorer;

/// The threshold to pass, by default.
pub const DEFAULT_THRESHOLD: f64 = 0.8;

/// Something that a grader needs from outside.
#[derive(Debug, Clone, PartialEq)]
pub enum GraderCall<'g> {
    /// A model's reply.
    Model {
        /// The system prompt.
        system: &'static str,
        /// The user prompt.
        prompt: String,
        /// The sampling temperature.
        temperature: Option<f64>,
        /// The target that the grader itself names.
        target: Option<&'g str>,
    },
    /// A command's output.
    Command {
        /// The command and its arguments.
        argv: Vec<String>,
        /// Its working directory.
        cwd: &'g Path,
        /// Its input.
        input: Input,
    },
}

/// The stdin of a command.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// The JSON; without the answer if that is long.
    pub json: serde_json::Value,
    /// A long answer, as JSON: it is passed in a file, named by `output_path` of the JSON.
    pub long_output: Option<String>,
}

/// The result of a need.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraderReply {
    /// A model's reply.
    Text(String),
    /// A command's result.
    Ended {
        /// Its exit code.
        code: i32,
        /// Its stdout.
        stdout: String,
        /// The end of its stderr.
        stderr: String,
    },
    /// The request failed, with the reason.
    Failed(String),
}

/// Answers needs by the position of their grader: `0`, or `2.1` for the second member of the third grader.
/// `None` while the result is pending.
pub type Ask<'a> = dyn FnMut(&str, GraderCall<'_>) -> Option<GraderReply> + 'a;

/// The result of a need is not available yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending;

/// A grader's score, with the verdict derived from it.
fn scored(grader: &Grader, score: f64, checks: Vec<Check>) -> GraderScore {
    judged(grader, score, verdict(score), checks)
}

/// A grader's score, with a given verdict.
fn judged(grader: &Grader, score: f64, verdict: GraderVerdict, checks: Vec<Check>) -> GraderScore {
    GraderScore {
        name: grader.name.clone(),
        kind: grader.kind.word().to_owned(),
        score: clamped(score),
        weight: grader.weight,
        verdict,
        required: grader.required,
        assertions: checks,
        reasoning: None,
        scores: Vec::new(),
        error: None,
    }
}

/// A grader that could not grade.
fn failed(grader: &Grader, message: impl Into<String>) -> GraderScore {
    GraderScore { error: Some(message.into()), ..judged(grader, 0.0, GraderVerdict::Skip, Vec::new()) }
}

/// A single check that passes or fails.
fn passed_or_not(grader: &Grader, passed: bool, text: String) -> GraderScore {
    let verdict = if passed { GraderVerdict::Pass } else { GraderVerdict::Fail };
    judged(grader, if passed { 1.0 } else { 0.0 }, verdict, vec![Check { text, passed, evidence: None }])
}

/// The verdict of a grader's score; the threshold of the test applies to the combined score.
fn verdict(score: f64) -> GraderVerdict {
    if score >= DEFAULT_THRESHOLD { GraderVerdict::Pass } else { GraderVerdict::Fail }
}

fn clamped(score: f64) -> f64 {
    if score.is_finite() { score.clamp(0.0, 1.0) } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "a handful of checks")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
