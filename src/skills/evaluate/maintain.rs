//! Keeps the service's clones small: every publication adds a pack, and every killed one may leave a branch.

use std::fs;
use std::path::Path;

use super::clones::git_in;
use super::plan;
use super::workspace::Workspace;
use crate::git::{Repository, Worktree};

/// More packs than this are packed together.
const MOST_PACKS: usize = 50;

/// Packs the permanent clones if worthwhile, and deletes branches that killed publications left behind. No evaluation may run
/// meanwhile. The largest pack, from the initial clone, is not repacked, so the cost depends on what was added
/// since.
pub fn maintain(workspace: &Workspace) -> anyhow::Result<()> {
    for source in [Some(&workspace.library), workspace.datasets.as_ref()].into_iter().flatten() {
        if !source.is_kept() {
            continue;
        }
        let Ok(Some(worktree)) = Worktree::unseen(&source.dir) else { continue };
        let Some(repository) = Repository::around(&worktree.root)? else { continue };
        let folder = plan::BRANCHES.trim_end_matches('/');
        for branch in repository.branches(folder)? {
            repository.delete_branch(&format!("{}{branch}", plan::BRANCHES))?;
        }
        if packs(repository.dir()) > MOST_PACKS {
            let no_refs = [("gc.packRefs".to_owned(), "false".to_owned())];
            let git = git_in(&repository, &worktree.root)?.with(no_refs);
            git.run("gc", &["--quiet", "--keep-largest-pack", "--prune=1.day.ago"])?;
        }
    }
    Ok(())
}

fn packs(git_dir: &Path) -> usize {
    let is_pack =
        |file: &fs::DirEntry| Path::new(&file.file_name()).extension().is_some_and(|end| end == "pack");
    let files = fs::read_dir(git_dir.join("objects/pack")).into_iter().flatten().flatten();
    files.filter(is_pack).count()
}
