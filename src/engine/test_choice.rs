//! Chooses which tests of a suite run, and how many trials.

use std::num::NonZeroU32;

use globset::GlobBuilder;

use crate::config::did_you_mean;
use crate::model::{Exit, Failure, Suite, printable};

/// How many ids a message lists.
const LISTED: usize = 10;

/// The tests that the command line chooses.
#[derive(Debug, Clone, Default)]
pub struct TestChoice {
    /// Only tests whose id matches this glob.
    pub filter: Option<String>,
    /// The number of trials, instead of the suite's.
    pub trials: Option<NonZeroU32>,
    /// Whether the filter may match nothing, because other suites are filtered too.
    pub may_be_empty: bool,
}

impl TestChoice {
    /// Removes all other tests from a suite.
    pub(super) fn apply(&self, suite: &mut Suite) -> Result<(), Failure> {
        if let Some(trials) = self.trials {
            suite.replicates = trials.get();
        }
        let Some(filter) = &self.filter else { return Ok(()) };
        let glob = GlobBuilder::new(filter).backslash_escape(true).build().map_err(|error| {
            let message = format!("`--filter {}` is not a glob: {}", printable(filter), error.kind());
            Failure::new(Exit::Usage, message).hint("`*` matches any text, as in `--filter 'refund-*'`")
        })?;
        let matcher = glob.compile_matcher();
        let all: Vec<String> = suite.tests.iter().map(|test| test.id.clone()).collect();
        suite.tests.retain(|test| matcher.is_match(&test.id));
        if suite.tests.is_empty() && !self.may_be_empty {
            return Err(no_match(filter, &all));
        }
        Ok(())
    }
}

/// The error for a filter that matches none of these tests.
pub fn no_match(filter: &str, ids: &[String]) -> Failure {
    let word = filter.replace(['*', '?'], "");
    let contains = |id: &&String| !word.is_empty() && id.to_lowercase().contains(&word.to_lowercase());
    let mut near: Vec<&str> = ids.iter().filter(contains).map(String::as_str).collect();
    if near.is_empty() {
        near.extend(did_you_mean(&word, ids.iter().map(String::as_str)));
    }
    let (lead, names) = if near.is_empty() {
        ("the tests are", ids.iter().map(String::as_str).collect())
    } else {
        ("did you mean", near)
    };
    let shown: Vec<String> = names.iter().take(LISTED).map(|id| format!("`{}`", printable(id))).collect();
    let more =
        if names.len() > LISTED { format!(" and {} more", names.len() - LISTED) } else { String::new() };
    let end = if lead == "did you mean" { "?" } else { "" };
    Failure::new(Exit::Usage, format!("no test matches `--filter {}`", printable(filter)))
        .hint(format!("{lead} {}{more}{end}", shown.join(", ")))
}
