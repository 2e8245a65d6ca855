//! Suites in temporary directories and in `fixtures/evals`, loaded completely.

mod errors;
mod forms;
mod graders;
mod warnings;

use std::fmt::Write as _;
use std::path::Path;

use super::{SuiteOptions, load_suite};
use crate::config::Env;
use crate::model::{Attachment, Block, Content, Digest, Exit, Failure, Suite};

/// A directory with these files.
fn directory(files: &[(&str, impl AsRef<[u8]>)]) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = temp.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    temp
}

/// Loads a suite with its directory as the working directory.
fn load_in(dir: &Path, suite: &str) -> Result<(Suite, Vec<String>), Failure> {
    load_suite(Path::new(suite), &SuiteOptions { env: &Env::default(), cwd: dir, graders: None })
}

/// Loads the first of these files.
fn load(files: &[(&str, impl AsRef<[u8]>)]) -> Result<(Suite, Vec<String>), Failure> {
    load_in(directory(files).path(), files[0].0)
}

/// The errors of the first of these files.
fn errors(files: &[(&str, impl AsRef<[u8]>)]) -> String {
    told(&load(files).unwrap_err())
}

fn told(failure: &Failure) -> String {
    assert_eq!(failure.exit(), Exit::Config);
    match failure.hint_text() {
        Some(hint) => format!("{failure}\n\nhint: {hint}"),
        None => failure.to_string(),
    }
}

/// The warnings for the first of these files.
fn warnings(files: &[(&str, impl AsRef<[u8]>)]) -> String {
    load(files).unwrap().1.join("\n\n")
}

/// A suite in a few lines: its settings, then each test with its messages.
fn summary(suite: &Suite) -> String {
    let mut out = format!("{} ×{}", suite.name, suite.replicates);
    for target in &suite.targets {
        write!(out, " target={}", target.name).unwrap();
        if let Some(other) = &target.use_target {
            write!(out, "→{other}").unwrap();
        }
    }
    if let Some(workers) = suite.workers {
        write!(out, " workers={workers}").unwrap();
    }
    if let Some(budget) = suite.budget_usd {
        write!(out, " budget={budget}").unwrap();
    }
    for test in &suite.tests {
        write!(out, "\n{} {}", test.id, test.targets.join(",")).unwrap();
        for message in &test.messages {
            let role = format!("{:?}", message.role).to_lowercase();
            write!(out, "\n  {role}:").unwrap();
            match &message.content {
                Content::Text(text) => write!(out, " {text:?}").unwrap(),
                Content::Blocks(blocks) => {
                    for block in blocks {
                        let file = |sha256: &Digest, name: &Option<String>| {
                            let is_meant = |file: &&Attachment| {
                                file.sha256 == *sha256 && name.as_ref().is_none_or(|name| file.name == *name)
                            };
                            let file = test.files.iter().find(is_meant).unwrap();
                            assert!(suite.attachments[sha256].is_file());
                            format!("{} {} {}", file.name, file.media_type, file.size)
                        };
                        match block {
                            Block::Text { text } => write!(out, " {text:?}").unwrap(),
                            Block::File { sha256, name } => {
                                write!(out, " <file {}>", file(sha256, name)).unwrap();
                            }
                            Block::Image { sha256, name } => {
                                write!(out, " <image {}>", file(sha256, name)).unwrap();
                            }
                        }
                    }
                }
            }
        }
    }
    // Editors and snapshots strip trailing spaces.
    out.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
