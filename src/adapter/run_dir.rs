//! The directory that the calls of one AgentV share: private, and removed after AgentV ends.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use super::process_tree::Process;
use crate::model::{Digest, Failure};

/// When to remove a directory whose AgentV cannot be checked: one of another container or boot, or with a
/// key.
const STALE_AFTER: Duration = Duration::from_hours(24 * 7);

/// A directory for the calls of one AgentV process.
#[derive(Debug)]
pub struct RunDir {
    dir: PathBuf,
    /// The process it belongs to, if any.
    caller: Option<Process>,
}

impl RunDir {
    /// The directory of the AgentV that started this process; removes those of ended ones.
    pub fn of_this_run() -> anyhow::Result<Self> {
        let caller = Process::caller().context("cannot determine the calling process")?;
        let base = base()?;
        let system = system();
        sweep(&base, &system);
        let Process { pid, started } = &caller;
        let dir = base.join(format!("{system}.{pid}.{started}"));
        private_directory(&dir)?;
        Ok(Self { dir, caller: Some(caller) })
    }

    /// The directory of all calls with this key.
    pub fn named(key: &str) -> anyhow::Result<Self> {
        let base = base()?;
        let system = system();
        sweep(&base, &system);
        let dir = base.join(format!("key.{}.", &Digest::of(key.as_bytes()).to_string()[..32]));
        private_directory(&dir)?;
        Ok(Self { dir, caller: None })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether a response may still be wanted.
    pub fn is_wanted(&self) -> bool {
        self.caller.as_ref().is_none_or(Process::is_alive)
    }
}

/// The user's runtime directory, or a private one in the shared temporary directory.
fn base() -> anyhow::Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let base = match runtime.filter(|dir| dir.is_absolute() && dir.is_dir()) {
        Some(dir) => dir.join("run-evals"),
        None => std::env::temp_dir().join(format!("run-evals-{}", rustix::process::getuid().as_raw())),
    };
    private_directory(&base)?;
    Ok(base)
}

/// Creates a private directory, or checks that it is one: it contains prompts, and the responses in it
/// are trusted.
fn private_directory(path: &Path) -> anyhow::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot create the directory `{}`", path.display()));
        }
        _ => {}
    }
    let found = path.symlink_metadata().with_context(|| format!("cannot look at `{}`", path.display()))?;
    let is_ours = found.is_dir() && found.uid() == rustix::process::getuid().as_raw();
    if !is_ours || found.mode() & 0o077 != 0 {
        let message = format!("`{}` is not a private directory", path.display());
        return Err(Failure::config(message)
            .hint("remove it, or set `XDG_RUNTIME_DIR` to a private directory")
            .into());
    }
    Ok(())
}

/// Identifies systems whose processes may have the same numbers: boots, and containers that share the directory.
fn system() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    Digest::of(format!("{} {}", boot.trim(), space.display()).as_bytes()).to_string()[..12].to_owned()
}

/// Removes the directories of ended processes. Leftovers are removed by the next call.
fn sweep(base: &Path, system: &str) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_gone = match name.splitn(3, '.').collect::<Vec<_>>()[..] {
            [of_system, pid, started] if of_system == system => {
                let process = pid.parse().map(|pid| Process { pid, started: started.to_owned() });
                process.is_ok_and(|process| !process.is_alive())
            }
            [_, _, _] => {
                let age = entry
                    .metadata()
                    .and_then(|data| data.modified())
                    .ok()
                    .and_then(|time| time.elapsed().ok());
                age.is_some_and(|age| age > STALE_AFTER)
            }
            _ => false,
        };
        if is_gone {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
