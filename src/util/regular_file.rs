//! Files from a checkout. Such a file may be a device, a named pipe, or a symlink to one, and reading it
//! would never end. A symlink into `/proc` leads to the environment of this process, with its secrets.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Component, Path};

use rustix::fs::OFlags;

/// Size limit of configuration files.
pub const SETTINGS: u64 = 16 << 20;
/// Size limit of content files: tests, prompts, attachments.
pub const CONTENT: u64 = 1 << 30;

/// Opens a file and follows symlinks; anything but a regular file is an error.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    // Without these flags, opening a pipe blocks until its other end opens.
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    check(metadata.file_type())?;
    reject_proc(&file)?;
    Ok((file, metadata))
}

/// Rejects a file that the kernel makes up about a process.
#[cfg(target_os = "linux")]
fn reject_proc(file: &File) -> io::Result<()> {
    if rustix::fs::fstatfs(file)?.f_type == rustix::fs::PROC_SUPER_MAGIC {
        return Err(io::Error::other("it is information about a process, expected a regular file"));
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn reject_proc(_: &File) -> io::Result<()> {
    Ok(())
}

/// Reads a file of at most `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = open(path)?;
    let mut bytes = Vec::new();
    if metadata.len() <= most {
        file.take(most + 1).read_to_end(&mut bytes)?;
    }
    if metadata.len() > most || bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {} MiB", most >> 20)));
    }
    Ok(bytes)
}

pub fn read_to_string(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

/// Reads a file of a checkout whose content others will see; nothing if there is none. No part of the path below `root` may be a
/// symlink, because it could lead to any file of this machine.
pub fn read_inside(root: &Path, path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut whole = root.to_path_buf();
    for part in path.components() {
        if !matches!(part, Component::Normal(_)) {
            return Err(io::Error::other("it is not a path below the directory"));
        }
        whole.push(part);
        match whole.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                return Err(io::Error::other("it is, or is below, a symbolic link"));
            }
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
    read(&whole, most).map(Some)
}

/// Rejects an existing path that is not a regular file or a symlink to one. Another program will read it.
pub fn check_if_present(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(metadata) => check(metadata.file_type()),
        // A dangling symlink counts as missing.
        Err(_) => Ok(()),
    }
}

fn check(kind: FileType) -> io::Result<()> {
    let found = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_char_device() || kind.is_block_device() {
        "a device"
    } else {
        "not a file"
    };
    Err(io::Error::other(format!("it is {found}, expected a regular file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"text");
        assert_eq!(read(&path, 3).unwrap_err().to_string(), "it is larger than 0 MiB");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(read_to_string(&link, 4).unwrap(), "text");
        let zeros = read(Path::new("/dev/zero"), 4).unwrap_err();
        assert_eq!(zeros.to_string(), "it is a device, expected a regular file");
        assert_eq!(read(dir.path(), 4).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(read(&dir.path().join("gone"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
        check_if_present(&dir.path().join("gone")).unwrap();
        check_if_present(Path::new("/dev/null")).unwrap_err();
    }

    #[test]
    fn no_symlink_leads_out_of_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        for dir in [&root.join("a"), &outside] {
            std::fs::create_dir_all(dir).unwrap();
            std::fs::write(dir.join("file"), "text").unwrap();
        }
        std::os::unix::fs::symlink(outside.join("file"), root.join("link")).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("dir")).unwrap();
        let read = |path: &str| read_inside(&root, Path::new(path), 4);
        assert_eq!(read("a/file").unwrap().unwrap(), b"text");
        assert_eq!(read("a/gone").unwrap(), None);
        assert_eq!(read("a/file/below").unwrap(), None);
        for path in ["link", "dir/file", "../outside/file", "/dev/null"] {
            read(path).unwrap_err();
        }
    }
}
