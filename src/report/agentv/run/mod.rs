//! A run directory in AgentV's format, for its `results`, `compare` and dashboard.
//!
//! `row` combines all trials of a test into one row, `benchmark` summarizes the rows. Nothing is written here: the result is a map
//! of names to contents.

mod benchmark;
mod row;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use self::row::{IndexRow, rows};
use crate::model::{Digest, Response, ScoreRow, TokenUsage};

/// A run of a suite.
#[derive(Debug, Clone)]
pub struct AgentvRun<'a> {
    /// The suite's name.
    pub suite: &'a str,
    /// The suite's path, for display.
    pub eval_file: &'a str,
    /// When it ran.
    pub timestamp: Timestamp,
    /// The results of each target.
    pub targets: Vec<AgentvTarget<'a>>,
}

/// The results of one target.
#[derive(Debug, Clone)]
pub struct AgentvTarget<'a> {
    /// Its name.
    pub name: &'a str,
    /// The rows of `responses.jsonl`.
    pub responses: &'a [Response],
    /// The rows of `scores.jsonl`.
    pub scores: &'a [ScoreRow],
}

/// The files of the run directory, by relative path. A test that the suite does not grade has no row, because a row needs a
/// score.
pub fn render_run(run: &AgentvRun<'_>) -> serde_json::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut index = String::new();
    let (mut all, mut skipped) = (Vec::new(), 0);
    for target in &run.targets {
        let (rows, without) = rows(run, target);
        skipped += without;
        for row in rows {
            let dir = format!("{}/{}", file_name(target.name), file_name(row.test_id));
            let (grading, answer) = (format!("{dir}/grading.json"), format!("{dir}/outputs/answer.md"));
            index.push_str(&serde_json::to_string(&RowFiles {
                row: &row,
                artifact_dir: &dir,
                grading_path: &grading,
                output_path: &answer,
                answer_path: &answer,
            })?);
            index.push('\n');
            files.insert(grading, pretty(&row.grading())?);
            files.insert(answer, row.answer.clone());
            all.push(row);
        }
    }
    files.insert("index.jsonl".to_owned(), index);
    files.insert("benchmark.json".to_owned(), pretty(&benchmark::benchmark(run, &all, skipped))?);
    files.insert("timing.json".to_owned(), pretty(&timing(&all))?);
    Ok(files)
}

/// A row, and the location of the test's other files.
#[derive(Serialize)]
struct RowFiles<'r> {
    #[serde(flatten)]
    row: &'r IndexRow<'r>,
    artifact_dir: &'r str,
    grading_path: &'r str,
    output_path: &'r str,
    answer_path: &'r str,
}

fn timing(rows: &[IndexRow<'_>]) -> Value {
    let mut tokens = TokenUsage { reasoning: Some(0), ..TokenUsage::default() };
    let mut duration_ms = 0;
    for row in rows {
        row::add_tokens(&mut tokens, row.token_usage.unwrap_or_default());
        duration_ms += row.duration_ms.unwrap_or_default();
    }
    #[expect(clippy::cast_precision_loss, reason = "AgentV has seconds here")]
    let seconds = duration_ms as f64 / 1000.0;
    json!({
        "total_tokens": tokens.input + tokens.output,
        "duration_ms": duration_ms,
        "total_duration_seconds": seconds,
        "token_usage": { "input": tokens.input, "output": tokens.output, "reasoning": tokens.reasoning },
    })
}

/// A name made safe for files: ids are untrusted. Changed names get a digest, so that they stay distinct.
fn file_name(name: &str) -> String {
    const LONGEST: usize = 80;
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let changed: String = name.chars().take(LONGEST).map(|c| if legal(c) { c } else { '_' }).collect();
    if changed == name && !name.starts_with('.') && !name.is_empty() {
        return changed;
    }
    format!("_{changed}-{}", &Digest::of(name.as_bytes()).to_string()[..8])
}

fn pretty(value: &Value) -> serde_json::Result<String> {
    Ok(format!("{}\n", serde_json::to_string_pretty(value)?))
}

#[cfg(test)]
mod tests;
