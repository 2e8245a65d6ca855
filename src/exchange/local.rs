//! A bare git repository on disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::repair::{is_damage, repair_files};
use super::retry::Retries;
use super::rows;
use crate::git::{CommitOutcome, GitError, Repository};
use crate::model::{BatchId, Digest, Exit, Failure};
use crate::protocol::names::{
    ARTIFACTS_FOLDER, BATCH_FILE, HANDOVER_FOLDER, RESULTS_FOLDER, handover_branch,
};
use crate::protocol::{BatchManifest, Split, archive};
use crate::util::durable;
use crate::util::own_dir;
use crate::util::path::quoted;

/// Every commit creates a pack; more than this slow down reading.
const MOST_PACKS: usize = 100;
/// How many known batches a message lists.
const LISTED: usize = 5;

/// Batches, journals and results in a bare git repository on disk.
///
/// Its methods block, and may be called from several threads and processes at once.
#[derive(Debug)]
pub struct LocalExchange {
    pub(super) repository: Repository,
    /// Its path as the user gave it.
    shown: PathBuf,
    /// The folder of the results branches.
    pub(super) results_prefix: String,
    /// The size at which a results file is full, and its maximum; smaller in tests.
    pub(super) rows_bytes: (u64, u64),
    /// How a batch is split into files; smaller ones in tests.
    pub(super) split: Split,
}

/// The result of storing a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreResult {
    /// It is new.
    New,
    /// It is already stored: a resume.
    AlreadyThere,
    /// It was collected before and is stored again: a resume.
    Again,
}

impl LocalExchange {
    /// The default path of the exchange.
    pub const DEFAULT_PATH: &str = ".run-evals/exchange.git";

    /// Opens the exchange, or creates it if the path is new or empty.
    pub fn open_or_create(path: &Path) -> anyhow::Result<Self> {
        own_dir::check(path)?;
        let was_damaged = repair_files(path)?;
        if Repository::is_at(path) {
            return Self::repaired(Repository::open(path)?, path, was_damaged);
        }
        let empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        if path.symlink_metadata().is_ok() && !empty {
            return Err(not_an_exchange(path).hint("pass a new path with `--exchange`").into());
        }
        let above = path.ancestors().skip(1).find(|folder| folder.symlink_metadata().is_ok());
        if let Some(above) = above.filter(|above| !above.is_dir()) {
            let message =
                format!("cannot make `{}`: `{}` is not a directory", path.display(), above.display());
            return Err(Failure::config(message).hint("pass another path with `--exchange`").into());
        }
        Ok(Self::new(Repository::init(path)?, path))
    }

    /// Opens an existing exchange.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        own_dir::check(path)?;
        let cannot = |error: anyhow::Error| match error.downcast::<Failure>() {
            Ok(failure) => failure,
            Err(error) => Failure::new(Exit::Failure, format!("cannot open `{}`: {error:#}", path.display())),
        };
        let was_damaged = repair_files(path).map_err(cannot)?;
        if Repository::is_at(path) {
            let repository = Repository::open(path).map_err(cannot)?;
            return Self::repaired(repository, path, was_damaged).map_err(cannot);
        }
        if path.symlink_metadata().is_ok() {
            return Err(not_an_exchange(path)
                .hint("`--exchange` must be one that `run-evals eval` or `run-evals dispatch` created"));
        }
        Err(Failure::config(format!("no exchange at `{}`", path.display()))
            .hint("`run-evals eval` and `run-evals dispatch` create one; `--exchange` sets another path"))
    }

    /// If files of an exchange were set aside, its branches may point to nothing.
    fn repaired(repository: Repository, path: &Path, was_damaged: bool) -> anyhow::Result<Self> {
        let exchange = Self::new(repository, path);
        if was_damaged {
            exchange.repair_all_branches()?;
        }
        Ok(exchange)
    }

    fn new(repository: Repository, path: &Path) -> Self {
        Self {
            repository,
            shown: path.to_path_buf(),
            results_prefix: RESULTS_FOLDER.to_owned(),
            rows_bytes: (rows::FULL, rows::LONGEST),
            split: Split::default(),
        }
    }

    /// The same exchange with another folder for results branches.
    #[must_use]
    pub fn with_results_prefix(self, prefix: &str) -> Self {
        Self { results_prefix: prefix.to_owned(), ..self }
    }

    /// The same exchange, with rows from artifacts instead of those on the results branches, which follow another repository and
    /// are overwritten.
    pub fn artifacts(&self) -> anyhow::Result<Self> {
        Ok(Self::new(self.repository.again(), &self.shown).with_results_prefix(ARTIFACTS_FOLDER))
    }

    /// The directory of the repository.
    pub fn path(&self) -> &Path {
        self.repository.dir()
    }

    /// Its path as the user gave it.
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// Stores a batch on the orphan branch `eval-batch/<id>`; another batch with that id is an error (exit 3).
    pub fn put_batch(&self, id: &BatchId, archive: &Path, digest: Digest) -> anyhow::Result<StoreResult> {
        let branch = handover_branch(id);
        let (mut retries, mut repaired) = (Retries::default(), false);
        loop {
            if let Some(there) = self.stored_digest(&branch)? {
                must_match(id, there, digest)?;
                return Ok(StoreResult::AlreadyThere);
            }
            let collected = self.results_manifest(id)?;
            if let Some(owner) = self.results_batch(id)? {
                must_match(id, owner, digest)?;
            }
            self.must_be_free(HANDOVER_FOLDER)?;

            // Random, so that two identical commands in the same second do not both claim the branch.
            let nonce = fastrand::u64(..);
            let message = format!("Hand over batch {id}\n\nbatch_sha256: {digest}\nnonce: {nonce:016x}\n");
            let committed = match self.commit_archive(&branch, &message, archive, digest) {
                Err(error) if !repaired && is_damage(&error) => {
                    self.repair_objects()?;
                    repaired = true;
                    continue;
                }
                committed => committed.map_err(|error| self.or_read_only(id, error))?,
            };
            match committed {
                // Git does not write an object that it already has, even if that is damaged.
                CommitOutcome::Done
                    if self.stored_digest(&branch).is_ok_and(|there| there == Some(digest)) =>
                {
                    return Ok(if collected.is_some() { StoreResult::Again } else { StoreResult::New });
                }
                CommitOutcome::Done if repaired => {
                    anyhow::bail!("cannot read the batch `{id}` from `{}`", self.shown.display());
                }
                CommitOutcome::Done => {
                    self.repair_objects()?;
                    self.delete_handover(id)?;
                    repaired = true;
                }
                CommitOutcome::LostRace(error) => retries.lost(error)?,
            }
        }
    }

    /// The error, or a clearer one if the exchange is read-only.
    fn or_read_only(&self, id: &BatchId, error: anyhow::Error) -> anyhow::Error {
        if rustix::fs::access(self.path().join("objects"), rustix::fs::Access::WRITE_OK).is_ok() {
            return error;
        }
        let shown = quoted(&self.shown);
        let message =
            format!("the exchange `{}` is read-only: it cannot store the batch `{id}`", self.shown.display());
        let hint = format!(
            "`run-evals collect {id} --exchange {shown}` collects the existing responses; to call the missing requests, make it writable"
        );
        Failure::config(message).hint(hint).into()
    }

    /// Writes the archive of a batch to the file `to`.
    pub fn get_batch(&self, id: &BatchId, to: &Path) -> anyhow::Result<()> {
        if self.find_batch(id, to)? { Ok(()) } else { Err(self.no_batch(id)?.into()) }
    }

    /// The same; `false` if the batch does not exist.
    fn find_batch(&self, id: &BatchId, to: &Path) -> anyhow::Result<bool> {
        let cannot_write = || format!("cannot write `{}`", to.display());
        let branch = handover_branch(id);
        let Some(tip) = self.repository.tip(&branch)? else { return Ok(false) };
        let mut temporary = durable::temporary_for(to).with_context(cannot_write)?;
        let found = self.read_archive(&tip, &branch, |content| {
            io::copy(content, &mut temporary).map(drop).with_context(cannot_write)
        })?;
        if found.is_some() {
            durable::place(temporary, to).with_context(cannot_write)?;
        }
        Ok(found.is_some())
    }

    /// Unpacks a batch into the new directory `dir` if its archive has the expected digest, and returns the digest.
    pub fn unpack_batch(
        &self,
        id: &BatchId,
        expected: Option<Digest>,
        dir: &Path,
    ) -> anyhow::Result<(BatchManifest, Digest)> {
        match self.find_unpacked(id, expected, dir)? {
            Some(batch) => Ok(batch),
            None => Err(self.no_batch(id)?.into()),
        }
    }

    /// The same; `None` if the batch does not exist.
    pub fn find_unpacked(
        &self,
        id: &BatchId,
        expected: Option<Digest>,
        dir: &Path,
    ) -> anyhow::Result<Option<(BatchManifest, Digest)>> {
        let archive = dir.with_file_name(BATCH_FILE);
        if !self.find_batch(id, &archive)? {
            return Ok(None);
        }
        let manifest = archive::unpack(&archive, id, expected, &archive::Limits::default(), dir)?;
        let digest = expected.map_or_else(|| archive::digest(&archive, id), Ok)?;
        Ok(Some((manifest, digest)))
    }

    /// The digest of a stored batch.
    pub fn batch_digest(&self, id: &BatchId) -> anyhow::Result<Option<Digest>> {
        self.stored_digest(&handover_branch(id))
    }

    /// The archive size of a stored batch.
    pub fn batch_bytes(&self, id: &BatchId) -> anyhow::Result<Option<u64>> {
        let branch = handover_branch(id);
        let Some(tip) = self.repository.tip(&branch)? else { return Ok(None) };
        self.read_archive(&tip, &branch, |content| Ok(io::copy(content, &mut io::sink()).map(drop)?))
    }

    /// Deletes the hand-over branch, after everything is collected.
    pub fn delete_batch(&self, id: &BatchId) -> anyhow::Result<()> {
        self.delete_handover(id)?;
        self.tidy();
        Ok(())
    }

    /// Deletes the branch, even while other commands change other branches.
    pub(super) fn delete_handover(&self, id: &BatchId) -> anyhow::Result<()> {
        let mut retries = Retries::default();
        loop {
            match self.repository.delete_branch(&handover_branch(id)) {
                Ok(()) => return Ok(()),
                Err(error) => match error.downcast::<GitError>() {
                    Ok(error) if error.stderr.contains(".lock") => retries.lost(error)?,
                    Ok(error) => return Err(error.into()),
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Packs the repository, if worthwhile.
    pub(super) fn tidy(&self) {
        if !self.repository.is_untidy(MOST_PACKS) {
            return;
        }
        // Otherwise git deletes the rows of a branch whose ref was lost on a failing disk.
        let tidied = self.restore_all_branches().and_then(|()| self.repository.tidy(MOST_PACKS));
        if let Err(error) = tidied {
            // Nothing depends on it, and the next run retries.
            tracing::debug!("cannot pack the exchange: {error:#}");
        }
    }

    /// The stored batches, ordered by id.
    pub fn batches(&self) -> anyhow::Result<Vec<BatchId>> {
        self.ids(HANDOVER_FOLDER)
    }

    fn ids(&self, folder: &str) -> anyhow::Result<Vec<BatchId>> {
        let branches = self.repository.branches(folder)?;
        Ok(branches.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// A branch named like a folder of branches makes every branch in that folder impossible.
    pub(super) fn must_be_free(&self, folder: &str) -> anyhow::Result<()> {
        let ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
        for end in ends {
            let name = &folder[..end];
            if self.repository.tip(name)?.is_some() {
                let message = format!("the branch `{name}` is in the way of every branch `{folder}/…`");
                return Err(Failure::config(message)
                    .hint(format!("rename it: `git branch -m {name} <another-name>`"))
                    .into());
            }
        }
        Ok(())
    }

    pub(super) fn stored_digest(&self, branch: &str) -> anyhow::Result<Option<Digest>> {
        // Use the commit: the branch may appear or vanish between two calls.
        let Some(tip) = self.repository.tip(branch)? else {
            return Ok(None);
        };
        let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
        let found = self.read_archive(&tip, branch, |content| {
            loop {
                match content.read(&mut buffer)? {
                    0 => return Ok(()),
                    length => hasher.update(&buffer[..length]),
                }
            }
        })?;
        if found.is_none() {
            return Err(no_archive(branch).into());
        }
        Ok(Some(Digest::finish(hasher)))
    }

    fn no_batch(&self, id: &BatchId) -> anyhow::Result<Failure> {
        let branch = handover_branch(id);
        if self.repository.tip(&branch)?.is_some() {
            return Ok(no_archive(&branch));
        }
        let failure = Failure::config(format!("no batch `{id}` in the exchange `{}`", self.shown.display()));
        let rows = self.journal_rows(id)?;
        if rows > 0 {
            return Ok(failure.hint(format!(
                "its journal has {rows} rows: the `eval` or `dispatch` command that made the batch, with `--batch-id {id}`, \
                 uses them and calls what is missing"
            )));
        }
        let branch = self.results_branch(id);
        if self.repository.tip(&branch)?.is_some() {
            return Ok(
                failure.hint(format!("its results are on the branch `{branch}`, which `collect` reads"))
            );
        }
        Ok(match (listed(&self.batches()?), listed(&self.ids(RESULTS_FOLDER)?)) {
            (None, None) => failure.hint("it has no batches: `--exchange` sets another path"),
            (Some(batches), None) => failure.hint(format!("it has {batches}")),
            (None, Some(results)) => failure.hint(format!("it has only the results of {results}")),
            (Some(batches), Some(results)) => {
                failure.hint(format!("it has {batches}, and the results of {results}"))
            }
        })
    }
}

/// Refuses a batch (exit 3) whose id belongs to another one.
pub fn must_match(id: &BatchId, there: Digest, new: Digest) -> Result<(), Failure> {
    if there == new {
        return Ok(());
    }
    let message =
        format!("another batch already has the id `{id}`: its digest is {there}, the new one's is {new}");
    Err(Failure::config(message).hint("choose another `--batch-id`, or omit it to get a new one"))
}

fn not_an_exchange(path: &Path) -> Failure {
    Failure::config(format!("`{}` is not a bare git repository", path.display()))
}

fn no_archive(branch: &str) -> Failure {
    Failure::config(format!("the branch `{branch}` exists but has no `{BATCH_FILE}`"))
        .hint("delete the branch, or choose another `--batch-id`")
}

/// The last of these ids, which by default begin with their time.
fn listed(ids: &[BatchId]) -> Option<String> {
    let newest: Vec<String> = ids.iter().rev().take(LISTED).map(|id| format!("`{id}`")).collect();
    let others = if ids.len() > LISTED { " and others" } else { "" };
    (!newest.is_empty()).then(|| format!("{}{others}", newest.join(", ")))
}
