//! Where responses and the summary go.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::args::Format;
use super::display;
use crate::config::shown;
use crate::model::{Exit, Failure};
use crate::report::{Summary, render_table};

/// What the responses are called while they are written.
const UNFINISHED: &str = ".responses.jsonl.new";

/// A directory with `responses.jsonl` and `summary.json`, or stdout with the responses alone.
#[derive(Debug)]
pub(super) enum Output {
    /// The responses are the data; there is no summary but the exit code.
    Stdout,
    /// The responses are written beside their final name and renamed when they are whole.
    Directory { dir: PathBuf, responses: File, unfinished: Unfinished },
}

/// A file that is taken away again, with its directory where that is new, unless it was put in place.
#[derive(Debug)]
pub(super) struct Unfinished {
    path: PathBuf,
    is_new_dir: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Nobody needs to hear of what cannot be removed: it is not there any more, or will be written over.
        let _ = std::fs::remove_file(&self.path);
        if self.is_new_dir
            && let Some(dir) = self.path.parent()
        {
            // Fails where there is anything in it, as it should.
            let _ = std::fs::remove_dir(dir);
        }
    }
}

impl Output {
    pub(super) fn open(dir: Option<PathBuf>) -> anyhow::Result<Self> {
        let Some(dir) = dir else { return Ok(Self::Stdout) };
        let is_new_dir = !dir.exists();
        if !is_new_dir && !dir.is_dir() {
            return Err(Failure::config(format!("`{}` is no directory", dir.display()))
                .hint("`--output` names the directory for `responses.jsonl` and `summary.json`")
                .into());
        }
        std::fs::create_dir_all(&dir)
            .with_context(|| format!("cannot make the directory `{}`", dir.display()))?;
        let path = dir.join(UNFINISHED);
        let responses = File::create(&path).with_context(|| format!("cannot write `{}`", path.display()))?;
        Ok(Self::Directory { dir, responses, unfinished: Unfinished { path, is_new_dir } })
    }

    /// Puts the files in place, prints what the command prints, and gives the exit code.
    pub(super) fn finish(self, mut summary: Summary, format: Format) -> anyhow::Result<Exit> {
        if let Self::Directory { dir, responses, unfinished } = &self {
            responses.sync_all().context("cannot write the responses")?;
            let path = dir.join("responses.jsonl");
            std::fs::rename(&unfinished.path, &path).context("cannot write the responses")?;
            summary.responses = Some(path.display().to_string());
            let json = format!("{}\n", serde_json::to_string_pretty(&summary)?);
            std::fs::write(dir.join("summary.json"), &json).context("cannot write the summary")?;
            match format {
                Format::Json => display::stdout(&json)?,
                Format::Text => {
                    let cwd = std::env::current_dir().unwrap_or_default();
                    let mut text = format!("{}\nresponses  {}\n", render_table(&summary), path.display());
                    for target in &summary.targets {
                        let repo = shown(Path::new(&target.results_repo), &cwd);
                        let branch = &target.results_branch;
                        let _ = writeln!(text, "results    branch {branch} of {}", repo.display());
                    }
                    display::stdout(&text)?;
                }
            }
        }
        Ok(if summary.complete { Exit::Ok } else { Exit::Incomplete })
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Stdout => std::io::stdout().lock().write(bytes),
            Self::Directory { responses, .. } => responses.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Stdout => std::io::stdout().lock().flush(),
            Self::Directory { responses, .. } => responses.flush(),
        }
    }
}
