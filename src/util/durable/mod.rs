//! Files that survive a power cut.
//!
//! After a crash at any moment, a file written here has either its old or its new content. The content is
//! synced before the rename, and the directory is synced before the function returns. Everything that a
//! resume needs is written through this module. In tests, `crash` enumerates the states that a disk may
//! have after a power cut.

#[cfg(test)]
pub mod crash;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::NamedTempFile;

/// How the name of a temporary file begins.
const TEMPORARY: &str = ".run-evals-tmp-";
/// A newer temporary file may not be locked yet.
const YOUNG: Duration = Duration::from_mins(1);

/// Creates or atomically replaces a file.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = temporary_for(path)?;
    file.write_all(content)?;
    persist(file, path)
}

/// A temporary file in the directory of `path`, for [`persist`].
pub fn temporary_for(path: &Path) -> io::Result<NamedTempFile> {
    temporary_in(parent(path), tempfile::Builder::new().prefix(TEMPORARY))
}

/// Like [`temporary_for`], as readable as any other file that the user makes.
pub fn readable_temporary_in(dir: &Path) -> io::Result<NamedTempFile> {
    let readable = fs::Permissions::from_mode(0o666);
    temporary_in(dir, tempfile::Builder::new().prefix(TEMPORARY).permissions(readable))
}

/// The lock shows [`sweep`] that the file has an owner.
fn temporary_in(dir: &Path, builder: &tempfile::Builder<'_, '_>) -> io::Result<NamedTempFile> {
    let file = builder.tempfile_in(dir)?;
    // A file system without locks keeps its leftovers.
    let _ = file.as_file().try_lock();
    Ok(file)
}

/// Whether a file name is that of a temporary file.
pub fn is_temporary(name: &str) -> bool {
    name.starts_with(TEMPORARY)
}

/// Removes the temporary files that killed processes left in a directory. Failures are ignored, because
/// nothing depends on it.
pub fn sweep(dir: &Path) {
    sweep_at(dir, SystemTime::now());
}

fn sweep_at(dir: &Path, now: SystemTime) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let is_old = |metadata: fs::Metadata| {
            let age = metadata.modified().ok().and_then(|time| now.duration_since(time).ok());
            metadata.is_file() && age.is_some_and(|age| age >= YOUNG)
        };
        if !is_temporary(&entry.file_name().to_string_lossy()) || !entry.metadata().is_ok_and(is_old) {
            continue;
        }
        // Its owner keeps it locked.
        if File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Renames a temporary file to its final name, durably. Both must be in the same file system.
pub fn persist(file: NamedTempFile, path: &Path) -> io::Result<()> {
    #[cfg(test)]
    crash::record(&crash::Operation::Temporary(file.path()));
    file.as_file().sync_all()?;
    #[cfg(test)]
    crash::record(&crash::Operation::SyncFile(file.path()));
    #[cfg(test)]
    let from = file.path().to_path_buf();
    file.persist(path).map_err(|error| error.error)?;
    #[cfg(test)]
    crash::record(&crash::Operation::Rename(&from, path));
    sync_dir(parent(path))
}

/// Like [`persist`] without syncing, for files in directories that are themselves temporary.
pub fn place(file: NamedTempFile, path: &Path) -> io::Result<()> {
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Syncs a file that other code has written.
pub fn sync_file(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Renames a file or directory whose content is already durable.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    #[cfg(test)]
    crash::record(&crash::Operation::Rename(from, to));
    if parent(from) != parent(to) {
        sync_dir(parent(from))?;
    }
    sync_dir(parent(to))
}

/// Renames without syncing, for files and directories that can be made again after a power cut.
pub fn rename_unsynced(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Creates a directory and its missing parents, durably.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    create_dir_all(parent(path))?;
    match fs::create_dir(path) {
        // Another process created it, and may not have synced yet.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        result => result?,
    }
    #[cfg(test)]
    crash::record(&crash::Operation::CreateDir(path));
    sync_dir(parent(path))
}

/// Removes a file; a missing file is not an error.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result?,
    }
    #[cfg(test)]
    crash::record(&crash::Operation::Remove(path));
    sync_dir(parent(path))
}

/// Syncs the names in a directory.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    // Other systems cannot open a directory.
    if cfg!(unix) {
        File::open(path)?.sync_all()?;
    }
    #[cfg(test)]
    crash::record(&crash::Operation::SyncDir(path));
    Ok(())
}

/// Syncs the file system of a directory, for trees that other programs have written.
pub fn sync_file_system(dir: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(File::open(dir)?)?;
    #[cfg(all(unix, not(target_os = "linux")))]
    rustix::fs::sync();
    #[cfg(test)]
    crash::record(&crash::Operation::Foreign(dir));
    Ok(())
}

/// An append-only file. The caller decides when to sync.
#[derive(Debug)]
pub struct AppendFile {
    path: PathBuf,
    file: File,
}

impl AppendFile {
    /// Opens the file for reading and appending. The name of a new file is durable on return.
    pub fn open(path: &Path) -> io::Result<Self> {
        let options = || {
            let mut options = OpenOptions::new();
            options.read(true).append(true);
            options
        };
        let file = match options().create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options().open(path)?,
            result => {
                let file = result?;
                #[cfg(test)]
                crash::record(&crash::Operation::Create(path));
                sync_dir(parent(path))?;
                file
            }
        };
        Ok(Self { path: path.to_path_buf(), file })
    }

    /// Appends with one system call.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        #[cfg(test)]
        crash::record(&crash::Operation::Append(&self.path, bytes));
        Ok(())
    }

    /// Truncates the file, for example to undo a failed append.
    pub fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        #[cfg(test)]
        crash::record(&crash::Operation::SetLen(&self.path, length));
        Ok(())
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        #[cfg(test)]
        crash::record(&crash::Operation::SyncFile(&self.path));
        Ok(())
    }

    /// A second handle for a thread that syncs.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { path: self.path.clone(), file: self.file.try_clone()? })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, for reading.
    pub fn file_mut(&mut self) -> &mut File {
        &mut self.file
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::crash::Recording;
    use super::*;

    #[test]
    fn a_written_file_is_old_or_new_after_any_crash() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "old").unwrap();
        let disk = Recording::start(dir.path());
        write(&path, b"new").unwrap();
        disk.mark("written");
        let crashes = disk.crashes();
        assert!(crashes.len() > 3, "{crashes:?}");
        for crash in crashes {
            let at = tempfile::tempdir().unwrap();
            crash.restore(at.path());
            let content = fs::read_to_string(at.path().join("file")).unwrap();
            assert!(content == "new" || content == "old" && !crash.after("written"), "{crash:?}: {content}");
        }
    }

    #[test]
    fn a_new_directory_with_a_file_survives_any_later_crash() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Recording::start(dir.path());
        create_dir_all(&dir.path().join("a/b")).unwrap();
        write(&dir.path().join("a/b/file"), b"x").unwrap();
        disk.mark("written");
        rename(&dir.path().join("a/b/file"), &dir.path().join("a/file")).unwrap();
        disk.mark("moved");
        remove_file(&dir.path().join("a/file")).unwrap();
        disk.mark("removed");
        for crash in disk.crashes() {
            let at = tempfile::tempdir().unwrap();
            crash.restore(at.path());
            let [before, moved] = ["a/b/file", "a/file"].map(|name| fs::read(at.path().join(name)).ok());
            let found = before.or(moved);
            assert!(found.as_deref().is_none_or(|content| content == b"x"), "{crash:?}");
            let must_exist = crash.after("written") && !crash.after("moved");
            assert!(found.is_some() || !must_exist, "{crash:?}");
            assert!(found.is_none() || !crash.after("removed"), "{crash:?}");
        }
    }

    #[test]
    fn appended_lines_survive_once_they_are_synced() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Recording::start(dir.path());
        let mut log = AppendFile::open(&dir.path().join("log")).unwrap();
        log.append(b"one\n").unwrap();
        log.sync().unwrap();
        disk.mark("one");
        log.append(b"two\n").unwrap();
        let (mut torn, mut lost, mut zeroed) = (false, false, false);
        for crash in disk.crashes() {
            let at = tempfile::tempdir().unwrap();
            crash.restore(at.path());
            let content = fs::read(at.path().join("log")).unwrap_or_default();
            assert!(content.starts_with(b"one\n") || !crash.after("one"), "{crash:?}");
            torn |= content == b"one\ntw";
            lost |= content == b"one\n" && crash.after("one");
            zeroed |= content == b"one\n\0\0\0\0";
        }
        assert!(torn && lost && zeroed, "the disk does not show every damage: {torn} {lost} {zeroed}");
    }

    /// What the module prevents: without a sync, the new name has no content.
    #[test]
    fn a_rename_without_a_sync_loses_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "old").unwrap();
        let disk = Recording::start(dir.path());
        let mut file = temporary_for(&path).unwrap();
        file.write_all(b"new").unwrap();
        crash::record(&crash::Operation::Temporary(file.path()));
        let from = file.path().to_path_buf();
        file.persist(&path).unwrap();
        crash::record(&crash::Operation::Rename(&from, &path));
        let is_empty = |crash: &crash::Crash| {
            let at = tempfile::tempdir().unwrap();
            crash.restore(at.path());
            fs::read(at.path().join("file")).unwrap().is_empty()
        };
        assert!(disk.crashes().iter().any(is_empty));
    }
}
