//! Builds the next state of a clone in a replica that no reader sees yet.

use std::fs;
use std::io::{Seek as _, Write as _};
use std::path::Path;

use anyhow::Context as _;

use super::clone_state::{CloneState, named};
use super::failure::{Failure, FailureKind};
use super::modules::{Modules, UntrackedFiles};
use super::record::CloneRecord;
use super::registry::Benchmark;
use super::step::SyncStep;
use super::update::Options;
use super::upstream::Upstream;
use super::{config, save};
use crate::git::{GitError, IsolatedRepo, LFS_FILTER, Transport, has_lfs};
use crate::util::path::quoted;
use crate::util::regular_file;

/// The ref under which a replica keeps fetched commits until they are named.
const FETCHED: &str = "refs/sync/fetched";
/// Repack if there are more packs than this.
const MOST_PACKS: usize = 50;
/// The largest `.gitattributes` that is read.
const LONGEST_ATTRIBUTES: u64 = 1 << 20;

/// What to check out.
pub(super) struct CheckoutOptions<'f> {
    pub(super) benchmark: &'f Benchmark,
    pub(super) url: &'f str,
    pub(super) reference: Option<&'f str>,
    pub(super) upstream: &'f Upstream,
    pub(super) reach: &'f Transport,
    pub(super) options: &'f Options,
    pub(super) progress: &'f dyn Fn(SyncStep),
}

/// The result of a checkout.
#[derive(Debug, Default)]
pub(super) struct CheckedOut {
    /// The bytes received.
    pub(super) received: u64,
    /// The ref that `--reset` saved the old state under.
    pub(super) saved: Option<String>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

/// The remote changed between two requests.
#[derive(Debug, thiserror::Error)]
#[error("the remote keeps changing")]
pub(super) struct RemoteMoved;

impl CheckoutOptions<'_> {
    /// Fills `tree`, which is empty or a replica of the clone `from`, with the remote's state.
    pub(super) fn fill(&self, tree: &Path, from: Option<&CloneState>) -> anyhow::Result<CheckedOut> {
        let git_dir = tree.join(".git");
        let commit = &self.upstream.commit;
        let with_lfs = self.options.lfs || from.is_some_and(|view| view.has_lfs);
        let place = place(&git_dir, tree, from, with_lfs);
        if self.options.lfs && !has_lfs()? {
            let failure = Failure::new(FailureKind::Missing, "`--lfs` needs git-lfs, which is not installed");
            return Err(failure
                .fix("install git-lfs, or omit `--lfs` to get pointers instead of large files")
                .into());
        }
        let before = from
            .map(|_| regular_file::read(&git_dir.join("config"), regular_file::SETTINGS))
            .transpose()
            .context("cannot read the clone's configuration")?;
        let format = if commit.len() == 64 { "sha256" } else { "sha1" };
        if from.is_none() {
            place.init(format)?;
        }
        let is_partial = from.is_none_or(|view| view.is_partial);
        let is_shallow = from.is_none_or(|view| view.is_shallow);
        config::write(&git_dir, self.url, format, is_partial)?;
        let modules = Modules::disarm(&place)?;
        let packs_before = packs(&git_dir);
        self.fetch(&place, is_shallow, is_partial)?;
        let is_dirty = self.options.reset
            && from.is_some_and(|view| view.changed().is_ok_and(|changed| !changed.is_empty()));
        let saved = match from.filter(|_| self.options.reset) {
            Some(view) => save::save(&place, view, commit, is_dirty)?,
            None => None,
        };
        self.check_out(&place, from)?;
        self.name(&place)?;
        let mut filled =
            CheckedOut { saved, received: received(&git_dir, &packs_before), ..CheckedOut::default() };
        self.extras(&place, tree, with_lfs, &mut filled)?;
        if packs(&git_dir).len() > MOST_PACKS {
            place.run("gc", &["--quiet"])?;
        }
        modules.hand_over()?;
        config::hand_over(&git_dir, before, self.url, self.upstream, with_lfs)?;
        let branch = self.upstream.branch().map(ToOwned::to_owned);
        CloneRecord { reference: self.reference.map(ToOwned::to_owned), branch, commit: commit.clone() }
            .write(&git_dir)?;
        Ok(filled)
    }

    /// Fetches the commit, its trees and all its files.
    fn fetch(&self, place: &IsolatedRepo, is_shallow: bool, is_partial: bool) -> anyhow::Result<()> {
        let told = |line: &str| {
            if let Some(step) = SyncStep::of_line(line) {
                (self.progress)(step);
            }
        };
        (self.progress)(SyncStep::Fetching { percent: 0, bytes: 0 });
        let refspec = format!("+{}:{FETCHED}", self.upstream.name);
        let mut args = vec!["--progress", "--no-tags", "--no-write-fetch-head"];
        args.extend(is_shallow.then_some("--depth=1"));
        args.extend(is_partial.then_some("--filter=blob:none"));
        args.extend(["--", "origin", &refspec]);
        if let Err(error) = place.transfer(self.reach, "fetch", &args, None, &told) {
            return Err(self.explain(error));
        }
        let commit = place.ask("rev-parse", &["--verify", &format!("{FETCHED}^{{commit}}")])?;
        if commit != self.upstream.commit {
            return Err(RemoteMoved.into());
        }
        if !is_partial {
            return Ok(());
        }
        // Fetch all files at once, with progress; reading them later needs no network.
        let listed = place.run(
            "rev-list",
            &["--objects", "--no-walk", "--missing=print", "--no-object-names", "--end-of-options", &commit],
        )?;
        let missing: Vec<u8> = listed
            .split(|byte| *byte == b'\n')
            .filter_map(|line| line.strip_prefix(b"?"))
            .flat_map(|id| [id, b"\n"].concat())
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut input = tempfile::tempfile().context("cannot create a temporary file")?;
        input.write_all(&missing)?;
        input.rewind()?;
        let place = place.clone().with([("fetch.negotiationAlgorithm".to_owned(), "noop".to_owned())]);
        let args = [
            "--progress",
            "--no-tags",
            "--no-write-fetch-head",
            "--filter=blob:none",
            "--stdin",
            "--",
            "origin",
        ];
        place.transfer(self.reach, "fetch", &args, Some(&input), &told).map(drop)
    }

    /// Writes the files.
    fn check_out(&self, place: &IsolatedRepo, from: Option<&CloneState>) -> anyhow::Result<()> {
        let told = |line: &str| {
            if let Some(step) = SyncStep::of_line(line) {
                (self.progress)(step);
            }
        };
        (self.progress)(SyncStep::CheckingOut { percent: 0 });
        let commit = &self.upstream.commit;
        // Not `checkout`, which would overwrite ignored files.
        let args = match from {
            None => vec!["-v", "--reset", "-u", commit],
            Some(_) if self.options.reset => vec!["-v", "--reset", "-u", commit],
            Some(view) => {
                self.check_way(place, view)?;
                place.holds("update-index", &["-q", "--refresh"])?;
                vec!["-v", "-m", "-u", &view.head, commit]
            }
        };
        place.transfer(self.reach, "read-tree", &args, None, &told)?;
        place.holds("update-index", &["-q", "--refresh"]).map(drop)
    }

    /// Sets the refs of the commit.
    fn name(&self, place: &IsolatedRepo) -> anyhow::Result<()> {
        let commit = &self.upstream.commit;
        if let Some(branch) = self.upstream.branch() {
            place.run("update-ref", &["-m", "sync", &format!("refs/heads/{branch}"), commit])?;
            place.run("update-ref", &["-m", "sync", &format!("refs/remotes/origin/{branch}"), commit])?;
            place.run("symbolic-ref", &["-m", "sync", "HEAD", &format!("refs/heads/{branch}")])?;
        } else {
            if let Some(tag) = self.upstream.tag() {
                place.run("update-ref", &[&format!("refs/tags/{tag}"), FETCHED])?;
            }
            place.run("update-ref", &["-m", "sync", "--no-deref", "HEAD", commit])?;
        }
        place.run("update-ref", &["-d", FETCHED]).map(drop)
    }

    /// Submodules and large files: fetches them if requested, otherwise adds a note.
    fn extras(
        &self,
        place: &IsolatedRepo,
        tree: &Path,
        with_lfs: bool,
        filled: &mut CheckedOut,
    ) -> anyhow::Result<()> {
        let sync = self.benchmark.command();
        if tree.join(".gitmodules").is_file() {
            if self.options.submodules || place.git_dir().join("modules").is_dir() {
                let args = ["update", "--init", "--recursive", "--depth", "1"];
                let others = UntrackedFiles::list(place)?;
                place.transfer(self.reach, "submodule", &args, None, &|_| {})?;
                others.check(place)?;
            } else {
                filled
                    .notes
                    .push(format!("its submodules were not fetched; `{sync} --submodules` fetches them"));
            }
        }
        if with_lfs {
            place.transfer(self.reach, "lfs", &["pull", "origin"], None, &|_| {})?;
        } else if uses_lfs(place, tree)? {
            filled.notes.push(format!("large files are pointers of git-lfs; `{sync} --lfs` fetches them"));
        }
        Ok(())
    }

    fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let git = error.downcast_ref::<GitError>();
        let is_unknown = git.is_some_and(|error| {
            ["couldn't find remote ref", "not our ref", "unadvertised object", "is not a commit"]
                .iter()
                .any(|words| error.stderr.contains(words))
        });
        if !is_unknown {
            return error;
        }
        let name = self.upstream.name.rsplit("refs/heads/").next().unwrap_or_default();
        let reason = format!("ref `{name}` of `{}` not found, or not accessible with this token", self.url);
        let fix = format!(
            "change `source.ref` of `{}` in `{}`",
            self.benchmark.id,
            self.benchmark.registry.display()
        );
        Failure::new(FailureKind::UnknownRef, reason).fix(fix).into()
    }

    /// Refuses to overwrite the user's files. Git itself would overwrite ignored ones.
    fn check_way(&self, place: &IsolatedRepo, view: &CloneState) -> anyhow::Result<()> {
        let files = save::in_the_way(place, view, &self.upstream.commit)?;
        let Some(file) = files.first() else { return Ok(()) };
        let path = self.benchmark.path.join(file);
        let (what, have) =
            if files.len() == 1 { ("is", "a file of that name") } else { ("are", "files of those names") };
        let reason = format!("{} {what} yours, and the new commit has {have}", named(&files));
        let fix = format!("mv {0} {0}.mine && {1}", quoted(&path), self.benchmark.command());
        Err(Failure::new(FailureKind::LocalChanges, reason).fix(fix).into())
    }
}

/// The replica, with those settings of the clone that run no programs.
fn place(git_dir: &Path, tree: &Path, from: Option<&CloneState>, with_lfs: bool) -> IsolatedRepo {
    let settings = from.map(|view| view.settings.clone()).unwrap_or_default();
    let settings = settings.into_iter().filter(|(key, _)| !key.starts_with("extensions."));
    let lfs = LFS_FILTER.map(|(key, value)| (key.to_owned(), value.to_owned()));
    IsolatedRepo::new(git_dir, tree).with(settings).with(lfs.into_iter().filter(|_| with_lfs))
}

/// Whether a `.gitattributes` of the commit names git-lfs.
pub(super) fn uses_lfs(place: &IsolatedRepo, tree: &Path) -> anyhow::Result<bool> {
    let listed = place.run("ls-files", &["-z", "--", ".gitattributes", "*/.gitattributes"])?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let has_filter = |name: &str| {
        let path = tree.join(name);
        let is_small =
            fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() <= LONGEST_ATTRIBUTES);
        is_small && fs::read(&path).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains("filter=lfs"))
    };
    Ok(listed.split('\0').filter(|name| !name.is_empty()).any(has_filter))
}

/// The packs of a repository and their sizes.
fn packs(git_dir: &Path) -> Vec<(std::ffi::OsString, u64)> {
    let entries = fs::read_dir(git_dir.join("objects/pack")).into_iter().flatten().filter_map(Result::ok);
    let packs =
        entries.filter(|entry| Path::new(&entry.file_name()).extension().is_some_and(|end| end == "pack"));
    packs.filter_map(|entry| Some((entry.file_name(), entry.metadata().ok()?.len()))).collect()
}

fn received(git_dir: &Path, before: &[(std::ffi::OsString, u64)]) -> u64 {
    packs(git_dir)
        .iter()
        .filter(|(name, _)| !before.iter().any(|(known, _)| known == name))
        .map(|(_, size)| size)
        .sum()
}
