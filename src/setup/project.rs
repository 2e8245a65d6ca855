//! `init`: writes a first project. Files that exist are never changed.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::engine::Observer;
use crate::model::{Exit, Failure};
use crate::util::path::quoted;
use crate::util::regular_file;

const SUITE: &str = "suite.eval.yaml";
const IGNORE: &str = ".gitignore";
/// The directory of results and of the exchange, which contain prompts and responses.
const IGNORED: &str = ".run-evals/";

/// Writes the missing ones of the suite, the targets file and `.gitignore` of a project.
pub fn init_project(dir: &Path, observer: &dyn Observer) -> anyhow::Result<()> {
    if dir.is_file() {
        return Err(Failure::new(Exit::Usage, format!("`{}` is a file, not a directory", dir.display()))
            .hint("pass the project directory, for example `run-evals init evals`")
            .into());
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot create the directory `{}`", dir.display()))?;
    let is_here = dir == Path::new(".");
    let at = |name: &str| if is_here { PathBuf::from(name) } else { dir.join(name) };
    let suite = write_new(&at(SUITE), include_str!("suite.eval.yaml"), observer)?;
    write_new(&at("targets.yaml"), include_str!("targets.yaml"), observer)?;
    if !write_new(&at(IGNORE), &format!("{IGNORED}\n"), observer)? && !ignores_state(&at(IGNORE)) {
        observer.note(&format!("        add a line `{IGNORED}`: it holds prompts and responses"));
    }
    let inside = if is_here { String::new() } else { format!("cd {} && ", quoted(dir)) };
    let suite = if suite { "" } else { " SUITE" };
    observer.note(&format!("\nnext: {inside}run-evals eval{suite}"));
    Ok(())
}

/// Writes a file unless it exists (also as a link); returns whether it did.
fn write_new(path: &Path, text: &str, observer: &dyn Observer) -> anyhow::Result<bool> {
    let shown = path.display();
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).with_context(|| format!("cannot write `{shown}`"))?;
            observer.note(&format!("wrote   {shown}"));
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            observer.note(&format!("kept    {shown} (it exists)"));
            Ok(false)
        }
        Err(error) => Err(error).with_context(|| format!("cannot write `{shown}`")),
    }
}

fn ignores_state(path: &Path) -> bool {
    let text = regular_file::read_to_string(path, regular_file::SETTINGS).unwrap_or_default();
    text.lines().any(|line| line.trim().trim_matches('/') == IGNORED.trim_matches('/'))
}
