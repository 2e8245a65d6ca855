//! How a batch comes to the runner: in the dispatch itself, as an artifact, or on a branch of the runner repository.

use base64::Engine as _;

use anyhow::Context as _;

use super::{Dispatcher, PATIENCE};
use crate::archive;
use crate::exchange::handover_branch;
use crate::git::Remote;
use crate::github::ResultsService;
use crate::model::{BatchId, Digest, Exit, Failure, HandOver};

/// The most characters of a batch that travels inline: all inputs together may have 65,535.
const MOST_INLINE: u64 = 60_000;
/// GitHub takes no larger file into a repository.
const MOST_ON_A_BRANCH: u64 = 100_000_000;
/// An artifact is of use only until the batch is collected.
const RETENTION_DAYS: u32 = 7;
/// The one file in a batch artifact.
const ARCHIVE: &str = "batch.tar.gz";

/// How a batch shall travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum HandOverChoice {
    /// The simplest way that works
    Auto,
    /// In the dispatch itself, up to 60,000 characters
    Inline,
    /// As an artifact of the workflow run that dispatches
    Artifact,
    /// On a branch of the runner repository
    Branch,
}

/// A workflow run that this process is a step of.
#[derive(Debug, Clone)]
pub struct ActionsRun {
    /// `owner/name` of its repository.
    pub repo: String,
    /// Its id.
    pub run_id: u64,
    /// Where its artifacts go; only in a container action, and not on GitHub Enterprise Server.
    pub artifacts: Option<ResultsService>,
}

/// A batch where the runner will look for it.
#[derive(Debug)]
pub(super) struct Brought {
    pub(super) hand_over: HandOver,
    /// Whether a branch was made for it.
    pub(super) is_new_branch: bool,
}

impl Dispatcher {
    /// Which way a batch of this size takes to a repository.
    pub(super) fn choose_hand_over(&self, archive_bytes: u64, repo: &str) -> Result<HandOverChoice, Failure> {
        let characters = archive_bytes.div_ceil(3) * 4 + "inline:".len() as u64;
        let fits = characters <= MOST_INLINE;
        let artifacts = self.actions.as_ref().filter(|actions| actions.artifacts.is_some());
        match self.hand_over {
            HandOverChoice::Auto if fits => Ok(HandOverChoice::Inline),
            // A run's own token cannot read the artifacts of another private repository.
            HandOverChoice::Auto
                if artifacts.is_some_and(|actions| actions.repo.eq_ignore_ascii_case(repo)) =>
            {
                Ok(HandOverChoice::Artifact)
            }
            HandOverChoice::Auto | HandOverChoice::Branch if archive_bytes > MOST_ON_A_BRANCH => {
                let message = format!(
                    "the batch has {archive_bytes} bytes; a file on a branch has at most {MOST_ON_A_BRANCH}"
                );
                let hint =
                    "split it into several batches, or dispatch from a workflow with `--handover artifact`";
                Err(Failure::config(message).hint(hint))
            }
            HandOverChoice::Auto => Ok(HandOverChoice::Branch),
            HandOverChoice::Inline if !fits => {
                let message = format!(
                    "the batch has {characters} characters, more than the {MOST_INLINE} that fit inline"
                );
                Err(Failure::new(Exit::Usage, message)
                    .hint("use `--handover branch`, or leave the choice to `auto`"))
            }
            HandOverChoice::Artifact if artifacts.is_none() => {
                let message =
                    "artifacts can be made only by a step of a workflow on github.com that uses the action";
                Err(Failure::new(Exit::Usage, message)
                    .hint("use `--handover branch`, or leave the choice to `auto`"))
            }
            chosen => Ok(chosen),
        }
    }

    /// Brings a batch that lies in the exchange to where the runner will look for it.
    pub(super) async fn bring(
        &self,
        choice: HandOverChoice,
        repo: &str,
        remote: Remote,
        id: &BatchId,
        digest: Digest,
    ) -> anyhow::Result<Brought> {
        let batch = id.clone();
        let mut is_new_branch = false;
        let hand_over = match choice {
            HandOverChoice::Auto | HandOverChoice::Branch => {
                is_new_branch = self
                    .with_exchange(move |exchange| exchange.push_batch(&remote, &batch, digest, PATIENCE))
                    .await?;
                HandOver::Branch { repo: repo.to_owned(), branch: handover_branch(id) }
            }
            HandOverChoice::Inline => {
                let archive = self.with_exchange(move |exchange| {
                    let temporary = tempfile::tempdir()?;
                    let archive = temporary.path().join(ARCHIVE);
                    exchange.get_batch(&batch, &archive)?;
                    Ok(std::fs::read(archive)?)
                });
                HandOver::Inline(base64::engine::general_purpose::STANDARD.encode(archive.await?))
            }
            HandOverChoice::Artifact => {
                let actions = self.actions.as_ref().context("not in a workflow run")?;
                let service = actions.artifacts.as_ref().context("no artifact service")?;
                let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
                let zip = temporary.path().join("batch.zip");
                let (folder, to) = (temporary.path().to_owned(), zip.clone());
                self.with_exchange(move |exchange| {
                    let archive = folder.join(ARCHIVE);
                    exchange.get_batch(&batch, &archive)?;
                    archive::zip_one(&archive, ARCHIVE, &to)
                })
                .await?;
                // A second dispatch of one batch from one run finds the name taken.
                let name = format!("batch-{id}-{:08x}", fastrand::u32(..));
                service.upload(&name, &zip, Some(RETENTION_DAYS)).await?;
                HandOver::Artifact { repo: actions.repo.clone(), run_id: actions.run_id, name }
            }
        };
        Ok(Brought { hand_over, is_new_branch })
    }
}
