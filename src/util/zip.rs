//! Zip files with a single entry, as artifacts have.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use tempfile::NamedTempFile;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use crate::model::Failure;
use crate::util::durable;

/// From this size on, a zip file needs zip64 fields.
const LARGE: u64 = u32::MAX as u64;

/// Zips a file.
pub fn zip_file(file: &Path, name: &str, to: &Path) -> anyhow::Result<()> {
    let from = File::open(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let length = from.metadata().with_context(|| format!("cannot read `{}`", file.display()))?.len();
    zip_one(length, from, name, to)
}

/// Zips the content of a reader, compressed unless it already is. The same content gives the same bytes on
/// every machine.
pub fn zip_one(length: u64, mut from: impl io::Read, name: &str, to: &Path) -> anyhow::Result<()> {
    let is_compressed = Path::new(name).extension().is_some_and(|end| end == "gz");
    let method = if is_compressed { CompressionMethod::Stored } else { CompressionMethod::Deflated };
    let mut write = || -> anyhow::Result<()> {
        let mut zip = ZipWriter::new(BufWriter::new(File::create(to)?));
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .last_modified_time(DateTime::default())
            .unix_permissions(0o644)
            .large_file(length >= LARGE);
        zip.start_file(name, options)?;
        io::copy(&mut from, &mut zip)?;
        zip.finish()?.flush()?;
        Ok(())
    };
    write().with_context(|| format!("cannot write `{}`", to.display()))
}

/// Extracts the only entry of a zip file. Rejects other entries, another name or a larger size.
pub fn unzip_one(zip: &Path, name: &str, most: u64, to: &Path) -> anyhow::Result<()> {
    let file = File::open(zip).with_context(|| format!("cannot read `{}`", zip.display()))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(zip, &error))?;
    if archive.len() != 1 || archive.name_for_index(0).and_then(Result::ok).as_deref() != Some(name) {
        return Err(refused(zip, &format!("does not hold exactly the file `{name}`")).into());
    }
    let entry = archive.by_index(0).map_err(|error| damaged(zip, &error))?;
    if !entry.is_file() || entry.encrypted() {
        return Err(refused(zip, &format!("does not hold `{name}` as a plain file")).into());
    }
    let unwritable = || format!("cannot write `{}`", to.display());
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut unpacked = NamedTempFile::new_in(folder).with_context(unwritable)?;
    // The size in the zip directory is untrusted.
    let mut bounded = entry.take(most + 1);
    let length = copy(&mut bounded, &mut unpacked).map_err(|error| match error {
        CopyError::Read(error) => damaged(zip, &error.into()).into(),
        CopyError::Write(error) => anyhow::Error::from(error).context(unwritable()),
    })?;
    if length > most {
        return Err(refused(zip, &format!("holds more than {most} bytes")).into());
    }
    durable::place(unpacked, to).with_context(unwritable)
}

/// Which side of a copy failed.
enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

fn copy(from: &mut impl io::Read, to: &mut impl io::Write) -> Result<u64, CopyError> {
    let mut buffer = vec![0; 64 << 10];
    let mut copied = 0;
    loop {
        let length = from.read(&mut buffer).map_err(CopyError::Read)?;
        if length == 0 {
            to.flush().map_err(CopyError::Write)?;
            return Ok(copied);
        }
        to.write_all(&buffer[..length]).map_err(CopyError::Write)?;
        copied += length as u64;
    }
}

fn damaged(zip: &Path, error: &ZipError) -> Failure {
    refused(zip, &format!("is damaged: {error}"))
}

fn refused(zip: &Path, why: &str) -> Failure {
    Failure::config(format!("the zip file `{}` {why}", zip.display()))
        .hint("only artifacts that `run-evals` made are read")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;
    use crate::model::{Digest, Exit};

    const NAME: &str = "rows.jsonl.gz";

    /// A zip file with these entries, written by another program.
    fn foreign(folder: &TempDir, entries: &[(&str, &[u8])], method: CompressionMethod) -> std::path::PathBuf {
        let path = folder.path().join("foreign.zip");
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        for (name, bytes) in entries {
            zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
        path
    }

    fn refusal(folder: &TempDir, zip: &Path, most: u64) -> String {
        let to = folder.path().join("out");
        let error = unzip_one(zip, NAME, most, &to).unwrap_err();
        assert!(!to.exists());
        let failure = error.downcast_ref::<Failure>().unwrap_or_else(|| panic!("{error:#}"));
        assert_eq!(failure.exit(), Exit::Config);
        failure.to_string().replace(&zip.display().to_string(), "ZIP")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn files_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            let folder = tempfile::tempdir().unwrap();
            let [from, zip, to] = ["from", "zip", "to"].map(|name| folder.path().join(name));
            std::fs::write(&from, &bytes).unwrap();
            for name in [NAME, "rows.jsonl"] {
                zip_file(&from, name, &zip).unwrap();
                unzip_one(&zip, name, bytes.len() as u64, &to).unwrap();
                prop_assert_eq!(&std::fs::read(&to).unwrap(), &bytes);
            }
        }

        #[test]
        fn damage_is_rejected_or_harmless(at in any::<prop::sample::Index>(), value in any::<u8>()) {
            let folder = tempfile::tempdir().unwrap();
            let [from, zip, to] = ["from", "zip", "to"].map(|name| folder.path().join(name));
            std::fs::write(&from, b"the rows of a shard").unwrap();
            zip_file(&from, NAME, &zip).unwrap();
            let mut bytes = std::fs::read(&zip).unwrap();
            let at = at.index(bytes.len());
            bytes[at] = value;
            std::fs::write(&zip, &bytes).unwrap();
            if unzip_one(&zip, NAME, 100, &to).is_ok() {
                prop_assert_eq!(std::fs::read(&to).unwrap(), b"the rows of a shard");
            }
        }
    }

    #[test]
    fn the_bytes_depend_only_on_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let [from, zip] = ["from", "zip"].map(|name| folder.path().join(name));
        std::fs::write(&from, b"abc").unwrap();
        zip_file(&from, NAME, &zip).unwrap();
        insta::assert_snapshot!(Digest::of(&std::fs::read(&zip).unwrap()), @"ca35160dd23b4b8c54bf6b7bc4ac7b2742975d25b5810aa0c947e5716c1358e1");
    }

    #[test]
    fn zip_files_of_other_programs_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let zip = foreign(&folder, &[(NAME, &[7; 5000])], CompressionMethod::Deflated);
        let to = folder.path().join("out");
        unzip_one(&zip, NAME, 5000, &to).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), [7; 5000]);
    }

    #[test]
    fn anything_but_the_one_file_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let stored = CompressionMethod::Stored;
        let two = foreign(&folder, &[(NAME, b"a"), ("more", b"b")], stored);
        insta::assert_snapshot!(refusal(&folder, &two, 10), @"the zip file `ZIP` does not hold exactly the file `rows.jsonl.gz`");
        let outside = foreign(&folder, &[("../rows.jsonl.gz", b"a")], stored);
        insta::assert_snapshot!(refusal(&folder, &outside, 10), @"the zip file `ZIP` does not hold exactly the file `rows.jsonl.gz`");
        let none = foreign(&folder, &[], stored);
        insta::assert_snapshot!(refusal(&folder, &none, 10), @"the zip file `ZIP` does not hold exactly the file `rows.jsonl.gz`");
        let bomb = foreign(&folder, &[(NAME, &vec![0; 1 << 20])], CompressionMethod::Deflated);
        insta::assert_snapshot!(refusal(&folder, &bomb, 1000), @"the zip file `ZIP` holds more than 1000 bytes");
        std::fs::write(folder.path().join("foreign.zip"), "no zip file").unwrap();
        insta::assert_snapshot!(refusal(&folder, &bomb, 1000), @"the zip file `ZIP` is damaged: invalid Zip archive: Could not find EOCD");
    }

    #[test]
    fn a_link_is_not_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link.zip");
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        zip.add_symlink(NAME, "/etc/passwd", SimpleFileOptions::default()).unwrap();
        zip.finish().unwrap();
        insta::assert_snapshot!(refusal(&folder, &path, 1000), @"the zip file `ZIP` does not hold `rows.jsonl.gz` as a plain file");
    }
}
