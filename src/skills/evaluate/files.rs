//! The files of an evaluation, and its JSON.

use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use super::attestation;
use super::publish::Published;
use super::result::EvaluationResult;
use crate::engine::report::write_file;

#[derive(Serialize)]
struct EvaluationJson<'r> {
    #[serde(flatten)]
    evaluated: &'r EvaluationResult,
    #[serde(flatten)]
    published: Option<&'r Published>,
}

/// The JSON output, also written to `evaluation.json`.
pub fn render_json(evaluated: &EvaluationResult, published: Option<&Published>) -> anyhow::Result<String> {
    let json = EvaluationJson { evaluated, published };
    Ok(format!("{}\n", serde_json::to_string_pretty(&json)?))
}

/// Writes `leaderboard.json` as the library would have it, the result, and all responses.
pub fn write_files(dir: &Path, evaluated: &EvaluationResult) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)
        .with_context(|| format!("cannot create the directory `{}`", dir.display()))?;
    write_file(&dir.join("leaderboard.json"), &evaluated.leaderboard_bytes())?;
    write_file(&dir.join("evaluation.json"), render_json(evaluated, None)?.as_bytes())?;
    if !evaluated.grades.is_empty() {
        write_file(&dir.join("grades.jsonl"), &evaluated.grades)?;
    }
    write_file(&dir.join("responses.jsonl"), &evaluated.responses)?;
    for file in &evaluated.details {
        write_file(&dir.join(&file.path), &file.bytes)?;
    }
    attestation::write(dir, evaluated)
}
