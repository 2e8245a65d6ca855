//! Archives as they should be, and as an attacker would make them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use insta::assert_snapshot;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::model::{BatchId, Digest, Exit};
use crate::protocol::{BATCH_FORMAT, BatchManifest, PROGRAM, Provenance};

const REQUEST: &[u8] = b"{\"id\":\"a\"}\n";

/// A directory with all inputs of an archive.
struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn pack(&self, requests: &[u8], files: &[&[u8]], out: &str) -> (BatchManifest, Digest) {
        fs::write(self.path("in.jsonl"), requests).unwrap();
        let mut paths = BTreeMap::new();
        for content in files {
            let digest = Digest::of(content);
            let path = self.path(&format!("attachment-{digest}"));
            fs::write(&path, content).unwrap();
            paths.insert(digest, path);
        }
        let manifest = manifest(requests, paths.len() as u64);
        let digest = pack(&manifest, &self.path("in.jsonl"), &paths, &self.path(out)).unwrap();
        (manifest, digest)
    }

    /// Writes these raw entries as an archive, valid or not.
    fn forge(&self, entries: &[ArchiveEntry]) {
        let file = File::create(self.path("batch.tar.gz")).unwrap();
        let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::best()));
        for entry in entries {
            let mut header = tar::Header::new_ustar();
            // By hand: the library would not write a hostile name.
            header.as_mut_bytes()[..entry.name.len()].copy_from_slice(entry.name.as_bytes());
            header.set_size(entry.content.len() as u64);
            header.set_mode(0o644);
            header.set_entry_type(entry.kind);
            if matches!(entry.kind, tar::EntryType::Symlink | tar::EntryType::Link) {
                header.set_link_name_literal("/etc/passwd").unwrap();
            }
            header.set_cksum();
            tar.append(&header, entry.content.as_slice()).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap();
    }

    fn unpack(&self, limits: &Limits) -> Result<BatchManifest, crate::model::Failure> {
        unpack(&self.path("batch.tar.gz"), &id(), None, limits, &self.path("out"))
    }

    /// The message and the hint of the rejection, which must leave nothing behind.
    fn refusal(&self, expected: Option<Digest>, limits: &Limits) -> String {
        let empty = self.path("empty");
        fs::create_dir_all(&empty).unwrap();
        for out in ["out", "empty"] {
            let failure =
                unpack(&self.path("batch.tar.gz"), &id(), expected, limits, &self.path(out)).unwrap_err();
            assert_eq!(failure.exit(), Exit::Config, "{failure}");
        }
        assert!(!self.path("out").exists());
        assert!(fs::read_dir(&empty).unwrap().next().is_none(), "something is left");
        let failure =
            unpack(&self.path("batch.tar.gz"), &id(), expected, limits, &self.path("out")).unwrap_err();
        format!("{failure}\nhint: {}", failure.hint_text().unwrap())
            .replace(&format!("{}/", self.dir.path().display()), "")
    }

    fn refusal_of(&self, entries: &[ArchiveEntry]) -> String {
        self.forge(entries);
        self.refusal(None, &Limits::default())
    }
}

struct ArchiveEntry {
    name: String,
    kind: tar::EntryType,
    content: Vec<u8>,
}

fn id() -> BatchId {
    "test-batch".parse().unwrap()
}

fn manifest(requests: &[u8], files: u64) -> BatchManifest {
    let lines = requests.split_inclusive(|byte| *byte == b'\n').count();
    BatchManifest {
        format: BATCH_FORMAT,
        batch_id: id(),
        target: "gpt".to_owned(),
        shards: 1,
        requests: lines as u64,
        requests_sha256: Digest::of(requests),
        files,
        generator: "run-evals test".to_owned(),
        provenance: Provenance::default(),
    }
}

fn file(name: &str, content: &[u8]) -> ArchiveEntry {
    ArchiveEntry { name: name.to_owned(), kind: tar::EntryType::Regular, content: content.to_vec() }
}

fn special(name: &str, kind: tar::EntryType) -> ArchiveEntry {
    ArchiveEntry { name: name.to_owned(), kind, content: Vec::new() }
}

/// The manifest of a batch with one request and this many files.
fn good_manifest(files: u64) -> ArchiveEntry {
    file("manifest.json", &serde_json::to_vec(&manifest(REQUEST, files)).unwrap())
}

fn changed_manifest(key: &str, value: serde_json::Value) -> ArchiveEntry {
    let mut json = serde_json::to_value(manifest(REQUEST, 0)).unwrap();
    json[key] = value;
    file("manifest.json", json.to_string().as_bytes())
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn packing_round_trips_and_is_reproducible(
        lines in prop::collection::vec("[^\n\r]{0,300}", 0..40),
        files in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..6),
        torn in any::<bool>(),
    ) {
        let mut requests = lines.iter().flat_map(|line| [line.as_bytes(), b"\n"]).flatten().copied().collect::<Vec<_>>();
        if torn {
            requests.extend(b"{}");
        }
        let files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
        let bench = Bench::new();
        let (manifest, digest) = bench.pack(&requests, &files, "batch.tar.gz");
        let (_, again) = bench.pack(&requests, &files, "again.tar.gz");
        prop_assert_eq!(digest, again);
        prop_assert_eq!(read(&bench.path("batch.tar.gz")), read(&bench.path("again.tar.gz")));
        prop_assert_eq!(digest, Digest::of(&read(&bench.path("batch.tar.gz"))));

        let out = bench.path("out");
        let unpacked = unpack(&bench.path("batch.tar.gz"), &id(), Some(digest), &Limits::default(), &out).unwrap();
        prop_assert_eq!(unpacked, manifest);
        prop_assert_eq!(read(&out.join("requests.jsonl")), requests);
        for content in files {
            prop_assert_eq!(read(&out.join("files").join(Digest::of(content).to_string())), content);
        }
    }
}

#[test]
fn the_bytes_of_an_archive_are_pinned() {
    let bench = Bench::new();
    let (_, digest) = bench.pack(&REQUEST.repeat(500), &[b"hello", &vec![7; 100_000]], "batch.tar.gz");
    // A change here means that a batch of another version no longer resumes under the same id.
    assert_snapshot!(digest, @"22d4bc9637bf45ae90c1ba4e6be1ec55ccec008f1e6c936d7ed6296fe0ef9047");
    let bytes = read(&bench.path("batch.tar.gz"));
    assert_eq!(bytes[..4], [0x1f, 0x8b, 8, 0], "gzip without a name");
    assert_eq!(bytes[4..8], [0; 4], "gzip without a time");
    assert_eq!(bytes[9], 255, "gzip without an operating system");
}

#[test]
fn entries_say_nothing_about_the_machine() {
    let bench = Bench::new();
    bench.pack(REQUEST, &[b"b", b"a"], "batch.tar.gz");
    let gzip = flate2::read::GzDecoder::new(File::open(bench.path("batch.tar.gz")).unwrap());
    let mut tar = tar::Archive::new(gzip);
    let mut listing = Vec::new();
    for entry in tar.entries().unwrap() {
        let entry = entry.unwrap();
        let header = entry.header();
        let numbers =
            (header.mode().unwrap(), header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap());
        assert_eq!(numbers, (0o644, 0, 0, 0));
        assert_eq!((header.username_bytes(), header.groupname_bytes()), (Some(&b""[..]), Some(&b""[..])));
        listing.push(entry.path().unwrap().display().to_string());
    }
    assert_snapshot!(listing.join("\n"), @r"
    manifest.json
    requests.jsonl
    files/3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d
    files/ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb
    ");
}

#[test]
fn a_changed_file_is_not_packed() {
    let bench = Bench::new();
    fs::write(bench.path("in.jsonl"), REQUEST).unwrap();
    fs::write(bench.path("note.txt"), "new").unwrap();
    let files = BTreeMap::from([(Digest::of(b"old"), bench.path("note.txt"))]);
    let out = bench.path("batch.tar.gz");
    let error = pack(&manifest(REQUEST, 1), &bench.path("in.jsonl"), &files, &out).unwrap_err();
    assert!(error.to_string().ends_with("note.txt` changed while the batch was packed"), "{error}");
    let error = pack(&manifest(b"{}\n", 0), &bench.path("in.jsonl"), &BTreeMap::new(), &out).unwrap_err();
    assert!(error.to_string().ends_with("in.jsonl` changed while the batch was packed"), "{error}");
    let names: Vec<_> =
        fs::read_dir(bench.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "an archive or a part of one is left: {names:?}");
}

#[test]
fn a_wrong_digest_is_rejected_first() {
    let bench = Bench::new();
    fs::write(bench.path("batch.tar.gz"), "no archive at all").unwrap();
    assert_snapshot!(bench.refusal(Some(Digest::of(b"")), &Limits::default()), @r"
    the batch `test-batch` has the digest 5742317412fc41d579db1431eed0badd4d1ac8ae760153d9dbfff9655cc100c9, expected e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
    hint: it was cut or changed on its way: hand the batch over again
    ");
}

#[test]
fn hostile_paths_are_rejected() {
    let bench = Bench::new();
    assert_snapshot!(bench.refusal_of(&[good_manifest(0), file("files/../../x", b"")]), @r"
    the batch `test-batch` has the illegal entry `files/../../x`: a path out of the archive
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(bench.refusal_of(&[good_manifest(0), file("/etc/cron.d/x", b"")]), @r"
    the batch `test-batch` has the illegal entry `/etc/cron.d/x`: an absolute path
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(bench.refusal_of(&[good_manifest(0), file("notes\n::set-output\u{1b}[2J", b"")]), @r"
    the batch `test-batch` has the illegal entry `notes\n::set-output\u{1b}[2J`: expected `manifest.json`, `requests.jsonl` or `files/<sha256>`
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(bench.refusal_of(&[good_manifest(0), file(&"n".repeat(100), b"")]), @r"
    the batch `test-batch` has the illegal entry `nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn`: expected `manifest.json`, `requests.jsonl` or `files/<sha256>`
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    let upper = format!("files/{}", "A".repeat(64));
    assert!(bench.refusal_of(&[good_manifest(0), file(&upper, b"")]).contains("expected `manifest.json`"));
}

#[test]
fn only_regular_files_are_accepted() {
    let bench = Bench::new();
    let name = format!("files/{}", Digest::of(b""));
    let mut refusals = Vec::new();
    for kind in [
        tar::EntryType::Symlink,
        tar::EntryType::Link,
        tar::EntryType::Char,
        tar::EntryType::Block,
        tar::EntryType::Fifo,
        tar::EntryType::Directory,
        tar::EntryType::GNULongName,
        tar::EntryType::XHeader,
        tar::EntryType::GNUSparse,
    ] {
        let refusal = bench.refusal_of(&[good_manifest(1), special(&name, kind)]);
        refusals.push(refusal.replace(&name, "files/…").lines().next().unwrap().to_owned());
    }
    assert_snapshot!(refusals.join("\n"), @r"
    the batch `test-batch` has the illegal entry `files/…`: a symbolic link
    the batch `test-batch` has the illegal entry `files/…`: a hard link
    the batch `test-batch` has the illegal entry `files/…`: a device
    the batch `test-batch` has the illegal entry `files/…`: a device
    the batch `test-batch` has the illegal entry `files/…`: a named pipe
    the batch `test-batch` has the illegal entry `files/…`: a directory
    the batch `test-batch` has the illegal entry `files/…`: not a regular file
    the batch `test-batch` has the illegal entry `files/…`: not a regular file
    the batch `test-batch` has the illegal entry `files/…`: not a regular file
    ");
}

#[test]
fn bombs_are_rejected_while_unpacking() {
    let bench = Bench::new();
    bench.forge(&[good_manifest(0), file("requests.jsonl", &vec![0; 8 << 20])]);
    let length = fs::metadata(bench.path("batch.tar.gz")).unwrap().len();
    assert!(length < 10_000, "{length}");
    let limits = Limits { free_bytes: 1 << 20, ratio: 1, ..Limits::default() };
    assert_snapshot!(bench.refusal(None, &limits), @r"
    the batch `test-batch` unpacks to more than 1048576 bytes
    hint: split it into several batches
    ");
    let limits = Limits { unpacked_bytes: 4096, ..Limits::default() };
    assert_snapshot!(bench.refusal(None, &limits), @r"
    the batch `test-batch` unpacks to more than 4096 bytes
    hint: split it into several batches
    ");
    let limits = Limits { archive_bytes: 1000, ..Limits::default() };
    assert_snapshot!(bench.refusal(None, &limits), @r"
    the batch `test-batch` is larger than 1000 bytes
    hint: split it into several batches
    ");
}

#[test]
fn a_bomb_after_the_last_entry_is_rejected() {
    let bench = Bench::new();
    bench.forge(&[good_manifest(0), file("requests.jsonl", REQUEST)]);
    let mut tar = Vec::new();
    flate2::read::GzDecoder::new(File::open(bench.path("batch.tar.gz")).unwrap())
        .read_to_end(&mut tar)
        .unwrap();
    tar.resize(8 << 20, 0);
    let mut gzip = GzEncoder::new(File::create(bench.path("batch.tar.gz")).unwrap(), Compression::best());
    gzip.write_all(&tar).unwrap();
    gzip.finish().unwrap();
    let limits = Limits { free_bytes: 1 << 20, ratio: 1, ..Limits::default() };
    assert!(bench.refusal(None, &limits).contains("unpacks to more than"));
}

#[test]
fn too_many_entries_are_rejected() {
    let bench = Bench::new();
    let mut entries = vec![good_manifest(3), file("requests.jsonl", REQUEST)];
    entries
        .extend([b"a", b"b", b"c"].map(|content| file(&format!("files/{}", Digest::of(content)), content)));
    bench.forge(&entries);
    assert_snapshot!(bench.refusal(None, &Limits { entries: 4, ..Limits::default() }), @r"
    the batch `test-batch` has more than 4 entries
    hint: split it into several batches
    ");
    bench.unpack(&Limits { entries: 5, ..Limits::default() }).unwrap();
}

#[test]
fn entries_come_once_and_the_manifest_first() {
    let bench = Bench::new();
    let requests = || file("requests.jsonl", REQUEST);
    let attachment = || file(&format!("files/{}", Digest::of(b"a")), b"a");
    assert_snapshot!(bench.refusal_of(&[good_manifest(0), requests(), requests()]), @r"
    the batch `test-batch` has the illegal entry `requests.jsonl`: it is there twice
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert!(bench.refusal_of(&[good_manifest(0), good_manifest(0)]).contains("it is there twice"));
    assert!(bench.refusal_of(&[good_manifest(1), attachment(), attachment()]).contains("it is there twice"));
    assert_snapshot!(bench.refusal_of(&[requests(), good_manifest(0)]), @r"
    the batch `test-batch` has the illegal entry `requests.jsonl`: `manifest.json` must come first
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
}

#[test]
fn truncated_and_extended_archives_are_rejected() {
    let bench = Bench::new();
    let path = bench.path("batch.tar.gz");
    bench.forge(&[good_manifest(0), file("requests.jsonl", REQUEST)]);
    let whole = read(&path);
    for length in [0, 1, 10, whole.len() / 2, whole.len() - 8, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(bench.refusal(None, &Limits::default()).contains("is damaged"), "{length} bytes");
    }
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert_snapshot!(bench.refusal(None, &Limits::default()), @r"
    the batch `test-batch` is damaged: incomplete deflate stream
    hint: it was cut or changed on its way: hand the batch over again
    ");
    fs::write(&path, [whole.as_slice(), b"x"].concat()).unwrap();
    assert_snapshot!(bench.refusal(None, &Limits::default()), @r"
    the batch `test-batch` is damaged: something follows the end of the archive
    hint: it was cut or changed on its way: hand the batch over again
    ");
    fs::write(&path, [whole.as_slice(), &whole].concat()).unwrap();
    assert!(bench.refusal(None, &Limits::default()).contains("something follows"));
    let mut flipped = whole.clone();
    let at = flipped.len() - 6;
    flipped[at] ^= 1;
    fs::write(&path, flipped).unwrap();
    assert!(bench.refusal(None, &Limits::default()).contains("is damaged"));
}

#[test]
fn a_tar_without_its_end_is_rejected() {
    let bench = Bench::new();
    bench.forge(&[good_manifest(0), file("requests.jsonl", REQUEST)]);
    let mut tar = Vec::new();
    flate2::read::GzDecoder::new(File::open(bench.path("batch.tar.gz")).unwrap())
        .read_to_end(&mut tar)
        .unwrap();
    for (cut, reason) in [(1024, "it ends too early"), (1500, "unexpected EOF")] {
        let mut gzip = GzEncoder::new(File::create(bench.path("batch.tar.gz")).unwrap(), Compression::fast());
        gzip.write_all(&tar[..tar.len() - cut]).unwrap();
        gzip.finish().unwrap();
        let refusal = bench.refusal(None, &Limits::default());
        assert!(refusal.contains(&format!("is damaged: {reason}")), "{refusal}");
    }
}

#[test]
fn manifests_must_have_a_supported_version() {
    let bench = Bench::new();
    for format in [0, 2] {
        let refusal = bench.refusal_of(&[changed_manifest("format", format.into())]);
        let told = format!("the batch `test-batch` has format {format} (written by ");
        assert!(refusal.starts_with(&told), "{refusal}");
        assert!(
            refusal.contains(&format!("), but {PROGRAM} reads format 1\nhint: use the same version")),
            "{refusal}"
        );
    }
    assert_snapshot!(bench.refusal_of(&[changed_manifest("base_url", "https://evil.example".into())]), @r"
    the batch `test-batch` has an invalid `manifest.json`: unknown field `base_url`, expected one of `format`, `batch_id`, `target`, `shards`, `requests`, `requests_sha256`, `files`, `generator`, `provenance`
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(bench.refusal_of(&[changed_manifest("shards", 0.into())]), @r"
    the batch `test-batch` has an invalid `manifest.json`: `shards` is 0, expected 1 to 256
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert!(bench.refusal_of(&[file("manifest.json", b"{")]).contains("has an invalid `manifest.json`"));
    assert_snapshot!(bench.refusal_of(&[file("manifest.json", &vec![b' '; 2 << 20])]), @r"
    the batch `test-batch` has an invalid `manifest.json`: it is longer than 1048576 bytes
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
}

#[test]
fn contents_must_match_the_manifest() {
    let bench = Bench::new();
    let requests = || file("requests.jsonl", REQUEST);
    let name = format!("files/{}", Digest::of(b"a"));
    assert_snapshot!(bench.refusal_of(&[good_manifest(1), requests(), file(&name, b"b")]), @r"
    the batch `test-batch` does not hold what it promises: `files/ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb` has the digest 3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(bench.refusal_of(&[good_manifest(0), file("requests.jsonl", b"{}\n")]), @r"
    the batch `test-batch` does not hold what it promises: `requests.jsonl` has the digest ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356, the manifest says 3b18c8bfa27eeb355f2f3bf7568833352c719338fa8faa213f1428cfa0fa2975
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(bench.refusal_of(&[changed_manifest("requests", 2.into()), requests()]), @r"
    the batch `test-batch` does not hold what it promises: `requests.jsonl` has 1 lines, the manifest says 2
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(bench.refusal_of(&[good_manifest(2), requests(), file(&name, b"a")]), @r"
    the batch `test-batch` does not hold what it promises: it has 1 files, the manifest says 2
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(bench.refusal_of(&[good_manifest(0)]), @r"
    the batch `test-batch` does not hold what it promises: no `requests.jsonl`
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
    assert_snapshot!(bench.refusal_of(&[]), @r"
    the batch `test-batch` does not hold what it promises: no `manifest.json`
    hint: only archives that `run-evals` made are run: hand the batch over again
    ");
}

#[test]
fn a_nonempty_directory_is_left_alone() {
    let bench = Bench::new();
    bench.forge(&[good_manifest(0), file("requests.jsonl", REQUEST)]);
    fs::create_dir(bench.path("out")).unwrap();
    fs::write(bench.path("out/requests.jsonl"), "mine").unwrap();
    let failure = bench.unpack(&Limits::default()).unwrap_err();
    assert!(failure.to_string().ends_with("out`: it is not empty"), "{failure}");
    assert_eq!(read(&bench.path("out/requests.jsonl")), b"mine");
}

#[test]
fn a_missing_archive_is_not_an_invalid_one() {
    let failure = Bench::new().unpack(&Limits::default()).unwrap_err();
    assert_eq!(failure.exit(), Exit::Failure);
    assert!(failure.to_string().contains("cannot be read"), "{failure}");
}
