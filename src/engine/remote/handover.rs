//! Hands a batch over to the runner: in the dispatch itself, as an artifact, or on a branch of the runner repository.

use std::path::Path;

use base64::Engine as _;

use anyhow::Context as _;

use super::{Dispatcher, PATIENCE};
use crate::git::Remote;
use crate::github::{DuplicateArtifact, ResultsService};
use crate::model::{BatchId, Digest, Exit, Failure};
use crate::protocol::Handover;
use crate::protocol::names::{BATCH_FILE, batch_artifact, handover_branch};
use crate::util::WorkDir;
use crate::util::zip::zip_file;

/// The most characters of an inline batch: all inputs together may have 65,535.
const MOST_INLINE: u64 = 60_000;
/// An artifact is needed only until the batch is collected.
const RETENTION_DAYS: u32 = 7;
/// How many names are tried for one artifact.
const MOST_NAMES: u32 = 5;

/// How to hand over a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum HandoverChoice {
    /// The simplest way that works
    Auto,
    /// In the dispatch itself, up to 60,000 characters
    Inline,
    /// As an artifact of the workflow run that dispatches
    Artifact,
    /// On a branch of the runner repository
    Branch,
}

/// The workflow run of this step.
#[derive(Debug, Clone)]
pub struct ActionsRun {
    /// `owner/name` of its repository.
    pub repo: String,
    /// Its id.
    pub run_id: u64,
    /// Where its artifacts are uploaded; only in a container action, and not on GitHub Enterprise Server.
    pub artifacts: Option<ResultsService>,
}

/// A handed-over batch.
#[derive(Debug)]
pub(super) struct HandoverResult {
    pub(super) handover: Handover,
    /// Whether a branch was created for it.
    pub(super) is_new_branch: bool,
}

impl Dispatcher {
    /// The hand-over for a batch of this size to a repository.
    pub(super) fn choose_handover(&self, archive_bytes: u64, repo: &str) -> Result<HandoverChoice, Failure> {
        let characters = archive_bytes.div_ceil(3) * 4 + "inline:".len() as u64;
        let fits = characters <= MOST_INLINE;
        let artifacts = self.actions.as_ref().filter(|actions| actions.artifacts.is_some());
        match self.handover {
            HandoverChoice::Auto if fits => Ok(HandoverChoice::Inline),
            // A run's own token cannot read the artifacts of another private repository.
            HandoverChoice::Auto
                if artifacts.is_some_and(|actions| actions.repo.eq_ignore_ascii_case(repo)) =>
            {
                Ok(HandoverChoice::Artifact)
            }
            HandoverChoice::Auto => Ok(HandoverChoice::Branch),
            HandoverChoice::Inline if !fits => {
                let message = format!(
                    "the batch has {characters} characters, more than the {MOST_INLINE} that fit inline"
                );
                Err(Failure::new(Exit::Usage, message).hint("use `--handover branch` or `--handover auto`"))
            }
            HandoverChoice::Artifact if artifacts.is_none() => {
                let message = "artifacts can be uploaded only by a step of a workflow on github.com that uses the action";
                Err(Failure::new(Exit::Usage, message).hint("use `--handover branch` or `--handover auto`"))
            }
            chosen => Ok(chosen),
        }
    }

    /// Hands over a batch from the exchange to the runner.
    pub(super) async fn bring(
        &self,
        choice: HandoverChoice,
        repo: &str,
        remote: Remote,
        id: &BatchId,
        digest: Digest,
    ) -> anyhow::Result<HandoverResult> {
        let batch = id.clone();
        let mut is_new_branch = false;
        let handover = match choice {
            HandoverChoice::Auto | HandoverChoice::Branch => {
                is_new_branch = self
                    .with_exchange(move |exchange| exchange.push_batch(&remote, &batch, digest, PATIENCE))
                    .await?;
                Handover::Branch { repo: repo.to_owned(), branch: handover_branch(id) }
            }
            HandoverChoice::Inline => {
                let archive = self.with_exchange(move |exchange| {
                    let temporary = WorkDir::new()?;
                    let archive = temporary.path().join(BATCH_FILE);
                    exchange.get_batch(&batch, &archive)?;
                    Ok(std::fs::read(archive)?)
                });
                Handover::Inline(base64::engine::general_purpose::STANDARD.encode(archive.await?))
            }
            HandoverChoice::Artifact => {
                let actions = self.actions.as_ref().context("not in a workflow run")?;
                let service = actions.artifacts.as_ref().context("no artifact service")?;
                let temporary = WorkDir::new().context("cannot create a temporary directory")?;
                let zip = temporary.path().join("batch.zip");
                let (folder, to) = (temporary.path().to_owned(), zip.clone());
                self.with_exchange(move |exchange| {
                    let archive = folder.join(BATCH_FILE);
                    exchange.get_batch(&batch, &archive)?;
                    zip_file(&archive, BATCH_FILE, &to)
                })
                .await?;
                let name = upload(service, id, &zip).await?;
                Handover::Artifact { repo: actions.repo.clone(), run_id: actions.run_id, name }
            }
        };
        Ok(HandoverResult { handover, is_new_branch })
    }
}

/// Uploads a batch under a new name: one that neither an earlier dispatch from the same run nor an upload with a lost response
/// has used.
async fn upload(service: &ResultsService, id: &BatchId, zip: &Path) -> anyhow::Result<String> {
    let mut names = 0;
    loop {
        let name = batch_artifact(id, fastrand::u32(..));
        names += 1;
        match service.upload(&name, zip, Some(RETENTION_DAYS)).await {
            Err(error) if names < MOST_NAMES && is_duplicate(&error) => {}
            uploaded => return uploaded.map(|_| name),
        }
    }
}

fn is_duplicate(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<DuplicateArtifact>().is_some())
}
