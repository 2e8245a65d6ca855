//! Killed syncs, and concurrent syncs.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{Bench, git, seen};

const KILLS: u32 = 30;
const SEED: u64 = 0x5eed_0008;
/// The user's files in the clone.
const OWN: [(&str, &str); 2] = [("notes.txt", "mine\n"), ("results/rows.jsonl", "{}\n")];

#[test]
fn a_killed_sync_leaves_the_old_state_or_the_new_one() {
    let bench = Bench::new();
    for file in 0..150 {
        std::fs::create_dir_all(bench.upstream().join("data")).unwrap();
        std::fs::write(bench.upstream().join(format!("data/{file}")), vec![b'x'; 2000 + file]).unwrap();
    }
    bench.commit("README.md", "begin\n");
    let started = Instant::now();
    bench.synced(&[]);
    let long = started.elapsed();
    for (file, content) in OWN {
        bench.write(file, content);
    }
    let mut random = fastrand::Rng::with_seed(SEED);
    let (mut old, mut new, mut absent) = (0, 0, 0);
    for kill in 0..KILLS {
        // Every third time, there is no clone yet.
        let is_first = kill % 3 == 2;
        let own = if is_first { &[][..] } else { &OWN[..] };
        let before = if is_first {
            std::fs::remove_dir_all(bench.clone()).unwrap();
            None
        } else {
            Some(bench.seen())
        };
        for file in (0..150).filter(|file| file % 3 == kill as usize % 3) {
            std::fs::write(bench.upstream().join(format!("data/{file}")), format!("{kill} {file}\n"))
                .unwrap();
        }
        bench.commit("README.md", &format!("{kill}\n"));
        let after = bench.expected("main", own);
        let mut child = bench
            .workspace
            .command(&["sync", "one", "--allow-local"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let moment = long.mul_f64(random.f64() * 1.1);
        std::thread::sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
        if bench.clone().exists() {
            let now = bench.seen();
            let is_old = before.as_ref() == Some(&now);
            let when = format!("kill {kill} after {moment:?} (seed {SEED:#x})");
            assert!(is_old || now == after, "{when}: neither old nor new: {:?}", now.status);
            *if is_old { &mut old } else { &mut new } += 1;
        } else {
            assert!(before.is_none(), "kill {kill} after {moment:?} (seed {SEED:#x}): it is gone");
            absent += 1;
        }
        bench.workspace.run(&["sync", "--status", "--allow-local"]).expect(0);
        bench.sync(&[]).expect(0);
        assert_eq!(bench.seen(), after, "kill {kill} (seed {SEED:#x})");
        if is_first {
            for (file, content) in OWN {
                bench.write(file, content);
            }
        }
    }
    #[expect(clippy::print_stdout, reason = "the figures of the test")]
    {
        println!("seed {SEED:#x}: {old} left the old state, {new} the new one, {absent} nothing yet");
    }
    assert_eq!(old + new + absent, KILLS);
    assert!(old + absent > 0, "no kill came before the exchange");
    // Leftovers of killed syncs are removed once their last child has ended.
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        bench.sync(&[]).expect(0);
        let left: Vec<_> = std::fs::read_dir(bench.workspace.path("clones"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        if left.len() == 2 {
            break;
        }
        assert!(Instant::now() < until, "{left:?}");
    }
}

#[test]
fn a_concurrent_sync_waits_and_says_so() {
    let bench = Bench::new();
    bench.synced(&[]);
    bench.commit("README.md", "two\n");
    let lock = File::open(bench.workspace.path("clones/.one.sync.lock")).unwrap();
    lock.lock().unwrap();
    let mut child = bench
        .workspace
        .command(&["sync", "one", "--allow-local"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "one: waiting for another sync of this benchmark");
    lock.unlock().unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(child.wait().unwrap().success(), "{rest:?}");
    assert_eq!(bench.seen(), bench.expected("main", &[]));
}

#[test]
fn many_concurrent_syncs_end_in_one_state() {
    let bench = Bench::new();
    for round in 0..3 {
        bench.commit("README.md", &format!("{round}\n"));
        let children: Vec<_> = (0..4)
            .map(|_| {
                bench
                    .workspace
                    .command(&["sync", "one", "--allow-local", "-q"])
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success());
        }
        assert_eq!(bench.seen(), bench.expected("main", &[]));
    }
}

#[test]
fn an_old_directory_without_an_inventory_is_kept() {
    let bench = Bench::new();
    bench.synced(&[]);
    // A sync that was killed between the exchange and its end: the old directory is in the staging area, without its inventory.
    let workshop = bench.workspace.path("clones/.one.sync-0123abcd");
    let head = git(&bench.clone(), &["rev-parse", "HEAD"]);
    let note = serde_json::json!({"replica": 1, "head": head, "reset": false});
    std::fs::create_dir(&workshop).unwrap();
    std::fs::write(workshop.join("run-evals.json"), note.to_string()).unwrap();
    git(bench.workspace.root(), &["clone", "-q", "upstream", workshop.join("tree").to_str().unwrap()]);
    std::fs::write(workshop.join("tree/README.md"), "late\n").unwrap();
    let notes = bench.synced(&[])["notes"][0].as_str().unwrap().to_owned();
    let kept = notes.split('`').nth(1).unwrap();
    assert_eq!(std::fs::read_to_string(std::path::Path::new(kept).join("README.md")).unwrap(), "late\n");
    assert_eq!(seen(&bench.clone()).status, "");
    assert!(!workshop.exists());
}

#[test]
fn without_atomic_exchange_the_gap_between_two_renames_is_repaired() {
    let bench = Bench::new();
    bench.synced(&[]);
    let before = bench.seen();
    for look in [&["sync", "--status", "--allow-local"][..], &["sync", "one", "--allow-local"]] {
        // Killed after the first of the two.
        let workshop = bench.workspace.path("clones/.one.sync-0123abcd");
        std::fs::create_dir_all(workshop.join("tree/.git")).unwrap();
        let replica = std::os::unix::fs::MetadataExt::ino(&workshop.join("tree").metadata().unwrap());
        let note = serde_json::json!({"replica": replica, "head": null, "reset": false});
        std::fs::write(workshop.join("run-evals.json"), note.to_string()).unwrap();
        std::fs::rename(bench.clone(), workshop.join("old")).unwrap();
        bench.workspace.run(look).expect(0);
        assert_eq!(bench.seen(), before);
    }
}
