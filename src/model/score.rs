//! What an answer is worth: a line of `scores.jsonl`.

use serde::{Deserialize, Serialize};

use super::ErrorInfo;

/// One request's answer, graded. Every request has one: a failed call is a row with `error`, never a hole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreRow {
    /// The request, as in `responses.jsonl`.
    pub id: String,
    /// Its test.
    pub test_id: String,
    /// Counted from 1.
    pub replicate: u32,
    /// The target that answered.
    pub target: String,
    /// What came of it.
    pub status: ScoreStatus,
    /// 0 to 1; 0 where there was no answer to grade.
    pub score: f64,
    /// What `score` must reach to pass.
    pub threshold: f64,
    /// What each grader says, in the order of the suite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<GraderScore>,
    /// Why there is no score: the call failed, or a grader did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ScoreError>,
}

/// What came of a request. The four are counted apart, and all of them stay in the denominator but `skipped`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoreStatus {
    /// Graded, at or above the threshold.
    Passed,
    /// Graded, below the threshold.
    Failed,
    /// The call has no answer, or a grader could not grade it.
    Error,
    /// The suite asks for no grade.
    Skipped,
}

/// What one grader says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraderScore {
    /// Its name in the suite, or what AgentV would call it.
    pub name: String,
    /// Its kind, for example `contains`.
    #[serde(rename = "type")]
    pub kind: String,
    /// 0 to 1.
    pub score: f64,
    /// Its part of the mean.
    pub weight: f64,
    /// Whether it passed.
    pub verdict: GraderVerdict,
    /// Whether the whole test fails with it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
    /// What it looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<Check>,
    /// In its own words, where it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The members of a composite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<Self>,
    /// Why it could not grade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A grader's verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraderVerdict {
    /// Good enough.
    Pass,
    /// Not good enough.
    Fail,
    /// It did not grade.
    Skip,
}

/// One thing that a grader looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was to hold.
    pub text: String,
    /// Whether it did.
    pub passed: bool,
    /// What was seen, where it helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

/// Why a request has no score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum ScoreError {
    /// The call itself failed.
    Call(ErrorInfo),
    /// A grader did.
    Grader {
        /// Which one.
        grader: String,
        /// Why.
        message: String,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
