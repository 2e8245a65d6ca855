//! A bare git repository on disk.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use super::races::Races;
use super::rows;
use crate::archive;
use crate::git::{Committed, NewFile, Repository};
use crate::model::{BatchId, Digest, Exit, Failure};

/// The folder of the hand-over branches.
pub(super) const HANDOVER: &str = "eval-batch";
/// The one file on a hand-over branch.
const ARCHIVE: &str = "batch.tar.gz";
/// The folder of the results branches, unless another one is chosen.
const RESULTS: &str = "eval-results";
/// The folder of the branches with rows that came as artifacts.
const ARTIFACTS: &str = "artifact-results";
/// Every commit leaves a pack; from here on they slow the reading down.
const MOST_PACKS: usize = 100;
/// How many known batches a message lists.
const LISTED: usize = 5;

/// Batches, journals and results in a bare git repository on disk.
///
/// Its methods block, and may be called from several threads and processes at once.
#[derive(Debug)]
pub struct LocalExchange {
    pub(super) repository: Repository,
    /// Its path as the user named it.
    shown: PathBuf,
    /// The folder of the results branches.
    pub(super) results_prefix: String,
    /// When a results file is full, and how long it may be; smaller in tests.
    pub(super) rows_bytes: (u64, u64),
}

/// What became of a batch that was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It is new.
    New,
    /// It was handed over before and still lies there: a resume.
    AlreadyThere,
    /// It was collected before and lies there again: a resume.
    Again,
}

impl LocalExchange {
    /// Where the exchange is, unless another path is chosen.
    pub const DEFAULT_PATH: &str = ".run-evals/exchange.git";

    /// Opens the exchange, and makes it first if the path is new or empty.
    pub fn open_or_create(path: &Path) -> anyhow::Result<Self> {
        if Repository::is_at(path) {
            return Ok(Self::new(Repository::open(path)?, path));
        }
        let empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
        if path.symlink_metadata().is_ok() && !empty {
            return Err(not_an_exchange(path)
                .hint("name a path that does not exist yet with `--exchange`, and it will be made")
                .into());
        }
        let above = path.ancestors().skip(1).find(|folder| folder.symlink_metadata().is_ok());
        if let Some(above) = above.filter(|above| !above.is_dir()) {
            let message = format!("cannot make `{}`: `{}` is no directory", path.display(), above.display());
            return Err(Failure::config(message).hint("name another path with `--exchange`").into());
        }
        Ok(Self::new(Repository::init(path)?, path))
    }

    /// Opens an exchange that is there.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        if Repository::is_at(path) {
            let repository = Repository::open(path).map_err(|error| {
                Failure::new(Exit::Failure, format!("cannot open `{}`: {error:#}", path.display()))
            })?;
            return Ok(Self::new(repository, path));
        }
        if path.symlink_metadata().is_ok() {
            return Err(not_an_exchange(path)
                .hint("`--exchange` names the one that `run-evals eval` or `run-evals dispatch` made"));
        }
        Err(Failure::config(format!("there is no exchange at `{}`", path.display()))
            .hint("`run-evals eval` and `run-evals dispatch` make it; `--exchange` names another path"))
    }

    fn new(repository: Repository, path: &Path) -> Self {
        Self {
            repository,
            shown: path.to_path_buf(),
            results_prefix: RESULTS.to_owned(),
            rows_bytes: (rows::FULL, rows::LONGEST),
        }
    }

    /// The same exchange with the results branches in another folder.
    #[must_use]
    pub fn with_results_prefix(self, prefix: &str) -> Self {
        Self { results_prefix: prefix.to_owned(), ..self }
    }

    /// The same exchange, with what came as artifacts instead of what is on the results branches: that follows another
    /// repository, and is overwritten.
    pub fn artifacts(&self) -> anyhow::Result<Self> {
        Ok(Self::new(Repository::open(self.path())?, &self.shown).with_results_prefix(ARTIFACTS))
    }

    /// The directory of the repository.
    pub fn path(&self) -> &Path {
        self.repository.dir()
    }

    /// Its path as the user named it.
    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// Hands a batch over on the orphan branch `eval-batch/<id>`; another batch with that id is an error (exit 3).
    pub fn put_batch(&self, id: &BatchId, archive: &Path, digest: Digest) -> anyhow::Result<Put> {
        let branch = handover_branch(id);
        let mut races = Races::default();
        loop {
            if let Some(there) = self.stored_digest(&branch)? {
                must_match(id, there, digest)?;
                return Ok(Put::AlreadyThere);
            }
            let collected = self.results_manifest(id)?;
            if let Some(owner) = self.results_batch(id)? {
                must_match(id, owner, digest)?;
            }
            self.must_be_free(HANDOVER)?;

            let cannot_read = || format!("cannot read the batch archive `{}`", archive.display());
            let file = File::open(archive).with_context(cannot_read)?;
            let size = file.metadata().with_context(cannot_read)?.len();
            let mut content = Checked { inner: file, hasher: Sha256::new(), expected: digest };
            let file = NewFile { path: ARCHIVE.to_owned(), size, content: &mut content };
            // Random, so that two commands which do the same in the same second do not both take the branch for theirs.
            let nonce = fastrand::u64(..);
            let message = format!("Hand over batch {id}\n\nbatch_sha256: {digest}\nnonce: {nonce:016x}\n");
            match self.repository.commit(&branch, None, &message, &mut [file])? {
                Committed::Done if collected.is_some() => return Ok(Put::Again),
                Committed::Done => return Ok(Put::New),
                Committed::LostRace(error) => races.lost(error)?,
            }
        }
    }

    /// Writes the archive of a batch to the file `to`.
    pub fn get_batch(&self, id: &BatchId, to: &Path) -> anyhow::Result<()> {
        if self.find_batch(id, to)? { Ok(()) } else { Err(self.no_batch(id)?.into()) }
    }

    /// The same; `false` if there is no such batch.
    pub fn find_batch(&self, id: &BatchId, to: &Path) -> anyhow::Result<bool> {
        let folder = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let cannot_write = || format!("cannot write `{}`", to.display());
        let name = format!("refs/heads/{}:{ARCHIVE}", handover_branch(id));
        let most = archive::Limits::default().archive_bytes;
        let found = self.repository.read_blob(&name, |size, content| {
            if size > most {
                let message = format!("the batch `{id}` has {size} bytes, more than {most}");
                return Err(Failure::config(message).hint("split it into several batches").into());
            }
            let mut temporary = NamedTempFile::new_in(folder).with_context(cannot_write)?;
            io::copy(content, &mut temporary).with_context(cannot_write)?;
            temporary.persist(to).map_err(|error| error.error).with_context(cannot_write)?;
            Ok(())
        })?;
        Ok(found.is_some())
    }

    /// How long the archive of a batch is that lies there.
    pub fn batch_bytes(&self, id: &BatchId) -> anyhow::Result<Option<u64>> {
        let name = format!("refs/heads/{}:{ARCHIVE}", handover_branch(id));
        self.repository.read_blob(&name, |size, content| {
            io::copy(content, &mut io::sink())?;
            Ok(size)
        })
    }

    /// Takes the hand-over branch away, once everything is collected.
    pub fn delete_batch(&self, id: &BatchId) -> anyhow::Result<()> {
        self.repository.delete_branch(&handover_branch(id))?;
        if let Err(error) = self.repository.tidy(MOST_PACKS) {
            // The batch is deleted all the same, and the next one tries again.
            tracing::debug!("cannot tidy the exchange: {error:#}");
        }
        Ok(())
    }

    /// The batches that lie there, in the order of their ids.
    pub fn batches(&self) -> anyhow::Result<Vec<BatchId>> {
        self.ids(HANDOVER)
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
        // By its commit: the branch may appear or vanish between two questions.
        let Some(tip) = self.repository.tip(branch)? else {
            return Ok(None);
        };
        let digest = self.repository.read_blob(&format!("{tip}:{ARCHIVE}"), |_, content| {
            let mut hasher = Sha256::new();
            let mut buffer = vec![0; 1 << 16];
            loop {
                match content.read(&mut buffer)? {
                    0 => return Ok(Digest::finish(hasher)),
                    length => hasher.update(&buffer[..length]),
                }
            }
        })?;
        if digest.is_none() {
            return Err(no_archive(branch).into());
        }
        Ok(digest)
    }

    fn no_batch(&self, id: &BatchId) -> anyhow::Result<Failure> {
        let branch = handover_branch(id);
        if self.repository.tip(&branch)?.is_some() {
            return Ok(no_archive(&branch));
        }
        let failure =
            Failure::config(format!("there is no batch `{id}` in the exchange `{}`", self.shown.display()));
        let branch = self.results_branch(id);
        if self.repository.tip(&branch)?.is_some() {
            return Ok(
                failure.hint(format!("its results are on the branch `{branch}`, which `collect` reads"))
            );
        }
        Ok(match (listed(&self.batches()?), listed(&self.ids(RESULTS)?)) {
            (None, None) => failure.hint("it has no batch at all: `--exchange` names another path"),
            (Some(batches), None) => failure.hint(format!("it has {batches}")),
            (None, Some(results)) => failure.hint(format!("it has only the results of {results}")),
            (Some(batches), Some(results)) => {
                failure.hint(format!("it has {batches}, and the results of {results}"))
            }
        })
    }
}

/// Reads a file and fails at its end if it is not the expected one.
struct Checked<R> {
    inner: R,
    hasher: Sha256,
    expected: Digest,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..length]);
        if length == 0 && Digest::finish(self.hasher.clone()) != self.expected {
            return Err(io::Error::other(format!("its digest is not {}", self.expected)));
        }
        Ok(length)
    }
}

/// The branch that a batch is handed over on.
pub fn handover_branch(id: &BatchId) -> String {
    format!("{HANDOVER}/{id}")
}

/// Refuses a batch (exit 3) that has the id of another one.
pub fn must_match(id: &BatchId, there: Digest, new: Digest) -> Result<(), Failure> {
    if there == new {
        return Ok(());
    }
    let message =
        format!("another batch has the id `{id}` already: its digest is {there}, the new one's is {new}");
    Err(Failure::config(message).hint("choose another `--batch-id`, or leave it out to get a new one"))
}

fn not_an_exchange(path: &Path) -> Failure {
    Failure::config(format!("`{}` is not a bare git repository", path.display()))
}

fn no_archive(branch: &str) -> Failure {
    Failure::config(format!("the branch `{branch}` is there but has no `{ARCHIVE}`"))
        .hint("delete the branch, or choose another `--batch-id`")
}

/// The last of these ids, which by default begin with their time.
fn listed(ids: &[BatchId]) -> Option<String> {
    let newest: Vec<String> = ids.iter().rev().take(LISTED).map(|id| format!("`{id}`")).collect();
    let others = if ids.len() > LISTED { " and others" } else { "" };
    (!newest.is_empty()).then(|| format!("{}{others}", newest.join(", ")))
}
