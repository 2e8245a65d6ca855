//! What a model answered, field by field: the details of one entry, for the page of a case. Like the entry, they depend on
//! nothing but the answers.

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
    /// Fields that have no room.
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
    /// `None` where nothing is expected.
    pub expected: Option<String>,
    /// What the replicates have there, the most frequent first.
    pub answers: Vec<FieldAnswer>,
}

/// What some replicates have in a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldAnswer {
    /// `None` where the field is not there.
    pub value: Option<String>,
    pub verdict: FieldVerdict,
    /// How many replicates.
    pub times: u64,
}

/// What a field counts as.
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

    /// Whether the score loses by it.
    pub fn is_wrong(self) -> bool {
        !matches!(self, Self::Correct | Self::CorrectAbsent)
    }
}

impl FieldDetails {
    /// How many replicates have the most frequent answer, and how many there are.
    pub fn agreement(&self) -> (u64, u64) {
        let times = self.answers.iter().map(|answer| answer.times);
        (times.clone().max().unwrap_or(0), times.sum())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
