//! What an answer is worth: pure functions from a test, its answer and what was asked about it to scores, as AgentV has them.
//!
//! `row` grades a whole answer and joins what its graders say. `text`, `json`, `field_accuracy` (with `dates`, and `native_date` for
//! what V8 makes of them), `metrics` and `trajectory` look at the answer alone. The others need something from outside, a model's word or a
//! command's, and ask for it through `Need`: `llm` writes the `prompts` and reads what comes back, `command` does the same for
//! commands, `composite` joins several.
//!
//! From scores to a verdict: `assess` sums up, `compare` holds results against a baseline, `judge` says whether they are good
//! enough. `fields` does the same for skills: the fields of their answers, counted, come to an entry of the leaderboard. `ranking` holds models against each other. `stats` has the formulas; all that is random in it is seeded, so that the same results always come to the same figures.

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

/// What must be reached to pass where nobody says otherwise.
pub const DEFAULT_THRESHOLD: f64 = 0.8;

/// Something that a grader needs from outside.
#[derive(Debug, Clone, PartialEq)]
pub enum GraderCall<'g> {
    /// The word of a model.
    Model {
        /// What it must answer like.
        system: &'static str,
        /// What it is asked.
        prompt: String,
        /// How much its words may vary.
        temperature: Option<f64>,
        /// The target that the grader itself names.
        target: Option<&'g str>,
    },
    /// What a command prints.
    Command {
        /// The command and its arguments.
        argv: Vec<String>,
        /// Where it runs.
        cwd: &'g Path,
        /// What it reads.
        input: Input,
    },
}

/// What a command reads from its stdin.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// The JSON; without the answer if that is long.
    pub json: serde_json::Value,
    /// A long answer, as JSON: it goes into a file, which `output_path` of the JSON names.
    pub long_output: Option<String>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraderReply {
    /// A model said this.
    Text(String),
    /// A command ended.
    Ended {
        /// With this code.
        code: i32,
        /// What it printed.
        stdout: String,
        /// The last of what it wrote to stderr.
        stderr: String,
    },
    /// There is no answer, and why.
    Failed(String),
}

/// Answers needs by the place of the grader that has them: `0`, or `2.1` for the second member of the third grader.
/// Nothing where the answer is not here yet.
pub type Ask<'a> = dyn FnMut(&str, GraderCall<'_>) -> Option<GraderReply> + 'a;

/// What a grader needs is not here yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending;

/// A grader's score with the verdict that it means.
fn scored(grader: &Grader, score: f64, checks: Vec<Check>) -> GraderScore {
    judged(grader, score, verdict(score), checks)
}

/// A grader's score with a verdict of its own.
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

/// One check that is all or nothing.
fn passed_or_not(grader: &Grader, passed: bool, text: String) -> GraderScore {
    let verdict = if passed { GraderVerdict::Pass } else { GraderVerdict::Fail };
    judged(grader, if passed { 1.0 } else { 0.0 }, verdict, vec![Check { text, passed, evidence: None }])
}

/// The verdict that a grader's score means; the threshold of the test is for its whole score.
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
