//! A loaded suite, with all references resolved.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Attachment, Digest, Grading, Message, Tool};

#[derive(Debug, Clone, Default)]
pub struct Suite {
    /// `name`, or the file name.
    pub name: String,
    /// Targets in order; empty if the command line decides.
    pub targets: Vec<SuiteTarget>,
    /// Trials per test.
    pub replicates: u32,
    /// `execution.budget_usd`.
    pub budget_usd: Option<f64>,
    /// `execution.workers`: number of tests that run concurrently.
    pub workers: Option<u32>,
    /// `execution.threshold`: minimum score of a test.
    pub threshold: Option<f64>,
    pub tests: Vec<TestCase>,
    /// Path of each attachment.
    pub attachments: BTreeMap<Digest, PathBuf>,
}

/// A target named by a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuiteTarget {
    /// Name in `targets.yaml`, or a name that only the suite defines.
    pub name: String,
    /// If set, the suite defines this target as an alias of that one.
    pub use_target: Option<String>,
}

/// A test of a suite.
#[derive(Debug, Clone)]
pub struct TestCase {
    /// Unique in the suite.
    pub id: String,
    /// Messages to the model.
    pub messages: Vec<Message>,
    /// Tools that the model may call: the test's, or else the suite's.
    pub tools: Vec<Tool>,
    /// Attachments that `messages` refer to.
    pub files: Vec<Attachment>,
    /// `execution.targets` of the test; empty means those of the suite.
    pub targets: Vec<String>,
    pub grading: Grading,
    /// Source location; absent if the test was not read from a file.
    pub place: Option<TestPlace>,
}

/// Source location of a test: a line of `tests.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestPlace {
    pub id: String,
    /// File, as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
}
