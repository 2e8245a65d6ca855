//! What a suite says, once it is loaded and every reference in it is resolved.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Attachment, Digest, Grading, Message};

/// A loaded suite.
#[derive(Debug, Clone, Default)]
pub struct Suite {
    /// Its `name`, or the file's.
    pub name: String,
    /// The digest of the suite file itself.
    pub source_sha256: Option<Digest>,
    /// The targets it asks for, in order; empty where it leaves that to the command line.
    pub targets: Vec<SuiteTarget>,
    /// How often each test is run.
    pub replicates: u32,
    /// `execution.budget_usd`.
    pub budget_usd: Option<f64>,
    /// `execution.workers`: how many tests run at once.
    pub workers: Option<u32>,
    /// `execution.threshold`: what the score of a test must reach.
    pub threshold: Option<f64>,
    /// The tests, in order.
    pub tests: Vec<TestCase>,
    /// Where the bytes of each attachment are.
    pub attachments: BTreeMap<Digest, PathBuf>,
}

/// A target that a suite asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuiteTarget {
    /// Its name, in `targets.yaml` or only here.
    pub name: String,
    /// With it the suite itself defines the target, as another name of this one.
    pub use_target: Option<String>,
}

/// A test of a suite.
#[derive(Debug, Clone)]
pub struct TestCase {
    /// Unique in the suite.
    pub id: String,
    /// What the model is asked.
    pub messages: Vec<Message>,
    /// The attachments that `messages` refer to.
    pub files: Vec<Attachment>,
    /// `execution.targets` of the test; empty where the suite's hold.
    pub targets: Vec<String>,
    /// How the answer is graded.
    pub grading: Grading,
    /// Where it stands; absent where it was not read from a file.
    pub place: Option<TestPlace>,
}

/// Where a test stands: a line of `tests.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestPlace {
    /// The test.
    pub id: String,
    /// The file, as the user named it.
    pub file: String,
    /// The line, counted from 1.
    pub line: u32,
}
