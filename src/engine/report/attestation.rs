//! The in-toto statement of a results directory.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::files::write_file;
use crate::console::actions;
use crate::model::Digest;
use crate::report::{
    Origin, PREDICATE_FILE, RESULTS_TYPE, ResultsPredicate, STATEMENT_FILE, Statement, Subject, Summary,
};
use crate::util::process_env::ProcessEnv;
use crate::util::regular_file;

/// The image of this container; set in releases of the action.
const IMAGE: &str = "RUN_EVALS_IMAGE";

/// The origin of results: the workflow run of this step and its image.
pub fn origin() -> Origin {
    let env = ProcessEnv::read();
    Origin::new(actions::run_url(&env), env.get(IMAGE))
}

/// Writes the statement about the responses and scores in a directory, and its predicate.
pub(super) fn write_results(dir: &Path, summary: &Summary, suite: Option<&Path>) -> anyhow::Result<()> {
    let mut subjects = Vec::new();
    for name in ["responses.jsonl", "scores.jsonl"] {
        let path = dir.join(name);
        if path.exists() {
            subjects.push(Subject::new(name, &digest(&path)?));
        }
    }
    let suite_sha256 = suite.and_then(|suite| digest(suite).ok());
    if let Some(bundle) = suite.and_then(bundle_manifest) {
        subjects.push(Subject::new("bundle/manifest.json", &bundle));
    }
    let predicate = ResultsPredicate::new(summary, origin(), suite_sha256);
    write(dir, &Statement::new(subjects, RESULTS_TYPE, predicate))
}

/// Writes a statement and its predicate.
pub fn write<P: serde::Serialize>(dir: &Path, statement: &Statement<P>) -> anyhow::Result<()> {
    write_file(&dir.join(STATEMENT_FILE), &statement.to_bytes())?;
    write_file(&dir.join(PREDICATE_FILE), &statement.predicate_bytes())
}

fn digest(path: &Path) -> anyhow::Result<Digest> {
    let cannot = || format!("cannot read `{}`", path.display());
    let mut hasher = Sha256::new();
    let (mut file, mut buffer) = (File::open(path).with_context(cannot)?, vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer).with_context(cannot)? {
            0 => return Ok(Digest::finish(hasher)),
            length => hasher.update(&buffer[..length]),
        }
    }
}

/// The digest of the manifest next to a suite, if the suite is in a bundle.
fn bundle_manifest(suite: &Path) -> Option<Digest> {
    let bytes = regular_file::read(&suite.parent()?.join("manifest.json"), regular_file::CONTENT).ok()?;
    let manifest: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let is_bundle = ["format", "run_evals", "files", "source"].iter().all(|key| manifest.get(key).is_some());
    is_bundle.then(|| Digest::of(&bytes))
}
