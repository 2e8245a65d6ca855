//! How results were made, as an in-toto statement (<https://in-toto.io/Statement/v1>): `docs/attestation.md` has the format.
//!
//! A statement names files by digest and records how they were made. It contains no time, so that the same results under the
//! same circumstances give the same bytes. It is not signed: `actions/attest` signs its subjects and its predicate.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Summary;
use crate::model::{BatchId, Digest};

/// The type of a statement, from its specification.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// The predicate type of responses and scores.
pub const RESULTS_TYPE: &str = "https://github.com/agentv/run-evals/attestation/results/v1";
/// The predicate type of leaderboard entries.
pub const LEADERBOARD_TYPE: &str = "https://github.com/agentv/run-evals/attestation/leaderboard/v1";
/// The statement in an output directory.
pub const STATEMENT_FILE: &str = "statement.intoto.json";
/// Its predicate alone, the input of `actions/attest`.
pub const PREDICATE_FILE: &str = "predicate.json";

/// A statement about files.
#[derive(Debug, Serialize)]
pub struct Statement<P> {
    #[serde(rename = "_type")]
    kind: &'static str,
    subject: Vec<Subject>,
    #[serde(rename = "predicateType")]
    predicate_type: &'static str,
    predicate: P,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Subject {
    name: String,
    digest: BTreeMap<&'static str, String>,
}

impl Subject {
    /// A file by its name in the output directory.
    pub fn new(name: impl Into<String>, sha256: &Digest) -> Self {
        Self { name: name.into(), digest: BTreeMap::from([("sha256", sha256.to_string())]) }
    }
}

impl<P: Serialize> Statement<P> {
    /// A statement about these files, sorted by their names.
    pub fn new(mut subject: Vec<Subject>, predicate_type: &'static str, predicate: P) -> Self {
        subject.sort_unstable();
        subject.dedup();
        Self { kind: STATEMENT_TYPE, subject, predicate_type, predicate }
    }

    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        bytes(self)
    }

    /// The predicate alone.
    pub fn predicate_bytes(&self) -> Vec<u8> {
        bytes(&self.predicate)
    }
}

/// Two spaces, a line feed at the end.
fn bytes(value: &impl Serialize) -> Vec<u8> {
    // It contains only string keys and numbers that JSON supports.
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Where results were made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// `github-actions` or `local`.
    kind: &'static str,
    /// Whether it cannot be signed, because no workflow run made it.
    unsigned: bool,
    /// The workflow run.
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_run: Option<String>,
    /// The digest of the container image, in a release.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    /// Program and version.
    run_evals: &'static str,
}

impl Origin {
    /// A workflow run, or another machine.
    pub fn new(workflow_run: Option<String>, image: Option<&str>) -> Self {
        let is_digest = |text: &&str| {
            let hex = text.rsplit_once("sha256:").map(|(_, hex)| hex);
            hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
        };
        Self {
            kind: if workflow_run.is_some() { "github-actions" } else { "local" },
            unsigned: workflow_run.is_none(),
            workflow_run,
            image: image.filter(is_digest).map(ToOwned::to_owned),
            run_evals: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// How responses and scores were made.
#[derive(Debug, Serialize)]
pub struct ResultsPredicate {
    origin: Origin,
    #[serde(skip_serializing_if = "Option::is_none")]
    suite: Option<SuiteFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    complete: bool,
    batches: Vec<AttestedBatch>,
}

/// The suite.
#[derive(Debug, Serialize)]
pub struct SuiteFile {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The digest of its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
}

#[derive(Debug, Serialize)]
struct AttestedBatch {
    batch_id: BatchId,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_sha256: Option<Digest>,
    target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    runner_target: Option<String>,
    /// The models that answered, by the providers' names.
    models: Vec<String>,
    requests: u64,
    answered: u64,
    results_repo: String,
    results_branch: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_sha256: Option<Digest>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    grader_batches: Vec<BatchId>,
}

impl ResultsPredicate {
    /// The predicate for a summary.
    pub fn new(summary: &Summary, origin: Origin, suite_sha256: Option<Digest>) -> Self {
        let batches = summary.targets.iter().map(|target| AttestedBatch {
            batch_id: target.batch_id.clone(),
            batch_sha256: target.batch_sha256,
            target: target.target.clone(),
            runner_target: target.runner_target.clone(),
            models: target.models.keys().cloned().collect(),
            requests: target.requests,
            answered: target.totals.answered,
            results_repo: target.results_repo.clone(),
            results_branch: target.results_branch.clone(),
            run_url: target.run_url.clone(),
            policy_sha256: target.policy_sha256,
            grader_batches: target.graders.iter().flat_map(|used| used.batches.clone()).collect(),
        });
        let suite = SuiteFile { name: summary.suite.clone(), sha256: suite_sha256 };
        Self {
            origin,
            suite: (suite.name.is_some() || suite.sha256.is_some()).then_some(suite),
            commit: summary.commit.clone(),
            complete: summary.complete,
            batches: batches.collect(),
        }
    }
}
