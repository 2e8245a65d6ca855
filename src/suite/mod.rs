//! AgentV suites: parsed once into one expanded `tree`, which `eval` reads and `bundle` rewrites.
//!
//! A `reader` is the command that reads a suite. The `tree` has its settings and every test that `tests` refers to; `include` inserts
//! the assertions of other files. A `dialect` defines what the keys mean, and `agentv4` how AgentV 4 spells them.
//!
//! For `eval`, `top` makes a `model::Suite` of the tree: each test goes through `case`, which uses `input` for its messages,
//! `tools` for its tools, `attachments` for its files and `grading` for its `graders` and `expected` output. `refuse` reports what needs an agent. What AgentV
//! skips silently is an error here: a test that does not run would distort the score.

mod agentv4;
mod allowance;
mod attachments;
mod case;
mod custom_type;
mod dialect;
mod execution;
mod expected;
mod files;
mod graders;
mod grading;
mod include;
mod input;
mod loader;
mod metadata;
mod pattern;
mod reader;
mod refuse;
mod tools;
mod top;
mod tree;
mod vars;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

pub use self::agentv4::AGENTV_4;
pub use self::allowance::Allowance;
pub use self::attachments::media_type;
pub use self::custom_type::find_custom_type;
pub use self::dialect::{Dialect, Keys, Part};
pub use self::files::{Format, suite_name};
pub use self::include::{Templates, expand as expand_includes, included};
pub use self::reader::{Lookup, Reader, ReaderState};
pub use self::tree::{Test, Tree};
pub use self::vars::{fill as fill_vars, mentions as mentions_vars};

use crate::config::{Env, Source, Span, normalized};
use crate::model::{Failure, Suite};
use crate::util::regular_file;

pub use self::graders::{GraderOptions, is_built_in};

use self::loader::Loader;

/// The loader's inputs.
#[derive(Debug, Clone, Copy)]
pub struct SuiteOptions<'a> {
    /// The values of `${{ NAME }}`.
    pub env: &'a Env,
    /// The working directory: the last search root, and the base of paths in messages.
    pub cwd: &'a Path,
    /// How to read graders; `None` if nothing is graded.
    pub graders: Option<GraderOptions>,
}

/// Loads a suite with everything it refers to; reports all problems of all files at once. The strings are rendered warnings.
pub fn load_suite(path: &Path, options: &SuiteOptions) -> Result<(Suite, Vec<String>), Failure> {
    let format = Format::of_suite(path)?;
    let absolute = normalized(&options.cwd.join(path));
    let bytes = regular_file::read(&absolute, regular_file::CONTENT).map_err(|error| {
        Failure::config(format!("cannot read the suite `{}`: {error}", path.display()))
            .hint("check the path, which is relative to the working directory")
    })?;
    let mut suite = Suite { name: suite_name(path), replicates: 1, ..Suite::default() };
    let mut loader = Loader::new(&absolute, options);
    let start = Span { source: Arc::new(Source::new(path, "")), line: 1, column: 1, width: 1 };
    if loader.leaves_bundle(&absolute, &start) {
        return Err(loader.problems.check(()).expect_err("an error was noted").into());
    }
    if let Some(source) = loader.decode(&absolute, bytes)
        && let Some(tree) = Tree::read(&absolute, format, source, &mut loader)
    {
        top::read(format, tree, &mut suite, &mut loader);
    }
    let Loader { problems, attachments, .. } = loader;
    suite.attachments = attachments.into_paths();
    Ok((suite, problems.finish()?))
}
