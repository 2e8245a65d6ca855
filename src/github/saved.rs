//! Downloads from signed addresses: without a token, into a file that is whole or not there.

use std::io::{self, Write as _};
use std::path::Path;

use http::header::LOCATION;
use reqwest::{Client, Url};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use super::call::Answer;
use super::error::ApiError;
use super::transport::{TransportError, host};
use crate::model::Digest;

/// A download that did not arrive.
#[derive(Debug)]
pub(super) enum Missed {
    /// Another try, with another address, may succeed.
    Passing(ApiError),
    /// It will not.
    Final(ApiError),
}

/// A file that arrived whole but is not in its place yet.
pub(super) struct Saved {
    file: NamedTempFile,
    /// Of all its bytes.
    pub(super) digest: Digest,
}

impl Saved {
    /// Puts the file in its place.
    pub(super) fn keep(self, to: &Path) -> Result<(), ApiError> {
        self.file.persist(to).map(drop).map_err(|error| unwritable(to, error.error))
    }
}

/// Where an answer of the API points to. Never from a secure address to an insecure one.
pub(super) fn location(base: &Url, from: &Url, answer: &Answer) -> Option<Url> {
    let location = answer.headers.get(LOCATION).filter(|_| answer.status.is_redirection())?;
    let to = from.join(location.to_str().ok()?).ok()?;
    (to.scheme() == "https" || to.scheme() == base.scheme()).then_some(to)
}

/// Reads a signed address into a file beside the one that it is to become.
pub(super) async fn save(
    client: &Client,
    url: Url,
    what: &str,
    most: u64,
    to: &Path,
) -> Result<Saved, Missed> {
    let from = host(&url);
    let broken = |error: reqwest::Error| {
        let error = TransportError::from(error);
        let reported = ApiError::transport(&from, &error);
        if error.repeatable { Missed::Passing(reported) } else { Missed::Final(reported) }
    };
    let mut answer = client.get(url).send().await.map_err(broken)?;
    if !answer.status().is_success() {
        // The address was good for a minute; whatever the reason, a fresh one may do.
        let status = answer.status().as_u16();
        return Err(Missed::Passing(ApiError::Store { host: from, status, what: what.to_owned() }));
    }
    let unwritten = |error: io::Error| Missed::Final(unwritable(to, error));
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder).map_err(unwritten)?;
    let (mut hasher, mut length) = (Sha256::new(), 0);
    while let Some(chunk) = answer.chunk().await.map_err(broken)? {
        length += chunk.len() as u64;
        if length > most {
            return Err(Missed::Final(ApiError::TooLarge { what: what.to_owned(), most }));
        }
        hasher.update(&chunk);
        file.write_all(&chunk).map_err(unwritten)?;
    }
    file.as_file_mut().flush().map_err(unwritten)?;
    Ok(Saved { file, digest: Digest::finish(hasher) })
}

fn unwritable(path: &Path, error: io::Error) -> ApiError {
    ApiError::Write { path: path.to_owned(), error }
}
