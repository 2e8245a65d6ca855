//! Exports entries to formats of other programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Leaderboard;
use crate::model::{Entry, Ratio};

const COLUMNS: &str = "skill,skill_version,prompt_commit,dataset_commit,model,alias_target,params,replicates,cases_run,cases_total,\
    calls_ok,calls_attempted,accuracy,accuracy_low,accuracy_high,exact,prose,n_correct,n_incorrect,n_missing,n_hallucinated,\
    n_correct_absent,reproducibility,schema_valid,scorer_version,rules_sha256";

impl Leaderboard {
    /// One line per entry, by RFC 4180. A value that a spreadsheet would read as a formula gets a leading apostrophe.
    pub fn to_csv(&self) -> String {
        let mut out = format!("{COLUMNS}\r\n");
        for entry in self.entries() {
            let cells: Vec<String> = row(entry).iter().map(|cell| quoted(cell)).collect();
            let _ = write!(out, "{}\r\n", cells.join(","));
        }
        out
    }

    /// The results by model, in the format of `model-index` in Hugging Face model cards.
    pub fn to_hugging_face(&self) -> Value {
        let mut models: Vec<(&str, Vec<Value>)> = Vec::new();
        for entry in self.entries() {
            let result = result(entry);
            match models.iter_mut().find(|(model, _)| *model == entry.model) {
                Some((_, results)) => results.push(result),
                None => models.push((&entry.model, vec![result])),
            }
        }
        let index: Vec<Value> =
            models.into_iter().map(|(name, results)| json!({"name": name, "results": results})).collect();
        json!({ "model-index": index })
    }
}

fn row(entry: &Entry) -> Vec<String> {
    let share = |ratio: Option<Ratio>| ratio.map(|ratio| ratio.as_f64().to_string()).unwrap_or_default();
    let [low, high] = entry.accuracy.interval.map_or([None; 2], |ends| ends.map(Some));
    let of = &entry.accuracy;
    vec![
        entry.skill.to_string(),
        entry.skill_version.clone(),
        entry.prompt_commit.to_string(),
        entry.dataset_commit.as_ref().map(ToString::to_string).unwrap_or_default(),
        entry.model.clone(),
        entry.alias_target.clone().unwrap_or_default(),
        entry.params.text(),
        entry.replicates.to_string(),
        entry.cases.run.to_string(),
        entry.cases.total.to_string(),
        entry.calls.ok.to_string(),
        entry.calls.attempted.to_string(),
        share(of.score),
        share(low),
        share(high),
        share(entry.exact()),
        share(entry.prose.and_then(|prose| prose.score)),
        of.n_correct.to_string(),
        of.n_incorrect.to_string(),
        of.n_missing.to_string(),
        of.n_hallucinated.to_string(),
        of.n_correct_absent.to_string(),
        share(entry.reproducibility.score),
        share(entry.schema_valid.rate),
        entry.scorer_version.to_string(),
        entry.rules_sha256.map(|rules| rules.to_string()).unwrap_or_default(),
    ]
}

/// What begins a formula, also in the wide forms that some spreadsheets take for it.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

fn quoted(cell: &str) -> String {
    // Spreadsheets drop what is invisible at the beginning.
    let invisible = |c: char| c.is_whitespace() || c.is_control() || "\u{200b}\u{feff}".contains(c);
    let is_formula = cell.trim_start_matches(invisible).starts_with(FORMULA);
    let cell = if is_formula { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains(['"', ',', '\r', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

fn result(entry: &Entry) -> Value {
    let metric = |kind: &str, name: &str, value: Option<Ratio>| {
        Some(json!({"type": kind, "name": name, "value": value?.as_f64(), "verified": false}))
    };
    let mut accuracy = metric("accuracy", "Field accuracy", entry.accuracy.score);
    if let (Some(Value::Object(metric)), Some(ends)) = (&mut accuracy, entry.accuracy.interval) {
        metric.insert("config".to_owned(), json!({"interval_95": ends.map(Ratio::as_f64)}));
    }
    let metrics: Vec<Value> = [
        accuracy,
        metric("exact_accuracy", "Accuracy of exact fields", entry.exact()),
        metric("prose_accuracy", "Accuracy of prose", entry.prose.and_then(|prose| prose.score)),
        metric("reproducibility", "Agreement of replicates", entry.reproducibility.score),
        metric("schema_valid", "Answers that match the schema", entry.schema_valid.rate),
    ]
    .into_iter()
    .flatten()
    .collect();
    json!({
        "task": {"type": "text-generation", "name": entry.skill},
        "dataset": {
            "type": entry.skill,
            "name": format!("{} {}", entry.skill, entry.skill_version),
            "revision": entry.prompt_commit,
            "args": {
                "cases": entry.cases.run,
                "cases_sha256": entry.cases_sha256,
                "dataset_commit": entry.dataset_commit,
                "replicates": entry.replicates,
                "params": entry.params,
                "scorer_version": entry.scorer_version,
                "rules_sha256": entry.rules_sha256,
            },
        },
        "metrics": metrics,
    })
}
