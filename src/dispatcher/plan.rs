//! A suite, or a file of requests, becomes one batch archive. Same input and same batch id, same bytes.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::archive;
use crate::model::{
    BATCH_FORMAT, BatchId, BatchManifest, Digest, Failure, Metadata, Provenance, Request, Suite, TestCase,
    request_id,
};

/// A batch archive, ready to be handed over; its temporary directory goes with it.
#[derive(Debug)]
pub struct PlannedBatch {
    /// What it says of itself.
    pub manifest: BatchManifest,
    /// Where it is.
    pub archive: PathBuf,
    /// Its digest.
    pub sha256: Digest,
    _temporary: TempDir,
}

/// The batch of these tests of a suite, each so often, for one target.
pub fn plan_suite(
    suite: &Suite,
    tests: &[&TestCase],
    replicates: u32,
    target: &str,
    batch_id: Option<BatchId>,
) -> anyhow::Result<PlannedBatch> {
    let mut draft = Draft::new()?;
    for test in tests {
        for replicate in 1..=replicates.max(1) {
            draft.add(&Request {
                id: request_id(&test.id, replicate),
                messages: test.messages.clone(),
                params: crate::model::Params::default(),
                files: test.files.clone(),
                metadata: Metadata { test_id: test.id.clone(), replicate, ..Metadata::default() },
            })?;
            for file in &test.files {
                if let Some(path) = suite.attachments.get(&file.sha256) {
                    draft.files.insert(file.sha256, path.clone());
                }
            }
        }
    }
    let provenance = Provenance { suite: Some(suite.name.clone()), source_sha256: suite.source_sha256 };
    draft.finish(target, batch_id, provenance)
}

/// The batch of a file with one request a line, for one target.
pub fn plan_requests(path: &Path, target: &str, batch_id: Option<BatchId>) -> anyhow::Result<PlannedBatch> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| {
        Failure::config(format!("cannot read `{shown}`: {error}"))
            .hint("`--requests` takes a file with one request a line: {\"id\":…,\"messages\":[…]}")
    })?;
    let mut draft = Draft::new()?;
    let mut ids = HashSet::new();
    let mut source = Sha256::new();
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let (mut line, mut number) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).with_context(|| format!("cannot read `{shown}`"))? == 0 {
            break;
        }
        number += 1;
        source.update(&line);
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let invalid =
            |message: String| Failure::config(format!("invalid request: {message}\n --> {shown}:{number}"));
        let request: Request = serde_json::from_slice(text).map_err(|error| {
            let torn = error.is_eof().then_some("the line is torn");
            let message = error.to_string();
            // serde_json counts lines within the line.
            let message = message.split(" at line ").next().unwrap_or_default();
            invalid(torn.unwrap_or(message).to_owned()).hint(format!("column {}", error.column()))
        })?;
        check(&request).map_err(|(message, hint)| invalid(message.to_owned()).hint(hint))?;
        if !ids.insert(Digest::of(request.id.as_bytes()).half()) {
            return Err(invalid(format!("duplicate id `{}`", request.id))
                .hint("ids are unique in a batch")
                .into());
        }
        draft.add(&request)?;
    }
    if draft.count == 0 {
        return Err(Failure::config(format!("no request in `{shown}`")).into());
    }
    let suite = path.file_name().map(|name| name.to_string_lossy().into_owned());
    draft.finish(target, batch_id, Provenance { suite, source_sha256: Some(Digest::finish(source)) })
}

/// A requests file cannot bring attachments: it has no place for their bytes.
fn check(request: &Request) -> Result<(), (&'static str, &'static str)> {
    match request.problem() {
        Some(problem) => Err(problem),
        None if request.files.is_empty() => Ok(()),
        None => Err(("`files` in a requests file", "attachments travel with suites: use an EVAL.yaml")),
    }
}

/// A batch while its requests are written.
struct Draft {
    temporary: TempDir,
    requests: BufWriter<File>,
    hasher: Sha256,
    count: u64,
    files: BTreeMap<Digest, PathBuf>,
}

impl Draft {
    fn new() -> anyhow::Result<Self> {
        let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
        let requests = File::create(temporary.path().join("requests.jsonl"))?;
        let requests = BufWriter::with_capacity(1 << 16, requests);
        Ok(Self { temporary, requests, hasher: Sha256::new(), count: 0, files: BTreeMap::new() })
    }

    fn add(&mut self, request: &Request) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.hasher.update(&line);
        self.requests.write_all(&line).context("cannot write the requests of the batch")?;
        self.count += 1;
        Ok(())
    }

    fn finish(
        self,
        target: &str,
        batch_id: Option<BatchId>,
        provenance: Provenance,
    ) -> anyhow::Result<PlannedBatch> {
        self.requests.into_inner().context("cannot write the requests of the batch")?;
        let requests_sha256 = Digest::finish(self.hasher);
        let batch_id = match batch_id {
            Some(id) => id,
            None => default_id(requests_sha256)?,
        };
        let manifest = BatchManifest {
            format: BATCH_FORMAT,
            batch_id,
            target: target.to_owned(),
            shards: 1,
            requests: self.count,
            requests_sha256,
            files: self.files.len() as u64,
            generator: concat!("run-evals ", env!("CARGO_PKG_VERSION")).to_owned(),
            provenance,
        };
        let archive = self.temporary.path().join("batch.tar.gz");
        let requests = self.temporary.path().join("requests.jsonl");
        let sha256 = archive::pack(&manifest, &requests, &self.files, &archive)?;
        Ok(PlannedBatch { manifest, archive, sha256, _temporary: self.temporary })
    }
}

/// `<utc yyyymmdd-hhmmss>-<8 hex of the digest of the requests>`.
fn default_id(requests: Digest) -> anyhow::Result<BatchId> {
    let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    Ok(format!("{time}-{}", &requests.to_string()[..8]).parse()?)
}
