//! What is never included from a directory, and how to restore it.

use std::path::Path;

pub(super) use crate::util::secrets::is_state;
use crate::util::secrets::{FileName, file_name};

/// Why something is left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ignored {
    pub(super) why: String,
}

/// Why a file with environment variables is left behind.
pub(super) const ENVIRONMENT: &str = "files with secrets never travel: set the variables there";
/// Why a file that git ignores is left behind.
pub(super) const BY_GIT: &str = "ignored by git and not named by the suite";

/// Created by tools on each machine.
const CACHES: [&str; 15] = [
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".tox",
    ".venv",
    ".cache",
    ".turbo",
    ".parcel-cache",
    ".nyc_output",
    ".gradle",
    ".ipynb_checkpoints",
    ".DS_Store",
    "Thumbs.db",
    ".terraform",
];

/// Lock files: the exact packages of a project.
pub(super) const NODE_LOCKS: [&str; 5] =
    ["bun.lock", "bun.lockb", "package-lock.json", "pnpm-lock.yaml", "yarn.lock"];

/// Whether it is left behind because of its name.
pub(super) fn ignored(path: &Path) -> Option<Ignored> {
    let name = path.file_name()?.to_str()?;
    let because = |why: &str| Some(Ignored { why: why.to_owned() });
    if is_state(name) {
        return because("state of git or run-evals is not part of a bundle");
    }
    if name == "node_modules" {
        return Some(Ignored { why: packages(path.parent()?) });
    }
    if file_name(path) == Some(FileName::Environment) {
        return because(ENVIRONMENT);
    }
    let in_agentv = path.parent().is_some_and(|parent| parent.ends_with(".agentv"));
    if in_agentv && matches!(name, "results" | "cache" | "workspaces" | "workspace-pool") {
        return because("left by earlier runs of AgentV");
    }
    let compiled = Path::new(name).extension().is_some_and(|end| end == "pyc" || end == "pyo");
    if CACHES.contains(&name) || compiled {
        return because("a cache: it is recreated when needed");
    }
    None
}

/// How to restore the packages of a directory.
fn packages(dir: &Path) -> String {
    let mut lock = None;
    for dir in dir.ancestors() {
        lock = NODE_LOCKS.iter().find(|lock| dir.join(lock).is_file());
        if lock.is_some() || dir.join(".git").exists() {
            break;
        }
    }
    match lock {
        Some(lock) => format!("packages: `{lock}` beside `package.json` restores them"),
        None => "packages without a lock file: install them from `package.json`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_state_and_secrets_are_left_out() {
        for name in [
            "a/.git",
            "a/.env",
            ".env.local",
            ".env.prod.local",
            ".env.production",
            ".envrc",
            "x/__pycache__",
            "m.pyc",
            ".agentv/results",
        ] {
            assert!(ignored(Path::new(name)).is_some(), "{name}");
        }
        for name in [".env.example", ".gitignore", "results", "cache", ".agentv/templates", "env", "venv.py"]
        {
            assert_eq!(ignored(Path::new(name)), None, "{name}");
        }
    }

    #[test]
    fn tool_state_is_recognized_in_any_case() {
        for name in [".git", ".GIT", ".git.", ".Git ", ".run-evals", ".Run-Evals", "GIT~1", ".g\u{200c}it"] {
            assert!(is_state(name), "{name}");
        }
        for name in ["git", ".github", ".gitignore", "run-evals", ".git2"] {
            assert!(!is_state(name), "{name}");
        }
    }
}
