//! A bare repository on disk.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;

use super::command::{Git, GitError};
use super::commit::{CommitOutcome, ImportOutcome, NewFile, import};
use super::git_dir::{Checkout, GitDir};
use super::locks::{self, Hold};
use super::objects::{Header, ObjectId, Objects, tree_names};
use super::trust;
use crate::util::{durable, regular_file};

/// Size limit of a tree or commit object; the largest that run-evals writes has some hundred entries.
const LONGEST_TREE: u64 = 16 << 20;
/// Attempts of a change that finds a lock file.
const MOST_TRIES: u32 = 5;
/// Prefix of the temporary directory of a new repository.
const UNFINISHED: &str = ".git-init-";

/// A bare repository of ours, or a user's clone. Its methods block and are thread-safe.
#[derive(Debug)]
pub struct Repository {
    pub(super) git_dir: GitDir,
    /// Started at the first read; dropped after a failed one.
    objects: Mutex<Option<Objects>>,
}

impl Repository {
    /// Whether a directory looks like a git directory.
    pub fn is_at(dir: &Path) -> bool {
        let head = regular_file::read(&dir.join("HEAD"), regular_file::SETTINGS).unwrap_or_default();
        let is_head =
            head.starts_with(b"ref: ") || head.len() >= 40 && head[..40].iter().all(u8::is_ascii_hexdigit);
        is_head && dir.join("objects").is_dir()
    }

    /// The repository that contains a directory. Its configuration is not used.
    pub fn around(dir: &Path) -> anyhow::Result<Option<Self>> {
        let Some(checkout) = Checkout::around(dir)? else { return Ok(None) };
        let repository = Self { git_dir: GitDir::foreign(&checkout)?, objects: Mutex::new(None) };
        Ok(Some(repository))
    }

    /// A foreign repository, bare or a checkout. Its configuration is not used.
    pub(super) fn at(dir: &Path) -> anyhow::Result<Option<Self>> {
        let nested = dir.join(".git");
        let found = if nested.exists() { Checkout::around(dir)? } else { Checkout::at(dir, dir)? };
        let git_dir = found.map(|found| GitDir::foreign(&found)).transpose()?;
        Ok(git_dir.map(|git_dir| Self { git_dir, objects: Mutex::new(None) }))
    }

    /// Opens a repository of ours, for which `is_at` holds. Replaces its configuration, and rejects (exit
    /// 3) contents that make git leave the directory.
    pub fn open(dir: &Path) -> anyhow::Result<Self> {
        let dir = std::path::absolute(dir)?;
        trust::secure(&dir)?;
        // Git requires this directory. A copy without empty directories lacks it if all refs are packed.
        let refs = dir.join("refs");
        durable::create_dir_all(&refs).with_context(|| format!("cannot make `{}`", refs.display()))?;
        let repository = Self { git_dir: GitDir::own(&dir), objects: Mutex::new(None) };
        locks::sweep(&repository.git_dir, false);
        Ok(repository)
    }

    /// The same repository with a `cat-file` process of its own.
    #[must_use]
    pub fn again(&self) -> Self {
        Self { git_dir: self.git_dir.clone(), objects: Mutex::new(None) }
    }

    /// Drops cached packs and references, after a change without git.
    pub fn read_anew(&self) {
        *self.objects.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Creates an empty repository. The directory must be new or empty, and appears only when it is
    /// complete.
    pub fn init(dir: &Path) -> anyhow::Result<Self> {
        let dir = std::path::absolute(dir)?;
        let parent = dir.parent().context("no parent directory")?;
        durable::create_dir_all(parent).with_context(|| format!("cannot make `{}`", parent.display()))?;
        locks::sweep_unfinished(parent, UNFINISHED);
        let cannot_write = || format!("cannot write into `{}`", parent.display());
        let workshop =
            tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(parent).with_context(cannot_write)?;
        let held = File::open(workshop.path()).with_context(cannot_write)?;
        let _ = held.lock();
        let made = workshop.path().join("repository");
        let mut init = Git::new("init")?;
        init.args(["--bare", "--quiet", "--template=", "--"]).arg(&made);
        init.run()?;
        trust::own_config(&made)?;
        sync_tree(&made).with_context(cannot_write)?;
        #[cfg(test)]
        durable::crash::record(&durable::crash::Operation::Foreign(workshop.path()));
        match durable::rename(&made, &dir) {
            // Another process created it.
            Err(_) if Self::is_at(&dir) => {}
            result => result.with_context(|| format!("cannot make `{}`", dir.display()))?,
        }
        Self::open(&dir)
    }

    /// Removes stale lock files; in a user's clone, only those that no process holds for a minute.
    pub fn remove_stale_locks(&self) {
        locks::sweep(&self.git_dir, false);
    }

    pub fn dir(&self) -> &Path {
        self.git_dir.path()
    }

    /// Runs a change of the repository. If a lock file is in the way, waits for its owner or removes a
    /// stale one, and retries.
    pub(super) fn change<T>(&self, mut change: impl FnMut(&Hold) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let mut tries = 0;
        loop {
            tries += 1;
            let result = {
                let hold = Hold::shared(&self.git_dir);
                change(&hold)
            };
            // Release the lock first: the sweep needs it exclusively.
            match result {
                Err(error) if tries < MOST_TRIES && is_locked(&error) => {
                    locks::sweep(&self.git_dir, true);
                }
                Err(error) if is_locked(&error) => {
                    let blocked = locks::blocked(&self.git_dir);
                    return Err(blocked.map_or(error, anyhow::Error::from));
                }
                result => return result,
            }
        }
    }

    /// Makes new objects and a changed reference durable: git syncs files, not directories.
    pub(super) fn sync(&self, reference: &str) -> anyhow::Result<()> {
        let shared = self.git_dir.shared();
        let pack = shared.join("objects/pack");
        let mut dirs = vec![shared.to_path_buf()];
        dirs.extend(pack.is_dir().then_some(pack));
        let mut dir = shared.join(reference);
        while dir.pop() && dir != shared {
            // Git removes a folder with its last reference.
            dirs.extend(dir.is_dir().then(|| dir.clone()));
        }
        for dir in dirs {
            match durable::sync_dir(&dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result.with_context(|| format!("cannot sync `{}`", dir.display()))?,
            }
        }
        #[cfg(test)]
        durable::crash::record(&durable::crash::Operation::Foreign(shared));
        Ok(())
    }

    pub fn tip(&self, branch: &str) -> anyhow::Result<Option<ObjectId>> {
        self.get(&format!("refs/heads/{branch}^{{commit}}"), |header, _| Ok(header.id.clone()))
    }

    pub(super) fn find_commit(&self, name: &str) -> anyhow::Result<Option<ObjectId>> {
        self.get(&format!("{name}^{{commit}}"), |header, _| Ok(header.id.clone()))
    }

    /// The names in a folder of a commit; `None` if it does not exist.
    pub fn list(&self, commit: &ObjectId, folder: &str) -> anyhow::Result<Option<Vec<String>>> {
        let name = format!("{commit}:{folder}");
        let names = self.get(&name, |header, content| {
            if header.kind != "tree" {
                return Ok(None);
            }
            anyhow::ensure!(header.size <= LONGEST_TREE, "the tree `{name}` is too large");
            let mut tree = Vec::new();
            content.read_to_end(&mut tree)?;
            tree_names(&header.id, &tree).map(Some)
        })?;
        Ok(names.flatten())
    }

    /// Passes the size and the content of a file to `read`; `None` if it does not exist.
    ///
    /// `name` is any object name, such as `refs/heads/main:folder/file` or an id.
    pub fn read_blob<T>(
        &self,
        name: &str,
        read: impl FnOnce(u64, &mut dyn Read) -> anyhow::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        let value = self.get(name, |header, content| {
            if header.kind == "blob" { read(header.size, content).map(Some) } else { Ok(None) }
        })?;
        Ok(value.flatten())
    }

    /// Branches with the prefix `folder/`, without it, sorted.
    pub fn branches(&self, folder: &str) -> anyhow::Result<Vec<String>> {
        let prefix = format!("refs/heads/{folder}/");
        let mut list = Git::at(&self.git_dir, "for-each-ref")?;
        list.args(["--format=%(refname)", &prefix]);
        let names = String::from_utf8_lossy(&list.run()?).into_owned();
        Ok(names.lines().filter_map(|name| name.strip_prefix(&prefix)).map(ToOwned::to_owned).collect())
    }

    /// Deletes a branch, if it exists.
    pub fn delete_branch(&self, branch: &str) -> anyhow::Result<()> {
        self.update_ref(branch, &["-d", &format!("refs/heads/{branch}")])
    }

    /// Sets a branch to a commit, or deletes it.
    pub fn set_branch(&self, branch: &str, to: Option<&ObjectId>) -> anyhow::Result<()> {
        let Some(to) = to else { return self.delete_branch(branch) };
        self.update_ref(branch, &[&format!("refs/heads/{branch}"), &to.to_string()])
    }

    fn update_ref(&self, branch: &str, args: &[&str]) -> anyhow::Result<()> {
        self.change(|hold| {
            let mut update = Git::at(&self.git_dir, "update-ref")?;
            hold.lend(&mut update);
            update.args(args);
            update.run()
        })?;
        self.sync(&format!("refs/heads/{branch}"))
    }

    /// When the tip of a branch was committed; `None` without such a branch.
    pub fn committed_at(&self, branch: &str) -> anyhow::Result<Option<jiff::Timestamp>> {
        let mut list = Git::at(&self.git_dir, "for-each-ref")?;
        list.args(["--format=%(committerdate:unix)", &format!("refs/heads/{branch}")]);
        let seconds = String::from_utf8_lossy(&list.run()?).trim().parse().ok();
        Ok(seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok()))
    }

    /// Commit subjects of a branch, newest first.
    pub fn subjects(&self, branch: &str) -> anyhow::Result<Vec<String>> {
        let mut log = Git::at(&self.git_dir, "log")?;
        log.args(["--format=%s", &format!("refs/heads/{branch}"), "--"]);
        let subjects = String::from_utf8_lossy(&log.run()?).into_owned();
        Ok(subjects.lines().map(ToOwned::to_owned).collect())
    }

    /// Commits files on top of `parent`, which must still be the tip of the branch. Without a parent,
    /// starts a new branch.
    pub fn commit(
        &self,
        branch: &str,
        parent: Option<&ObjectId>,
        message: &str,
        files: &mut [NewFile<'_>],
    ) -> anyhow::Result<CommitOutcome> {
        self.commit_as(None, branch, parent, message, files)
    }

    /// Like [`Self::commit`] with another author, `Name <address>`. The parent of a new branch may be any
    /// commit.
    pub fn commit_as(
        &self,
        identity: Option<&str>,
        branch: &str,
        parent: Option<&ObjectId>,
        message: &str,
        files: &mut [NewFile<'_>],
    ) -> anyhow::Result<CommitOutcome> {
        let mut import = || {
            let _hold = Hold::shared(&self.git_dir);
            import(&self.git_dir, identity, branch, parent, message, files)
        };
        let error = match import()? {
            ImportOutcome::Done => {
                return self.sync(&format!("refs/heads/{branch}")).map(|()| CommitOutcome::Done);
            }
            ImportOutcome::Failed(error) => error,
        };
        if error.is_locked() {
            // The files are consumed: the caller commits again.
            locks::sweep(&self.git_dir, true);
            return Ok(CommitOutcome::LostRace(error));
        }
        if self.tip(branch)?.as_ref() == parent {
            Err(error.into())
        } else {
            Ok(CommitOutcome::LostRace(error))
        }
    }

    /// If there are more packs than this, repacks everything and drops objects that were unreachable for a
    /// day.
    pub fn tidy(&self, most_packs: usize) -> anyhow::Result<()> {
        if !self.is_untidy(most_packs) {
            return Ok(());
        }
        self.change(|hold| {
            let mut gc = Git::at(&self.git_dir, "gc")?;
            hold.lend(&mut gc);
            gc.args(["--quiet", "--prune=1.day.ago"]);
            gc.run()
        })?;
        self.sync("refs/heads/main")
    }

    /// Whether there are more packs than this.
    pub fn is_untidy(&self, most_packs: usize) -> bool {
        let packs = fs::read_dir(self.git_dir.shared().join("objects/pack"))
            .map_or(0, |files| files.filter(|file| is_pack(file.as_ref().ok())).count());
        packs > most_packs
    }

    fn get<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Header, &mut dyn Read) -> anyhow::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        let mut slot = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let mut objects = match slot.take() {
            Some(objects) => objects,
            None => Objects::start(&self.git_dir)?,
        };
        let value = objects.get(name, read)?;
        *slot = Some(objects);
        Ok(value)
    }
}

pub(super) fn is_locked(error: &anyhow::Error) -> bool {
    error.downcast_ref::<GitError>().is_some_and(GitError::is_locked)
}

/// Syncs a new repository.
fn sync_tree(dir: &Path) -> io::Result<()> {
    for entry in walkdir::WalkDir::new(dir).contents_first(true) {
        let entry = entry?;
        if entry.file_type().is_dir() {
            durable::sync_dir(entry.path())?;
        } else {
            durable::sync_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_pack(file: Option<&fs::DirEntry>) -> bool {
    file.is_some_and(|file| Path::new(&file.file_name()).extension().is_some_and(|end| end == "pack"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::durable::crash::Recording;

    #[test]
    fn a_new_repository_is_complete_or_absent_after_any_crash() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Recording::start(dir.path());
        let repository = Repository::init(&dir.path().join("new/r.git")).unwrap();
        disk.mark("made");
        let mut file = NewFile { path: "f".to_owned(), size: 1, content: &mut &b"x"[..] };
        repository.commit("a/b", None, "m", std::slice::from_mut(&mut file)).unwrap();
        disk.mark("committed");
        let tip = repository.tip("a/b").unwrap().unwrap();
        let crashes = disk.crashes();
        assert!(crashes.len() > 3, "{}", crashes.len());
        for crash in crashes {
            let at = tempfile::tempdir().unwrap();
            crash.restore(at.path());
            let path = at.path().join("new/r.git");
            assert!(path.exists() || !crash.after("made"), "{}", crash.what);
            if !path.exists() {
                continue;
            }
            assert!(Repository::is_at(&path), "{}", crash.what);
            let repository = Repository::open(&path).unwrap();
            let found = repository.tip("a/b").unwrap();
            assert!(found.as_ref() == Some(&tip) || !crash.after("committed"), "{}", crash.what);
        }
    }

    #[test]
    fn every_change_removes_a_stale_lock() {
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::init(&dir.path().join("r.git")).unwrap();
        let commit = |parent: Option<&ObjectId>| {
            let mut file = NewFile { path: "f".to_owned(), size: 1, content: &mut &b"x"[..] };
            repository.commit("b", parent, "m", std::slice::from_mut(&mut file)).unwrap()
        };
        let lock = repository.dir().join("refs/heads/b.lock");
        fs::write(&lock, "").unwrap();
        assert!(matches!(commit(None), CommitOutcome::LostRace(_)));
        assert!(!lock.exists());
        assert!(matches!(commit(None), CommitOutcome::Done));
        let tip = repository.tip("b").unwrap().unwrap();
        for to in [Some(&tip), None] {
            fs::write(&lock, "").unwrap();
            repository.set_branch("b", to).unwrap();
        }
        assert!(repository.branches("x").unwrap().is_empty() && repository.tip("b").unwrap().is_none());
    }
}
