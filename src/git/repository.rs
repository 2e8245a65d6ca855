//! A bare repository on disk.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;

use super::command::{command, command_in, run};
use super::commit::{Committed, Imported, NewFile, import};
use super::objects::{Header, ObjectId, Objects, tree_names};

/// The most bytes of a tree or commit object; the largest that is ever written has some hundred entries.
const LONGEST_TREE: u64 = 16 << 20;

/// A bare repository. Its methods block; they may be called from several threads.
#[derive(Debug)]
pub struct Repository {
    dir: PathBuf,
    /// Started at the first read; dropped after a failed one.
    objects: Mutex<Option<Objects>>,
}

impl Repository {
    /// Whether a directory looks like a repository's own directory.
    pub fn is_at(dir: &Path) -> bool {
        let head = fs::read(dir.join("HEAD")).unwrap_or_default();
        let is_head =
            head.starts_with(b"ref: ") || head.len() >= 40 && head[..40].iter().all(u8::is_ascii_hexdigit);
        is_head && dir.join("objects").is_dir()
    }

    /// The repository that a directory belongs to, if it belongs to one.
    pub fn around(dir: &Path) -> anyhow::Result<Option<Self>> {
        let mut find = command("rev-parse")?;
        find.arg("--absolute-git-dir").current_dir(dir);
        let output = find.output().context("cannot start `git rev-parse`")?;
        let found = String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned();
        if !output.status.success() || found.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { dir: PathBuf::from(found), objects: Mutex::new(None) }))
    }

    /// The repository in a directory for which `is_at` holds.
    pub fn open(dir: &Path) -> anyhow::Result<Self> {
        let dir = std::path::absolute(dir)?;
        // Git insists on this directory, and a copy that leaves out empty ones loses it when all refs are packed.
        let refs = dir.join("refs");
        if !refs.is_dir() {
            fs::create_dir(&refs).with_context(|| format!("cannot make `{}`", refs.display()))?;
        }
        Ok(Self { dir, objects: Mutex::new(None) })
    }

    /// Makes an empty repository; the directory must be new or empty, and appears only when it is whole.
    pub fn init(dir: &Path) -> anyhow::Result<Self> {
        let dir = std::path::absolute(dir)?;
        let parent = dir.parent().context("no parent directory")?;
        fs::create_dir_all(parent).with_context(|| format!("cannot make `{}`", parent.display()))?;
        let workshop = tempfile::Builder::new()
            .prefix(".git-init-")
            .tempdir_in(parent)
            .with_context(|| format!("cannot write into `{}`", parent.display()))?;
        let made = workshop.path().join("repository");
        let mut init = command("init")?;
        init.args(["--bare", "--quiet", "--template=", "--"]).arg(&made);
        run(init, "init")?;
        match fs::rename(&made, &dir) {
            // Another process was faster.
            Err(_) if Self::is_at(&dir) => {}
            result => result.with_context(|| format!("cannot make `{}`", dir.display()))?,
        }
        Self::open(&dir)
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The commit that a branch points to.
    pub fn tip(&self, branch: &str) -> anyhow::Result<Option<ObjectId>> {
        self.get(&format!("refs/heads/{branch}^{{commit}}"), |header, _| Ok(header.id.clone()))
    }

    pub(super) fn find_commit(&self, name: &str) -> anyhow::Result<Option<ObjectId>> {
        self.get(&format!("{name}^{{commit}}"), |header, _| Ok(header.id.clone()))
    }

    /// The names in a folder of a commit; `None` if there is no such folder.
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

    /// Hands the size and the content of a file to `read`; `None` if there is no such file.
    ///
    /// `name` is any name that git understands, such as `refs/heads/main:folder/file` or an object id.
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

    /// The branches whose names start with `folder/`, without it, in order.
    pub fn branches(&self, folder: &str) -> anyhow::Result<Vec<String>> {
        let prefix = format!("refs/heads/{folder}/");
        let mut list = command_in(&self.dir, "for-each-ref")?;
        list.args(["--format=%(refname)", &prefix]);
        let names = String::from_utf8_lossy(&run(list, "for-each-ref")?).into_owned();
        Ok(names.lines().filter_map(|name| name.strip_prefix(&prefix)).map(ToOwned::to_owned).collect())
    }

    /// Deletes a branch, if there is one of that name.
    pub fn delete_branch(&self, branch: &str) -> anyhow::Result<()> {
        let mut delete = command_in(&self.dir, "update-ref")?;
        delete.args(["-d", &format!("refs/heads/{branch}")]);
        run(delete, "update-ref").map(drop)
    }

    /// Makes a branch point to a commit, or takes it away.
    pub fn set_branch(&self, branch: &str, to: Option<&ObjectId>) -> anyhow::Result<()> {
        let Some(to) = to else { return self.delete_branch(branch) };
        let mut update = command_in(&self.dir, "update-ref")?;
        update.args([&format!("refs/heads/{branch}"), &to.to_string()]);
        run(update, "update-ref").map(drop)
    }

    /// The first lines of the messages of a branch's commits, newest first.
    pub fn subjects(&self, branch: &str) -> anyhow::Result<Vec<String>> {
        let mut log = command_in(&self.dir, "log")?;
        log.args(["--format=%s", &format!("refs/heads/{branch}"), "--"]);
        let subjects = String::from_utf8_lossy(&run(log, "log")?).into_owned();
        Ok(subjects.lines().map(ToOwned::to_owned).collect())
    }

    /// Adds a commit with these files on top of `parent`, which must still be the tip of the branch; without a parent it is
    /// the first one of a new branch.
    pub fn commit(
        &self,
        branch: &str,
        parent: Option<&ObjectId>,
        message: &str,
        files: &mut [NewFile<'_>],
    ) -> anyhow::Result<Committed> {
        self.commit_as(None, branch, parent, message, files)
    }

    /// The same as somebody else than run-evals: `Name <address>`. Of a new branch the parent may be any commit.
    pub fn commit_as(
        &self,
        identity: Option<&str>,
        branch: &str,
        parent: Option<&ObjectId>,
        message: &str,
        files: &mut [NewFile<'_>],
    ) -> anyhow::Result<Committed> {
        let error = match import(&self.dir, identity, branch, parent, message, files)? {
            Imported::Done => return Ok(Committed::Done),
            Imported::Failed(error) => error,
        };
        let locked = error.stderr.contains(".lock") && error.stderr.contains("File exists");
        if locked || self.tip(branch)?.as_ref() != parent {
            Ok(Committed::LostRace(error))
        } else {
            Err(error.into())
        }
    }

    /// Packs everything into one and forgets what no branch has needed for a day, once there are more packs than this.
    pub fn tidy(&self, most_packs: usize) -> anyhow::Result<()> {
        let packs = fs::read_dir(self.dir.join("objects/pack"))
            .map_or(0, |files| files.filter(|file| is_pack(file.as_ref().ok())).count());
        if packs <= most_packs {
            return Ok(());
        }
        let mut gc = command_in(&self.dir, "gc")?;
        gc.args(["--quiet", "--prune=1.day.ago"]);
        run(gc, "gc").map(drop)
    }

    fn get<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Header, &mut dyn Read) -> anyhow::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        let mut slot = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let mut objects = match slot.take() {
            Some(objects) => objects,
            None => Objects::start(&self.dir)?,
        };
        let value = objects.get(name, read)?;
        *slot = Some(objects);
        Ok(value)
    }
}

fn is_pack(file: Option<&fs::DirEntry>) -> bool {
    file.is_some_and(|file| Path::new(&file.file_name()).extension().is_some_and(|end| end == "pack"))
}
