//! What is never taken along from a directory, and what brings it back.

use std::path::Path;

/// Why something stays behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ignored {
    pub(super) why: String,
}

/// Made by tools, each on its own machine.
const CACHES: [&str; 16] = [
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
    ".run-evals",
    ".terraform",
];

/// The files that say exactly which packages a project has.
pub(super) const NODE_LOCKS: [&str; 5] =
    ["bun.lock", "bun.lockb", "package-lock.json", "pnpm-lock.yaml", "yarn.lock"];

/// Whether this stays behind, by its name.
pub(super) fn ignored(path: &Path) -> Option<Ignored> {
    let name = path.file_name()?.to_str()?;
    let because = |why: &str| Some(Ignored { why: why.to_owned() });
    if name == ".git" {
        return because("the history is not part of a bundle");
    }
    if name == "node_modules" {
        return Some(Ignored { why: packages(path.parent()?) });
    }
    if name == ".env"
        || name == ".env.local"
        || name.starts_with(".env.") && name.rsplit('.').next() == Some("local")
    {
        return because("files with secrets never travel: set the variables there");
    }
    let in_agentv = path.parent().is_some_and(|parent| parent.ends_with(".agentv"));
    if in_agentv && matches!(name, "results" | "cache" | "workspaces" | "workspace-pool") {
        return because("left by earlier runs of AgentV");
    }
    let compiled = Path::new(name).extension().is_some_and(|end| end == "pyc" || end == "pyo");
    if CACHES.contains(&name) || compiled {
        return because("a cache: it is made anew where it is needed");
    }
    None
}

/// What restores the packages of a directory.
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
    fn tools_and_secrets_stay_behind() {
        for name in
            ["a/.git", "a/.env", ".env.local", ".env.prod.local", "x/__pycache__", "m.pyc", ".agentv/results"]
        {
            assert!(ignored(Path::new(name)).is_some(), "{name}");
        }
        for name in [".env.example", ".gitignore", "results", "cache", ".agentv/templates", "env", "venv.py"]
        {
            assert_eq!(ignored(Path::new(name)), None, "{name}");
        }
    }
}
