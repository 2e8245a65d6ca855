//! Real power cuts while a benchmark is synced: it is in the old or in the new state, never in between.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::Bench;
use crate::support::Workspace;
use crate::support::power::{Disk, power_cuts, show};

/// The user's file in the clone.
const OWN: (&str, &str) = ("results/rows.jsonl", "{}\n");
const FILES: usize = 200;

/// A benchmark on a disk, synced once, and one more commit upstream.
fn stage(disk: &Disk) -> Bench {
    let workspace = Workspace::within(&disk.path());
    std::fs::create_dir(workspace.path("tmp")).unwrap();
    let temporary = workspace.path("tmp");
    let bench = Bench::of(workspace.env("TMPDIR", temporary.to_str().unwrap()));
    let write = |round: &str| {
        for file in 0..FILES {
            let content = format!("{round} {file}\n").repeat(1 + file % 50);
            std::fs::create_dir_all(bench.upstream().join("data")).unwrap();
            std::fs::write(bench.upstream().join(format!("data/{file}")), content).unwrap();
        }
        bench.commit("README.md", round);
    };
    write("before");
    bench.synced(&[]);
    bench.write(OWN.0, OWN.1);
    write("after");
    disk.sync();
    bench
}

fn cut_and_sync(disk: &Disk, seed: u64, longest: Duration) -> Result<bool, String> {
    let bench = stage(disk);
    // Every third time, there is no clone yet.
    let is_first = seed % 3 == 2;
    let own = if is_first { &[][..] } else { &[OWN][..] };
    if is_first {
        std::fs::remove_dir_all(bench.clone()).unwrap();
        disk.sync();
    }
    let before = bench.clone().exists().then(|| bench.seen());
    let after = bench.expected("main", own);
    disk.sync();
    let mut child = bench
        .workspace
        .command(&["sync", "one", "--allow-local", "-q"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + longest.mul_f64(fastrand::Rng::with_seed(seed).f64());
    let mut ended = None;
    // Other programs sync their files: the names of our files become durable before their content.
    let other = std::fs::File::create(disk.path().join("other")).unwrap();
    while ended.is_none() && Instant::now() < until {
        ended = child.try_wait().unwrap();
        std::io::Write::write_all(&mut &other, b"x").unwrap();
        other.sync_all().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(other);
    disk.cut(&mut child);
    let now = bench.clone().exists().then(|| bench.try_seen()).transpose()?;
    let is_new = now.as_ref() == Some(&after);
    if !is_new && now != before {
        let status = now.map(|now| now.status).unwrap_or_default();
        return Err(format!("neither old nor new: {status}"));
    }
    if ended.is_some_and(|status| status.success()) && !is_new {
        return Err("a sync that has succeeded is undone".to_owned());
    }
    let output = bench.sync(&[]);
    if output.code != Some(0) {
        return Err(format!("stuck: {}", output.stderr));
    }
    if bench.seen() != after {
        return Err("the next sync does not repair it".to_owned());
    }
    let left = std::fs::read_dir(bench.workspace.path("clones")).unwrap().count();
    if left != 2 {
        return Err(format!("{left} files and directories beside the clone"));
    }
    Ok(is_new)
}

#[test]
fn after_a_power_cut_a_benchmark_is_in_the_old_or_the_new_state() {
    let name = "after_a_power_cut_a_benchmark_is_in_the_old_or_the_new_state";
    let Some((disk, seeds)) = power_cuts(name, 3) else { return };
    let bench = stage(&disk);
    let started = Instant::now();
    bench.sync(&[]).expect(0);
    let longest = started.elapsed().mul_f64(1.2);
    drop(bench);
    let count = seeds.clone().count();
    let (mut failed, mut new) = (Vec::new(), 0);
    for seed in seeds {
        match cut_and_sync(&disk, seed, longest) {
            Ok(is_new) => new += usize::from(is_new),
            Err(why) => failed.push(format!("seed {seed}: {why}")),
        }
    }
    show(&format!("{count} power cuts: {new} left the new state"));
    assert!(failed.is_empty(), "{} of {count}:\n{}", failed.len(), failed.join("\n"));
}
