//! Downloads from signed URLs without a token. The file appears only when it is complete.

use std::io::{self, Write as _};
use std::path::Path;

use http::header::LOCATION;
use reqwest::{Client, Url};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use super::call::ApiResponse;
use super::error::ApiError;
use super::transport::{TransportError, host};
use crate::model::Digest;
use crate::util::durable;

#[derive(Debug)]
pub(super) enum DownloadError {
    /// A retry with a fresh URL may succeed.
    Passing(ApiError),
    /// Permanent.
    Final(ApiError),
}

/// A complete download that is not in its place yet.
pub(super) struct DownloadedFile {
    file: NamedTempFile,
    pub(super) digest: Digest,
}

impl DownloadedFile {
    /// Moves the file to its place.
    pub(super) fn keep(self, to: &Path) -> Result<(), ApiError> {
        durable::place(self.file, to).map_err(|error| unwritable(to, error))
    }
}

/// The redirect target of a response. Never from HTTPS to HTTP.
pub(super) fn location(base: &Url, from: &Url, answer: &ApiResponse) -> Option<Url> {
    let location = answer.headers.get(LOCATION).filter(|_| answer.status.is_redirection())?;
    let to = from.join(location.to_str().ok()?).ok()?;
    (to.scheme() == "https" || to.scheme() == base.scheme()).then_some(to)
}

/// Downloads a signed URL to a temporary file beside its destination.
pub(super) async fn save(
    client: &Client,
    url: Url,
    what: &str,
    most: u64,
    to: &Path,
) -> Result<DownloadedFile, DownloadError> {
    let from = host(&url);
    let broken = |error: reqwest::Error| {
        let error = TransportError::from(error);
        let reported = ApiError::transport(&from, &error);
        if error.repeatable { DownloadError::Passing(reported) } else { DownloadError::Final(reported) }
    };
    let mut answer = client.get(url).send().await.map_err(broken)?;
    if !answer.status().is_success() {
        // The URL is valid for a minute, so a fresh one may work, whatever the reason.
        let status = answer.status().as_u16();
        return Err(DownloadError::Passing(ApiError::Store { host: from, status, what: what.to_owned() }));
    }
    let unwritten = |error: io::Error| DownloadError::Final(unwritable(to, error));
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder).map_err(unwritten)?;
    let (mut hasher, mut length) = (Sha256::new(), 0);
    while let Some(chunk) = answer.chunk().await.map_err(broken)? {
        length += chunk.len() as u64;
        if length > most {
            return Err(DownloadError::Final(ApiError::TooLarge { what: what.to_owned(), most }));
        }
        hasher.update(&chunk);
        file.write_all(&chunk).map_err(unwritten)?;
    }
    file.as_file_mut().flush().map_err(unwritten)?;
    Ok(DownloadedFile { file, digest: Digest::finish(hasher) })
}

fn unwritable(path: &Path, error: io::Error) -> ApiError {
    ApiError::Write { path: path.to_owned(), error }
}
