//! The dispatcher's target in the local `targets.yaml`. Existing content is never changed: an entry is appended, or the user adds it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::files;
use crate::config::{Document, Env, Roots, TargetsFile, shown};
use crate::model::{Exit, Failure, Target};

/// The change to the local file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LocalTarget {
    /// It already has a target for this repository, with this name.
    There { name: String, file: PathBuf },
    /// Write a new file with this text.
    New { file: PathBuf, text: String },
    /// Append this text.
    Append { file: PathBuf, text: String },
    /// Nothing can be appended because of the file's format; the user adds this entry.
    ByHand { file: PathBuf, entry: String },
}

impl LocalTarget {
    /// Decides, without changing anything.
    pub(super) fn plan(
        named: Option<&Path>,
        name: &str,
        repo: &str,
        runner_target: &str,
    ) -> anyhow::Result<Self> {
        let cwd = std::env::current_dir().context("cannot find the working directory")?;
        let found = named
            .map(|path| cwd.join(path))
            .or_else(|| TargetsFile::discover(&Roots::new(&cwd, &cwd)))
            .unwrap_or_else(|| cwd.join("targets.yaml"));
        let file = shown(&found, &cwd);
        if !found.exists() && !found.is_symlink() {
            let entry = files::dispatcher_target(name, repo, runner_target, 2);
            return Ok(Self::New { file, text: format!("targets:\n{entry}") });
        }
        // It may have come with a checkout, and point anywhere.
        if named.is_none()
            && [Some(found.as_path()), found.parent()].into_iter().flatten().any(Path::is_symlink)
        {
            let message = format!(
                "`{}` is a link or is in a linked directory, expected a file: nothing was written",
                file.display()
            );
            let hint = "check it; `--targets FILE` sets the file for the new target";
            return Err(Failure::new(Exit::Config, message).hint(hint).into());
        }
        let (targets, _) = TargetsFile::load(&found, &file)?;
        if let Some(name) = known_target(&targets, repo) {
            return Ok(Self::There { name, file });
        }
        if targets.names().any(|known| known == name) {
            let message = format!("`{}` has another target `{name}`", file.display());
            let hint = "choose another name for the new one with `--target NAME`";
            return Err(Failure::new(Exit::Config, message).hint(hint).into());
        }
        let text =
            std::fs::read_to_string(&found).with_context(|| format!("cannot read `{}`", file.display()))?;
        let entry = |indent| files::dispatcher_target(name, repo, runner_target, indent);
        let missing_newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let addition = indentation(&text).map(|indent| format!("{missing_newline}{}", entry(indent)));
        // Only if the result is the old file with one more target.
        let fits = |addition: &String| {
            let all = TargetsFile::parse(format!("{text}{addition}").into_bytes(), &file, Path::new(""));
            all.is_ok_and(|(all, _)| all.names().eq(targets.names().chain([name])))
        };
        Ok(match addition.filter(fits) {
            Some(text) => Self::Append { file, text },
            None => Self::ByHand { file, entry: entry(2) },
        })
    }

    /// The name of the target.
    pub(super) fn name<'a>(&'a self, new: &'a str) -> &'a str {
        if let Self::There { name, .. } = self { name } else { new }
    }

    /// Writes what is missing.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        let (file, text, is_new) = match self {
            Self::New { file, text } => (file, text, true),
            Self::Append { file, text } => (file, text, false),
            Self::There { .. } | Self::ByHand { .. } => return Ok(()),
        };
        let mut options = OpenOptions::new();
        let options = if is_new { options.write(true).create_new(true) } else { options.append(true) };
        let written = options.open(file).and_then(|mut open| open.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write `{}`", file.display()))
    }
}

/// A target of the file that leads to this repository.
fn known_target(targets: &TargetsFile, repo: &str) -> Option<String> {
    let env = Env::from_process();
    let leads_there = |name: &&str| match targets.resolve_without_keys(name, &env) {
        Some(Target::Remote(target)) => target.repo.eq_ignore_ascii_case(repo),
        _ => false,
    };
    targets.names().find(leads_there).map(ToOwned::to_owned)
}

/// The column of the entries of `targets:`.
fn indentation(text: &str) -> Option<usize> {
    let document = Document::parse("targets.yaml", text).ok()?;
    let (_, list) = document.root.entries()?.iter().find(|(key, _)| key.text == "targets")?;
    let line = list.items()?.first()?.span.line;
    let line = text.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    line.trim_start().starts_with("- ").then(|| line.len() - line.trim_start().len())
}
