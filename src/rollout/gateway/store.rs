//! Stores traces and logs: one file per rollout, in a folder of the day on which it began. Files only grow; a line truncated by a
//! crash is skipped. Nothing is kept in memory, so restarts are harmless and memory does not grow.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::Value;

use crate::model::{Digest, Exit, Failure};
use crate::util::durable::{self, AppendFile};

/// No real rollout has more than this: no new call is accepted for it.
const LARGEST_FILE: u64 = 32 << 20;
/// A paid response is still recorded up to here, as far as a client reads it.
const LARGEST_RECORDED: u64 = 60 << 20;
const DAY: u64 = 24 * 60 * 60;

/// The store.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    /// Days after which a rollout is deleted.
    keep_days: u64,
    /// One writer at a time: lines are not interleaved, and a rollout has one file.
    writing: Mutex<()>,
}

/// The rollout's file is full.
#[derive(Debug, thiserror::Error)]
#[error("the rollout has more than {} MiB of traces", LARGEST_FILE >> 20)]
pub(super) struct Full;

impl Store {
    /// Opens or creates the store, and deletes old days.
    pub(super) fn open(dir: &Path, keep: Duration) -> anyhow::Result<Self> {
        make_dir(dir).map_err(|error| {
            Failure::new(Exit::Failure, format!("cannot create the directory `{}`: {error}", dir.display()))
                .hint("choose another with `--traces`")
        })?;
        let keep_days = keep.as_secs().div_ceil(DAY).max(1);
        let store = Self { dir: dir.to_owned(), keep_days, writing: Mutex::new(()) };
        store.forget_old()?;
        Ok(store)
    }

    /// Deletes the days beyond the retention time.
    pub(super) fn forget_old(&self) -> anyhow::Result<()> {
        let today = today();
        for (day, path) in self.days()? {
            let age = (today - day).get_days();
            if u64::try_from(age).is_ok_and(|age| age > self.keep_days) {
                fs::remove_dir_all(&path).with_context(|| format!("cannot delete `{}`", path.display()))?;
            }
        }
        Ok(())
    }

    /// Refuses a rollout that has no room for this many bytes, or whose file cannot be written.
    pub(super) fn make_room(&self, rollout_id: &str, bytes: u64) -> anyhow::Result<()> {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = self.open_file(rollout_id)?;
        let length = file.file_mut().metadata().context("cannot read the file of a rollout")?.len();
        if length + bytes > LARGEST_FILE { Err(Full.into()) } else { Ok(()) }
    }

    /// Opens or creates the file of a rollout.
    fn open_file(&self, rollout_id: &str) -> anyhow::Result<AppendFile> {
        let path = if let Some(path) = self.find(rollout_id)? {
            path
        } else {
            let day = self.dir.join(today().to_string());
            make_dir(&day).context("cannot create a directory for traces")?;
            day.join(file_name(rollout_id))
        };
        let cannot = || format!("cannot write to `{}`", path.display());
        // Readable only for the owner from the start.
        let new = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path);
        match new {
            Ok(_) => durable::sync_dir(path.parent().unwrap_or(&self.dir)).with_context(cannot)?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(cannot),
        }
        AppendFile::open(&path).with_context(cannot)
    }

    /// Appends a line to a rollout durably. A trace was paid for, so it may exceed the usual limit.
    pub(super) fn append(&self, rollout_id: &str, line: &Value) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        let most = if line["kind"] == "trace" { LARGEST_RECORDED } else { LARGEST_FILE };
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = self.open_file(rollout_id)?;
        let path = file.path().to_owned();
        let cannot = || format!("cannot write to `{}`", path.display());
        let length = file.file_mut().metadata().with_context(cannot)?.len();
        if length + text.len() as u64 > most {
            return Err(Full.into());
        }
        if length > 0 {
            // Terminate a line that a crash truncated.
            let mut last = [0];
            let end = file.file_mut();
            end.seek(SeekFrom::End(-1)).and_then(|_| end.read_exact(&mut last)).with_context(cannot)?;
            if last != *b"\n" {
                text.insert(0, b'\n');
            }
        }
        file.append(&text).and_then(|()| file.sync()).with_context(cannot)
    }

    /// The lines of a rollout that match `wanted`, the oldest first.
    pub(super) fn lines(
        &self,
        rollout_id: &str,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> anyhow::Result<Vec<Value>> {
        let Some(path) = self.find(rollout_id)? else { return Ok(Vec::new()) };
        let file = File::open(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let mut reader = BufReader::new(file);
        let (mut line, mut lines) = (Vec::new(), Vec::new());
        while reader.read_until(b'\n', &mut line).context("cannot read traces")? > 0 {
            if let Ok(value) = serde_json::from_slice::<Value>(&line)
                && value["rollout_id"] == rollout_id
                && wanted(&value)
            {
                lines.push(value);
            }
            line.clear();
        }
        Ok(lines)
    }

    /// The file of a rollout, whatever day it began.
    fn find(&self, rollout_id: &str) -> anyhow::Result<Option<PathBuf>> {
        let name = file_name(rollout_id);
        let mut days = self.days()?;
        days.sort();
        Ok(days.into_iter().rev().map(|(_, day)| day.join(&name)).find(|path| path.exists()))
    }

    fn days(&self) -> anyhow::Result<Vec<(Date, PathBuf)>> {
        let entries =
            fs::read_dir(&self.dir).with_context(|| format!("cannot read `{}`", self.dir.display()))?;
        let day = |entry: fs::DirEntry| {
            let date = entry.file_name().to_str()?.parse::<Date>().ok()?;
            Some((date, entry.path()))
        };
        Ok(entries.flatten().filter_map(day).collect())
    }
}

/// A directory that only its owner can read: traces contain prompts.
fn make_dir(dir: &Path) -> std::io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    dir.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), durable::sync_dir)
}

/// An id is untrusted text and must not become a file name.
fn file_name(rollout_id: &str) -> String {
    format!("{}.jsonl", Digest::of(rollout_id.as_bytes()))
}

fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;

    const KEEP: Duration = Duration::from_hours(24 * 30);

    fn line(rollout_id: &str, n: u32) -> Value {
        json!({"rollout_id": rollout_id, "n": n})
    }

    #[test]
    fn a_truncated_line_is_skipped_and_the_next_line_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), KEEP).unwrap();
        store.append("../a", &line("../a", 1)).unwrap();
        let path = store.find("../a").unwrap().unwrap();
        assert!(path.starts_with(dir.path().join(today().to_string())), "{}", path.display());
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(br#"{"rollout_id":"../a","n":"#).unwrap();
        store.append("../a", &line("../a", 3)).unwrap();
        let again = Store::open(dir.path(), KEEP).unwrap();
        assert_eq!(again.lines("../a", |_| true).unwrap(), [line("../a", 1), line("../a", 3)]);
        assert_eq!(again.lines("b", |_| true).unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn only_old_days_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let day = |days: i64| (today() - jiff::Span::new().days(days)).to_string();
        for name in [day(31), day(30), day(1), "notes".to_owned()] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        Store::open(dir.path(), KEEP).unwrap();
        let mut left: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [day(30), day(1), "notes".to_owned()]);
    }
}
