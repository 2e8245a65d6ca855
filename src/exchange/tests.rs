//! The exchange with real git, seen from the inside and through the branches that a user sees.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use insta::assert_snapshot;
use tempfile::TempDir;

use super::*;
use crate::git::{CommitOutcome, NewFile, Repository};
use crate::model::{BatchId, Digest, Exit, Failure, TokenUsage};
use crate::protocol::{PROGRAM, RESULTS_FORMAT, ResultsManifest, RowSeal, Split, Totals};
use crate::util::durable::AppendFile;
use crate::util::durable::crash::Recording;

struct World {
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn exchange(&self) -> LocalExchange {
        LocalExchange::open_or_create(&self.path("exchange.git")).unwrap()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// The output of a user's git.
    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .arg("--git-dir")
            .arg(self.path("exchange.git"))
            .args(arguments)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Creates an orphan branch with one file, as a user could.
    fn branch(&self, name: &str, path: &str, content: &[u8]) {
        self.branch_with(name, "x", path, content);
    }

    /// The same with a message.
    fn branch_with(&self, name: &str, message: &str, path: &str, content: &[u8]) {
        let mut git = Command::new("git")
            .arg("--git-dir")
            .arg(self.path("exchange.git"))
            .args(["fast-import", "--quiet", "--force"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stream = format!(
            "commit refs/heads/{name}\ncommitter u <u@example.com> 0 +0000\ndata {}\n{message}\nM 644 inline {path}\ndata {}\n",
            message.len(),
            content.len()
        )
        .into_bytes();
        stream.extend(content);
        stream.push(b'\n');
        git.stdin.take().unwrap().write_all(&stream).unwrap();
        assert!(git.wait().unwrap().success());
    }

    /// One more commit on a branch, with one more file.
    fn add_to(&self, name: &str, path: &str, content: &[u8]) {
        let repository = Repository::open(&self.path("exchange.git")).unwrap();
        let tip = repository.tip(name).unwrap();
        let mut content = content;
        let file = NewFile { path: path.to_owned(), size: content.len() as u64, content: &mut content };
        assert!(matches!(
            repository.commit(name, tip.as_ref(), "by hand", &mut [file]).unwrap(),
            CommitOutcome::Done
        ));
    }

    /// Writes all rows to a file, whatever their batch.
    fn read_rows(exchange: &LocalExchange, id: &BatchId, to: &Path) -> anyhow::Result<Vec<String>> {
        let mut rows = Vec::new();
        let names = exchange.each_row(id, |_, _, line| {
            rows.extend([line, b"\n"].concat());
            Ok(())
        })?;
        let before = fs::read(to).unwrap_or_default();
        fs::write(to, [before, rows].concat())?;
        Ok(names)
    }

    fn rows(&self, exchange: &LocalExchange, id: &BatchId) -> (Vec<String>, String) {
        let to = self.path("rows.jsonl");
        let _ = fs::remove_file(&to);
        let names = Self::read_rows(exchange, id, &to).unwrap();
        (names, fs::read_to_string(to).unwrap())
    }

    /// The message and the hint, without the path of this test.
    fn told(&self, error: anyhow::Error, exit: Exit) -> String {
        let failure: Failure = error.downcast().unwrap();
        assert_eq!(failure.exit(), exit, "{failure}");
        format!("{failure}\nhint: {}", failure.hint_text().unwrap())
            .replace(&self.dir.path().display().to_string(), "…")
    }
}

fn id(text: &str) -> BatchId {
    text.parse().unwrap()
}

fn manifest(id: &BatchId, batch: Digest, answered: u64) -> ResultsManifest {
    ResultsManifest {
        format: RESULTS_FORMAT,
        batch_id: id.clone(),
        batch_sha256: batch,
        target: "gpt".to_owned(),
        shards: 1,
        requests: 2,
        totals: Totals { answered, failed: 0, not_run: 0, tokens: TokenUsage::default(), cost_usd: None },
        stopped: None,
        run_url: None,
        identity: None,
        policy_sha256: None,
        runner: "run-evals test".to_owned(),
    }
}

#[test]
fn a_batch_is_handed_over_and_deleted() {
    let world = World::new();
    let exchange = world.exchange();
    let (archive, digest) = (world.file("a.tar.gz", "archive"), Digest::of(b"archive"));
    assert_eq!(exchange.put_batch(&id("one"), &archive, digest).unwrap(), StoreResult::New);
    assert_eq!(exchange.put_batch(&id("one"), &archive, digest).unwrap(), StoreResult::AlreadyThere);
    assert_eq!(exchange.batches().unwrap(), [id("one")]);

    let log = world.git(&["log", "--format=%an <%ae> %cn%n%B", "--name-only", "eval-batch/one"]);
    let (nonce, _) = log.split_once("nonce: ").unwrap().1.split_at(16);
    assert_snapshot!(log.replace(nonce, "[nonce]"), @r"
    run-evals <run-evals@run-evals.invalid> run-evals
    Hand over batch one

    batch_sha256: 0eb3e36bfb24dcd9bb1d1bece1531216b59539a8fde17ee80224af0653c92aa3
    nonce: [nonce]


    batch.tar.gz
    ");
    assert_eq!(world.git(&["show", "eval-batch/one:batch.tar.gz"]), "archive");

    let to = world.path("copy.tar.gz");
    exchange.get_batch(&id("one"), &to).unwrap();
    assert_eq!(fs::read(&to).unwrap(), b"archive");
    exchange.delete_batch(&id("one")).unwrap();
    exchange.delete_batch(&id("one")).unwrap();
    assert_eq!(exchange.batches().unwrap(), []);
    assert!(exchange.get_batch(&id("one"), &to).is_err());
    assert!(!world.path("exchange.git/hooks").exists());
}

#[test]
fn a_large_batch_is_handed_over_in_parts() {
    let world = World::new();
    let mut exchange = world.exchange();
    exchange.split = Split { part_bytes: 4, archive_bytes: 12 };
    let (archive, digest) = (world.file("a.tar.gz", "archive 11b"), Digest::of(b"archive 11b"));
    assert_eq!(exchange.put_batch(&id("one"), &archive, digest).unwrap(), StoreResult::New);
    assert_eq!(exchange.put_batch(&id("one"), &archive, digest).unwrap(), StoreResult::AlreadyThere);
    let files = world.git(&["ls-tree", "--format=%(path) %(objectsize)", "eval-batch/one"]);
    assert_eq!(files, "batch.tar.gz.00 4\nbatch.tar.gz.01 4\nbatch.tar.gz.02 3\n");
    let to = world.path("copy.tar.gz");
    exchange.get_batch(&id("one"), &to).unwrap();
    assert_eq!(fs::read(&to).unwrap(), b"archive 11b");
    assert_eq!(exchange.batch_bytes(&id("one")).unwrap(), Some(11));
    assert_eq!(exchange.batch_digest(&id("one")).unwrap(), Some(digest));
    exchange.repair_branches(&id("one")).unwrap();
    assert_eq!(exchange.batches().unwrap(), [id("one")]);

    // The digest is that of the whole, also where the last part alone is another.
    let changed = world.file("b.tar.gz", "archive 11c");
    let error = exchange.put_batch(&id("two"), &changed, digest).unwrap_err();
    assert!(format!("{error:#}").contains("its digest is not"), "{error:#}");
    let error = exchange.put_batch(&id("one"), &changed, Digest::of(b"archive 11c")).unwrap_err();
    assert!(world.told(error, Exit::Config).starts_with("another batch already has the id `one`"));
}

#[test]
fn parts_that_are_not_those_of_an_archive_are_refused() {
    let world = World::new();
    let mut exchange = world.exchange();
    exchange.split = Split { part_bytes: 4, archive_bytes: 6 };
    let to = world.path("copy.tar.gz");
    let problem = |branch: &str, files: &mut [(&str, &[u8])]| {
        let mut files: Vec<NewFile<'_>> = files
            .iter_mut()
            .map(|(path, content)| NewFile { path: (*path).to_owned(), size: content.len() as u64, content })
            .collect();
        exchange.repository.commit(&format!("eval-batch/{branch}"), None, "x", &mut files).unwrap();
        world.told(exchange.get_batch(&id(branch), &to).unwrap_err(), Exit::Config)
    };
    let problems = [
        problem("gap", &mut [("batch.tar.gz.00", b"a"), ("batch.tar.gz.02", b"b")]),
        problem("both", &mut [("batch.tar.gz", b"a"), ("batch.tar.gz.00", b"b")]),
        problem("long", &mut [("batch.tar.gz.00", b"abcde")]),
        problem("sum", &mut [("batch.tar.gz.00", b"abcd"), ("batch.tar.gz.01", b"efg")]),
        problem(
            "many",
            &mut [("batch.tar.gz.00", b"a"), ("batch.tar.gz.01", b"b"), ("batch.tar.gz.02", b"c")],
        ),
        problem("folder", &mut [("batch.tar.gz.00/x", b"a")]),
    ];
    assert_snapshot!(problems.join("\n"), @r"
    the batch on the branch `eval-batch/gap` cannot be read: the part `batch.tar.gz.01` is missing
    hint: delete the branch, or choose another `--batch-id`
    the batch on the branch `eval-batch/both` cannot be read: it has both `batch.tar.gz` and parts of it
    hint: delete the branch, or choose another `--batch-id`
    the batch on the branch `eval-batch/long` cannot be read: `batch.tar.gz.00` has 5 bytes, more than 4
    hint: delete the branch, or choose another `--batch-id`
    the batch on the branch `eval-batch/sum` cannot be read: it has 7 bytes or more, at most 6 are allowed
    hint: delete the branch, or choose another `--batch-id`
    the batch on the branch `eval-batch/many` cannot be read: it has 3 parts, at most 2 are allowed
    hint: delete the branch, or choose another `--batch-id`
    the batch on the branch `eval-batch/folder` cannot be read: `batch.tar.gz.00` is not a file
    hint: delete the branch, or choose another `--batch-id`
    ");
    assert!(!to.exists());
}

#[test]
fn another_batch_with_the_same_id_is_rejected() {
    let world = World::new();
    let exchange = world.exchange();
    let (old, new) = (world.file("old", "old"), world.file("new", "new"));
    exchange.put_batch(&id("one"), &old, Digest::of(b"old")).unwrap();
    let error = exchange.put_batch(&id("one"), &new, Digest::of(b"new")).unwrap_err();
    assert_snapshot!(world.told(error, Exit::Config), @r"
    another batch already has the id `one`: its digest is cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4, the new one's is 11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437
    hint: choose another `--batch-id`, or omit it to get a new one
    ");

    // The same once it was collected: the results remember the digest.
    exchange.publish(&id("one"), 0, None, Some(&manifest(&id("one"), Digest::of(b"old"), 2))).unwrap();
    exchange.delete_batch(&id("one")).unwrap();
    let error = exchange.put_batch(&id("one"), &new, Digest::of(b"new")).unwrap_err();
    assert!(world.told(error, Exit::Config).starts_with("another batch already has the id `one`"));
    assert_eq!(exchange.put_batch(&id("one"), &old, Digest::of(b"old")).unwrap(), StoreResult::Again);
}

#[test]
fn an_archive_with_a_wrong_digest_is_not_stored() {
    let world = World::new();
    let exchange = world.exchange();
    let archive = world.file("a", "changed");
    let error = exchange.put_batch(&id("one"), &archive, Digest::of(b"packed")).unwrap_err();
    assert!(format!("{error:#}").contains("its digest is not"), "{error:#}");
    assert_eq!(exchange.batches().unwrap(), []);
    let left: Vec<_> = fs::read_dir(exchange.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("crash"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_missing_batch_lists_the_existing_ones() {
    let world = World::new();
    let exchange = world.exchange();
    let to = world.path("copy");
    let missing = |name: &str| world.told(exchange.get_batch(&id(name), &to).unwrap_err(), Exit::Config);
    assert_snapshot!(missing("none"), @r"
    no batch `none` in the exchange `…/exchange.git`
    hint: it has no batches: `--exchange` sets another path
    ");
    let archive = world.file("a", "a");
    for name in ["b1", "b2", "b3", "b4", "b5"] {
        exchange.put_batch(&id(name), &archive, Digest::of(b"a")).unwrap();
    }
    assert_snapshot!(missing("none"), @r"
    no batch `none` in the exchange `…/exchange.git`
    hint: it has `b5`, `b4`, `b3`, `b2`, `b1`
    ");
    exchange.put_batch(&id("b6"), &archive, Digest::of(b"a")).unwrap();
    assert_snapshot!(missing("none"), @r"
    no batch `none` in the exchange `…/exchange.git`
    hint: it has `b6`, `b5`, `b4`, `b3`, `b2` and others
    ");
    exchange.publish(&id("done"), 0, None, Some(&manifest(&id("done"), Digest::of(b"a"), 2))).unwrap();
    assert_snapshot!(missing("done"), @r"
    no batch `done` in the exchange `…/exchange.git`
    hint: its results are on the branch `eval-results/done`, which `collect` reads
    ");
    assert_snapshot!(missing("none"), @r"
    no batch `none` in the exchange `…/exchange.git`
    hint: it has `b6`, `b5`, `b4`, `b3`, `b2` and others, and the results of `done`
    ");
    assert!(!to.exists());
}

#[test]
fn a_resumed_shard_adds_a_file_and_replaces_the_manifest() {
    let world = World::new();
    let exchange = world.exchange();
    let one = id("one");
    let digest = Digest::of(b"batch");
    exchange.publish(&one, 0, Some(&world.file("r", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n")), None).unwrap();
    assert_eq!(exchange.results_manifest(&one).unwrap(), None);
    // The last line lacks its line feed.
    let more = world.file("r", "{\"id\":\"b\",\"new\":1}");
    exchange.publish(&one, 0, Some(&more), Some(&manifest(&one, digest, 1))).unwrap();
    exchange.publish(&one, 1, Some(&world.file("r", "{\"id\":\"c\"}\n")), None).unwrap();
    exchange.publish(&one, 0, Some(&world.file("r", "")), Some(&manifest(&one, digest, 2))).unwrap();
    // Nothing new: no commit.
    exchange.publish(&one, 0, None, Some(&manifest(&one, digest, 2))).unwrap();
    exchange.publish(&one, 0, None, None).unwrap();

    assert_snapshot!(world.git(&["log", "--reverse", "--format=%s", "--name-status", "eval-results/one"]), @r"
    Add 2 rows of shard 0

    A	results/shard-000/0001.jsonl
    Add 1 row of shard 0 and the manifest

    A	README.md
    A	results/manifest.json
    A	results/shard-000/0002.jsonl
    Add 1 row of shard 1

    A	results/shard-001/0001.jsonl
    Write the manifest

    M	README.md
    M	results/manifest.json
    ");
    assert_eq!(exchange.results_manifest(&one).unwrap(), Some(manifest(&one, digest, 2)));
    let (names, rows) = world.rows(&exchange, &one);
    assert_snapshot!(names.join("\n"), @r"
    results/shard-000/0001.jsonl
    results/shard-000/0002.jsonl
    results/shard-001/0001.jsonl
    ");
    assert_snapshot!(rows, @r#"
    {"id":"a"}
    {"id":"b"}
    {"id":"b","new":1}
    {"id":"c"}
    "#);
    assert_eq!(world.rows(&exchange, &id("other")), (Vec::new(), String::new()));
}

#[test]
fn rows_are_appended_and_files_are_ordered_by_number() {
    let world = World::new();
    let exchange = world.exchange();
    world.branch("eval-results/one", "results/shard-000/9999.jsonl", b"old\n");
    exchange.publish(&id("one"), 0, Some(&world.file("r", "new\n")), None).unwrap();
    let to = world.file("rows", "before\n");
    let names = World::read_rows(&exchange, &id("one"), &to).unwrap();
    assert_eq!(names, ["results/shard-000/9999.jsonl", "results/shard-000/10000.jsonl"]);
    assert_eq!(fs::read_to_string(to).unwrap(), "before\nold\nnew\n");
}

#[test]
fn many_rows_become_several_files_cut_between_rows() {
    let world = World::new();
    let mut exchange = world.exchange();
    exchange.rows_bytes = (100_000, 300_000);
    let rows: String = (0..30_000).map(|i| format!("{{\"id\":\"{i}\"}}\n")).collect::<Vec<_>>().concat();
    exchange.publish(&id("one"), 0, Some(&world.file("r", &rows)), None).unwrap();
    let (names, read) = world.rows(&exchange, &id("one"));
    assert_eq!((names.len(), read == rows), (5, true));
    let sizes = world.git(&["ls-tree", "-r", "--format=%(objectsize)", "eval-results/one"]);
    assert!(sizes.lines().all(|size| size.parse::<u64>().unwrap() <= 100_000), "{sizes}");
    assert_eq!(world.git(&["rev-list", "--count", "eval-results/one"]).trim(), "1");

    let long = world.file("r", format!("{}\n", "x".repeat(300_000)));
    let error = exchange.publish(&id("one"), 0, Some(&long), None).unwrap_err();
    assert!(format!("{error:#}").ends_with("a row is longer than 300000 bytes"), "{error:#}");
}

#[test]
fn rows_before_the_damage_of_a_results_file_are_read_and_the_other_files_too() {
    let world = World::new();
    let mut exchange = world.exchange();
    exchange.rows_bytes.1 = 1 << 20;
    let long = [b"row\n".to_vec(), vec![b' '; 2 << 20]].concat();
    for (content, read) in [(&long[..], "good\nlast\n"), (b"row\ntorn", "good\nrow\nlast\n")] {
        let id = id(&format!("b{}", content.len()));
        exchange.publish(&id, 0, Some(&world.file("r", "good\n")), None).unwrap();
        world.add_to(&format!("eval-results/{id}"), "results/shard-000/0002.jsonl", content);
        exchange.publish(&id, 0, Some(&world.file("r", "last\n")), None).unwrap();
        assert_eq!(world.rows(&exchange, &id).1, read);
    }
}

#[test]
fn an_unsupported_manifest_is_reported() {
    let world = World::new();
    let exchange = world.exchange();
    let mut refusals = Vec::new();
    let other = serde_json::to_vec(&manifest(&id("two"), Digest::of(b""), 0)).unwrap();
    for content in [&b"{\"format\": 2}"[..], b"{\"format\": 1}", b"{", &other, &vec![b' '; 2 << 20]] {
        world.branch("eval-results/one", "results/manifest.json", content);
        let error = exchange.results_manifest(&id("one")).unwrap_err();
        refusals.push(world.told(error, Exit::Config).lines().next().unwrap().replace(PROGRAM, "PROGRAM"));
    }
    assert_snapshot!(refusals.join("\n"), @r"
    `results/manifest.json` on the branch `eval-results/one` has format 2, but PROGRAM reads format 1
    `results/manifest.json` on the branch `eval-results/one` is invalid: missing field `batch_id`
    `results/manifest.json` on the branch `eval-results/one` is invalid: EOF while parsing an object at line 1 column 1
    `results/manifest.json` on the branch `eval-results/one` is of the batch `two`
    cannot read `results/manifest.json` on the branch `eval-results/one`: it is longer than 1048576 bytes
    ");
}

#[test]
fn publishers_that_race_all_get_through() {
    const PUBLISHERS: usize = 4;
    const EACH: usize = 4;
    let world = World::new();
    world.exchange();
    let one = id("one");
    thread::scope(|scope| {
        for publisher in 0..PUBLISHERS {
            let (world, one) = (&world, &one);
            scope.spawn(move || {
                // Its own exchange, as another process would have.
                let exchange = world.exchange();
                for turn in 0..EACH {
                    let rows = world.file(&format!("r-{publisher}"), format!("{publisher}-{turn}\n"));
                    // Two publishers for each shard: even the numbers are contested.
                    exchange.publish(one, u32::try_from(publisher % 2).unwrap(), Some(&rows), None).unwrap();
                }
            });
        }
    });
    let (names, rows) = world.rows(&world.exchange(), &one);
    assert_eq!(names.len(), PUBLISHERS * EACH);
    let expected: BTreeSet<String> =
        (0..PUBLISHERS).flat_map(|p| (0..EACH).map(move |turn| format!("{p}-{turn}"))).collect();
    assert_eq!(rows.lines().map(ToOwned::to_owned).collect::<BTreeSet<_>>(), expected);
    assert_eq!(rows.lines().count(), PUBLISHERS * EACH);
    let parents = world.git(&["log", "--format=%P", "eval-results/one"]);
    let counts: Vec<usize> = parents.lines().map(|line| line.split_whitespace().count()).collect();
    assert_eq!(counts.len(), PUBLISHERS * EACH, "a commit is lost");
    assert!(counts[..counts.len() - 1].iter().all(|count| *count == 1), "not linear");
    assert_eq!(counts.last(), Some(&0));
    world.git(&["fsck", "--strict"]);
}

#[test]
fn only_one_of_several_dispatchers_hands_over() {
    let world = World::new();
    world.exchange();
    let put = |number: u32| {
        let archive = world.file(&format!("a{number}"), number.to_string());
        world.exchange().put_batch(&id("one"), &archive, Digest::of(number.to_string().as_bytes()))
    };
    let put = &put;
    let puts: Vec<anyhow::Result<StoreResult>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || put(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) = puts.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1, "{won:?}");
    for error in lost {
        let told = world.told(error.unwrap_err(), Exit::Config);
        assert!(told.starts_with("another batch already has the id"), "{told}");
    }
    assert_eq!(world.git(&["rev-list", "--count", "eval-batch/one"]).trim(), "1");
}

#[test]
fn exchanges_made_at_the_same_time_are_one() {
    let world = World::new();
    let archive = world.file("a", "a");
    thread::scope(|scope| {
        for name in ["b1", "b2", "b3", "b4"] {
            let (world, archive) = (&world, &archive);
            scope.spawn(move || world.exchange().put_batch(&id(name), archive, Digest::of(b"a")).unwrap());
        }
    });
    assert_eq!(world.exchange().batches().unwrap().len(), 4);
    let left: Vec<_> =
        fs::read_dir(world.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_branch_named_like_the_prefix_is_reported() {
    let world = World::new();
    let exchange = world.exchange();
    let rows = world.file("r", "{}\n");
    world.branch("eval-results", "readme", b"x");
    let error = exchange.publish(&id("one"), 0, Some(&rows), None).unwrap_err();
    assert_snapshot!(world.told(error, Exit::Config), @r"
    the branch `eval-results` is in the way of every branch `eval-results/…`
    hint: rename it: `git branch -m eval-results <another-name>`
    ");
    world.git(&["branch", "-D", "eval-results"]);
    exchange.publish(&id("one"), 0, Some(&rows), None).unwrap();
    assert_eq!(exchange.results_branch(&id("one")), "eval-results/one");

    world.branch("eval-batch", "readme", b"x");
    let error = exchange.put_batch(&id("one"), &rows, Digest::of(b"{}\n")).unwrap_err();
    assert!(world.told(error, Exit::Config).starts_with("the branch `eval-batch` is in the way"));
}

#[test]
fn a_hand_over_branch_without_a_batch_is_reported() {
    let world = World::new();
    let exchange = world.exchange();
    world.branch("eval-batch/one", "readme", b"x");
    let error = exchange.put_batch(&id("one"), &world.file("a", "a"), Digest::of(b"a")).unwrap_err();
    assert_snapshot!(world.told(error, Exit::Config), @r"
    the branch `eval-batch/one` exists but has no `batch.tar.gz`
    hint: delete the branch, or choose another `--batch-id`
    ");
}

#[test]
fn a_copied_exchange_works() {
    let world = World::new();
    let exchange = world.exchange();
    let one = id("one");
    exchange.put_batch(&one, &world.file("a", "a"), Digest::of(b"a")).unwrap();
    exchange.publish(&one, 0, Some(&world.file("r", "1\n")), None).unwrap();
    fs::write(exchange.journal_path(&one, 0).unwrap(), "journal").unwrap();
    // The hardest copy: all refs packed, and no empty directories.
    world.git(&["pack-refs", "--all"]);
    let from = world.path("exchange.git");
    for file in
        walkdir::WalkDir::new(&from).into_iter().map(Result::unwrap).filter(|f| f.file_type().is_file())
    {
        let to = world.path("copy.git").join(file.path().strip_prefix(&from).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(file.path(), to).unwrap();
    }
    fs::remove_dir_all(&from).unwrap();
    assert!(!world.path("copy.git/refs").exists());

    let copy = LocalExchange::open(&world.path("copy.git")).unwrap();
    assert_eq!(copy.batches().unwrap(), std::slice::from_ref(&one));
    assert_eq!(fs::read_to_string(copy.journal_path(&one, 0).unwrap()).unwrap(), "journal");
    copy.publish(&one, 0, Some(&world.file("r", "2\n")), None).unwrap();
    assert_eq!(world.rows(&copy, &one).1, "1\n2\n");
}

#[test]
fn a_shard_has_one_runner() {
    let world = World::new();
    let (mine, other) = (world.exchange(), world.exchange());
    let lock = mine.lock(&id("one"), 3).unwrap();
    assert_snapshot!(world.told(other.lock(&id("one"), 3).unwrap_err().into(), Exit::Busy), @r"
    shard 3 of batch `one` is being run by another process
    hint: wait until it ends, or choose another `--batch-id`
    ");
    other.lock(&id("one"), 2).unwrap();
    other.lock(&id("two"), 3).unwrap();
    drop(lock);
    other.lock(&id("one"), 3).unwrap();
}

#[test]
fn a_journal_is_in_the_exchange() {
    let world = World::new();
    let path = world.exchange().journal_path(&id("one"), 7).unwrap();
    assert_eq!(path, world.path("exchange.git/journal/one/shard-007.jsonl"));
    fs::write(path, "").unwrap();
}

#[test]
fn other_directories_are_left_alone() {
    let world = World::new();
    fs::create_dir(world.path("tree")).unwrap();
    world.file("tree/notes", "mine");
    let tree = world.path("tree");
    assert_snapshot!(world.told(LocalExchange::open_or_create(&tree).unwrap_err(), Exit::Config), @r"
    `…/tree` is not a bare git repository
    hint: pass a new path with `--exchange`
    ");
    assert_snapshot!(world.told(LocalExchange::open(&tree).unwrap_err().into(), Exit::Config), @r"
    `…/tree` is not a bare git repository
    hint: `--exchange` must be one that `run-evals eval` or `run-evals dispatch` created
    ");
    assert_snapshot!(world.told(LocalExchange::open(&world.path("none")).unwrap_err().into(), Exit::Config), @r"
    no exchange at `…/none`
    hint: `run-evals eval` and `run-evals dispatch` create one; `--exchange` sets another path
    ");
    assert!(LocalExchange::open_or_create(&tree.join("notes")).is_err());
    assert!(LocalExchange::open_or_create(&tree.join("notes/below")).is_err());
    fs::create_dir(world.path("empty")).unwrap();
    LocalExchange::open_or_create(&world.path("empty")).unwrap().batches().unwrap();
}

#[test]
fn hooks_and_foreign_settings_are_ignored() {
    let world = World::new();
    let exchange = world.exchange();
    let dir = exchange.path();
    fs::create_dir(dir.join("hooks")).unwrap();
    for hook in ["reference-transaction", "post-update", "pre-auto-gc"] {
        let path = dir.join("hooks").join(hook);
        fs::write(&path, format!("#!/bin/sh\ntouch {}\nexit 1\n", world.path("hooked").display())).unwrap();
        make_executable(&path);
    }
    world.git(&["config", "core.hooksPath", dir.join("hooks").to_str().unwrap()]);
    exchange.put_batch(&id("one"), &world.file("a", "a"), Digest::of(b"a")).unwrap();
    exchange.delete_batch(&id("one")).unwrap();
    assert!(!world.path("hooked").exists());
}

#[test]
fn many_packs_become_one_and_nothing_is_lost() {
    let world = World::new();
    let exchange = world.exchange();
    for turn in 0..4 {
        exchange.publish(&id("one"), 0, Some(&world.file("r", format!("{turn}\n"))), None).unwrap();
    }
    let packs = || {
        let files = fs::read_dir(world.path("exchange.git/objects/pack")).unwrap();
        files
            .filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|end| end == "pack"))
            .count()
    };
    assert_eq!(packs(), 4);
    exchange.repository.tidy(4).unwrap();
    assert_eq!(packs(), 4);
    exchange.repository.tidy(3).unwrap();
    assert_eq!(packs(), 1);
    // A reader that was started before continues.
    assert_eq!(world.rows(&exchange, &id("one")).1, "0\n1\n2\n3\n");
}

#[test]
fn a_lock_with_an_owner_is_reported_and_a_stale_one_is_removed() {
    let world = World::new();
    let exchange = world.exchange();
    let rows = world.file("r", "{}\n");
    exchange.publish(&id("one"), 0, Some(&rows), None).unwrap();
    world.file("exchange.git/refs/heads/eval-results/one.lock", "");
    // As another command holds it while its git works here.
    let held = fs::File::options().write(true).open(world.path("exchange.git/run-evals.lock")).unwrap();
    held.lock_shared().unwrap();
    let error = format!("{:#}", exchange.publish(&id("one"), 0, Some(&rows), None).unwrap_err());
    assert!(error.starts_with("cannot commit: the branch was moved or locked 15 times meanwhile"), "{error}");
    assert!(error.contains("one.lock"), "{error}");
    drop(held);
    exchange.publish(&id("one"), 0, Some(&rows), None).unwrap();
}

#[cfg(unix)]
fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[cfg(not(unix))]
fn make_executable(_: &Path) {}

#[test]
fn rows_missing_on_the_branch_are_unpublished() {
    let dir = tempfile::tempdir().unwrap();
    let exchange = LocalExchange::open_or_create(&dir.path().join("exchange.git")).unwrap();
    let (id, batch) = (id("b1"), Digest::of(b"batch"));
    let rows: Vec<String> = (0..3).map(|i| sealed(batch, i) + "\n").collect();
    let unpublished = || {
        let to = dir.path().join("rows.jsonl");
        exchange.unpublished(&id, batch, 0, &to).unwrap();
        fs::read_to_string(&to).unwrap()
    };
    assert_eq!(unpublished(), "", "no journal yet");
    let journal = exchange.journal_path(&id, 0).unwrap();
    fs::write(&journal, format!("{}{}{{\"torn", rows[0], rows[1])).unwrap();
    assert_eq!(unpublished(), rows[..2].concat());
    exchange.publish(&id, 0, Some(&dir.path().join("rows.jsonl")), None).unwrap();
    assert_eq!(unpublished(), "");
    // Rows of other batches and damaged rows do not count, wherever they are.
    let other = sealed(Digest::of(b"another"), 2);
    fs::write(&journal, format!("{other}\nnoise\n{}{}", rows[2], rows[1])).unwrap();
    assert_eq!(unpublished(), rows[2]);
    // A journal that was once longer.
    fs::write(&journal, &rows[2]).unwrap();
    assert_eq!(unpublished(), rows[2]);
}

/// A complete row of a batch.
fn sealed(batch: Digest, index: u64) -> String {
    RowSeal::of(batch).seal(&format!("{{\"index\":{index},\"id\":\"r{index}\"}}"))
}

#[test]
fn after_every_crash_the_claim_the_journal_and_what_was_collected_are_usable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("exchange.git");
    let exchange = LocalExchange::open_or_create(&path).unwrap();
    let (id, batch) = (id("b1"), Digest::of(b"batch"));
    let collected = CollectionRecord::new(batch, "t", 1, 2);
    let disk = Recording::start(&path);
    exchange.claim_journal(&id, batch).unwrap();
    disk.mark("claimed");
    let mut journal = AppendFile::open(&exchange.journal_path(&id, 0).unwrap()).unwrap();
    for index in 0..2 {
        journal.append((sealed(batch, index) + "\n").as_bytes()).unwrap();
        journal.sync().unwrap();
        disk.mark("row");
    }
    // A damaged line is removed, and the others stay.
    journal.append(b"noise\n").unwrap();
    exchange.clean_journal(&id, batch, 0).unwrap();
    for _ in 0..2 {
        exchange.remember_collected(&id, &collected, &[1, 2]).unwrap();
        disk.mark("collected");
    }
    let crashes = disk.crashes();
    assert!(crashes.len() > 20, "{}", crashes.len());
    for crash in crashes {
        let at = tempfile::tempdir().unwrap();
        let copy = at.path().join("exchange.git");
        fs::create_dir(&copy).unwrap();
        crash.restore(&copy);
        let exchange = LocalExchange::open_or_create(&copy).unwrap();
        assert!(exchange.claimed_batch(&id).unwrap() == Some(batch) || !crash.after("claimed"), "{crash:?}");
        exchange.claim_journal(&id, batch).unwrap();
        exchange.claim_journal(&id, Digest::of(b"another")).unwrap_err();
        exchange.clean_journal(&id, batch, 0).unwrap();
        let mut rows = 0;
        let each = |_: &RowPlace<'_>, line: &[u8]| {
            assert_eq!(line, sealed(batch, rows).as_bytes());
            rows += 1;
            Ok(())
        };
        exchange.each_journal_row(&id, batch, 0, each).unwrap();
        assert!(rows >= crash.count("row") as u64, "{crash:?}: a synced row is lost");
        let known = exchange.collected(&id).unwrap();
        assert!(known.is_some() || !crash.after("collected"), "{crash:?}");
        assert!(known.is_none_or(|(known, _)| known == collected), "{crash:?}");
        exchange.remember_collected(&id, &collected, &[1, 2]).unwrap();
        assert!(exchange.collected(&id).unwrap().is_some());
    }
}

#[test]
fn a_branch_names_its_batch_from_its_first_commit_on() {
    let world = World::new();
    let exchange = world.exchange();
    let one = id("one");
    exchange.claim_journal(&one, Digest::of(b"mine")).unwrap();
    exchange.publish_whole(&one, &Publication { claim: true, ..Publication::default() }).unwrap();
    assert_eq!(exchange.results_batch(&one).unwrap(), Some(Digest::of(b"mine")));
    let (a, b) = (world.file("a", "1\n2\n"), world.file("b", "3\n"));
    let publication = Publication { rows: &[(0, &a), (7, &b)], ..Publication::default() };
    exchange.publish_whole(&one, &publication).unwrap();
    exchange.publish_whole(&one, &Publication { claim: true, ..Publication::default() }).unwrap();
    let subjects = world.git(&["log", "--format=%s", "eval-results/one"]);
    assert_eq!(subjects, "Add 3 rows of 2 shards\nClaim the branch\n");
    assert_eq!(world.rows(&exchange, &one).1, "1\n2\n3\n");

    // A runner elsewhere, with another batch of the same name.
    let other = world.path("other.git");
    copy_branches(exchange.path(), &other);
    let other = LocalExchange::open(&other).unwrap();
    let error = other.claim_journal(&one, Digest::of(b"another")).unwrap_err();
    assert!(world.told(error, Exit::Config).starts_with("another batch already has the id `one`"));
    let archive = world.file("batch", "another");
    let error = other.put_batch(&one, &archive, Digest::of(b"another")).unwrap_err();
    assert!(world.told(error, Exit::Config).starts_with("another batch already has the id `one`"));
}

/// A copy without the journals.
fn copy_branches(from: &Path, to: &Path) {
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--mirror"]).arg(from).arg(to);
    assert!(clone.status().unwrap().success());
}

#[test]
fn absurd_subjects_do_not_break_the_counting() {
    let world = World::new();
    let exchange = world.exchange();
    world.branch_with("eval-results/one", &format!("Add {} rows of shard 0", u64::MAX), "readme", b"x");
    exchange.publish(&id("one"), 0, Some(&world.file("r", "1\n2\n")), None).unwrap();
    assert_eq!(exchange.rows_published(&id("one")).unwrap(), u64::MAX);
}

#[test]
fn a_branch_that_is_not_ours_is_left_alone() {
    let world = World::new();
    let exchange = world.exchange();
    let (one, rows) = (id("one"), world.file("r", "1\n"));
    exchange.claim_journal(&one, Digest::of(b"mine")).unwrap();
    world.branch("eval-results/one", "readme", b"other work");
    let before = world.git(&["rev-parse", "eval-results/one"]);
    let claim = Publication { claim: true, ..Publication::default() };
    assert_snapshot!(world.told(exchange.publish_whole(&one, &claim).unwrap_err(), Exit::Config), @r"
    the branch `eval-results/one` of `…/exchange.git` is not one with results of batch `one`
    hint: it has no `results/batch.json` and may contain other work: rename it, or choose another `--batch-id`
    ");
    exchange.publish(&one, 0, Some(&rows), None).unwrap_err();
    assert_eq!(world.git(&["rev-parse", "eval-results/one"]), before);

    let newer = serde_json::json!({"format": 2, "batch": {}});
    world.branch("eval-results/one", "results/batch.json", newer.to_string().as_bytes());
    let told =
        world.told(exchange.results_batch(&one).unwrap_err(), Exit::Config).replace(PROGRAM, "PROGRAM");
    assert!(told.contains("has format 2, but PROGRAM reads format 1"), "{told}");
    let other = serde_json::json!({"format": 1, "batch_id": "two", "batch_sha256": Digest::of(b"mine")});
    world.branch("eval-results/one", "results/batch.json", other.to_string().as_bytes());
    let told = world.told(exchange.publish(&one, 0, Some(&rows), None).unwrap_err(), Exit::Config);
    assert!(told.contains("it is of the batch `two`"), "{told}");
}

#[test]
fn rows_of_artifacts_belong_to_one_batch() {
    let world = World::new();
    let artifacts = world.exchange().artifacts().unwrap();
    let rows = world.file("r", "1\n");
    artifacts.publish_artifact(&id("one"), Digest::of(b"a"), 3, &rows).unwrap();
    assert_eq!(artifacts.results_batch(&id("one")).unwrap(), Some(Digest::of(b"a")));
    let error = artifacts.publish_artifact(&id("one"), Digest::of(b"b"), 3, &rows).unwrap_err();
    assert!(world.told(error, Exit::Config).starts_with("another batch already has the id `one`"));
}
