//! Hand-made rows for the tests of this folder.

use crate::model::{ScoreRow, ScoreStatus, Trial, request_id};

/// A trial with the score that its status implies.
pub(super) fn trial(target: &str, test_id: &str, replicate: u32, status: ScoreStatus) -> Trial {
    let score = if status == ScoreStatus::Passed { 1.0 } else { 0.0 };
    Trial {
        row: ScoreRow {
            id: request_id(test_id, replicate),
            test_id: test_id.to_owned(),
            replicate,
            target: target.to_owned(),
            status,
            score,
            threshold: 0.5,
            scores: Vec::new(),
            error: None,
        },
        is_open: false,
        duration_ms: Some(100),
        cost_usd: None,
        tokens: None,
    }
}

/// A trial with this score, which passes from 0.5 on.
pub(super) fn scored(test_id: &str, replicate: u32, score: f64) -> Trial {
    let status = if score >= 0.5 { ScoreStatus::Passed } else { ScoreStatus::Failed };
    let mut trial = trial("gpt", test_id, replicate, status);
    trial.row.score = score;
    trial
}
