//! A simulated disk that loses everything that was not synced.
//!
//! A test records what [`super`] does below a directory and gets every state that a power cut may leave:
//! after each step, with unsynced names lost or kept, and unsynced content lost, torn, zeroed or kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// An operation of [`super`].
pub enum Operation<'s> {
    /// A temporary file was written and will be renamed.
    Temporary(&'s Path),
    /// A new empty file.
    Create(&'s Path),
    /// A new directory.
    CreateDir(&'s Path),
    /// Bytes were appended.
    Append(&'s Path, &'s [u8]),
    /// A file was resized.
    SetLen(&'s Path, u64),
    /// A path was renamed.
    Rename(&'s Path, &'s Path),
    /// A path was removed.
    Remove(&'s Path),
    /// The content of a file was synced.
    SyncFile(&'s Path),
    /// The names in a directory were synced.
    SyncDir(&'s Path),
    /// A program that syncs by itself (git) changed this directory: its current content is durable.
    Foreign(&'s Path),
}

type Inode = usize;

#[derive(Debug, Clone)]
enum Edit {
    Append(Vec<u8>),
    SetLen(u64),
}

#[derive(Debug, Clone)]
enum Step {
    /// A name in a directory for a file, or for a directory if `None`. The name `from` is removed.
    Link {
        name: PathBuf,
        inode: Option<Inode>,
        from: Option<PathBuf>,
    },
    /// A directory move with all its entries: old name, new name, inode.
    Move(Vec<(PathBuf, PathBuf, Option<Inode>)>),
    Unlink(PathBuf),
    Edit(Inode, Edit),
    SyncFile(Inode),
    SyncDir(PathBuf),
    Foreign(PathBuf, Vec<(PathBuf, Option<Inode>)>),
    Mark(String),
}

#[derive(Debug, Default)]
struct Record {
    root: PathBuf,
    /// Current names, to find the inode of a path.
    names: BTreeMap<PathBuf, Option<Inode>>,
    inodes: usize,
    steps: Vec<Step>,
    /// Number of leading steps that describe the initial state.
    initial: usize,
}

static RECORDS: Mutex<Vec<Record>> = Mutex::new(Vec::new());

/// Records what happens below a directory until [`Recording::crashes`].
#[derive(Debug)]
pub struct Recording {
    root: PathBuf,
}

/// A state that a power cut may leave.
#[derive(Debug)]
pub struct Crash {
    /// Number of steps, and what happened to unsynced data.
    pub what: String,
    marks: Vec<String>,
    tree: Tree,
}

type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

impl Recording {
    /// Starts recording. The current content of the directory is durable.
    pub fn start(root: &Path) -> Self {
        let root = root.canonicalize().unwrap();
        let mut record = Record { root: root.clone(), ..Record::default() };
        record.adopt(&root);
        record.initial = record.steps.len();
        records(|records| records.push(record));
        Self { root }
    }

    /// Adds a mark that later states carry.
    pub fn mark(&self, what: &str) {
        records(|records| {
            let record = records.iter_mut().find(|record| record.root == self.root).unwrap();
            record.steps.push(Step::Mark(what.to_owned()));
        });
    }

    /// Every distinct state.
    pub fn crashes(&self) -> Vec<Crash> {
        let (steps, initial) = records(|records| {
            let record = records.iter().find(|record| record.root == self.root).unwrap();
            (record.steps.clone(), record.initial)
        });
        let mut crashes = Vec::new();
        let mut known = BTreeSet::new();
        for count in initial..=steps.len() {
            let steps = &steps[..count];
            let marks: Vec<String> = steps
                .iter()
                .filter_map(|step| if let Step::Mark(mark) = step { Some(mark.clone()) } else { None })
                .collect();
            for (names, applied) in name_choices(steps) {
                for content in contents(steps) {
                    let tree = tree(steps, &applied, &content);
                    if known.insert((marks.len(), tree.clone())) {
                        let what = format!(
                            "{count} steps ({:?}), names {names}, content {content:?}",
                            steps[count - 1]
                        );
                        crashes.push(Crash { what, marks: marks.clone(), tree });
                    }
                }
            }
        }
        crashes
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        records(|records| records.retain(|record| record.root != self.root));
    }
}

impl Crash {
    /// Writes the state into an empty directory.
    pub fn restore(&self, to: &Path) {
        for (path, content) in &self.tree {
            let path = to.join(path);
            match content {
                None => fs::create_dir_all(path).unwrap(),
                Some(content) => fs::write(path, content).unwrap(),
            }
        }
    }

    /// Whether this mark precedes the crash.
    pub fn after(&self, mark: &str) -> bool {
        self.marks.iter().any(|known| known == mark)
    }

    /// How many of these marks precede the crash.
    pub fn count(&self, mark: &str) -> usize {
        self.marks.iter().filter(|known| *known == mark).count()
    }
}

/// Records a step in the recording of the path.
pub fn record(what: &Operation<'_>) {
    records(|records| {
        let (Operation::Temporary(path)
        | Operation::Create(path)
        | Operation::CreateDir(path)
        | Operation::Append(path, _)
        | Operation::SetLen(path, _)
        | Operation::Rename(_, path)
        | Operation::Remove(path)
        | Operation::SyncFile(path)
        | Operation::SyncDir(path)
        | Operation::Foreign(path)) = what;
        let path = real(path);
        if let Some(record) = records.iter_mut().find(|record| path.starts_with(&record.root)) {
            record.note(what, path);
        }
    });
}

impl Record {
    fn note(&mut self, what: &Operation<'_>, path: PathBuf) {
        match what {
            Operation::Temporary(_) => {
                let content = fs::read(&path).unwrap();
                let inode = self.link(path, None);
                self.steps.push(Step::Edit(inode, Edit::Append(content)));
            }
            Operation::Create(_) => drop(self.link(path, None)),
            Operation::CreateDir(_) => {
                self.names.insert(path.clone(), None);
                self.steps.push(Step::Link { name: path, inode: None, from: None });
            }
            Operation::Append(_, bytes) => {
                let inode = self.inode(&path);
                self.steps.push(Step::Edit(inode, Edit::Append(bytes.to_vec())));
            }
            Operation::SetLen(_, length) => {
                let inode = self.inode(&path);
                self.steps.push(Step::Edit(inode, Edit::SetLen(*length)));
            }
            Operation::Rename(from, _) => {
                let from = real(from);
                // A directory move includes everything below it.
                let moved: Vec<PathBuf> =
                    self.names.keys().filter(|name| name.starts_with(&from)).cloned().collect();
                let mut moves = Vec::new();
                for name in moved {
                    let inode = self.names.remove(&name).unwrap();
                    let rest = name.strip_prefix(&from).unwrap();
                    let to = if rest.as_os_str().is_empty() { path.clone() } else { path.join(rest) };
                    self.names.insert(to.clone(), inode);
                    moves.push((name, to, inode));
                }
                self.steps.push(match moves.as_slice() {
                    [(from, name, inode)] => {
                        Step::Link { name: name.clone(), inode: *inode, from: Some(from.clone()) }
                    }
                    _ => Step::Move(moves),
                });
            }
            Operation::Remove(_) => {
                self.names.remove(&path);
                self.steps.push(Step::Unlink(path));
            }
            Operation::SyncFile(_) => {
                let inode = self.inode(&path);
                self.steps.push(Step::SyncFile(inode));
            }
            Operation::SyncDir(_) => self.steps.push(Step::SyncDir(path)),
            Operation::Foreign(_) => self.adopt(&path),
        }
    }

    fn link(&mut self, path: PathBuf, from: Option<PathBuf>) -> Inode {
        let inode = self.inodes;
        self.inodes += 1;
        self.names.insert(path.clone(), Some(inode));
        self.steps.push(Step::Link { name: path, inode: Some(inode), from });
        inode
    }

    fn inode(&self, path: &Path) -> Inode {
        let known = self.names.get(path).copied().flatten();
        known.unwrap_or_else(|| panic!("`{}` was not created through `durable`", path.display()))
    }

    /// Takes the content of a directory as durable.
    fn adopt(&mut self, dir: &Path) {
        self.names.retain(|name, _| !name.starts_with(dir));
        let mut found = Vec::new();
        for entry in walkdir::WalkDir::new(dir) {
            let entry = entry.unwrap();
            let mut inode = None;
            if entry.file_type().is_file() {
                inode = Some(self.inodes);
                self.inodes += 1;
                let content = fs::read(entry.path()).unwrap();
                self.steps.push(Step::Edit(self.inodes - 1, Edit::Append(content)));
                self.steps.push(Step::SyncFile(self.inodes - 1));
            }
            self.names.insert(entry.path().to_path_buf(), inode);
            found.push((entry.path().to_path_buf(), inode));
        }
        self.steps.push(Step::Foreign(dir.to_path_buf(), found));
    }
}

/// What a crash leaves of unsynced data.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Lost,
    Torn,
    Zeroed,
    Kept,
}

/// What a crash leaves of the unsynced data of every file.
#[derive(Debug, Clone, Copy)]
struct Content {
    all: Fate,
    /// One file that differs from the others.
    but: Option<(Inode, Fate)>,
}

impl Content {
    fn of(&self, inode: Inode) -> Fate {
        self.but.filter(|(of, _)| *of == inode).map_or(self.all, |(_, fate)| fate)
    }
}

/// All files share a fate, or one of several with unsynced data has another one.
fn contents(steps: &[Step]) -> Vec<Content> {
    let damages = [Fate::Lost, Fate::Torn, Fate::Zeroed];
    let mut contents: Vec<Content> =
        damages.iter().chain(&[Fate::Kept]).map(|all| Content { all: *all, but: None }).collect();
    let mut unsynced = BTreeSet::new();
    for step in steps {
        match step {
            Step::Edit(inode, _) => drop(unsynced.insert(*inode)),
            Step::SyncFile(inode) => drop(unsynced.remove(inode)),
            _ => {}
        }
    }
    if unsynced.len() > 1 {
        for inode in unsynced {
            contents.extend(damages.map(|fate| Content { all: Fate::Kept, but: Some((inode, fate)) }));
            contents.push(Content { all: Fate::Lost, but: Some((inode, Fate::Kept)) });
        }
    }
    contents
}

/// The subsets of name changes that a crash may keep: the durable ones, plus either the first few others in
/// order or those of one directory.
fn name_choices(steps: &[Step]) -> Vec<(String, BTreeSet<usize>)> {
    let dir_of = |step: &Step| match step {
        Step::Link { name, .. } | Step::Unlink(name) => name.parent().map(Path::to_path_buf),
        // The first entry is the directory itself.
        Step::Move(moves) => moves.first().and_then(|(_, to, _)| to.parent()).map(Path::to_path_buf),
        _ => None,
    };
    let (mut durable, mut open) = (BTreeSet::new(), Vec::new());
    for (at, step) in steps.iter().enumerate() {
        if matches!(step, Step::Foreign(..)) {
            durable.insert(at);
        }
        let Some(dir) = dir_of(step) else { continue };
        let synced = |later: &Step| matches!(later, Step::SyncDir(path) if *path == dir);
        if steps[at..].iter().any(synced) {
            durable.insert(at);
        } else {
            open.push((at, dir));
        }
    }
    let mut choices = Vec::new();
    for first in 0..=open.len() {
        let kept = open[..first].iter().map(|(at, _)| *at);
        choices.push((
            format!("first {first} of {}", open.len()),
            durable.iter().copied().chain(kept).collect(),
        ));
    }
    let dirs: BTreeSet<&PathBuf> = open.iter().map(|(_, dir)| dir).collect();
    if dirs.len() > 1 {
        for dir in dirs {
            let kept = open.iter().filter(|(_, of)| of == dir).map(|(at, _)| *at);
            choices.push((format!("in {}", dir.display()), durable.iter().copied().chain(kept).collect()));
        }
    }
    choices
}

fn tree(steps: &[Step], applied: &BTreeSet<usize>, content: &Content) -> Tree {
    let mut names: BTreeMap<PathBuf, Option<Inode>> = BTreeMap::new();
    let mut root = PathBuf::new();
    for (at, step) in steps.iter().enumerate().filter(|(at, _)| applied.contains(at)) {
        match step {
            Step::Link { name, inode, from } => {
                from.as_ref().map(|from| names.remove(from));
                names.insert(name.clone(), *inode);
            }
            Step::Move(moves) => {
                for (from, to, inode) in moves {
                    names.remove(from);
                    names.insert(to.clone(), *inode);
                }
            }
            Step::Unlink(name) => drop(names.remove(name)),
            Step::Foreign(dir, found) => {
                if root.as_os_str().is_empty() {
                    root.clone_from(dir);
                }
                names.retain(|name, _| !name.starts_with(dir));
                names.extend(found.iter().cloned());
            }
            _ => unreachable!("step {at} is not about names"),
        }
    }
    let mut tree = Tree::new();
    for (name, inode) in &names {
        let has_parents = name
            .ancestors()
            .skip(1)
            .take_while(|dir| dir.starts_with(&root))
            .all(|dir| names.get(dir) == Some(&None));
        let relative = name.strip_prefix(&root).unwrap();
        if has_parents && !relative.as_os_str().is_empty() {
            tree.insert(relative.to_path_buf(), inode.map(|inode| bytes(steps, inode, content.of(inode))));
        }
    }
    tree
}

/// Content of a file after the crash.
fn bytes(steps: &[Step], inode: Inode, fate: Fate) -> Vec<u8> {
    let synced = steps.iter().rposition(|step| matches!(step, Step::SyncFile(of) if *of == inode));
    let apply = |bytes: &mut Vec<u8>, edit: &Edit| match edit {
        Edit::Append(more) => bytes.extend(more),
        Edit::SetLen(length) => bytes.resize(usize::try_from(*length).unwrap(), 0),
    };
    let (mut durable, mut whole) = (Vec::new(), Vec::new());
    for (at, step) in steps.iter().enumerate() {
        let Step::Edit(of, edit) = step else { continue };
        if *of == inode {
            apply(&mut whole, edit);
            if synced.is_some_and(|synced| at < synced) {
                apply(&mut durable, edit);
            }
        }
    }
    match fate {
        Fate::Kept => whole,
        Fate::Torn if whole.len() > durable.len() => {
            whole.truncate(usize::midpoint(durable.len(), whole.len()));
            whole
        }
        Fate::Zeroed if whole.len() > durable.len() => {
            durable.resize(whole.len(), 0);
            durable
        }
        Fate::Lost | Fate::Torn | Fate::Zeroed => durable,
    }
}

/// Canonical path; its last component may not exist anymore.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap();
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => path,
    }
}

fn records<T>(work: impl FnOnce(&mut Vec<Record>) -> T) -> T {
    work(&mut RECORDS.lock().unwrap_or_else(PoisonError::into_inner))
}
