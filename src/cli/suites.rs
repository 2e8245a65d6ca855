//! Which suite `eval` runs when the command names none.

use std::fs;
use std::path::{Path, PathBuf};

use crate::model::{Exit, Failure, printable};

/// How many suites a message lists.
const MOST_LISTED: usize = 10;

/// The suite of the current directory, if it has exactly one.
pub(super) fn only_suite() -> Result<PathBuf, Failure> {
    let mut found = suites(Path::new("."));
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            Err(Failure::new(Exit::Usage, "no suite: this directory has no `*.eval.yaml` and no `EVAL.yaml`")
                .hint("name one, as in `run-evals eval SUITE`; `run-evals init` writes a first one"))
        }
        count => {
            let names: Vec<String> = found
                .iter()
                .take(MOST_LISTED)
                .map(|path| format!("  {}", printable(&path.to_string_lossy())))
                .collect();
            let more = if count > MOST_LISTED {
                format!("\n  and {} more", count - MOST_LISTED)
            } else {
                String::new()
            };
            Err(Failure::new(
                Exit::Usage,
                format!("this directory has {count} suites:\n{}{more}", names.join("\n")),
            )
            .hint("name one, as in `run-evals eval SUITE`"))
        }
    }
}

/// The suites right in a directory, sorted by name.
fn suites(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.path().is_file() && is_suite(&entry.file_name().to_string_lossy()))
        .map(|entry| PathBuf::from(entry.file_name()))
        .collect();
    found.sort();
    found
}

fn is_suite(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".eval.yaml", ".eval.yml", ".eval.jsonl"].iter().any(|ending| name.ends_with(ending))
        || ["eval.yaml", "eval.yml"].contains(&name.as_str())
}
