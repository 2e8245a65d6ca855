//! The scores of a target, counted.

use serde::Serialize;

use crate::model::{ScoreError, ScoreRow, ScoreStatus};

/// Counts over scores.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Tally {
    /// Answers at or above their threshold.
    pub passed: u64,
    /// Answers below it.
    pub failed: u64,
    /// Requests without an answer, and answers that could not be graded.
    pub errors: u64,
    /// Answers whose graders are all unknown, and ignored.
    pub skipped: u64,
    /// Answers that could not be graded.
    pub ungraded: u64,
    /// The first of them, and why.
    pub first_error: Option<(String, String)>,
    sum: f64,
}

impl Tally {
    /// Counts a row.
    pub(super) fn add(&mut self, row: &ScoreRow) {
        match row.status {
            ScoreStatus::Passed => self.passed += 1,
            ScoreStatus::Failed => self.failed += 1,
            ScoreStatus::Error => self.errors += 1,
            ScoreStatus::Skipped => self.skipped += 1,
        }
        self.sum += row.score;
        if let Some(ScoreError::Grader { grader, message }) = &row.error {
            self.ungraded += 1;
            self.first_error.get_or_insert_with(|| (row.id.clone(), format!("{grader}: {message}")));
        }
    }

    /// The mean score over all rows but the skipped ones: an error is worth nothing, and is not left out.
    pub fn mean(&self) -> Option<f64> {
        let count = self.passed + self.failed + self.errors;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        (count > 0).then(|| self.sum / count as f64)
    }
}
