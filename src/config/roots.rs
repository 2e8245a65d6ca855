//! Where references are looked up: from the file's directory up to the git root, then the working directory.

use std::path::{Path, PathBuf};

use super::shown;
use crate::util::regular_file;

/// The directories of a file, nearest first, as AgentV walks them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    dirs: Vec<PathBuf>,
    is_bundle: bool,
}

impl Roots {
    /// `dir`, each parent up to the git root, then `cwd`. Without a git root only `dir` and `cwd`.
    pub fn new(dir: &Path, cwd: &Path) -> Self {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
        let mut dirs: Vec<PathBuf> = match git_root(&dir) {
            Some(root) => dir
                .ancestors()
                .take_while(|ancestor| ancestor.starts_with(root))
                .map(Path::to_path_buf)
                .collect(),
            None => vec![dir],
        };
        if !dirs.iter().any(|known| known == cwd) {
            dirs.push(cwd.to_path_buf());
        }
        Self { dirs, is_bundle: false }
    }

    /// The same for a suite in `dir`. In a bundle the roots end at the bundle: it may be untrusted, and must not read the
    /// directories around it.
    pub fn of_suite(dir: &Path, cwd: &Path) -> Self {
        let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
        let Some(bundle) = absolute.ancestors().find(|dir| is_bundle(dir)) else {
            return Self::new(dir, cwd);
        };
        let dirs = absolute.ancestors().take_while(|dir| dir.starts_with(bundle));
        Self { dirs: dirs.map(Path::to_path_buf).collect(), is_bundle: true }
    }

    /// Whether these directories belong to a bundle.
    pub fn is_bundle(&self) -> bool {
        self.is_bundle
    }

    /// The directories, nearest first.
    pub fn iter(&self) -> impl Iterator<Item = &Path> {
        self.dirs.iter().map(PathBuf::as_path)
    }

    /// The directories, for messages.
    pub fn listed(&self, cwd: &Path) -> String {
        let name = |dir: &PathBuf| match shown(dir, cwd) {
            here if here.as_os_str().is_empty() => "`.`".to_owned(),
            dir => format!("`{}`", dir.display()),
        };
        self.dirs.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// Whether a path, with links resolved, is inside one of them.
    pub fn contain(&self, path: &Path) -> bool {
        let Ok(real) = path.canonicalize() else { return false };
        self.dirs.iter().filter_map(|dir| dir.canonicalize().ok()).any(|dir| real.starts_with(dir))
    }
}

/// Whether a directory has the manifest of a bundle, of any version.
fn is_bundle(dir: &Path) -> bool {
    const LARGEST: u64 = 64 << 20;
    if !dir.join("eval.yaml").exists() {
        return false;
    }
    let text = regular_file::read(&dir.join("manifest.json"), LARGEST).unwrap_or_default();
    let manifest: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    manifest["format"].is_u64() && manifest["run_evals"].is_string() && manifest["files"].is_array()
}

/// The nearest parent directory that is a git repository or work tree.
pub fn git_root(dir: &Path) -> Option<&Path> {
    dir.ancestors().find(|ancestor| ancestor.join(".git").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_the_file_up_to_the_git_root_then_the_working_directory() {
        let temp = tempfile::tempdir().unwrap();
        let repo = temp.path().join("repo");
        std::fs::create_dir_all(repo.join("a/b")).unwrap();
        std::fs::create_dir_all(repo.join(".git")).unwrap();
        let cwd = temp.path().join("elsewhere");
        let roots = Roots::new(&repo.join("a/b"), &cwd);
        let dirs: Vec<_> =
            roots.iter().map(|dir| dir.strip_prefix(temp.path()).unwrap().to_owned()).collect();
        assert_eq!(dirs, ["repo/a/b", "repo/a", "repo", "elsewhere"].map(PathBuf::from));
    }

    #[test]
    fn the_roots_of_a_bundle_end_at_the_bundle() {
        let temp = tempfile::tempdir().unwrap();
        let bundle = temp.path().join("repo/bundle");
        std::fs::create_dir_all(bundle.join("data")).unwrap();
        std::fs::create_dir_all(temp.path().join("repo/.git")).unwrap();
        std::fs::write(bundle.join("eval.yaml"), "").unwrap();
        std::fs::write(bundle.join("manifest.json"), "{}").unwrap();
        assert!(!Roots::of_suite(&bundle, temp.path()).is_bundle());
        std::fs::write(bundle.join("manifest.json"), r#"{"format": 2, "run_evals": "9", "files": []}"#)
            .unwrap();
        let roots = Roots::of_suite(&bundle.join("data"), temp.path());
        assert_eq!(roots.iter().collect::<Vec<_>>(), [&bundle.join("data"), &bundle]);
        assert!(roots.is_bundle());
    }

    #[test]
    fn a_link_out_of_the_roots_is_not_in_them() {
        let temp = tempfile::tempdir().unwrap();
        let (inside, outside) = (temp.path().join("in"), temp.path().join("out"));
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(outside.join("x"), "").unwrap();
        std::os::unix::fs::symlink(outside.join("x"), inside.join("link")).unwrap();
        let roots = Roots::new(&inside, &inside);
        assert!(!roots.contain(&inside.join("link")));
        assert!(!roots.contain(&inside.join("../out/x")));
    }
}
