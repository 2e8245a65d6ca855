//! Disk failures: damaged files are set aside, damaged rows are called again, and no altered answer is reported.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::support::{MockLlm, Workspace};

const REQUESTS: usize = 3;
/// How many bytes are changed; with this variable, all of them.
const CHANGED: usize = 40;
const ALL: &str = "RUN_EVALS_CHANGE_ALL_BYTES";
const EXCHANGE: &str = ".run-evals/exchange.git";
const JOURNAL: &str = ".run-evals/exchange.git/journal/b1/shard-000.jsonl";

/// A batch of three requests. Only the given number of them is called; by default, all.
fn batch(llm: &MockLlm, most: Option<&str>) -> Workspace {
    let workspace = Workspace::new();
    workspace.write_target(&llm.base_url(), "");
    workspace.write_requests(REQUESTS);
    let most = most.map(|most| ["--max-requests", most]);
    let more: Vec<&str> = ["--batch-id", "b1"].into_iter().chain(most.into_iter().flatten()).collect();
    workspace.dispatch(&more).expect(if most.is_some() { 5 } else { 0 });
    workspace
}

/// The same batch in another workspace.
fn copy(from: &Workspace) -> Workspace {
    let to = Workspace::new();
    for (path, content) in from.tree() {
        let path = to.root().join(path.strip_prefix(from.root()).unwrap());
        match content {
            None => fs::create_dir_all(path).unwrap(),
            Some(content) => fs::write(path, content).unwrap(),
        }
    }
    to
}

fn check_answers(workspace: &Workspace, case: &str) {
    let rows = workspace.rows("out/responses.jsonl");
    assert_eq!(rows.len(), REQUESTS, "{case}");
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(row["id"], format!("r{i}"), "{case}");
        assert_eq!(row["output"][0]["content"], format!("message {i}"), "{case}");
        assert_eq!(row.get("error"), None, "{case}");
        assert_eq!(row.get("checksum"), None, "{case}: the checksum is for the journal and the branch");
    }
}

/// Checks that a row of a partial result is the answer, or says that there is none.
fn check_partial(workspace: &Workspace, case: &str) {
    for row in workspace.rows("out/responses.jsonl") {
        let i = row["id"].as_str().unwrap().trim_start_matches('r');
        match row.get("output") {
            Some(output) => assert_eq!(output[0]["content"], format!("message {i}"), "{case}"),
            None => assert!(row["error"]["kind"].is_string(), "{case}: {row}"),
        }
    }
}

/// Checks that everything on the results branch is readable and answers the whole batch: a clone has no journal.
fn check_branch(workspace: &Workspace, case: &str) {
    let clone = Workspace::new();
    let status = std::process::Command::new("git")
        .args(["clone", "-q", "--mirror"])
        .args([workspace.path(EXCHANGE), clone.path(EXCHANGE)])
        .status();
    assert!(status.unwrap().success(), "{case}");
    let output = clone.run(&["collect", "b1", "--output", "out"]);
    assert_eq!(output.code, Some(0), "{case}: {}", output.stderr);
    assert!(!output.stderr.contains("damaged"), "{case}: {}", output.stderr);
    check_answers(&clone, case);
}

/// Calls `each` with every position, or some of them, on four threads.
fn each_position(length: usize, each: impl Fn(usize) + Sync) {
    let step = if std::env::var_os(ALL).is_some() { 1 } else { length.div_ceil(CHANGED) };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(step, Ordering::Relaxed);
                    if at >= length {
                        return;
                    }
                    each(at);
                }
            });
        }
    });
}

fn change(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1 << (at % 8);
    // Packs are read-only.
    let _ = fs::remove_file(path);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_changed_byte_in_a_journal_is_detected_and_its_row_called_again() {
    let llm = MockLlm::start(&[]);
    let base = batch(&llm, Some("2"));
    lose_everything_but_the_journal(&base);
    let length = fs::read(base.path(JOURNAL)).unwrap().len();
    each_position(length, |at| {
        let workspace = copy(&base);
        change(&workspace.path(JOURNAL), at);
        let case = format!("byte {at}");
        let output = workspace.run(&["collect", "b1", "--output", "out"]);
        assert_eq!(output.code, Some(5), "{case}: {}", output.stderr);
        check_partial(&workspace, &case);
        let output = workspace.dispatch(&["--batch-id", "b1"]).expect(0);
        // Without its end, the last row looks like one that a killed run was writing.
        if at + 1 != length {
            assert!(
                output.stderr.contains("is damaged (") && output.stderr.contains("line"),
                "{case}: {}",
                output.stderr
            );
        }
        check_answers(&workspace, &case);
        check_branch(&workspace, &case);
    });
}

#[test]
fn a_changed_byte_in_a_pack_is_detected_and_its_rows_are_called_again() {
    let llm = MockLlm::start(&[]);
    let base = batch(&llm, None);
    let packs = pack_files(&base);
    assert!(packs.len() >= 4, "{packs:?}");
    for pack in packs {
        let length = fs::read(base.path(&pack)).unwrap().len();
        each_position(length, |at| {
            let workspace = copy(&base);
            change(&workspace.path(&pack), at);
            let case = format!("byte {at} of {pack}");
            let output = workspace.run(&["collect", "b1", "--output", "out"]);
            match output.code {
                Some(0) => check_answers(&workspace, &case),
                Some(5) => check_partial(&workspace, &case),
                // Nothing of the batch is left.
                Some(3) => {
                    assert!(output.stderr.contains("no batch `b1`"), "{case}: {}", output.stderr);
                }
                _ => panic!("{case}: {:?}: {}", output.code, output.stderr),
            }
            workspace.dispatch(&["--batch-id", "b1"]).expect(0);
            check_answers(&workspace, &case);
        });
    }
}

/// The packs and their indexes, relative to the workspace.
fn pack_files(workspace: &Workspace) -> Vec<String> {
    let folder = format!("{EXCHANGE}/objects/pack");
    let names = fs::read_dir(workspace.path(&folder)).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| format!("{folder}/{}", name.to_str().unwrap()));
    let mut names: Vec<String> =
        names.filter(|name| [".pack", ".idx"].iter().any(|end| name.ends_with(end))).collect();
    names.sort();
    names
}

/// What a power cut can do to a file.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Empty,
    Zeroed,
    Torn,
    Gone,
}

fn damage(path: &PathBuf, damage: Damage) {
    let bytes = fs::read(path).unwrap();
    fs::remove_file(path).unwrap();
    match damage {
        Damage::Empty => fs::write(path, "").unwrap(),
        Damage::Zeroed => fs::write(path, vec![0; bytes.len()]).unwrap(),
        Damage::Torn => fs::write(path, &bytes[..bytes.len() / 2]).unwrap(),
        Damage::Gone => {}
    }
}

#[test]
fn a_damaged_exchange_is_rebuilt_from_the_journal() {
    let names = [
        "HEAD",
        "config",
        "refs/heads/eval-batch/b1",
        "refs/heads/eval-results/b1",
        "journal/b1/batch.sha256",
        "pack",
        "idx",
        "every pack",
    ];
    for name in names {
        for kind in [Damage::Empty, Damage::Zeroed, Damage::Torn, Damage::Gone] {
            let case = format!("{name} {kind:?}");
            let llm = MockLlm::start(&[]);
            let workspace = batch(&llm, Some("2"));
            let exchange = workspace.path(EXCHANGE);
            match name {
                "pack" | "idx" => {
                    for file in pack_files(&workspace).iter().filter(|file| file.ends_with(name)) {
                        damage(&workspace.path(file), kind);
                    }
                }
                "every pack" => {
                    for file in pack_files(&workspace) {
                        damage(&workspace.path(&file), kind);
                    }
                }
                _ => damage(&exchange.join(name), kind),
            }
            let output = workspace.dispatch(&["--batch-id", "b1"]);
            assert_eq!(output.code, Some(0), "{case}: {}", output.stderr);
            check_answers(&workspace, &case);
            assert_eq!(
                llm.counter("ok"),
                REQUESTS as u64,
                "{case}: the journal had two answers\n{}",
                output.stderr
            );
            check_branch(&workspace, &case);
        }
    }
}

#[test]
fn a_damaged_exchange_of_a_finished_batch_gives_the_same_results() {
    for name in ["HEAD", "config", "collected/b1", "idx"] {
        for kind in [Damage::Empty, Damage::Zeroed, Damage::Torn, Damage::Gone] {
            let case = format!("{name} {kind:?}");
            let llm = MockLlm::start(&[]);
            let workspace = batch(&llm, None);
            let before = workspace.read("out/responses.jsonl");
            if name == "idx" {
                for file in pack_files(&workspace).iter().filter(|file| file.ends_with(name)) {
                    damage(&workspace.path(file), kind);
                    // An index that is missing only briefly is being written.
                    let pack = file.replace(".idx", ".pack");
                    age(&workspace.path(&pack));
                }
            } else {
                damage(&workspace.path(EXCHANGE).join(name), kind);
            }
            let output = workspace.run(&["collect", "b1", "--output", "out"]);
            assert_eq!(output.code, Some(0), "{case}: {}", output.stderr);
            assert_eq!(workspace.read("out/responses.jsonl"), before, "{case}");
            workspace.dispatch(&["--batch-id", "b1"]).expect(0);
            assert_eq!(llm.counter("ok"), REQUESTS as u64, "{case}: a finished batch is paid again");
        }
    }
}

/// Makes a file or a directory two minutes older.
fn age(path: &Path) {
    let touch = std::process::Command::new("touch").args(["-d", "2 minutes ago"]).arg(path).status();
    assert!(touch.unwrap().success());
}

/// What happens to the ref of a results branch.
#[derive(Debug, Clone, Copy)]
enum Lost {
    Loose(Damage),
    LooseDigit,
    Packed,
    PackedDigit,
    PackedName,
}

fn lose_results(workspace: &Workspace, lost: Lost) {
    let exchange = workspace.path(EXCHANGE);
    let (loose, packed) = (exchange.join("refs/heads/eval-results/b1"), exchange.join("packed-refs"));
    let flip = |path: &Path, at: usize| {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
        fs::write(path, bytes).unwrap();
    };
    if matches!(lost, Lost::Packed | Lost::PackedDigit | Lost::PackedName) {
        crate::support::git(workspace, &["pack-refs", "--all"], b"");
    }
    let line = fs::read_to_string(&packed).ok().and_then(|text| text.find(" refs/heads/eval-results/b1"));
    match lost {
        Lost::Loose(kind) => damage(&loose, kind),
        Lost::LooseDigit => flip(&loose, 7),
        Lost::Packed => fs::remove_file(&packed).unwrap(),
        Lost::PackedDigit => flip(&packed, line.unwrap() - 9),
        Lost::PackedName => flip(&packed, line.unwrap() + 15),
    }
}

#[test]
fn a_lost_or_damaged_ref_loses_no_row() {
    let losses = [
        Lost::Loose(Damage::Empty),
        Lost::Loose(Damage::Zeroed),
        Lost::Loose(Damage::Torn),
        Lost::Loose(Damage::Gone),
        Lost::LooseDigit,
        Lost::Packed,
        Lost::PackedDigit,
        Lost::PackedName,
    ];
    let llm = MockLlm::start(&[]);
    let finished = batch(&llm, None);
    let before = finished.read("out/responses.jsonl");
    for lost in losses {
        let workspace = copy(&finished);
        lose_results(&workspace, lost);
        let output = workspace.run(&["collect", "b1", "--output", "out"]);
        assert_eq!(output.code, Some(0), "{lost:?}: {}", output.stderr);
        assert!(output.stderr.contains("is missing: restoring it"), "{lost:?}: {}", output.stderr);
        assert_eq!(workspace.read("out/responses.jsonl"), before, "{lost:?}");

        let workspace = copy(&finished);
        lose_results(&workspace, lost);
        let output = workspace.dispatch(&["--batch-id", "b1"]);
        assert_eq!(output.code, Some(0), "{lost:?}: {}", output.stderr);
        assert_eq!(workspace.read("out/responses.jsonl"), before, "{lost:?}");
        assert_eq!(llm.counter("ok"), REQUESTS as u64, "{lost:?}: a finished batch is paid again");
        check_branch(&workspace, &format!("{lost:?}"));
    }
    // A batch that is not yet collected, and whose journal is lost too.
    let llm = MockLlm::start(&[]);
    let unfinished = batch(&llm, Some("2"));
    fs::remove_dir_all(unfinished.path(EXCHANGE).join("journal")).unwrap();
    lose_results(&unfinished, Lost::Loose(Damage::Empty));
    unfinished.dispatch(&["--batch-id", "b1"]).expect(0);
    check_answers(&unfinished, "an unfinished batch");
    assert_eq!(llm.counter("ok"), REQUESTS as u64, "the branch had two answers");
}

#[test]
fn a_changed_digit_in_a_claim_loses_no_row() {
    let llm = MockLlm::start(&[]);
    let base = batch(&llm, Some("2"));
    lose_everything_but_the_journal(&base);
    let claim = format!("{EXCHANGE}/journal/b1/batch.sha256");
    let text = base.read(&claim);
    for at in [0, 5, 63] {
        let workspace = copy(&base);
        let digit = if &text[at..=at] == "1" { "2" } else { "1" };
        workspace.write(&claim, format!("{}{digit}{}", &text[..at], &text[at + 1..]));
        workspace.run(&["collect", "b1", "--output", "out"]).expect(5);
        let answered = |row: &Value| row.get("output").is_some();
        assert_eq!(workspace.rows("out/responses.jsonl").iter().filter(|row| answered(row)).count(), 2);
        let before = llm.counter("ok");
        let output = workspace.dispatch(&["--batch-id", "b1"]).expect(0);
        assert!(output.stderr.contains("batch.sha256` is damaged ("), "{}", output.stderr);
        check_answers(&workspace, "a changed digit");
        assert_eq!(llm.counter("ok"), before + 1, "the journal had two answers");
        let aside = workspace.path(EXCHANGE).join("damaged/journal-b1-batch.sha256.1");
        assert!(aside.exists());
    }
}

#[test]
fn a_directory_in_the_place_of_a_file_is_set_aside() {
    let llm = MockLlm::start(&[]);
    let (unfinished, finished) = (batch(&llm, Some("2")), batch(&llm, None));
    let paid = llm.counter("ok");
    let names = [
        "HEAD",
        "config",
        "packed-refs",
        "dispatch/b1.json",
        "journal/b1/batch.sha256",
        "journal/b1/shard-000.lock",
        "tips/eval-results%2Fb1",
    ];
    for name in names {
        let workspace = copy(&unfinished);
        let path = workspace.path(EXCHANGE).join(name);
        let _ = fs::remove_file(&path);
        fs::create_dir_all(&path).unwrap();
        let before = llm.counter("ok");
        let output = workspace.dispatch(&["--batch-id", "b1"]);
        assert_eq!(output.code, Some(0), "{name}: {}", output.stderr);
        assert!(output.stderr.contains("is damaged (it is a directory)"), "{name}: {}", output.stderr);
        check_answers(&workspace, name);
        assert_eq!(llm.counter("ok"), before + 1, "{name}: two were answered");
    }
    assert_eq!(llm.counter("ok"), paid + names.len() as u64);
    for name in ["collected/b1", "config", "HEAD"] {
        let workspace = copy(&finished);
        let path = workspace.path(EXCHANGE).join(name);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let output = workspace.run(&["collect", "b1", "--output", "out"]);
        assert_eq!(output.code, Some(0), "{name}: {}", output.stderr);
        check_answers(&workspace, name);
    }
}

#[test]
fn commands_in_messages_can_be_pasted_into_a_shell() {
    let llm = MockLlm::start(&[]);
    let workspace = Workspace::new();
    workspace.write_target(&llm.base_url(), "");
    workspace.write_requests(REQUESTS);
    let exchange = ["--exchange", "an exchange.git"];
    let more = ["--batch-id", "b1", "--max-requests", "2"];
    workspace.dispatch(&[&more[..], &exchange].concat()).expect(5);
    let output = workspace.run(&[&["collect", "b1", "--output", "out"][..], &exchange].concat()).expect(5);
    let command = "`run-evals run --batch-id b1 --exchange 'an exchange.git'`";
    assert!(output.stderr.contains(command), "{}", output.stderr);
}

/// The state that a killed run leaves: nothing is published.
fn lose_everything_but_the_journal(workspace: &Workspace) {
    crate::support::git(workspace, &["update-ref", "-d", "refs/heads/eval-results/b1"], b"");
    let _ = fs::remove_dir_all(workspace.path(EXCHANGE).join("tips"));
}

#[test]
fn a_zeroed_or_torn_journal_end_loses_only_the_rows_there() {
    for (case, end, lost) in [
        ("zeros", vec![0; 4096], 0),
        ("half a row", br#"{"index":2,"checksum":"00"#.to_vec(), 0),
        // The next run appended after the zeros of a lost block.
        ("zeros before a row", [vec![0; 100], b"{}\n".to_vec()].concat(), 0),
    ] {
        let llm = MockLlm::start(&[]);
        let workspace = batch(&llm, Some("2"));
        let journal = fs::read(workspace.path(JOURNAL)).unwrap();
        fs::write(workspace.path(JOURNAL), [journal, end].concat()).unwrap();
        workspace.dispatch(&["--batch-id", "b1"]).expect(0);
        check_answers(&workspace, case);
        assert_eq!(llm.counter("ok"), REQUESTS as u64 + lost, "{case}");
    }
    // Zeros of a lost block before a complete row: the row counts.
    let llm = MockLlm::start(&[]);
    let workspace = batch(&llm, Some("2"));
    let journal = fs::read(workspace.path(JOURNAL)).unwrap();
    let end = journal.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let zeroed = [&vec![0; end - 1][..], &journal[end..]].concat();
    fs::write(workspace.path(JOURNAL), zeroed).unwrap();
    lose_everything_but_the_journal(&workspace);
    workspace.dispatch(&["--batch-id", "b1"]).expect(0);
    check_answers(&workspace, "a lost block");
    assert_eq!(llm.counter("ok"), REQUESTS as u64 + 1, "only the row in the lost block is called again");
    check_branch(&workspace, "a lost block");
}

#[test]
fn rows_missing_on_the_branch_are_published_despite_a_stale_marker() {
    let llm = MockLlm::start(&[]);
    let workspace = batch(&llm, Some("2"));
    // A marker from earlier versions: the journal was once longer.
    workspace.write(&JOURNAL.replace(".jsonl", ".published"), "100000");
    workspace.dispatch(&["--batch-id", "b1"]).expect(0);
    check_answers(&workspace, "a marker");
    check_branch(&workspace, "a marker");
}

#[test]
fn a_batch_that_cannot_be_recovered_is_reported() {
    let llm = MockLlm::start(&[]);
    let workspace = batch(&llm, Some("2"));
    let exchange = workspace.path(EXCHANGE);
    damage(&exchange.join("refs/heads/eval-batch/b1"), Damage::Empty);
    damage(&exchange.join("refs/heads/eval-results/b1"), Damage::Empty);
    fs::remove_dir_all(exchange.join("tips")).unwrap();
    let output = workspace.run(&["collect", "b1"]).expect(3);
    assert!(
        output.stderr.contains("refs/heads/eval-batch/b1` is damaged (it is empty)"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("its journal has 2 rows"), "{}", output.stderr);
    fs::remove_dir_all(exchange.join("journal")).unwrap();
    let output = workspace.run(&["collect", "b1"]).expect(3);
    assert!(output.stderr.contains("no batch `b1`"), "{}", output.stderr);
    let kept: Vec<_> = fs::read_dir(exchange.join("damaged")).unwrap().collect();
    assert_eq!(kept.len(), 2, "what is damaged is kept");
}

#[test]
fn two_commands_on_one_finished_batch_both_succeed() {
    let llm = MockLlm::start(&[]);
    let base = batch(&llm, None);
    for round in 0..12 {
        let workspace = copy(&base);
        let dispatch = |to: &str| {
            let args = [
                "dispatch",
                "--requests",
                "requests.jsonl",
                "--target",
                "llm",
                "-q",
                "--batch-id",
                "b1",
                "--output",
            ];
            let mut command = workspace.command(&[&args[..], &[to]].concat());
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        };
        let collect = |to: &str| {
            let mut command = workspace.command(&["collect", "b1", "--output", to]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        };
        let mut children = Vec::new();
        for i in 0..3 {
            children.push(dispatch(&format!("out-{i}")));
            if round % 2 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(fastrand::u64(0..30)));
            }
        }
        children.push(collect("out-3"));
        for (i, child) in children.into_iter().enumerate() {
            let output = child.wait_with_output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "round {round}, command {i}: {stderr}");
            let rows: Vec<Value> = workspace.rows(&format!("out-{i}/responses.jsonl"));
            assert_eq!(rows.len(), REQUESTS, "round {round}, command {i}");
        }
        assert!(
            !workspace.path(EXCHANGE).join("refs/heads/eval-batch/b1").exists(),
            "round {round}: the last one tidies up"
        );
        assert!(!workspace.path(EXCHANGE).join("locks").exists(), "round {round}");
    }
    assert_eq!(llm.counter("ok"), REQUESTS as u64, "nothing is paid again");
}

#[test]
fn journals_are_removed_after_complete_collection_and_a_new_run_pays_nothing() {
    let llm = MockLlm::start(&[]);
    let workspace = batch(&llm, Some("2"));
    assert!(workspace.path(JOURNAL).exists(), "an unfinished batch needs its journal");
    workspace.dispatch(&["--batch-id", "b1"]).expect(0);
    assert!(!workspace.path(EXCHANGE).join("journal/b1").exists());
    let before = workspace.read("out/responses.jsonl");
    workspace.run(&["collect", "b1", "--output", "out"]).expect(0);
    assert_eq!(workspace.read("out/responses.jsonl"), before);
    workspace.dispatch(&["--batch-id", "b1"]).expect(0);
    assert_eq!(workspace.read("out/responses.jsonl"), before);
    assert!(!workspace.path(EXCHANGE).join("journal/b1").exists());
    assert_eq!(llm.counter("ok"), REQUESTS as u64);
}

#[test]
fn leftovers_of_killed_runs_in_the_temporary_directory_are_removed() {
    let llm = MockLlm::start(&["--latency-ms", "60000"]);
    let workspace = Workspace::new();
    let temporary = workspace.path("tmp");
    fs::create_dir(&temporary).unwrap();
    let workspace = workspace.env("TMPDIR", temporary.to_str().unwrap());
    workspace.write_target(&llm.base_url(), "");
    workspace.write_requests(REQUESTS);
    let left = || fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let args = [
        "dispatch",
        "--requests",
        "requests.jsonl",
        "--target",
        "llm",
        "--output",
        "out",
        "-q",
        "--batch-id",
        "b1",
    ];
    for _ in 0..3 {
        let called = llm.counter("requests");
        let mut child = workspace.command(&args).spawn().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
        while llm.counter("requests") == called {
            assert!(std::time::Instant::now() < deadline, "no call was made");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(left().len() >= 3, "each kill leaves an unpacked batch: {:?}", left());
    for path in left() {
        age(&path);
    }
    workspace.run(&["collect", "b1", "--output", "out"]).expect(5);
    assert_eq!(left(), Vec::<PathBuf>::new());
}

#[test]
fn an_exchange_with_leftovers_of_a_power_cut_is_repaired_and_they_are_removed() {
    let llm = MockLlm::start(&[]);
    let workspace = batch(&llm, None);
    let exchange = workspace.path(EXCHANGE);
    fs::write(exchange.join("HEAD"), "").unwrap();
    let leftovers = [".run-evals-tmp-a1", "collected/.run-evals-tmp-a2"].map(|name| exchange.join(name));
    for leftover in &leftovers {
        fs::write(leftover, "").unwrap();
        age(leftover);
    }
    fs::write(workspace.path("out/.run-evals-tmp-a3"), "answers").unwrap();
    age(&workspace.path("out/.run-evals-tmp-a3"));
    let young = exchange.join(".run-evals-tmp-b1");
    fs::write(&young, "").unwrap();
    let owned = exchange.join(".run-evals-tmp-b2");
    let owner = fs::File::create(&owned).unwrap();
    owner.lock().unwrap();
    age(&owned);
    workspace.dispatch(&["--batch-id", "b1"]).expect(0);
    check_answers(&workspace, "leftovers");
    assert_eq!(fs::read_to_string(exchange.join("HEAD")).unwrap(), "ref: refs/heads/main\n");
    assert!(leftovers.iter().all(|leftover| !leftover.exists()), "{leftovers:?}");
    assert!(!workspace.path("out/.run-evals-tmp-a3").exists());
    assert!(young.exists() && owned.exists(), "a temporary file of a running process was removed");
}
