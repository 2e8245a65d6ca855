//! Forged batches: rejected with exit code 3 before any call, and nothing is written.

use std::io::Read as _;

use insta::assert_snapshot;
use run_evals::testing::Digest;
use serde_json::{Value, json};
use tar::EntryType;

use crate::support::{Forgery, PaidResults, git, hand_over, header};

const RUN: [&str; 3] = ["run", "--batch-id", "b1"];

fn good_request() -> Value {
    json!({"id": "a", "messages": [{"role": "user", "content": "hello"}]})
}

/// A request with additional keys.
fn request(more: &Value) -> Value {
    let mut request = good_request();
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

/// The error of `run` for a batch of this one request.
fn refused_request(request: Value) -> String {
    refused(&Forgery::of(&[request]).pack())
}

/// The error of `run` and `collect` for a batch of these bytes; the same, as far as both read it.
fn refused(archive: &[u8]) -> String {
    let scene = PaidResults::new();
    hand_over(&scene.workspace, "b1", archive);
    let message = scene.refused(&RUN);
    if !message.contains("duplicate id") && !message.contains("is not in the batch") {
        assert_eq!(scene.refused(&["collect", "b1", "--output", "other"]), message);
    }
    message
}

#[test]
fn a_valid_batch_made_by_hand_is_run() {
    let scene = PaidResults::new();
    let name = format!("files/{}", Digest::of(b"text"));
    let archive = Forgery::of(&[good_request()]).file(&name, b"text").pack();
    hand_over(&scene.workspace, "b1", &archive);
    let digest = Digest::of(&archive).to_string();
    scene.workspace.run(&[&RUN[..], &["--batch-sha256", &digest]].concat()).expect(0);
    assert_eq!(scene.llm.counter("requests"), 2);
}

#[test]
fn a_wrong_digest() {
    let scene = PaidResults::new();
    hand_over(&scene.workspace, "b1", &Forgery::of(&[good_request()]).pack());
    let other = Digest::of(b"another batch").to_string();
    assert_snapshot!(scene.refused(&[&RUN[..], &["--batch-sha256", &other]].concat()), @r"
    error: the batch `b1` has the digest [sha256], expected [sha256]

    hint: it was cut or changed on its way: hand the batch over again
    ");
}

#[test]
fn entries_that_leave_the_archive() {
    let with = |name: &str, kind| refused(&Forgery::of(&[good_request()]).entry(name, kind, b"pwned").pack());
    // Relative to the extraction directory, this is the workspace itself.
    assert_snapshot!(with("../../../pwned", EntryType::Regular), @r"
    error: the batch `b1` has the illegal entry `../../../pwned`: a path out of the archive

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(with("files/../../../../pwned", EntryType::Regular), @r"
    error: the batch `b1` has the illegal entry `files/../../../../pwned`: a path out of the archive

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(with("/tmp/pwned-by-run-evals-test", EntryType::Regular), @r"
    error: the batch `b1` has the illegal entry `/tmp/pwned-by-run-evals-test`: an absolute path

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert!(!std::path::Path::new("/tmp/pwned-by-run-evals-test").exists());
}

#[test]
fn entries_that_are_not_files() {
    let name = format!("files/{}", Digest::of(b""));
    let with = |kind| refused(&Forgery::of(&[good_request()]).entry(&name, kind, b"").pack());
    assert_snapshot!(with(EntryType::Symlink), @r"
    error: the batch `b1` has the illegal entry `files/[sha256]`: a symbolic link

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(with(EntryType::Link), @r"
    error: the batch `b1` has the illegal entry `files/[sha256]`: a hard link

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(with(EntryType::Char), @r"
    error: the batch `b1` has the illegal entry `files/[sha256]`: a device

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(with(EntryType::Fifo), @r"
    error: the batch `b1` has the illegal entry `files/[sha256]`: a named pipe

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
}

#[test]
fn a_link_in_place_of_the_requests() {
    let archive = Forgery::of(&[]).entry("requests.jsonl", EntryType::Symlink, b"").pack();
    assert_snapshot!(refused(&archive), @r"
    error: the batch `b1` has the illegal entry `requests.jsonl`: a symbolic link

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
}

#[test]
fn unexpected_entries() {
    let batch = || Forgery::of(&[good_request()]);
    assert_snapshot!(refused(&batch().entry("targets.yaml", EntryType::Regular, b"x").pack()), @r"
    error: the batch `b1` has the illegal entry `targets.yaml`: expected `manifest.json`, `requests.jsonl` or `files/<sha256>`

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(refused(&batch().entry("x\n::error::y\u{1b}[2J", EntryType::Regular, b"x").pack()), @r"
    error: the batch `b1` has the illegal entry `x\n::error::y\u{1b}[2J`: expected `manifest.json`, `requests.jsonl` or `files/<sha256>`

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    let again = good_request().to_string();
    assert_snapshot!(refused(&batch().entry("requests.jsonl", EntryType::Regular, again.as_bytes()).pack()), @r"
    error: the batch `b1` has the illegal entry `requests.jsonl`: it is there twice

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    let name = format!("files/{}", Digest::of(b"text"));
    assert_snapshot!(refused(&batch().file(&name, b"text").file(&name, b"text").pack()), @r"
    error: the batch `b1` has the illegal entry `files/[sha256]`: it is there twice

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
}

#[test]
fn decompression_bombs() {
    const SIZE: u64 = 100 << 20;
    let zeros = || std::io::repeat(0).take(SIZE);
    let name = format!("files/{}", Digest::of(b"zeros"));
    let large = Forgery::of(&[good_request()]).pack_with(|tar| {
        tar.append(&header(&name, EntryType::Regular, SIZE), zeros()).unwrap();
    });
    assert!(large.len() < 200_000, "{} bytes", large.len());
    assert_snapshot!(refused(&large), @r"
    error: the batch `b1` unpacks to more than 67108864 bytes

    hint: split it into several batches
    ");
    // After the end marker, where no entry declares the size.
    let behind = Forgery::of(&[good_request()]).pack_with(|tar| {
        std::io::copy(&mut zeros(), tar.get_mut()).unwrap();
    });
    assert_snapshot!(refused(&behind), @r"
    error: the batch `b1` unpacks to more than 67108864 bytes

    hint: split it into several batches
    ");
    // A declared length without the data.
    let claimed = Forgery::of(&[good_request()]).pack_with(|tar| {
        tar.append(&header(&name, EntryType::Regular, 1 << 32), &b"short"[..]).unwrap();
    });
    assert_snapshot!(refused(&claimed), @r"
    error: the batch `b1` unpacks to more than 67108864 bytes

    hint: split it into several batches
    ");
}

#[test]
fn truncated_archives() {
    let whole = Forgery::of(&[good_request()]).pack();
    assert_snapshot!(refused(&whole[..whole.len() / 2]), @r"
    error: the batch `b1` is damaged: incomplete deflate stream

    hint: it was cut or changed on its way: hand the batch over again
    ");
    assert_snapshot!(refused(&whole[..whole.len() - 4]), @r"
    error: the batch `b1` is damaged: unexpected end of file

    hint: it was cut or changed on its way: hand the batch over again
    ");
    assert_snapshot!(refused(b""), @r"
    error: the batch `b1` is damaged: unexpected end of file

    hint: it was cut or changed on its way: hand the batch over again
    ");
    assert_snapshot!(refused(b"not an archive"), @r"
    error: the batch `b1` is damaged: invalid gzip header

    hint: it was cut or changed on its way: hand the batch over again
    ");
    let mut flipped = whole.clone();
    let checksum = flipped.len() - 6;
    flipped[checksum] ^= 1;
    assert_snapshot!(refused(&flipped), @r"
    error: the batch `b1` is damaged: corrupt gzip stream does not have a matching checksum

    hint: it was cut or changed on its way: hand the batch over again
    ");
    assert_snapshot!(refused(&[whole.as_slice(), b"more"].concat()), @r"
    error: the batch `b1` is damaged: something follows the end of the archive

    hint: it was cut or changed on its way: hand the batch over again
    ");
}

#[test]
fn manifests() {
    let says = |key: &str, value: Value| refused(&Forgery::of(&[good_request()]).set(key, value).pack());
    let told = says("format", json!(2));
    assert!(told.contains("the batch `b1` has format 2 (written by "), "{told}");
    let version = env!("CARGO_PKG_VERSION");
    assert!(told.contains(&format!("), but run-evals {version} reads format 1\n")), "{told}");
    assert_snapshot!(says("batch_id", json!("b2")), @r"
    error: the batch `b1` says that it is the batch `b2`

    hint: hand it over again under its own id
    ");
    assert_snapshot!(says("batch_id", json!("../b1")), @r"
    error: the batch `b1` has an invalid `manifest.json`: a batch id has 1 to 60 characters of `a-z`, `0-9` and `-`

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(says("shards", json!(0)), @r"
    error: the batch `b1` has an invalid `manifest.json`: `shards` is 0, expected 1 to 256

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    // Every shard has a journal, which is looked up.
    assert_snapshot!(says("shards", json!(u32::MAX)), @r"
    error: the batch `b1` has an invalid `manifest.json`: `shards` is 4294967295, expected 1 to 256

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(says("requests", json!(2)), @r"
    error: the batch `b1` does not hold what it promises: `requests.jsonl` has 1 lines, the manifest says 2

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(says("requests_sha256", json!(Digest::of(b"others"))), @r"
    error: the batch `b1` does not hold what it promises: `requests.jsonl` has the digest [sha256], the manifest says [sha256]

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(says("base_url", json!("https://evil.example")), @r"
    error: the batch `b1` has an invalid `manifest.json`: unknown field `base_url`, expected one of `format`, `batch_id`, `target`, `shards`, `requests`, `requests_sha256`, `files`, `generator`, `provenance`

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(says("target", json!("llm\n::error::y")), @r"
    error: the batch `b1` has an invalid `manifest.json`: `target` is empty or has control characters

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
}

#[test]
fn a_target_missing_in_the_runner() {
    let scene = PaidResults::new();
    hand_over(&scene.workspace, "b1", &Forgery::of(&[good_request()]).set("target", "other").pack());
    assert_snapshot!(scene.refused(&RUN), @r"
    error: no target `other` in `targets.yaml`

    hint: `--target` chooses one; its targets: `llm`
    ");
}

#[test]
fn an_attachment_with_different_content() {
    let name = format!("files/{}", Digest::of(b"text"));
    assert_snapshot!(refused(&Forgery::of(&[good_request()]).file(&name, b"other").pack()), @r"
    error: the batch `b1` does not hold what it promises: `files/[sha256]` has the digest [sha256]

    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
}

#[test]
fn a_missing_attachment() {
    let sha256 = Digest::of(b"text");
    let content = json!([{"type": "file", "sha256": sha256}]);
    let messages = json!([{"role": "user", "content": content}]);
    let file = json!({"sha256": sha256, "name": "x\n::error::y", "media_type": "text/plain", "size": 4});
    assert_snapshot!(refused_request(request(&json!({"messages": messages, "files": [file]}))), @r"
    error: invalid batch: `requests.jsonl` line 1: attachment `x\n::error::y` is not in the batch

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
    assert_snapshot!(refused_request(request(&json!({"messages": messages}))), @r"
    error: invalid batch: `requests.jsonl` line 1: a message refers to attachment [sha256], which `files` does not list

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
    let path = json!({"sha256": "../../../etc/passwd", "name": "x", "media_type": "text/plain", "size": 4});
    assert_snapshot!(refused_request(request(&json!({"files": [path]}))), @r"
    error: invalid batch: `requests.jsonl` line 1, column 97: a SHA-256 has 64 lower-case hexadecimal digits

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
}

#[test]
fn requests_that_set_their_own_target() {
    let with = |params: Value| refused_request(request(&json!({"params": params})));
    assert_snapshot!(with(json!({"base_url": "https://evil.example"})), @r"
    error: invalid batch: `requests.jsonl` line 1, column 77: unknown field `base_url`, expected one of `model`, `temperature`, `top_p`, `seed`, `stop`, `max_tokens`, `reasoning_effort`, `response_format`

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
    assert_snapshot!(with(json!({"headers": {"x": "y"}})), @r"
    error: invalid batch: `requests.jsonl` line 1, column 76: unknown field `headers`, expected one of `model`, `temperature`, `top_p`, `seed`, `stop`, `max_tokens`, `reasoning_effort`, `response_format`

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
    assert_snapshot!(refused_request(request(&json!({"url": "https://evil.example"}))), @r"
    error: invalid batch: `requests.jsonl` line 1, column 62: unknown field `url`, expected one of `id`, `messages`, `params`, `tools`, `files`, `metadata`

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
    let image = json!([{"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}]);
    let messages = json!([{"role": "user", "content": image}]);
    assert_snapshot!(refused_request(request(&json!({"messages": messages}))), @r"
    error: invalid batch: `requests.jsonl` line 1, column 67: unknown variant `image_url`, expected one of `text`, `file`, `image`

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
}

#[test]
fn invalid_ids() {
    assert_snapshot!(refused(&Forgery::of(&[good_request(), good_request()]).pack()), @r"
    error: invalid batch: `requests.jsonl` line 2: duplicate id `a`

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
    assert_snapshot!(refused_request(request(&json!({"id": "a\n::error::y\u{1b}[2J"}))), @r"
    error: invalid batch: `requests.jsonl` line 1: `id` has control characters

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
    assert_snapshot!(refused_request(request(&json!({"id": ""}))), @r"
    error: invalid batch: `requests.jsonl` line 1: `id` is empty

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
}

#[test]
fn lines_that_are_not_requests() {
    assert_snapshot!(refused_request(json!("text")), @r"
    error: invalid batch: `requests.jsonl` line 1, column 1: expected a JSON object

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
    assert_snapshot!(refused_request(json!(["a", [{"role": "user", "content": "hello"}]])), @r"
    error: invalid batch: `requests.jsonl` line 1, column 1: expected a JSON object

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
    assert_snapshot!(refused_request(json!({"id": "a", "messages": []})), @r"
    error: invalid batch: `requests.jsonl` line 1: `messages` is empty

    hint: a batch is made by `run-evals dispatch` or `run-evals eval`
    ");
}

#[test]
fn a_shard_outside_the_batch() {
    let scene = PaidResults::new();
    hand_over(&scene.workspace, "b1", &Forgery::of(&[good_request()]).pack());
    assert_snapshot!(scene.refused(&[&RUN[..], &["--shard", "1"]].concat()), @r"
    error: no shard 1 in batch `b1`

    hint: it has one shard: `--shard 0`
    ");
    let three = Forgery::of(&[good_request()]).set("shards", 3).pack();
    hand_over(&scene.workspace, "b1", &three);
    assert_snapshot!(scene.refused(&[&RUN[..], &["--shard", "3"]].concat()), @r"
    error: no shard 3 in batch `b1`

    hint: it has 3 shards: `--shard 0` to `--shard 2`
    ");
}

#[test]
fn a_branch_without_a_batch() {
    let scene = PaidResults::new();
    git(&scene.workspace, &["update-ref", "refs/heads/eval-batch/b1", "refs/heads/eval-results/kept"], b"");
    assert_snapshot!(scene.refused(&RUN), @r"
    error: the branch `eval-batch/b1` exists but has no `batch.tar.gz`

    hint: delete the branch, or choose another `--batch-id`
    ");
}
