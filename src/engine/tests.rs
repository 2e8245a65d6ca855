//! Collects from a real git exchange that others can write to.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::batch::PlannedBatch;
use super::collect::collect;
use super::rows::BatchIdentity;
use super::*;
use crate::exchange::LocalExchange;
use crate::model::{BatchId, Digest, Exit, Failure};
use crate::protocol::{BATCH_FORMAT, ResultsManifest, RowSeal, Totals};

const REQUESTS: u64 = 4;
const SHARDS: u32 = 2;

/// An exchange with the batch `b1`: four requests in two shards.
struct World {
    dir: TempDir,
    exchange: LocalExchange,
    batch: PlannedBatch,
    lines: Vec<String>,
}

impl World {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let lines: Vec<String> = (0..REQUESTS)
            .map(|i| {
                json!({"id": format!("r{i}"), "messages": [{"role": "user", "content": "x"}]}).to_string()
            })
            .collect();
        let requests = dir.path().join("requests.jsonl");
        fs::write(&requests, lines.join("\n")).unwrap();
        let shards = crate::model::Shards::Exactly(SHARDS.try_into().unwrap());
        let purpose = Purpose { target: "t", label: "t", sharding: Sharding { shards, limits: None } };
        let name = BatchName { given: Some(id()), one_of_several: false, taken: 0 };
        let batch = plan_requests(&requests, None, purpose, &name).unwrap();
        let exchange = LocalExchange::open_or_create(&dir.path().join("exchange.git")).unwrap();
        exchange.put_batch(&id(), &batch.archive, batch.sha256).unwrap();
        exchange.claim_journal(&id(), batch.sha256).unwrap();
        // The digest of its content, which may differ from that of the file.
        let packed = dir.path().join("unpacked");
        crate::protocol::archive::unpack(
            &batch.archive,
            &id(),
            None,
            &crate::protocol::archive::Limits::default(),
            &packed,
        )
        .unwrap();
        let lines = fs::read_to_string(packed.join("requests.jsonl")).unwrap();
        let lines = lines.lines().map(ToOwned::to_owned).collect();
        Self { dir, exchange, batch, lines }
    }

    fn known(&self) -> BatchIdentity {
        let (target, dispatched_as) = ("cloud".to_owned(), None);
        BatchIdentity { requests: REQUESTS, shards: SHARDS, sha256: self.batch.sha256, target, dispatched_as }
    }

    /// The row that answers a request with some text.
    fn row(&self, index: u64, text: &str) -> Value {
        json!({
            "index": index,
            "id": format!("r{index}"),
            "output": [{"role": "assistant", "content": text}],
            "cost_usd": 0.5,
            "duration_ms": 1,
            "target": "t",
            "attempts": 1,
            "request_sha256": Digest::of(self.lines[usize::try_from(index).unwrap()].as_bytes()),
        })
    }

    /// A row as a runner writes it: its index first, then its checksum.
    fn text(&self, row: &Value) -> String {
        let index = row["index"].to_string();
        let mut row = row.clone();
        row.as_object_mut().unwrap().remove("index");
        let row = row.to_string().replacen('{', &format!("{{\"index\":{index},"), 1);
        RowSeal::of(self.batch.sha256).seal(&row)
    }

    fn file(&self, rows: &[Value]) -> PathBuf {
        let path = self.dir.path().join("rows.jsonl");
        fs::write(&path, rows.iter().map(|row| self.text(row) + "\n").collect::<String>()).unwrap();
        path
    }

    fn publish(&self, shard: u32, rows: &[Value]) {
        self.exchange.publish(&id(), shard, Some(&self.file(rows)), None).unwrap();
    }

    fn publish_all(&self) {
        for shard in 0..SHARDS {
            let shard_rows = (u64::from(shard)..REQUESTS).step_by(SHARDS as usize);
            self.publish(shard, &shard_rows.map(|index| self.row(index, "answer")).collect::<Vec<_>>());
        }
    }

    fn collect(&self, known: Option<&BatchIdentity>) -> (Collection, Vec<Value>) {
        let mut out = Vec::new();
        let collection = collect(&self.exchange, &id(), known, &mut out).unwrap();
        (
            collection,
            out.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect(),
        )
    }
}

fn id() -> BatchId {
    "b1".parse().unwrap()
}

fn with(mut row: Value, key: &str, value: Value) -> Value {
    row[key] = value;
    row
}

fn texts(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["output"][0]["content"].as_str().unwrap_or("-")).collect()
}

#[test]
fn forged_rows_are_ignored() {
    let world = World::new();
    let forged = |index: u64| world.row(index, "forged");
    let mut both = forged(0);
    both["error"] = json!({"kind": "server", "message": "", "retryable": false});
    let mut neither = forged(0);
    neither.as_object_mut().unwrap().remove("output");
    let mut half = forged(0);
    half.as_object_mut().unwrap().remove("attempts");
    let rows = [
        // Of shard 1, and beyond the batch.
        forged(1),
        with(forged(0), "index", json!(4)),
        with(forged(0), "id", json!("r2")),
        with(forged(0), "request_sha256", forged(2)["request_sha256"].clone()),
        with(forged(0), "request_sha256", json!("00")),
        with(forged(0), "cost_usd", json!(-100.0)),
        with(forged(0), "runner_target", json!("t")),
        with(forged(0), "runner_target", json!(null)),
        with(forged(0), "target", json!("a\nb")),
        with(forged(0), "target", json!("x".repeat(5000))),
        both,
        neither,
        half,
    ];
    world.publish(0, &rows);
    world.publish(7, &[forged(0), forged(1)]);
    assert_eq!(collect::unsettled_shards(&world.exchange, &id(), &world.known()).unwrap(), [0, 1]);
    let (collection, responses) = world.collect(None);
    assert_eq!(texts(&responses), ["-"; 4]);
    assert!(collection.resumable);
    assert_eq!((collection.summary.totals.not_run, collection.summary.totals.cost_usd), (REQUESTS, None));
    insta::assert_snapshot!(collection.warnings.join("\n"), @"15 rows among the results do not belong to batch `b1`, or cannot be read: left out (the first: `eval-results/b1:results/shard-000/0001.jsonl`, line 1)");

    world.publish_all();
    assert_eq!(collect::unsettled_shards(&world.exchange, &id(), &world.known()).unwrap(), [0; 0]);
    let (collection, responses) = world.collect(Some(&world.known()));
    assert_eq!(texts(&responses), ["answer"; 4]);
    assert_eq!((collection.summary.totals.cost_usd, collection.warnings.len()), (Some(2.0), 1));
}

#[test]
fn accepted_rows_are_collected_again() {
    let world = World::new();
    world.publish_all();
    world.collect(None);
    world.exchange.delete_batch(&id()).unwrap();
    // The branch has everything an attacker needs.
    world.publish(0, &[world.row(0, "forged"), world.row(2, "forged")]);
    for known in [None, Some(&world.known())] {
        let (collection, responses) = world.collect(known);
        assert_eq!(texts(&responses), ["answer"; 4]);
        assert_eq!((collection.resumable, collection.missing), (false, 0));
        assert_eq!(collection.warnings.len(), 0);
    }
}

#[test]
fn artifacts_are_collected_again_without_the_batch() {
    let world = World::new();
    let artifacts = world.exchange.artifacts().unwrap();
    let publish = |shard: u32, rows: &[Value]| {
        artifacts.publish_artifact(&id(), world.batch.sha256, shard, &world.file(rows)).unwrap();
    };
    publish(0, &[world.row(0, "answer"), world.row(2, "answer")]);
    publish(1, &[world.row(1, "answer"), world.row(3, "answer")]);
    let known = world.known();
    assert_eq!(texts(&world.collect(Some(&known)).1), ["answer"; 4]);
    world.exchange.delete_batch(&id()).unwrap();
    publish(1, &[world.row(1, "forged")]);
    let (collection, responses) = world.collect(Some(&known));
    assert_eq!(texts(&responses), ["answer"; 4]);
    assert_eq!((collection.missing, collection.warnings.len()), (0, 0));
    assert_eq!(collection.summary.target, "t");
}

#[test]
fn missing_rows_are_reported_if_the_batch_is_gone() {
    let world = World::new();
    world.publish(0, &[world.row(0, "answer"), world.row(2, "answer")]);
    world.exchange.delete_batch(&id()).unwrap();
    let (collection, responses) = world.collect(Some(&world.known()));
    assert_eq!(texts(&responses), ["answer"; 2]);
    assert_eq!((collection.missing, collection.resumable), (2, false));
    assert_eq!((collection.summary.requests, collection.summary.totals.not_run), (REQUESTS, 2));
    insta::assert_snapshot!(collection.warnings.join("\n"), @"2 of 4 requests have no row among the results, and are not in the responses: their ids are known only where the batch `b1` is");
    // A collection with missing rows is not final.
    world.publish(1, &[world.row(1, "late"), world.row(3, "late")]);
    assert_eq!(texts(&world.collect(Some(&world.known())).1), ["answer", "late", "answer", "late"]);
}

#[test]
fn a_manifest_with_wrong_counts_hides_nothing() {
    let world = World::new();
    world.publish_all();
    let forged = |requests: u64, shards: u32| {
        let manifest = ResultsManifest {
            format: BATCH_FORMAT,
            batch_id: id(),
            batch_sha256: world.batch.sha256,
            target: "forged".to_owned(),
            shards,
            requests,
            totals: Totals::default(),
            stopped: None,
            run_url: None,
            identity: None,
            policy_sha256: None,
            runner: String::new(),
        };
        world.exchange.publish(&id(), 0, None, Some(&manifest)).unwrap();
    };
    for (requests, shards) in [(1, 1), (0, 0), (u64::MAX, u32::MAX), (REQUESTS, 3)] {
        forged(requests, shards);
        let (collection, responses) = world.collect(None);
        assert_eq!(texts(&responses), ["answer"; 4]);
        assert_eq!(collection.summary.target, "t");
    }
    world.exchange.delete_batch(&id()).unwrap();
    fs::remove_dir_all(world.exchange.path().join("collected")).unwrap();
    let (collection, responses) = world.collect(Some(&world.known()));
    assert_eq!((texts(&responses), collection.missing), (vec!["answer"; 4], 0));
    // If nothing else is known, absurd counts are rejected.
    fs::remove_dir_all(world.exchange.path().join("collected")).unwrap();
    for (requests, shards) in [(REQUESTS, 0), (u64::MAX, 1)] {
        forged(requests, shards);
        let error = collect(&world.exchange, &id(), None, &mut std::io::sink()).unwrap_err();
        assert_eq!(error.downcast::<Failure>().unwrap().exit(), Exit::Config);
    }
}

#[test]
fn rows_of_another_batch_are_not_mixed_in() {
    let world = World::new();
    fs::write(world.exchange.journal_path(&id(), 0).unwrap(), world.text(&world.row(0, "here")) + "\n")
        .unwrap();
    assert_eq!(texts(&world.collect(None).1), ["here", "-", "-", "-"]);
    world.exchange.delete_batch(&id()).unwrap();
    let other = BatchIdentity { sha256: Digest::of(b"other"), ..world.known() };
    let (collection, responses) = world.collect(Some(&other));
    assert_eq!((responses.len(), collection.missing), (0, REQUESTS));
    // Results of another owner are not mixed in, either.
    world.publish_all();
    let error = collect(&world.exchange, &id(), Some(&other), &mut std::io::sink()).unwrap_err();
    assert_eq!(error.downcast::<Failure>().unwrap().exit(), Exit::Config);
}
