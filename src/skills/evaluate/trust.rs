//! Keeps an evaluated commit from choosing where models are and which key is sent there.

use std::path::{Path, PathBuf};

use crate::config::{Roots, TargetsFile, git_root, shown};
use crate::model::Failure;

/// The work trees that are evaluated. The authors of their commits must not choose where keys are sent.
#[derive(Debug)]
pub struct UntrustedTrees(Vec<PathBuf>);

impl UntrustedTrees {
    /// The work trees of the library and the data sets.
    pub fn of(library: Option<&Path>, datasets: Option<&Path>) -> Self {
        let trees = [library, datasets].into_iter().flatten().map(|dir| {
            let dir = real(dir);
            git_root(&dir).map_or_else(|| dir.clone(), Path::to_path_buf)
        });
        Self(trees.collect())
    }

    /// Whether a path is in one of them, with links resolved.
    pub fn contain(&self, path: &Path) -> bool {
        let path = real(path);
        self.0.iter().any(|tree| path.starts_with(tree))
    }
}

/// A path with links resolved, if it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_path_buf())
}

/// The operator's targets: the given file, or the nearest one outside the evaluated commits.
pub fn targets(named: Option<&Path>, cwd: &Path, untrusted: &UntrustedTrees) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return Ok(named.to_path_buf());
    }
    let found = TargetsFile::discover(&Roots::new(cwd, cwd)).ok_or_else(|| {
        Failure::config("no targets file: neither `targets.yaml` nor `.agentv/targets.yaml`")
            .hint("`run-evals init` writes one, and `--targets FILE` sets another; it configures the models and their keys")
    })?;
    // A link in the work tree belongs to the commit, wherever it points.
    if untrusted.contain(&found) || found.parent().is_some_and(|folder| untrusted.contain(folder)) {
        let message = format!(
            "`{}` is in the evaluated repository, so a commit could redirect the API keys",
            shown(&found, cwd).display()
        );
        return Err(Failure::config(message).hint(
            "keep the targets file elsewhere and pass it with `--targets FILE`; passing this one trusts everyone who can \
             write to the checked-out branch",
        ));
    }
    Ok(found)
}
