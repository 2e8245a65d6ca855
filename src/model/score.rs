//! The score of a response: one line of `scores.jsonl`.

use serde::{Deserialize, Serialize};

use super::ErrorInfo;

/// The score of one request. Every request has one; for a failed call it carries `error`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreRow {
    /// Id of the request, as in `responses.jsonl`.
    pub id: String,
    pub test_id: String,
    /// Counted from 1.
    pub replicate: u32,
    pub target: String,
    pub status: ScoreStatus,
    /// 0 to 1; 0 if there was no response to grade.
    pub score: f64,
    /// Score that is needed to pass.
    pub threshold: f64,
    /// Score of each grader, in suite order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<GraderScore>,
    /// Why there is no score: the call or a grader failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ScoreError>,
}

/// Outcome of a request. All but `Skipped` stay in the denominator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoreStatus {
    /// Graded, at or above the threshold.
    Passed,
    /// Graded, below the threshold.
    Failed,
    /// The call failed, or a grader could not grade the response.
    Error,
    /// The suite has no grader for it.
    Skipped,
}

/// Score of one grader.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GraderScore {
    /// Name in the suite, or AgentV's default name.
    pub name: String,
    /// Its kind, for example `contains`.
    #[serde(rename = "type")]
    pub kind: String,
    /// 0 to 1.
    pub score: f64,
    /// Weight in the mean.
    pub weight: f64,
    pub verdict: GraderVerdict,
    /// Whether the test fails if this grader fails.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<Check>,
    /// The grader's explanation, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// Scores of a composite's members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<Self>,
    /// Why it could not grade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraderVerdict {
    Pass,
    Fail,
    /// The grader did not run.
    Skip,
}

/// One assertion that a grader checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The assertion.
    pub text: String,
    pub passed: bool,
    /// What the response contains, if it helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

/// Why a request has no score.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum ScoreError {
    /// The call failed.
    Call(ErrorInfo),
    /// A grader failed.
    Grader { grader: String, message: String },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
