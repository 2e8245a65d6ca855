//! A model's answers, field by field: the details of one entry, for the page of a case. Like the entry, they depend only on the
//! answers.

use serde::{Deserialize, Serialize};

use super::Digest;

/// The format of the details.
pub const DETAILS_FORMAT: u32 = 1;

/// The details of one entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryDetails {
    pub schema_version: u32,
    /// Digest of the entry that they belong to.
    pub entry_sha256: Digest,
    /// The cases that ran, in the order of the entry.
    pub cases: Vec<CaseDetails>,
}

/// The answers to one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseDetails {
    pub case: String,
    /// How each replicate ended.
    pub calls: Vec<CallOutcome>,
    /// Expected fields first, in their order; then the fields that only answers have.
    pub fields: Vec<FieldDetails>,
    /// The number of fields left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// With an answer in the skill's format.
    Ok,
    /// With an answer that is not in the skill's format.
    Unreadable,
    /// Without an answer.
    Failed,
}

/// One field over all replicates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldDetails {
    pub path: String,
    /// `None` if nothing is expected.
    pub expected: Option<String>,
    /// The answers of the replicates, most frequent first.
    pub answers: Vec<FieldAnswer>,
}

/// An answer that some replicates share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldAnswer {
    /// `None` if the field is missing.
    pub value: Option<String>,
    pub verdict: FieldVerdict,
    /// The number of replicates.
    pub times: u64,
}

/// The verdict on a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldVerdict {
    Correct,
    Incorrect,
    /// Expected but missing.
    Missing,
    /// Present but not expected.
    Hallucinated,
    /// Expected to be absent, and absent.
    CorrectAbsent,
}

impl FieldVerdict {
    /// Name on a page.
    pub fn name(self) -> &'static str {
        match self {
            Self::Correct => "correct",
            Self::Incorrect => "incorrect",
            Self::Missing => "missing",
            Self::Hallucinated => "not expected",
            Self::CorrectAbsent => "correctly absent",
        }
    }

    /// Whether it lowers the score.
    pub fn is_wrong(self) -> bool {
        !matches!(self, Self::Correct | Self::CorrectAbsent)
    }
}

impl FieldDetails {
    /// How many replicates have the most frequent answer, and the number of replicates.
    pub fn agreement(&self) -> (u64, u64) {
        let times = self.answers.iter().map(|answer| answer.times);
        (times.clone().max().unwrap_or(0), times.sum())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
