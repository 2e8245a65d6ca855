//! Evaluation suites in AgentV's version 4 format → `model::Suite`, with everything they refer to.
//!
//! `top` reads the keys of the suite itself and `tests_field` the forms that `tests` can take; each test that they find
//! goes through `case`, which asks `input` for its messages, `attachments` for its files and `grading` how its answer is
//! graded: by `graders`, against what is `expected`. What needs an agent or another version is told in `refuse`. What AgentV drops without a word is an error
//! here: a test that silently does not run makes the score of the others a lie.

mod attachments;
mod case;
mod execution;
mod expected;
mod files;
mod graders;
mod grading;
mod input;
mod jsonl;
mod loader;
mod metadata;
mod pattern;
mod refuse;
mod tests_field;
mod top;
mod vars;

#[cfg(test)]
mod tests;

use std::path::Path;

pub use self::attachments::media_type;
pub use self::files::{normalized, suite_name};
pub use self::jsonl::parse_line;
pub use self::pattern::{expand as expand_pattern, is_pattern};
pub use self::refuse::VERSION_5;
pub use self::vars::{fill as fill_vars, mentions as mentions_vars};

use crate::config::Env;
use crate::model::{Digest, Failure, Suite};

pub use self::graders::GraderOptions;

use self::files::Format;
use self::loader::Loader;

/// What the loader needs from outside.
#[derive(Debug, Clone, Copy)]
pub struct SuiteOptions<'a> {
    /// The values of `${{ NAME }}`.
    pub env: &'a Env,
    /// The working directory: the last place where references are looked up, and what shown paths are relative to.
    pub cwd: &'a Path,
    /// How graders are read; without it they are not, because nothing is graded.
    pub graders: Option<GraderOptions>,
}

/// Loads a suite with everything it refers to; all problems of all its files at once. The strings are drawn warnings.
pub fn load_suite(path: &Path, options: &SuiteOptions) -> Result<(Suite, Vec<String>), Failure> {
    let format = Format::of_suite(path)?;
    let absolute = normalized(&options.cwd.join(path));
    let bytes = std::fs::read(&absolute).map_err(|error| {
        Failure::config(format!("cannot read the suite `{}`: {error}", path.display()))
            .hint("name the file of the suite, from the working directory on")
    })?;
    let mut suite = Suite {
        name: suite_name(path),
        source_sha256: Some(Digest::of(&bytes)),
        replicates: 1,
        ..Suite::default()
    };
    let mut loader = Loader::new(&absolute, options);
    match format {
        Format::Yaml => top::read_yaml(&absolute, bytes, &mut suite, &mut loader),
        Format::Jsonl => top::read_jsonl(&absolute, bytes, &mut suite, &mut loader),
    }
    let Loader { problems, attachments, .. } = loader;
    suite.attachments = attachments.into_paths();
    Ok((suite, problems.finish()?))
}
