//! Turns a suite or a requests file into one batch archive. Same input and batch id, same bytes.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::shards::Sharding;
use crate::model::{BatchId, Digest, Exit, Failure, Metadata, Request, Suite, Target, TestCase, request_id};
use crate::protocol::names::BATCH_FILE;
use crate::protocol::{BATCH_FORMAT, BatchManifest, MOST_REQUESTS, PROGRAM, Provenance, archive};
use crate::util::WorkDir;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A batch archive, ready for hand-over; it owns its temporary directory.
#[derive(Debug)]
pub struct PlannedBatch {
    /// Its id without the suffix for its target.
    pub run_id: BatchId,
    /// Its manifest.
    pub manifest: BatchManifest,
    /// Its path.
    pub archive: PathBuf,
    /// Its digest.
    pub sha256: Digest,
    temporary: WorkDir,
}

impl PlannedBatch {
    /// Its requests as JSONL; the open file outlives the batch.
    pub fn requests(&self) -> anyhow::Result<File> {
        File::open(self.temporary.path().join("requests.jsonl"))
            .context("cannot read the requests of the batch")
    }
}

/// The purpose of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Purpose<'t> {
    /// The runner's target that serves it.
    pub target: &'t str,
    /// The suffix that distinguishes it from the batches of other targets.
    pub label: &'t str,
    /// How many shards it is split into.
    pub sharding: Sharding,
}

/// How to name the batches of one command.
#[derive(Debug, Clone)]
pub struct BatchName {
    /// The user's choice; by default the time and the digest of the requests.
    pub given: Option<BatchId>,
    /// Whether the target's name is appended, because there are several targets.
    pub one_of_several: bool,
    /// How many earlier names were taken: commands with equal requests may start in the same second.
    pub taken: u32,
}

/// Plans the batch of a suite's tests, with the number of trials, for one target.
pub fn plan_suite(
    suite: &Suite,
    tests: &[&TestCase],
    replicates: u32,
    purpose: Purpose<'_>,
    name: &BatchName,
) -> anyhow::Result<PlannedBatch> {
    let mut draft = Draft::new()?;
    for test in tests {
        for replicate in 1..=replicates.max(1) {
            draft.add(&request_of(test, replicate))?;
            for file in &test.files {
                if let Some(path) = suite.attachments.get(&file.sha256) {
                    draft.files.insert(file.sha256, path.clone());
                }
            }
        }
    }
    let provenance = Provenance { suite: Some(suite.name.clone()) };
    draft.finish(purpose, name, provenance)
}

/// The request of a trial.
pub(super) fn request_of(test: &TestCase, replicate: u32) -> Request {
    Request {
        id: request_id(&test.id, replicate),
        messages: test.messages.clone(),
        params: crate::model::Params::default(),
        tools: test.tools.clone(),
        files: test.files.clone(),
        metadata: Metadata { test_id: test.id.clone(), replicate, ..Metadata::default() },
    }
}

/// Plans the batch of a requests file, for one target. Attachments are in `files`, by digest, if
/// given.
pub fn plan_requests(
    path: &Path,
    files: Option<&Path>,
    purpose: Purpose<'_>,
    name: &BatchName,
) -> anyhow::Result<PlannedBatch> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| {
        Failure::config(format!("cannot read `{shown}`: {error}"))
            .hint("`--requests` takes a file with one request per line: {\"id\":…,\"messages\":[…]}")
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut draft = Draft::new()?;
    let mut lines_of_ids = HashMap::new();
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let (mut line, mut number) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
            break;
        }
        number += 1;
        let text = if number == 1 { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line) } else { &line };
        let text = text.trim_ascii_end();
        if text.is_empty() {
            continue;
        }
        let invalid = |message: &dyn std::fmt::Display, column: Option<usize>, hint: &str| {
            let column = column.map(|column| format!(":{column}")).unwrap_or_default();
            Failure::config(format!("invalid request: {message}\n  --> {shown}:{number}{column}")).hint(hint)
        };
        let request = Request::from_line(text).map_err(|error| invalid(&error, error.column, error.hint))?;
        match files {
            Some(dir) => {
                let paths = request.files.iter().map(|file| (file.sha256, dir.join(file.sha256.to_string())));
                draft.files.extend(paths);
            }
            None if !request.files.is_empty() => {
                let hint = "attachments need a suite: use an EVAL.yaml";
                return Err(invalid(&"`files` in a requests file", None, hint).into());
            }
            None => {}
        }
        if let Some(first) = lines_of_ids.insert(Digest::of(request.id.as_bytes()).half(), number) {
            let message = format!("duplicate id `{}`, first on line {first}", request.id);
            return Err(invalid(&message, None, "ids are unique in a batch: rename one of them").into());
        }
        draft.add(&request)?;
    }
    if draft.count == 0 {
        return Err(Failure::config(format!("no request in `{shown}`"))
            .hint("one request per line: {\"id\":…,\"messages\":[{\"role\":\"user\",\"content\":\"…\"}]}")
            .into());
    }
    let suite = path.file_name().map(|name| name.to_string_lossy().into_owned());
    draft.finish(purpose, name, Provenance { suite })
}

/// A batch whose requests are being written.
struct Draft {
    temporary: WorkDir,
    requests: BufWriter<File>,
    hasher: Sha256,
    count: u64,
    bytes: u64,
    files: BTreeMap<Digest, PathBuf>,
}

impl Draft {
    fn new() -> anyhow::Result<Self> {
        let temporary = WorkDir::new().context("cannot create a temporary directory")?;
        let requests = File::create(temporary.path().join("requests.jsonl"))?;
        let requests = BufWriter::with_capacity(1 << 16, requests);
        Ok(Self { temporary, requests, hasher: Sha256::new(), count: 0, bytes: 0, files: BTreeMap::new() })
    }

    fn add(&mut self, request: &Request) -> anyhow::Result<()> {
        if self.count == MOST_REQUESTS {
            let message = format!("more than {MOST_REQUESTS} requests");
            return Err(Failure::config(message).hint("split them into several batches").into());
        }
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.hasher.update(&line);
        self.requests.write_all(&line).context("cannot write the requests of the batch")?;
        self.count += 1;
        self.bytes += line.len() as u64;
        Ok(())
    }

    fn finish(
        self,
        purpose: Purpose<'_>,
        name: &BatchName,
        provenance: Provenance,
    ) -> anyhow::Result<PlannedBatch> {
        self.requests.into_inner().context("cannot write the requests of the batch")?;
        let requests_sha256 = Digest::finish(self.hasher);
        let run_id = match &name.given {
            Some(id) => id.clone(),
            None => default_id(requests_sha256, purpose.label, name.taken)?,
        };
        let batch_id =
            if name.one_of_several { id_of_target(&run_id, purpose.label)? } else { run_id.clone() };
        let manifest = BatchManifest {
            format: BATCH_FORMAT,
            batch_id,
            target: purpose.target.to_owned(),
            shards: purpose.sharding.count(self.count, self.bytes),
            requests: self.count,
            requests_sha256,
            files: self.files.len() as u64,
            generator: PROGRAM.to_owned(),
            provenance,
        };
        let archive = self.temporary.path().join(BATCH_FILE);
        let requests = self.temporary.path().join("requests.jsonl");
        let sha256 = archive::pack(&manifest, &requests, &self.files, &archive)?;
        Ok(PlannedBatch { run_id, manifest, archive, sha256, temporary: self.temporary })
    }
}

/// `<utc yyyymmdd-hhmmss>-<8 hex of the digest of requests and target>`: the same requests often start for several targets in
/// the same second, on independent machines.
fn default_id(requests: Digest, target: &str, taken: u32) -> anyhow::Result<BatchId> {
    let requests = Digest::of(format!("{requests} {target}").as_bytes());
    let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let again = if taken > 0 { format!("-{}", taken + 1) } else { String::new() };
    Ok(format!("{time}-{}{again}", &requests.to_string()[..8]).parse()?)
}

/// `<id>-<target>`, with the target's name converted to legal characters.
fn id_of_target(id: &BatchId, target: &str) -> Result<BatchId, Failure> {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let target: String = target.chars().map(legal).collect();
    let id = format!("{id}-{target}");
    id.parse().map_err(|error| {
        Failure::new(Exit::Usage, format!("cannot name a batch `{id}`: {error}")).hint(
            "with several targets each batch is named `<batch-id>-<target>`: choose a shorter `--batch-id`",
        )
    })
}

/// The target of a suite that names none.
pub(super) const DEFAULT_TARGET: &str = "default";

/// The runner's own target for a batch.
pub(super) fn served_by(target: &Target) -> &str {
    match target {
        Target::Runner(target) => &target.name,
        Target::Remote(target) => target.target.as_deref().unwrap_or(DEFAULT_TARGET),
    }
}
