//! Lock files. In an untrusted directory, such a file may be a symlink or a pipe.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens or creates a lock file and keeps its content. Symlinks and anything but regular files are
/// rejected.
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a pipe would block.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().create(true).append(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"))
    }
}
