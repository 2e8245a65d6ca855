//! One sync of one benchmark.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::address;
use super::checkout::{CheckedOut, CheckoutOptions, RemoteMoved, uses_lfs};
use super::clone_state::{CloneState, PathState, look, named};
use super::exchange::{exchange, repair, retire};
use super::failure::{Failure, FailureKind, mount_point};
use super::history::SyncRecord;
use super::lock::lock;
use super::record::CloneRecord;
use super::registry::{Benchmark, GitSource};
use super::staging_dir::{StagingDir, place};
use super::state::State;
use super::step::SyncStep;
use super::upstream::{Relation, Upstream};
use crate::config::Env;
use crate::git::Transport;
use crate::util::path::quoted;
use crate::util::redact::Redactor;

/// How often a sync restarts if the remote changes meanwhile.
const TRIES: usize = 3;

/// The options of a sync.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command")]
pub struct Options {
    /// Where tokens come from.
    pub env: Env,
    /// Discard what is in the way.
    pub reset: bool,
    /// Allow repositories on this machine.
    pub allow_local: bool,
    /// Fetch submodules.
    pub submodules: bool,
    /// Fetch large files.
    pub lfs: bool,
    /// Use no network (`status` only).
    pub offline: bool,
}

/// What a sync did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The benchmark was new.
    Cloned,
    /// It has another commit now.
    Updated,
    /// It was up to date.
    Unchanged,
    /// It has no source and was not inspected.
    Local,
}

/// A benchmark that matches its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SyncResult {
    /// What was done.
    pub change: Change,
    /// The commit before, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The commit now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The bytes received.
    pub received_bytes: u64,
    /// The ref in the clone under which `--reset` saved the old state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved: Option<String>,
    /// Notes for the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Brings a benchmark up to date, or leaves it unchanged with an error. Blocks; calls `progress` for each step.
pub fn sync_one(
    benchmark: &Benchmark,
    options: &Options,
    progress: impl Fn(SyncStep),
) -> Result<SyncResult, Failure> {
    let Some(source) = &benchmark.source else {
        return Ok(SyncResult {
            change: Change::Local,
            from: None,
            commit: None,
            received_bytes: 0,
            saved: None,
            notes: Vec::new(),
        });
    };
    let (reach, token) = address::reach(&source.url, options.allow_local, options.env.process());
    let result = sync(benchmark, source, options, &reach, &progress).map_err(|error| {
        let mut failure = Failure::of(&error, benchmark);
        // No message should contain the token; this guarantees it.
        failure.reason = Redactor::new(&token).redact(failure.reason);
        failure
    });
    // If the registry's directory is read-only, the last sync is not recorded.
    let record = SyncRecord::of(&result);
    let _ = State::update(&benchmark.registry, &benchmark.id, |state| state.record(record));
    progress(SyncStep::Done);
    result
}

/// Refuses a repository on this machine.
pub(super) fn check_address(
    source: &GitSource,
    options: &Options,
    benchmark: &Benchmark,
) -> Result<(), Failure> {
    if address::is_local(&source.url) && !options.allow_local {
        let reason = format!("`{}` is a directory on this machine", source.url);
        return Err(Failure::new(FailureKind::LocalAddress, reason)
            .fix(format!("{} --allow-local", benchmark.command())));
    }
    Ok(())
}

/// The directory, with links resolved.
pub(super) fn real(path: &Path) -> anyhow::Result<PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() => {
            path.canonicalize().with_context(|| format!("`{}` is a dangling link", path.display()))
        }
        _ => Ok(path.to_path_buf()),
    }
}

/// The lock file for syncs of this clone.
pub(super) fn lock_file(clone: &Path) -> anyhow::Result<PathBuf> {
    let (parent, name) = place(clone)?;
    Ok(parent.join(format!(".{name}.sync.lock")))
}

fn sync(
    benchmark: &Benchmark,
    source: &GitSource,
    options: &Options,
    reach: &Transport,
    progress: &dyn Fn(SyncStep),
) -> anyhow::Result<SyncResult> {
    check_address(source, options, benchmark)?;
    let path = real(&benchmark.path)?;
    let (parent, _) = place(&path)?;
    fs::create_dir_all(&parent).with_context(|| format!("cannot make `{}`", parent.display()))?;
    let device = |path: &Path| fs::symlink_metadata(path).ok().map(|meta| meta.dev());
    if device(&path).is_some_and(|own| Some(own) != device(&parent)) {
        return Err(mount_point(benchmark).into());
    }
    let _lock = lock(&lock_file(&path)?, || progress(SyncStep::Waiting))?;
    let mut notes: Vec<String> = repair(&path)?.iter().map(|kept| kept_note(kept)).collect();
    let sync = Sync { benchmark, source, options, reach, progress, path: &path };
    let mut tries = 0;
    loop {
        tries += 1;
        match sync.once() {
            Err(error) if tries < TRIES && error.downcast_ref::<RemoteMoved>().is_some() => {}
            done => {
                let mut synced = done?;
                notes.append(&mut synced.notes);
                return Ok(SyncResult { notes, ..synced });
            }
        }
    }
}

struct Sync<'s> {
    benchmark: &'s Benchmark,
    source: &'s GitSource,
    options: &'s Options,
    reach: &'s Transport,
    progress: &'s dyn Fn(SyncStep),
    path: &'s Path,
}

impl Sync<'_> {
    fn once(&self) -> anyhow::Result<SyncResult> {
        // Before any network access: what is refused here is refused offline, too.
        let found = look(self.benchmark, self.path)?;
        if let PathState::Clone(view) = &found {
            self.check_clone(view)?;
        }
        (self.progress)(SyncStep::Asking);
        let mut upstream = Upstream::ask(self.reach, self.source, self.benchmark)?;
        match found {
            PathState::Nothing => self.put(None, &upstream),
            PathState::Clone(view) if self.is_current(&view, &mut upstream)? => {
                self.unchanged(&view, &upstream)
            }
            PathState::Clone(view) => self.put(Some(&view), &upstream),
        }
    }

    /// Refuses a clone that was changed since the last sync.
    fn check_clone(&self, view: &CloneState) -> anyhow::Result<()> {
        if self.options.reset {
            return Ok(());
        }
        let (shown, at) = (self.benchmark.path.display(), quoted(&self.benchmark.path));
        let refuse = |kind, reason: String, fix: String| Err(Failure::new(kind, reason).fix(fix).into());
        let reset = self.reset();
        if !view.origin.as_deref().is_some_and(|origin| address::same(origin, &self.source.url)) {
            let origin =
                view.origin.as_deref().map_or_else(|| "nothing".to_owned(), address::without_userinfo);
            let reason = format!(
                "`{shown}` is a clone of `{}`, not of `{}`",
                crate::model::printable(&origin),
                self.source.url
            );
            return refuse(FailureKind::OtherUrl, reason, reset);
        }
        if let Some(record) = &view.record
            && record.branch != view.branch
        {
            let (now, back) = (view.branch.as_deref(), record.branch.as_deref());
            let is = now.map_or_else(
                || format!("the commit {} by itself", short(&view.head)),
                |branch| format!("the branch `{branch}`"),
            );
            let was = back.map_or_else(|| short(&record.commit).to_owned(), |branch| format!("`{branch}`"));
            let reason = format!("`{shown}` has {is} checked out, but the last sync left {was} there");
            let fix =
                back.map_or(reset, |branch| format!("git -C {at} switch {}", quoted(Path::new(branch))));
            return refuse(FailureKind::CheckedOut, reason, fix);
        }
        let changed = view.changed()?;
        if !changed.is_empty() {
            let reason = format!("`{shown}` has local changes: {}", named(&changed));
            return refuse(FailureKind::LocalChanges, reason, format!("git -C {at} stash, or {reset}"));
        }
        Ok(())
    }

    /// Whether the clone is current; refuses one that cannot be updated.
    fn is_current(&self, view: &CloneState, upstream: &mut Upstream) -> anyhow::Result<bool> {
        if self.options.reset {
            let is_same = view.head == upstream.commit
                && view.branch.as_deref() == upstream.branch()
                && view.origin.as_deref() == Some(self.source.url.as_str())
                && view.changed()?.is_empty();
            return Ok(is_same && !self.wants_more(view)?);
        }
        let is_followed = match &view.record {
            Some(record) => record.reference != self.source.reference,
            None => view.branch.as_deref() != upstream.branch(),
        };
        let has_own = view.has_own_commits()?;
        if is_followed && !has_own {
            return Ok(view.head == upstream.commit
                && view.branch.as_deref() == upstream.branch()
                && !self.wants_more(view)?);
        }
        let (shown, url) = (self.benchmark.path.display(), &self.source.url);
        let refuse = |kind, reason| Err(Failure::new(kind, reason).fix(self.reset()).into());
        match upstream.relation(view, self.reach)? {
            Relation::Same => Ok(view.branch.as_deref() == upstream.branch() && !self.wants_more(view)?),
            Relation::Behind(_) => Ok(false),
            Relation::Ahead(count) if has_own => {
                let commits = if count == 1 { "1 commit".to_owned() } else { format!("{count} commits") };
                let reason = format!("`{shown}` has {commits} that `{url}` does not have");
                Err(Failure::new(FailureKind::Diverged, reason)
                    .fix(format!("git -C {} push, or {}", quoted(&self.benchmark.path), self.reset()))
                    .into())
            }
            Relation::Apart if has_own => refuse(
                FailureKind::Diverged,
                format!("`{shown}` and `{url}` have diverged: each has commits that the other does not have"),
            ),
            Relation::Ahead(_) | Relation::Apart => {
                let reason = format!(
                    "`{url}` was force-pushed: its history no longer has {}, which `{shown}` is at",
                    short(&view.head)
                );
                refuse(FailureKind::ForcePushed, reason)
            }
        }
    }

    /// Whether submodules or large files were requested that are missing.
    fn wants_more(&self, view: &CloneState) -> anyhow::Result<bool> {
        let tree = view.place.work_tree();
        let submodules = self.options.submodules && {
            let listed = view.place.ask("ls-files", &["--stage", "-z"])?;
            let links = listed.split('\0').filter(|line| line.starts_with("160000 "));
            let mut paths = links.filter_map(|line| line.split_once('\t')).map(|(_, path)| path);
            paths.any(|path| !tree.join(path).join(".git").exists())
        };
        Ok(submodules || self.options.lfs && !view.has_lfs && uses_lfs(&view.place, tree)?)
    }

    fn unchanged(&self, view: &CloneState, upstream: &Upstream) -> anyhow::Result<SyncResult> {
        let record = CloneRecord {
            reference: self.source.reference.clone(),
            branch: upstream.branch().map(ToOwned::to_owned),
            commit: view.head.clone(),
        };
        if view.record.as_ref() != Some(&record) {
            record.write(&view.git_dir)?;
        }
        Ok(SyncResult {
            change: Change::Unchanged,
            from: Some(view.head.clone()),
            commit: Some(view.head.clone()),
            received_bytes: 0,
            saved: None,
            notes: Vec::new(),
        })
    }

    /// Builds the next state next to the clone and swaps it in.
    fn put(&self, from: Option<&CloneState>, upstream: &Upstream) -> anyhow::Result<SyncResult> {
        self.check_lock()?;
        let workshop = StagingDir::open(self.path, from.map(|view| view.head.as_str()), self.options.reset)?;
        let made = self.make(&workshop, from, upstream);
        let filled = match made {
            Ok(filled) => filled,
            Err(error) => {
                workshop.remove();
                return Err(error);
            }
        };
        let mut notes = filled.notes;
        match (from, workshop.note()) {
            (Some(_), Some(note)) => match retire(&workshop, &note, self.path) {
                Ok(kept) => notes.extend(kept.map(|kept| kept_note(&kept))),
                // The benchmark is up to date; the next sync retries the cleanup.
                Err(error) => notes
                    .push(format!("the old directory is still in `{}`: {error:#}", workshop.dir.display())),
            },
            _ => workshop.remove(),
        }
        Ok(SyncResult {
            change: if from.is_some() { Change::Updated } else { Change::Cloned },
            from: from.map(|view| view.head.clone()),
            commit: Some(upstream.commit.clone()),
            received_bytes: filled.received,
            saved: filled.saved,
            notes,
        })
    }

    /// Refuses while another git process holds the index lock.
    fn check_lock(&self) -> anyhow::Result<()> {
        let file = self.path.join(".git/index.lock");
        if fs::symlink_metadata(&file).is_err() {
            return Ok(());
        }
        let reason =
            format!("another git process runs in `{}`, or was killed there", self.benchmark.path.display());
        let fix = format!("wait for it to finish; if there is none, rm {}", quoted(&file));
        Err(Failure::new(FailureKind::Place, reason).fix(fix).into())
    }

    fn make(
        &self,
        workshop: &StagingDir,
        from: Option<&CloneState>,
        upstream: &Upstream,
    ) -> anyhow::Result<CheckedOut> {
        let tree = workshop.tree();
        if from.is_some() {
            workshop.replicate(self.path)?;
        }
        let filling = CheckoutOptions {
            benchmark: self.benchmark,
            url: &self.source.url,
            reference: self.source.reference.as_deref(),
            upstream,
            reach: self.reach,
            options: self.options,
            progress: self.progress,
        };
        let filled = filling.fill(&tree, from)?;
        exchange(workshop, self.path)?;
        Ok(filled)
    }

    fn reset(&self) -> String {
        let local = if self.options.allow_local { " --allow-local" } else { "" };
        format!("{} --reset{local}", self.benchmark.command())
    }
}

fn kept_note(kept: &Path) -> String {
    format!("the clone was changed during the sync; the old state is kept in `{}`", kept.display())
}

pub(super) fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}
