//! What a sync receives of a repository with 2,000 commits and 200 MB of history, against a full clone; and what it takes.
//!
//! `cargo bench --bench sync` runs the released binary and prints the figures. A missed goal is printed, not an error.

#![expect(clippy::print_stdout, reason = "a bench prints figures")]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

const COMMITS: usize = 2_000;
const BYTES: usize = 100 << 10;
const FILES: usize = 40;
const MOST: f64 = 5.0;

fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let upstream = dir.path().join("upstream.git");
    make(&upstream, 0, COMMITS)?;
    println!(
        "{COMMITS} commits, {:.1} MB of history, {FILES} files of {} kB",
        mega((COMMITS * BYTES) as u64),
        BYTES >> 10
    );

    let started = Instant::now();
    let url = format!("file://{}", upstream.display());
    git(dir.path(), &["clone", "-q", "--no-local", &url, "full"])?;
    let (full, full_time) = (packs(&dir.path().join("full/.git"))?, started.elapsed());
    println!("git clone:       {:9.3} MB received, {:.2} s", mega(full), full_time.as_secs_f64());

    let registry = format!("benchmarks: [{{id: one, path: one, source: {{url: '{url}', ref: main}}}}]\n");
    fs::write(dir.path().join("r.yaml"), registry)?;
    let first = sync(dir.path(), "first sync")?;
    ensure!(packs(&dir.path().join("one/.git"))? == first, "the figure is not that of the packs");
    make(&upstream, COMMITS, 10)?;
    let next = sync(dir.path(), "10 commits later")?;
    sync(dir.path(), "nothing new")?;
    for (what, bytes) in [("first sync", first), ("10 commits later", next)] {
        #[expect(clippy::cast_precision_loss, reason = "a figure to read")]
        let share = 100.0 * bytes as f64 / full as f64;
        println!(
            "{what}: {share:.2} % of a full clone, goal {MOST} %: {}",
            if share <= MOST { "met" } else { "missed" }
        );
    }
    Ok(())
}

/// Adds commits to `main`, each of which gives one file new bytes that do not compress.
fn make(repo: &Path, from: usize, count: usize) -> Result<()> {
    if from == 0 {
        fs::create_dir_all(repo)?;
        git(repo, &["init", "-q", "--bare", "--initial-branch=main"])?;
        git(repo, &["config", "uploadpack.allowFilter", "true"])?;
    }
    let mut child = Command::new("git")
        .args(["-c", "core.compression=0", "fast-import", "--quiet"])
        .current_dir(repo)
        .stdin(Stdio::piped())
        .spawn()?;
    let mut to = std::io::BufWriter::new(child.stdin.take().context("no pipe to git")?);
    let mut random = fastrand::Rng::with_seed(from as u64 + 1);
    let mut bytes = vec![0; BYTES];
    for commit in from..from + count {
        writeln!(
            to,
            "commit refs/heads/main\ncommitter bench <bench@example.com> {} +0000",
            1_700_000_000 + commit * 60
        )?;
        writeln!(to, "data 1\nx")?;
        if commit > 0 && commit == from {
            writeln!(to, "from refs/heads/main^0")?;
        }
        random.fill(&mut bytes);
        writeln!(to, "M 100644 inline data/{}.bin\ndata {BYTES}", commit % FILES)?;
        to.write_all(&bytes)?;
        writeln!(to)?;
    }
    drop(to);
    ensure!(child.wait()?.success(), "git fast-import failed");
    Ok(())
}

fn sync(dir: &Path, what: &str) -> Result<u64> {
    let started = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-evals"));
    command
        .args(["sync", "one", "--registry", "r.yaml", "--allow-local", "--format", "json", "-q"])
        .current_dir(dir);
    let output = command.output()?;
    let time = started.elapsed();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let bytes = json["benchmarks"][0]["received_bytes"].as_u64().context("no figure")?;
    println!("{:<16} {:9.3} MB received, {:.2} s", format!("{what}:"), mega(bytes), time.as_secs_f64());
    Ok(bytes)
}

fn packs(git_dir: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(git_dir.join("objects/pack"))? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|end| end == "pack") {
            sum += entry.metadata()?.len();
        }
    }
    Ok(sum)
}

fn git(dir: &Path, args: &[&str]) -> Result<()> {
    ensure!(Command::new("git").args(args).current_dir(dir).status()?.success(), "git {args:?} failed");
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure to read")]
fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
