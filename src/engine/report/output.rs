//! Writes responses, scores and the summary.

use std::io::{Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use tempfile::NamedTempFile;

use super::attestation;
use super::files::{put_in_place, temporary_file, write_file};
use super::replay::ReplayFile;
use crate::console;
use crate::engine::Observer;
use crate::model::Failure;
use crate::report::{REPORT_FILE, Summary};
use crate::util::durable;
use crate::util::own_dir;

/// The destination of a command's responses.
#[derive(Debug)]
pub struct Output {
    /// Dropped first: it may be in a directory that is removed again.
    replay: Option<ReplayFile>,
    to: Destination,
    /// The suite in the statement.
    suite: Option<PathBuf>,
}

/// A directory with `responses.jsonl`, `scores.jsonl` and `summary.json`, or stdout with the responses alone.
#[derive(Debug)]
enum Destination {
    /// Only the responses are printed; the exit code replaces the summary.
    Stdout,
    /// The responses are written to a temporary file and renamed when complete.
    Directory {
        responses: NamedTempFile,
        asked: Vec<(&'static str, NamedTempFile)>,
        scores: Scores,
        dir: OutputDir,
    },
}

/// The scores while they are written: those of one target may have to be rewritten.
#[derive(Debug, Default)]
struct Scores {
    file: Option<NamedTempFile>,
    /// How much of it is final.
    kept: u64,
}

/// A directory that is removed if it was created here and stays empty.
#[derive(Debug)]
struct OutputDir {
    path: PathBuf,
    is_new: bool,
}

impl Drop for OutputDir {
    fn drop(&mut self) {
        if self.is_new {
            // Fails if the directory is not empty, as it should.
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

impl Output {
    /// A directory, or stdout without one.
    pub fn open(dir: Option<PathBuf>) -> anyhow::Result<Self> {
        let Some(path) = dir else { return Ok(Self { to: Destination::Stdout, replay: None, suite: None }) };
        own_dir::check(&path)?;
        let is_new = !path.exists();
        if !is_new && !path.is_dir() {
            return Err(Failure::config(format!("`{}` is not a directory", path.display()))
                .hint("`--output` takes the directory for `responses.jsonl` and `summary.json`")
                .into());
        }
        durable::create_dir_all(&path)
            .with_context(|| format!("cannot create the directory `{}`", path.display()))?;
        durable::sweep(&path);
        let dir = OutputDir { path, is_new };
        let responses = temporary_file(&dir.path)?;
        Ok(Self {
            to: Destination::Directory { responses, asked: Vec::new(), scores: Scores::default(), dir },
            replay: None,
            suite: None,
        })
    }

    /// The same, and writes the responses to a replay file for AgentV, too.
    #[must_use]
    pub fn and_replay(self, replay: Option<ReplayFile>) -> Self {
        Self { replay, ..self }
    }

    /// Sets the suite of the responses.
    pub fn of_suite(&mut self, file: Option<&Path>) {
        self.suite = file.map(Path::to_path_buf);
    }

    /// Sets the target of the rows that follow.
    pub fn of_target(&mut self, name: &str) {
        if let Some(replay) = &mut self.replay {
            replay.of_target(name);
        }
    }

    /// Keeps the requests next to the responses, for reports; they are written with the rest.
    pub fn keep(
        &mut self,
        name: &'static str,
        write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if let Destination::Directory { asked, dir, .. } = &mut self.to {
            let mut file = std::io::BufWriter::with_capacity(1 << 16, temporary_file(&dir.path)?);
            write(&mut file)?;
            asked.push((name, file.into_inner().context("cannot write the requests")?));
        }
        Ok(())
    }

    /// The directory, if it is one.
    pub fn dir(&self) -> Option<&Path> {
        match &self.to {
            Destination::Stdout => None,
            Destination::Directory { dir, .. } => Some(&dir.path),
        }
    }

    /// The file with the responses so far.
    pub fn responses_path(&self) -> Option<PathBuf> {
        match &self.to {
            Destination::Stdout => None,
            Destination::Directory { responses, .. } => Some(responses.path().to_path_buf()),
        }
    }

    /// The destination of a target's scores.
    pub fn begin_scores(&mut self) -> anyhow::Result<&mut dyn Write> {
        let Destination::Directory { scores, dir, .. } = &mut self.to else {
            anyhow::bail!("there is no output for scores")
        };
        if scores.file.is_none() {
            scores.file = Some(temporary_file(&dir.path)?);
        }
        match &mut scores.file {
            Some(file) => Ok(file),
            None => anyhow::bail!("there is no output for scores"),
        }
    }

    /// Discards the incomplete scores of a target.
    pub fn forget_scores(&mut self) -> anyhow::Result<()> {
        if let Destination::Directory { scores: Scores { file: Some(file), kept }, .. } = &mut self.to {
            file.as_file().set_len(*kept).context("cannot write the scores")?;
            file.as_file().seek(SeekFrom::Start(*kept)).context("cannot write the scores")?;
        }
        Ok(())
    }

    /// Completes the scores of a target.
    pub fn keep_scores(&mut self) -> anyhow::Result<()> {
        if let Destination::Directory { scores: Scores { file: Some(file), kept }, .. } = &mut self.to {
            *kept = file.as_file().metadata().context("cannot write the scores")?.len();
        }
        Ok(())
    }

    /// Discards all scores.
    pub fn drop_scores(&mut self) {
        if let Destination::Directory { scores, .. } = &mut self.to {
            *scores = Scores::default();
        }
    }

    /// Moves the files into place, and records their paths in the summary.
    pub fn finish(self, summary: &mut Summary, observer: &dyn Observer) -> anyhow::Result<()> {
        if let Some(replay) = self.replay {
            replay.finish(observer)?;
        }
        let Destination::Directory { responses, asked, scores, dir } = self.to else { return Ok(()) };
        for (name, file) in asked {
            put_in_place(file, &dir.path.join(name))?;
        }
        let path = dir.path.join("responses.jsonl");
        summary.responses = Some(path.display().to_string());
        put_in_place(responses, &path)?;
        let scores_path = dir.path.join("scores.jsonl");
        match scores.file {
            Some(file) => {
                put_in_place(file, &scores_path)?;
                summary.scores = Some(scores_path.display().to_string());
            }
            // Scores of an earlier run would be mistaken for those of these responses.
            None => durable::remove_file(&scores_path).context("cannot remove old scores")?,
        }
        durable::remove_file(&dir.path.join(REPORT_FILE)).context("cannot remove an old report")?;
        write_summary(&dir.path, summary)?;
        attestation::write_results(&dir.path, summary, self.suite.as_deref())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.to.write(bytes)?;
        if let Some(replay) = &mut self.replay {
            replay.take(&bytes[..written]).map_err(std::io::Error::other)?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            // The responses are in the exchange, even if stdout is closed.
            Self::Stdout => console::Stdout.write(bytes),
            Self::Directory { responses, .. } => responses.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Stdout => console::Stdout.flush(),
            Self::Directory { responses, .. } => responses.flush(),
        }
    }
}

/// Writes `summary.json`.
pub fn write_summary(dir: &Path, summary: &Summary) -> anyhow::Result<()> {
    let json = format!("{}\n", serde_json::to_string_pretty(summary)?);
    write_file(&dir.join("summary.json"), json.as_bytes())
}
