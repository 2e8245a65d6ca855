//! Opens bundles in place of suites: checks a directory or an archive first, and unpacks an archive.

use std::path::{Path, PathBuf};

use super::pack::{file_digest, unpack};
use super::verify::{VerifiedBundle, verify};
use super::{bundle_of, suite_of};
use crate::engine::Observer;
use crate::model::{Digest, Failure, printable};
use crate::util::WorkDir;

/// An opened suite. An archive stays unpacked as long as this value lives.
#[derive(Debug)]
pub struct OpenSuite {
    /// The suite's file.
    pub path: PathBuf,
    _unpacked: Option<WorkDir>,
}

/// Opens a suite, or the suite of a bundle given by its directory or archive.
pub fn open(path: PathBuf, observer: &dyn Observer) -> anyhow::Result<OpenSuite> {
    if path.is_dir()
        && let Some(dir) = bundle_of(&path)
    {
        let verified = verify(&dir)
            .map_err(|error| explained(error, "pass its `eval.yaml` to use it as an ordinary suite"))?;
        if !verified.beside.is_empty() {
            let names = printable(&verified.beside.join("`, `"));
            observer.note(&format!("not part of the bundle `{}`: `{names}`", dir.display()));
        }
        return Ok(OpenSuite { path: suite_of(&dir), _unpacked: None });
    }
    let Some(archive) = UnpackedArchive::open(&path)? else { return Ok(OpenSuite { path, _unpacked: None }) };
    Ok(OpenSuite { path: suite_of(&archive.bundle()), _unpacked: Some(archive.0) })
}

/// The unpacked bundle of an archive.
#[derive(Debug)]
pub struct UnpackedArchive(WorkDir);

impl UnpackedArchive {
    /// Checks and unpacks an archive; `None` if the path is something else.
    pub fn open(path: &Path) -> anyhow::Result<Option<Self>> {
        if !is_archive(path) {
            return Ok(None);
        }
        let unpacked = Self(WorkDir::new()?);
        std::fs::create_dir(unpacked.bundle())?;
        unpack(path, &unpacked.bundle())?;
        Ok(Some(unpacked))
    }

    /// The bundle's directory.
    pub fn bundle(&self) -> PathBuf {
        self.0.path().join("bundle")
    }
}

/// Checks the directory or archive of a bundle, and its digest if one is expected.
pub fn verify_digest(path: &Path, expected: Option<&Digest>) -> anyhow::Result<VerifiedBundle> {
    let archive = UnpackedArchive::open(path)?;
    let archive_digest = archive.as_ref().map(|_| file_digest(path)).transpose()?;
    let dir = archive.as_ref().map_or_else(|| path.to_owned(), UnpackedArchive::bundle);
    let verified = verify(&dir)?;
    // The digest of the manifest covers everything, too.
    let digests: Vec<Digest> = archive_digest.into_iter().chain([verified.sha256]).collect();
    if let Some(expected) = expected.filter(|expected| !digests.contains(expected)) {
        let found: Vec<String> = digests.iter().map(ToString::to_string).collect();
        let message =
            format!("`{}` has the SHA-256 {}, expected {expected}", path.display(), found.join(" or "));
        let hint = match archive_digest {
            Some(_) => "get the archive again from the source of the digest",
            None => {
                "a directory has the SHA-256 of its manifest; the digest of an archive is checked against the archive"
            }
        };
        return Err(Failure::config(message).hint(hint).into());
    }
    Ok(verified)
}

/// Adds a hint to the error.
fn explained(error: anyhow::Error, hint: &str) -> anyhow::Error {
    match error.downcast::<Failure>() {
        Ok(failure) => {
            let known = failure.hint_text().map(|known| format!("{known}, or {hint}"));
            failure.hint(known.unwrap_or_else(|| hint.to_owned())).into()
        }
        Err(error) => error,
    }
}

fn is_archive(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.is_file() && [".tar.gz", ".tgz"].iter().any(|ending| name.ends_with(ending))
}
