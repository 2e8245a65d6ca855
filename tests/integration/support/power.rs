//! Real power cuts: an ext4 file system in a file, shut down without a flush while a process uses it.
//!
//! Unsynced data is lost, empty or torn afterwards, as after a real power cut. This needs root, loop devices and ext4;
//! [`power_cuts`] prints the reason if one of them is missing and the test is not run.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How many power cuts each test makes; with the variable, a test that cannot make them fails.
const CUTS: &str = "RUN_EVALS_POWER_CUTS";
/// The first seed, to repeat a failed test.
const SEED: &str = "RUN_EVALS_POWER_CUT_SEED";
/// `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH`: nothing more is written, not even the file system's own journal.
const SHUTDOWN: &str = "
import fcntl, os, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, (2).to_bytes(4, 'little'))
";
/// Large enough for a file system with its own journal.
const IMAGE_BYTES: u64 = 256 << 20;

/// A separate disk. Its content survives [`Disk::cut`] as far as it was synced.
pub(crate) struct Disk {
    dir: TempDir,
    options: &'static str,
}

impl Disk {
    /// Creates an empty disk, or says why that is impossible here.
    pub(crate) fn new() -> Result<Self, String> {
        Self::with_options("loop")
    }

    fn with_options(options: &'static str) -> Result<Self, String> {
        // Memory is a fast disk, and a power cut there does not affect us.
        let shared = Path::new("/dev/shm");
        let dir = if shared.is_dir() { tempfile::tempdir_in(shared) } else { tempfile::tempdir() };
        let disk = Self { dir: dir.map_err(|error| format!("no temporary directory: {error}"))?, options };
        let image = std::fs::File::create(disk.image()).map_err(|error| error.to_string())?;
        image.set_len(IMAGE_BYTES).map_err(|error| error.to_string())?;
        std::fs::create_dir(disk.path()).map_err(|error| error.to_string())?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(disk.image()))?;
        disk.mount()?;
        // Before a test depends on it.
        run(Command::new("python3").arg("--version"))?;
        Ok(disk)
    }

    /// The directory of its files.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    /// Makes all current content durable.
    pub(crate) fn sync(&self) {
        run(Command::new("sync").arg("-f").arg(self.path())).unwrap();
    }

    /// Cuts the power while `process` uses the disk, kills the process, and mounts the disk again.
    ///
    /// The process is stopped first: it must not notice that its disk is gone.
    pub(crate) fn cut(&self, process: &mut Child) {
        let id = process.id().to_string();
        let _ = Command::new("kill").args(["-STOP", &id]).stderr(Stdio::null()).status();
        self.shut_down();
        let _ = process.kill();
        let _ = process.wait();
        self.remount();
    }

    /// From now on, nothing reaches the disk.
    pub(crate) fn shut_down(&self) {
        run(Command::new("python3").args(["-c", SHUTDOWN]).arg(self.path())).unwrap();
    }

    /// Mounts the disk again once all processes that used it have ended.
    pub(crate) fn remount(&self) {
        // Children of the process see closed pipes or a missing disk, and end.
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let unmounted = run(Command::new("umount").arg(self.path()));
            let problem = match unmounted {
                Ok(()) => {
                    self.mount().unwrap();
                    match tempfile::tempfile_in(self.path()) {
                        Ok(_) => return,
                        // A copy of the mount in another namespace keeps the disk mounted.
                        Err(error) => error.to_string(),
                    }
                }
                Err(why) => why,
            };
            assert!(
                Instant::now() < deadline,
                "the disk is still in use: {problem}\n{}",
                users(&self.path())
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn mount(&self) -> Result<(), String> {
        run(Command::new("mount").args(["-o", self.options]).arg(self.image()).arg(self.path()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a failed test may have left a process behind.
        let _ = run(Command::new("umount").arg("-l").arg(self.path()));
    }
}

/// The seeds of a test's power cuts, and a disk; nothing if power cuts are impossible, after a line with the reason.
pub(crate) fn power_cuts(test: &str, few: u64) -> Option<(Disk, std::ops::Range<u64>)> {
    let asked = std::env::var(CUTS).ok().map(|count| count.parse::<u64>().unwrap());
    let first = std::env::var(SEED).map_or(0, |seed| seed.parse().unwrap());
    match Disk::new() {
        Ok(disk) => Some((disk, first..first + asked.unwrap_or(few))),
        Err(why) => {
            assert!(asked.is_none(), "`{CUTS}` is set, but no power can be cut here: {why}");
            show(&format!("NOT RUN: {test}: no power can be cut here: {why}"));
            None
        }
    }
}

/// Prints a line even if the test passes. The output of macros would be captured.
pub(crate) fn show(line: &str) {
    std::io::stderr().write_all(format!("\n{line}\n").as_bytes()).unwrap();
}

/// Runs a command to its end; on failure, returns the reason.
fn run(command: &mut Command) -> Result<(), String> {
    let name = format!("{}", command.get_program().display());
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("`{name}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`{name}` failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// The processes with an open file on the disk, for a message.
fn users(path: &Path) -> String {
    let mut users = String::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let links = std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let links = links.map(|link| link.path()).chain([process.path().join("cwd")]);
        if links.filter_map(|link| std::fs::read_link(link).ok()).any(|to| to.starts_with(path)) {
            let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            let _ = writeln!(users, "{}: {words}", process.file_name().display());
        }
    }
    users
}

/// Tests the harness itself: synced data survives, other data does not.
#[test]
fn a_power_cut_keeps_synced_data_and_loses_the_rest() {
    let Some((disk, _)) = power_cuts("a_power_cut_keeps_synced_data_and_loses_the_rest", 1) else {
        return;
    };
    let synced = disk.path().join("synced");
    std::fs::write(&synced, "kept").unwrap();
    disk.sync();
    std::fs::write(disk.path().join("unsynced"), "lost").unwrap();
    let mut sleeper = Command::new("sleep").arg("600").current_dir(disk.path()).spawn().unwrap();
    disk.cut(&mut sleeper);
    assert_eq!(std::fs::read_to_string(synced).unwrap(), "kept");
    let unsynced = std::fs::read_to_string(disk.path().join("unsynced")).unwrap_or_default();
    assert_eq!(unsynced, "");
}
