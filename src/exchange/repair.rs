//! Repairs a damaged exchange from its intact files, so that git can open it again.
//!
//! A power cut may leave any file that git did not sync empty, truncated or full of zeros. Such files are set aside. Their content
//! is recovered: the batch by the next `eval` or `dispatch` with the same id, and the rows from the journal. Anything else is
//! called again.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use super::LocalExchange;
use super::damage::{keep_copy, keep_text, set_aside};
use super::tips;
use crate::git::{
    DamagedTree, GitError, index_pack, own_config, reject_untrusted, salvage_pack, verify_pack,
};
use crate::model::BatchId;
use crate::protocol::names::{ARTIFACTS_FOLDER, RESULTS_DIR, handover_branch, is_batch_file};
use crate::util::durable;

const HEAD: &str = "ref: refs/heads/main\n";
/// What git and run-evals create in an exchange; a directory with anything else is not an exchange.
const NAMES: [&str; 23] = [
    "HEAD",
    "FETCH_HEAD",
    "ORIG_HEAD",
    "branches",
    "collected",
    "config",
    "damaged",
    "description",
    "dispatch",
    "gc.log",
    "gc.pid",
    "graders",
    "hooks",
    "id",
    "info",
    "journal",
    "locks",
    "logs",
    "objects",
    "packed-refs",
    "refs",
    "started",
    tips::FOLDER,
];
const DIRECTORIES: [&str; 2] = ["objects/pack", "refs"];
/// A pack gets its index shortly after its name.
const YOUNG: Duration = Duration::from_mins(1);
/// The signatures of packs and their indexes.
const PACK: &[u8] = b"PACK";
const INDEX: &[u8] = b"\xfftOc";

/// Sets damaged files of the exchange at `path` aside; returns whether there were any. Ignores other directories.
pub(super) fn repair_files(path: &Path) -> anyhow::Result<bool> {
    if !is_exchange(path) {
        return Ok(false);
    }
    // First make sure that no link leads out of the exchange.
    reject_untrusted(path)?;
    for folder in own_folders(path).iter().map(PathBuf::as_path).chain([path]) {
        durable::sweep(folder);
    }
    let mut damaged = repair_kind(path, &path.join("config"))?;
    own_config(path)?;
    damaged |= repair_kinds(path)?;
    for directory in DIRECTORIES {
        let directory = path.join(directory);
        if !directory.is_dir() {
            durable::create_dir_all(&directory)
                .with_context(|| format!("cannot make `{}`", directory.display()))?;
        }
    }
    damaged |= repair_text(path, "HEAD", HEAD, |head| {
        let head = head.trim_ascii_end();
        head.starts_with(b"ref: refs/") && !head.contains(&0) || is_object_name(head)
    })?;
    damaged |= repair_loose_refs(path, &path.join("refs"))?;
    damaged |= repair_packed_refs(path)?;
    damaged |= repair_loose_objects(path)?;
    damaged |= repair_packs(path)?;
    Ok(damaged)
}

fn entries(folder: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

/// The folders of an exchange with files of run-evals.
fn own_folders(root: &Path) -> Vec<PathBuf> {
    let mut folders = ["collected", "dispatch", "locks", tips::FOLDER].map(|name| root.join(name)).to_vec();
    folders.extend(entries(&root.join("journal")).map(|entry| entry.path()));
    folders
}

/// Sets aside directories that are in place of files.
fn repair_kinds(root: &Path) -> anyhow::Result<bool> {
    let mut folders = own_folders(root);
    folders.push(root.join("objects/pack"));
    let mut damaged = repair_kind(root, &root.join("HEAD"))? | repair_kind(root, &root.join("packed-refs"))?;
    for entry in folders.iter().flat_map(|folder| entries(folder)) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            damaged |= repair_kind(root, &entry.path())?;
        }
    }
    Ok(damaged)
}

fn repair_kind(root: &Path, file: &Path) -> anyhow::Result<bool> {
    let is_dir = file.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    if is_dir {
        set_aside(root, file, "it is a directory")?;
    }
    Ok(is_dir)
}

/// Whether a directory contains only, and enough of, what an exchange has.
fn is_exchange(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else { return false };
    let mut known = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_leftover =
            has_end(&name, "lock") || name.starts_with("fast_import_crash_") || durable::is_temporary(&name);
        if !is_leftover && !NAMES.contains(&name.as_str()) {
            return false;
        }
        known.push(name);
    }
    known.iter().any(|name| name == "objects") && known.iter().any(|name| name == "refs" || name == "journal")
}

/// Rewrites a file that is missing or damaged.
fn repair_text(
    root: &Path,
    name: &str,
    text: &str,
    is_whole: impl FnOnce(&[u8]) -> bool,
) -> anyhow::Result<bool> {
    let path = root.join(name);
    match fs::read(&path) {
        Ok(content) if is_whole(&content) => return Ok(false),
        Ok(content) => drop(set_aside(root, &path, problem(&content))?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tracing::warn!("`{}` is missing: rewriting it", path.display());
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
    durable::write(&path, text.as_bytes()).with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(true)
}

fn problem(content: &[u8]) -> &'static str {
    if content.is_empty() {
        "it is empty"
    } else if content.iter().all(|byte| *byte == 0) {
        "it contains only zeros"
    } else {
        "it cannot be read"
    }
}

fn has_end(name: &str, end: &str) -> bool {
    Path::new(name).extension().is_some_and(|known| known == end)
}

fn is_object_name(text: &[u8]) -> bool {
    matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit)
}

fn repair_loose_refs(root: &Path, dir: &Path) -> anyhow::Result<bool> {
    let mut damaged = false;
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            damaged |= repair_loose_refs(root, &path)?;
        } else if kind.is_file() && path.extension().is_none_or(|end| end != "lock") {
            // A branch that was deleted meanwhile is not damaged.
            let Ok(content) = fs::read(&path) else { continue };
            let text = content.trim_ascii_end();
            let is_symbolic = text.starts_with(b"ref: refs/") && !text.contains(&0);
            if !is_object_name(text) && !is_symbolic {
                set_aside(root, &path, problem(&content))?;
                damaged = true;
            }
        }
    }
    Ok(damaged)
}

/// Keeps the readable lines.
fn repair_packed_refs(root: &Path) -> anyhow::Result<bool> {
    let path = root.join("packed-refs");
    let Ok(content) = fs::read(&path) else { return Ok(false) };
    let is_whole = |line: &&[u8]| match line {
        [b'#', .., b'\n'] => !line.contains(&0),
        [b'^', name @ .., b'\n'] => is_object_name(name),
        [reference @ .., b'\n'] => match reference.iter().position(|byte| *byte == b' ') {
            Some(space) => is_object_name(&reference[..space]) && !reference.contains(&0),
            None => false,
        },
        _ => false,
    };
    let whole: Vec<u8> =
        content.split_inclusive(|byte| *byte == b'\n').filter(is_whole).flatten().copied().collect();
    if whole == content {
        return Ok(false);
    }
    keep_copy(root, &path, problem(&content))?;
    durable::write(&path, &whole).with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(true)
}

/// Git fails on an empty object, even if another copy is intact.
fn repair_loose_objects(root: &Path) -> anyhow::Result<bool> {
    let mut damaged = false;
    for folder in fs::read_dir(root.join("objects")).into_iter().flatten().flatten() {
        let name = folder.file_name();
        if name.len() != 2 {
            continue;
        }
        for entry in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let path = entry.path();
            let mut first = [0];
            let read = File::open(&path).and_then(|mut file| file.read(&mut first));
            // A compressed object does not begin with a zero.
            if read.is_ok() && first == [0] {
                set_aside(root, &path, "it is empty")?;
                damaged = true;
            }
        }
    }
    Ok(damaged)
}

fn repair_packs(root: &Path) -> anyhow::Result<bool> {
    // A pack ends with a checksum, which its index repeats before its own.
    let config = fs::read_to_string(root.join("config")).unwrap_or_default();
    let checksum = if config.contains("sha256") { 32 } else { 20 };
    let mut damaged = false;
    for entry in fs::read_dir(root.join("objects/pack")).into_iter().flatten().flatten() {
        let pack = entry.path();
        // An index is written after its pack, and deleted before it.
        if pack.extension().is_some_and(|end| end == "idx")
            && pack.exists()
            && !pack.with_extension("pack").exists()
        {
            set_aside(root, &pack, "its pack is missing")?;
            damaged = true;
        }
        if pack.extension().is_none_or(|end| end != "pack") {
            continue;
        }
        let index = pack.with_extension("idx");
        if pack_is_whole(&pack, &index, checksum) {
            continue;
        }
        damaged = true;
        repair_pack(root, &pack)?;
    }
    Ok(damaged)
}

/// Rebuilds the index of an intact pack. From a damaged one, keeps the intact objects.
fn repair_pack(root: &Path, pack: &Path) -> anyhow::Result<()> {
    let index = pack.with_extension("idx");
    if index.exists() {
        set_aside(root, &index, "it does not match its pack")?;
    }
    let Err(error) = index_pack(root, pack) else { return Ok(()) };
    tracing::debug!("{error:#}");
    // In its place, git would find the damaged objects in it first.
    let aside = set_aside(root, pack, "some of its objects cannot be read")?;
    if let Err(error) = salvage_pack(root, &aside) {
        tracing::debug!("{error:#}");
    }
    Ok(())
}

/// Whether a pack and its index have intact ends; also true if they vanish meanwhile or are being written.
fn pack_is_whole(pack: &Path, index: &Path, checksum: usize) -> bool {
    let is_young = || {
        let modified = fs::metadata(pack).and_then(|metadata| metadata.modified());
        modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age < YOUNG))
    };
    let ends = ends(pack, PACK, checksum).and_then(|pack| Ok((pack, ends(index, INDEX, 2 * checksum)?)));
    match ends {
        Ok((Some(pack), Some(index))) => index.starts_with(&pack),
        Err(error) if error.kind() == io::ErrorKind::NotFound => !pack.exists() || is_young(),
        Ok(_) | Err(_) => false,
    }
}

/// The last bytes of a file; `None` if its signature is wrong.
fn ends(path: &Path, signature: &[u8], length: usize) -> io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path)?;
    let mut first = vec![0; signature.len()];
    let size = file.metadata()?.len();
    if size < (signature.len() + length) as u64 {
        return Ok(None);
    }
    file.read_exact(&mut first)?;
    file.seek(SeekFrom::Start(size - length as u64))?;
    let mut last = Vec::new();
    file.read_to_end(&mut last)?;
    Ok((first == signature).then_some(last))
}

/// Whether git could not read objects. Its message differs with every kind of damage.
pub(super) fn is_damage(error: &anyhow::Error) -> bool {
    let of_objects = |error: &GitError| matches!(error.subcommand, "cat-file" | "fast-import");
    error.is::<DamagedTree>()
        || error
            .downcast_ref::<GitError>()
            .is_some_and(|error| of_objects(error) && error.status.code() == Some(128))
}

impl LocalExchange {
    /// Checks every object after a read failed, so that no damaged one is found or reused.
    pub(super) fn repair_objects(&self) -> anyhow::Result<()> {
        let packs: Vec<PathBuf> =
            fs::read_dir(self.path().join("objects/pack"))?.flatten().map(|entry| entry.path()).collect();
        for pack in packs.iter().filter(|path| path.extension().is_some_and(|end| end == "pack")) {
            let index = pack.with_extension("idx");
            if let Err(error) = verify_pack(self.path(), &index) {
                tracing::debug!("{error:#}");
                // Another process may have repacked everything.
                if pack.exists() {
                    repair_pack(self.path(), pack)?;
                }
            }
        }
        self.repository.read_anew();
        Ok(())
    }

    /// Sets aside every branch whose commit is missing.
    pub(super) fn repair_all_branches(&self) -> anyhow::Result<()> {
        let heads = self.path().join("refs/heads");
        let mut branches = Vec::new();
        for entry in walkdir::WalkDir::new(&heads).into_iter().flatten() {
            let name =
                entry.path().strip_prefix(&heads).unwrap_or(entry.path()).to_string_lossy().into_owned();
            branches.extend((entry.file_type().is_file() && !has_end(&name, "lock")).then_some(name));
        }
        let packed = fs::read_to_string(self.path().join("packed-refs")).unwrap_or_default();
        branches
            .extend(packed.lines().filter_map(|line| Some(line.split_once(" refs/heads/")?.1.to_owned())));
        for branch in branches {
            self.repair_branch(&branch, |_| false)?;
        }
        Ok(())
    }

    /// Sets aside the unreadable branches of a batch, and restores lost results branches.
    pub fn repair_branches(&self, id: &BatchId) -> anyhow::Result<()> {
        self.repair_branch(&handover_branch(id), is_batch_file)?;
        for branch in [self.results_branch(id), format!("{ARTIFACTS_FOLDER}/{id}")] {
            let is_results = |name: &str| name == RESULTS_DIR;
            self.repair_branch(&branch, is_results)?;
            if self.restore_branch(&branch)? {
                self.repair_branch(&branch, is_results)?;
            }
        }
        Ok(())
    }

    /// Sets aside a branch whose commit, tree or required files are unreadable.
    fn repair_branch(&self, branch: &str, is_needed: fn(&str) -> bool) -> anyhow::Result<()> {
        let Some(value) = self.reference(branch)? else { return Ok(()) };
        let look = || match self.problem_of(branch, is_needed) {
            Err(error) if is_damage(&error) => Ok(Some(format!("{error:#}"))),
            looked => looked,
        };
        if look()?.is_none() {
            return Ok(());
        }
        self.repair_objects()?;
        let Some(problem) = look()? else { return Ok(()) };
        // It may have been moved or deleted meanwhile.
        if self.reference(branch)?.as_ref() != Some(&value) {
            return Ok(());
        }
        keep_text(self.path(), &format!("refs/heads/{branch}"), &value, &problem)?;
        self.repository.delete_branch(branch)?;
        if self.kept_tip(branch).as_ref() == Some(&value) {
            self.forget_tip(branch)?;
        }
        Ok(())
    }

    fn problem_of(&self, branch: &str, is_needed: fn(&str) -> bool) -> anyhow::Result<Option<String>> {
        let Some(tip) = self.repository.tip(branch)? else {
            return Ok(Some("its commit is missing".to_owned()));
        };
        let Some(names) = self.repository.list(&tip, "")? else {
            return Ok(Some("its files are missing".to_owned()));
        };
        let mut left: Vec<String> = names.into_iter().filter(|name| is_needed(name)).collect();
        while let Some(path) = left.pop() {
            if let Some(names) = self.repository.list(&tip, &path)? {
                // The rows themselves are checked one by one when they are read.
                left.extend(
                    names.iter().filter(|name| !has_end(name, "jsonl")).map(|name| format!("{path}/{name}")),
                );
                continue;
            }
            let copy = |_, content: &mut dyn io::Read| Ok(io::copy(content, &mut io::sink())?);
            if self.repository.read_blob(&format!("{tip}:{path}"), copy)?.is_none() {
                return Ok(Some(format!("`{path}` is missing")));
            }
        }
        Ok(None)
    }

    /// The target of a branch, whether it exists or not.
    fn reference(&self, branch: &str) -> anyhow::Result<Option<String>> {
        let name = format!("refs/heads/{branch}");
        let path: PathBuf = self.path().join(&name);
        let loose =
            if path.is_dir() { Err(io::ErrorKind::NotFound.into()) } else { fs::read_to_string(&path) };
        match loose {
            Ok(value) => return Ok(Some(value.trim().to_owned())),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
        }
        let packed = match fs::read_to_string(self.path().join("packed-refs")) {
            Ok(packed) => packed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).context("cannot read `packed-refs`"),
        };
        let found = packed.lines().find_map(|line| line.strip_suffix(&name)?.strip_suffix(' '));
        Ok(found.map(ToOwned::to_owned))
    }
}
