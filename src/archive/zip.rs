//! Zip files of one entry, as artifacts are.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use tempfile::NamedTempFile;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use crate::model::Failure;

/// From here on a zip file needs the larger fields.
const LARGE: u64 = u32::MAX as u64;

/// Puts a file into a zip file, uncompressed because all that we put there is compressed already. The same file makes the
/// same bytes everywhere.
pub fn zip_one(file: &Path, name: &str, to: &Path) -> anyhow::Result<()> {
    let mut from = File::open(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let length = from.metadata().with_context(|| format!("cannot read `{}`", file.display()))?.len();
    let mut write = || -> anyhow::Result<()> {
        let mut zip = ZipWriter::new(BufWriter::new(File::create(to)?));
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
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

/// Takes the one entry out of a zip file. One with other entries, another name or more bytes is refused.
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
    // What the directory says of the size is not believed.
    let mut bounded = entry.take(most + 1);
    let length = copy(&mut bounded, &mut unpacked).map_err(|error| match error {
        Broken::Read(error) => damaged(zip, &error.into()).into(),
        Broken::Write(error) => anyhow::Error::from(error).context(unwritable()),
    })?;
    if length > most {
        return Err(refused(zip, &format!("holds more than {most} bytes")).into());
    }
    unpacked.persist(to).with_context(unwritable)?;
    Ok(())
}

/// Which side of a copy failed.
enum Broken {
    Read(io::Error),
    Write(io::Error),
}

fn copy(from: &mut impl io::Read, to: &mut impl io::Write) -> Result<u64, Broken> {
    let mut buffer = vec![0; 64 << 10];
    let mut copied = 0;
    loop {
        let length = from.read(&mut buffer).map_err(Broken::Read)?;
        if length == 0 {
            to.flush().map_err(Broken::Write)?;
            return Ok(copied);
        }
        to.write_all(&buffer[..length]).map_err(Broken::Write)?;
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

    /// A zip file with these entries, made by somebody else.
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
        fn what_goes_in_comes_out(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            let folder = tempfile::tempdir().unwrap();
            let [from, zip, to] = ["from", "zip", "to"].map(|name| folder.path().join(name));
            std::fs::write(&from, &bytes).unwrap();
            zip_one(&from, NAME, &zip).unwrap();
            unzip_one(&zip, NAME, bytes.len() as u64, &to).unwrap();
            prop_assert_eq!(std::fs::read(&to).unwrap(), bytes);
        }

        #[test]
        fn damage_is_refused_or_harmless(at in any::<prop::sample::Index>(), value in any::<u8>()) {
            let folder = tempfile::tempdir().unwrap();
            let [from, zip, to] = ["from", "zip", "to"].map(|name| folder.path().join(name));
            std::fs::write(&from, b"the rows of a shard").unwrap();
            zip_one(&from, NAME, &zip).unwrap();
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
    fn the_bytes_depend_on_nothing_but_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let [from, zip] = ["from", "zip"].map(|name| folder.path().join(name));
        std::fs::write(&from, b"abc").unwrap();
        zip_one(&from, NAME, &zip).unwrap();
        insta::assert_snapshot!(Digest::of(&std::fs::read(&zip).unwrap()), @"ca35160dd23b4b8c54bf6b7bc4ac7b2742975d25b5810aa0c947e5716c1358e1");
    }

    #[test]
    fn zip_files_of_others_are_read_too() {
        let folder = tempfile::tempdir().unwrap();
        let zip = foreign(&folder, &[(NAME, &[7; 5000])], CompressionMethod::Deflated);
        let to = folder.path().join("out");
        unzip_one(&zip, NAME, 5000, &to).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), [7; 5000]);
    }

    #[test]
    fn anything_but_the_one_file_is_refused() {
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
    fn a_link_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link.zip");
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        zip.add_symlink(NAME, "/etc/passwd", SimpleFileOptions::default()).unwrap();
        zip.finish().unwrap();
        insta::assert_snapshot!(refusal(&folder, &path, 1000), @"the zip file `ZIP` does not hold `rows.jsonl.gz` as a plain file");
    }
}
