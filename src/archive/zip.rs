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
