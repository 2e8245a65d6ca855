//! Where programs are searched.
//!
//! A relative or empty entry of `PATH` is a folder of the checkout, with untrusted programs. Programs are
//! searched in absolute folders only, and every child process gets such a `PATH`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Used if `PATH` has no absolute folder; an empty `PATH` would mean the current directory.
const USUAL: &str = "/usr/local/bin:/usr/bin:/bin";

/// `PATH` of this process, absolute folders only.
pub fn path() -> OsString {
    env::var_os("PATH").and_then(|path| absolute(&path)).unwrap_or_else(|| USUAL.into())
}

/// The absolute folders of a list such as `PATH`; `None` if there are none.
pub fn absolute(folders: &OsStr) -> Option<OsString> {
    let kept: Vec<PathBuf> = env::split_paths(folders).filter(|folder| folder.is_absolute()).collect();
    if kept.is_empty() { None } else { env::join_paths(kept).ok() }
}

/// Path of a program in the absolute folders of a list.
pub fn find(name: &str, folders: &OsStr) -> Option<PathBuf> {
    let name = format!("{name}{}", env::consts::EXE_SUFFIX);
    let folders = env::split_paths(folders).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(&name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn only_absolute_folders_count() {
        assert_eq!(absolute(OsStr::new(".:/a::b:/c/../d:")), Some("/a:/c/../d".into()));
        assert_eq!(absolute(OsStr::new("")), None);
        assert_eq!(absolute(OsStr::new("bin:.")), None);
    }

    #[test]
    fn programs_are_not_taken_from_relative_folders() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let program = dir.path().join(format!("tool{}", env::consts::EXE_SUFFIX));
        std::fs::write(&program, "").unwrap();
        assert_eq!(find("tool", Path::new(dir.path().file_name().unwrap()).as_os_str()), None);
        let absolute = dir.path().canonicalize().unwrap();
        let path = env::join_paths([Path::new("/nowhere"), Path::new(""), &absolute]).unwrap();
        assert_eq!(find("tool", &path), Some(absolute.join(program.file_name().unwrap())));
    }
}
