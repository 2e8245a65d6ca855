//! Exports entries to formats of other programs.

use std::fmt::Write as _;

use serde::Serialize;

use super::{Leaderboard, entry_digest};
use crate::model::{Entry, Ratio, printable};

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

/// The place of results on the Hugging Face Hub.
#[derive(Debug, Clone)]
pub struct HubBenchmark {
    /// The dataset with the benchmark, as `owner/name`. Its tasks are the skills.
    pub dataset: String,
    /// Where the results can be looked up.
    pub source: Option<String>,
}

/// One result of `.eval_results/*.yaml` in a model repository: <https://huggingface.co/docs/hub/eval-results>.
#[derive(Debug, Serialize)]
pub struct HubResult<'e> {
    dataset: HubDataset<'e>,
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<HubSource<'e>>,
    notes: String,
}

#[derive(Debug, Serialize)]
struct HubDataset<'e> {
    id: &'e str,
    task_id: &'e str,
}

#[derive(Debug, Serialize)]
struct HubSource<'e> {
    url: &'e str,
}

impl<'e> HubResult<'e> {
    /// The accuracy of an entry; `None` if there was nothing to score.
    pub fn new(entry: &'e Entry, benchmark: &'e HubBenchmark) -> Option<Self> {
        let value = entry.accuracy.score?.as_f64();
        Some(Self {
            dataset: HubDataset { id: &benchmark.dataset, task_id: entry.skill.as_str() },
            value,
            source: benchmark.source.as_deref().map(|url| HubSource { url }),
            notes: notes(entry),
        })
    }
}

/// What a reader needs to judge the value. The entry's digest leads to everything else.
fn notes(entry: &Entry) -> String {
    let interval = entry.accuracy.interval.map(|[low, high]| format!("95 % interval {low} to {high}"));
    let parts = [
        Some("field accuracy".to_owned()),
        interval,
        Some(format!("skill {} at {}", printable(&entry.skill_version), entry.prompt_commit.short())),
        Some(format!("{} of {} cases x {}", entry.cases.run, entry.cases.total, entry.replicates)),
        Some(printable(&entry.params.text())),
        Some(format!("run-evals scorer {}", entry.scorer_version)),
        Some(format!("entry sha256:{}", entry_digest(entry))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
