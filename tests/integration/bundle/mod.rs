//! `bundle`: the same bytes everywhere, nothing from outside, and every mistake reported.

mod archives;
mod corpus;
mod credentials;
mod dependencies;
mod extras;
mod hostile;
mod mistakes;
mod properties;
mod provenance;
mod variables;
mod writing;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::Workspace;

/// The variables that the suites of `fixtures/bundle` refer to.
pub(super) const VARIABLES: [(&str, &str); 5] =
    [("GREETING", "good day"), ("WHO", "all"), ("CASES", "sets"), ("WORKERS", "2"), ("AGENT_TARGET", "echo")];

/// The names of the suites.
pub(super) fn fixtures() -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bundle");
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A working directory, with the variables of the fixtures.
pub(super) fn workspace() -> Workspace {
    VARIABLES.into_iter().fold(Workspace::new(), |workspace, (name, value)| workspace.env(name, value))
}

/// Copies a fixture and commits it there; returns the path of its suite.
pub(super) fn check_out(workspace: &Workspace, fixture: &str, to: &str) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bundle").join(fixture);
    let dir = workspace.path(to);
    copy_tree(&from, &dir);
    commit(workspace, to);
    let is_suite =
        |path: &Path| path.file_name().is_some_and(|name| name == "suite.eval.yaml" || name == "suite.jsonl");
    let mut files = walkdir::WalkDir::new(&dir).into_iter().map(|entry| entry.unwrap().into_path());
    files.find(|path| is_suite(path)).unwrap()
}

/// Turns a directory into a repository with one commit, always the same.
pub(super) fn commit(workspace: &Workspace, dir: &str) {
    let who = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
    for words in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "--allow-empty", "-m", "all"]] {
        let mut git = Command::new("git");
        workspace.like(&mut git).args(who).args(words).current_dir(workspace.path(dir));
        git.env("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z").env("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z");
        assert!(git.status().unwrap().success(), "git {words:?}");
    }
}

/// Copies a directory with its links and modes.
pub(super) fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

/// Everything in a directory: mode and content, or the target of a link.
pub(super) fn contents(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in walkdir::WalkDir::new(dir).min_depth(1) {
        let entry = entry.unwrap();
        let path = entry.path().strip_prefix(dir).unwrap().to_owned();
        let kind = entry.file_type();
        if kind.is_symlink() {
            let target = std::fs::read_link(entry.path()).unwrap();
            found.insert(path, (0, target.into_os_string().into_encoded_bytes()));
        } else if kind.is_file() {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            found.insert(path, (mode, std::fs::read(entry.path()).unwrap()));
        }
    }
    found
}

/// The manifest of a bundle.
pub(super) fn manifest(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap()
}

/// The entries that are left out, and why.
pub(super) fn left_behind(dir: &Path) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let left = manifest(dir)["left_behind"].as_array().unwrap().clone();
    left.iter().map(|one| (text(&one["what"]), text(&one["why"]))).collect()
}

/// A repository with these files, among them the suite `suite.eval.yaml`.
pub(super) fn repository(files: &[(&str, &str)]) -> Workspace {
    let workspace = Workspace::new();
    for (name, text) in files {
        workspace.write(&format!("repo/{name}"), text);
    }
    commit(&workspace, "repo");
    workspace
}

/// A targets file that echoes.
pub(super) const ECHO: (&str, &str) = (
    "targets.yaml",
    "targets:\n  - name: default\n    provider: cli\n    command: cp {PROMPT_FILE} {OUTPUT_FILE}\n",
);
