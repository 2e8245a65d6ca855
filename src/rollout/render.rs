//! What `rollout run` prints.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Code, RolloutResult};
use crate::model::{Exit, printable};
use crate::util::markdown;

/// The longest id or message, and the longest page, of a step summary: GitHub drops one above 1 MiB.
const LONGEST_CELL: usize = 300;
const LONGEST_PAGE: usize = 900 << 10;

/// The results of a step, rendered.
#[derive(Debug)]
pub struct StepReport {
    /// For readers.
    pub text: String,
    /// For programs.
    pub json: Value,
    /// The step summary.
    pub page: String,
    /// Statuses that could not be reported.
    pub warnings: Vec<String>,
    /// A message per failed rollout.
    pub errors: Vec<String>,
    /// The exit code.
    pub exit: Exit,
}

impl StepReport {
    /// Renders the rollouts of a step.
    pub fn of(done: &[RolloutResult]) -> Self {
        let mut page = String::from("| rollout | row | status |\n|---|---|---|\n");
        let mut hidden = 0;
        let (mut text, mut warnings, mut errors) = (String::new(), Vec::new(), Vec::new());
        for one in done {
            let (id, row) = (printable(&one.ids.rollout_id), printable(&one.ids.row_id));
            let message = printable(&one.status.message);
            let what = if one.is_finished() { one.how.clone() } else { format!("failed: {message}") };
            let _ = writeln!(text, "{id} (row {row}): {what}");
            let cell = |text: &str| markdown::code(text, LONGEST_CELL);
            if page.len() < LONGEST_PAGE {
                let (id, row) = (&one.ids.rollout_id, &one.ids.row_id);
                let _ = writeln!(page, "| {} | {} | {} |", cell(id), cell(row), cell(&what));
            } else {
                hidden += 1;
            }
            if let Some(why) = &one.untold {
                warnings.push(format!("rollout `{id}`: its status could not be reported: {why}"));
            }
            if !one.is_finished() {
                let code = one.status.code;
                errors.push(format!("rollout `{id}` (row `{row}`) failed with status {code}: {message}"));
            }
        }
        if hidden > 0 {
            let _ = writeln!(page, "\nand {hidden} more");
        }
        let row = |one: &RolloutResult| {
            json!({
                "rollout_id": one.ids.rollout_id, "row_id": one.ids.row_id,
                "status": one.status, "how": one.how,
            })
        };
        let json = done.iter().map(row).collect();
        Self { text, json, page, warnings, errors, exit: exit(done) }
    }
}

fn exit(done: &[RolloutResult]) -> Exit {
    let failed: Vec<&RolloutResult> = done.iter().filter(|one| !one.is_finished()).collect();
    let has = |one: &RolloutResult, code: Code| one.status.code == code as i64;
    let is_refused =
        |one: &&RolloutResult| has(one, Code::InvalidArgument) || has(one, Code::PermissionDenied);
    if failed.is_empty() {
        Exit::Ok
    } else if failed.iter().any(|one| has(one, Code::Cancelled)) {
        Exit::Incomplete
    } else if failed.iter().all(is_refused) {
        Exit::Config
    } else {
        Exit::Failure
    }
}
