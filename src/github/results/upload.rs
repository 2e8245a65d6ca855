//! Uploads blocks to a signed URL, then commits the block list.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use super::wire::AttemptError;
use super::{ResultsService, ServiceArtifact};
use crate::github::limits::retry_after;
use crate::github::transport::TransportError;
use crate::model::Digest;

/// Block size of GitHub's own clients.
const BLOCK: usize = 8 << 20;
const STORE_VERSION: &str = "2021-12-02";
/// Illegal characters in artifact names.
const FORBIDDEN: [char; 11] = ['"', ':', '<', '>', '|', '*', '?', '\r', '\n', '\\', '/'];

/// Reads a file in blocks.
struct Blocks {
    file: File,
    hasher: Sha256,
    length: u64,
}

impl ResultsService {
    /// Uploads a zip file as an artifact of this workflow run and returns its id.
    pub async fn upload(&self, name: &str, zip: &Path, retention_days: Option<u32>) -> anyhow::Result<u64> {
        self.upload_file(name, zip, retention_days)
            .await
            .with_context(|| format!("cannot upload the artifact `{name}`"))
    }

    async fn upload_file(&self, name: &str, zip: &Path, retention_days: Option<u32>) -> anyhow::Result<u64> {
        ensure!(!name.is_empty() && !name.contains(FORBIDDEN), "illegal artifact name");
        let mut blocks = Some(Blocks::open(zip).await?);
        let days = retention_days.map(|days| SignedDuration::from_hours(24 * i64::from(days)));
        let expires = days.and_then(|days| Timestamp::now().checked_add(days).ok());
        let url = self.create(name, expires).await?;
        let mut list = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
        let mut count = 0;
        let (length, digest) = loop {
            let mut taken = blocks.take().context("the file is not being read")?;
            let (taken, block) = spawn_blocking(move || taken.next().map(|block| (taken, block)))
                .await?
                .with_context(|| format!("cannot read `{}`", zip.display()))?;
            if block.is_empty() {
                break taken.finish();
            }
            count += 1;
            // All block ids must have the same length.
            let id = STANDARD.encode(format!("block-{count:08}"));
            let _ = write!(list, "<Latest>{id}</Latest>");
            self.put(&url, &[("comp", "block"), ("blockid", &id)], &[], block).await?;
            blocks = Some(taken);
        };
        list.push_str("</BlockList>");
        let headers =
            [(CONTENT_TYPE.as_str(), "application/xml"), ("x-ms-blob-content-type", "application/zip")];
        self.put(&url, &[("comp", "blocklist")], &headers, list.into()).await?;
        match self.finalize(name, length, &digest.to_string()).await {
            Ok(id) => Ok(id),
            // The lost response may have been a success.
            Err(error) => match self.whole(name, length, digest).await {
                Some(id) => Ok(id),
                None => Err(error),
            },
        }
    }

    /// The id of the artifact, if it has this content.
    async fn whole(&self, name: &str, length: u64, digest: Digest) -> Option<u64> {
        let listed = self.listed(Some(name)).await.ok()?;
        let digest = format!("sha256:{digest}");
        let is_it = |artifact: &&ServiceArtifact| {
            let same = artifact.digest.as_ref().map_or(artifact.size == length, |known| *known == digest);
            artifact.name == name && same
        };
        listed.iter().find(is_it).map(|artifact| artifact.id)
    }

    /// One request to the signed URL, without the job's token.
    async fn put(
        &self,
        url: &Url,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> anyhow::Result<()> {
        let mut url = url.clone();
        url.query_pairs_mut().extend_pairs(query);
        self.persist(async || {
            let mut request =
                self.client.put(url.clone()).header("x-ms-version", STORE_VERSION).body(body.clone());
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let answer = request.send().await.map_err(|error| {
                let error = TransportError::from(error);
                let told = format!("the artifact store cannot be reached: {}", error.cause);
                if error.repeatable {
                    AttemptError::Passing(told, None)
                } else {
                    AttemptError::Final(anyhow::anyhow!(told))
                }
            })?;
            let status = answer.status();
            if status.is_success() {
                return Ok(());
            }
            let code = answer.headers().get("x-ms-error-code").and_then(|code| code.to_str().ok());
            // Never quote the body: it may contain the signature.
            let code = code.filter(|code| code.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            // Storage errors have a code; a 403 without one is a rate limit of a proxy.
            let is_limit = status.as_u16() == 403 && code.is_none();
            let told =
                format!("the artifact store returned {} ({})", status.as_u16(), code.unwrap_or("no code"));
            Err(match status.as_u16() {
                _ if is_limit => AttemptError::Passing(told, retry_after(answer.headers())),
                408 | 429 | 500.. => AttemptError::Passing(told, retry_after(answer.headers())),
                _ => AttemptError::Final(anyhow::anyhow!(told)),
            })
        })
        .await
    }
}

impl Blocks {
    async fn open(path: &Path) -> anyhow::Result<Self> {
        let path: PathBuf = path.to_owned();
        spawn_blocking(move || {
            let file = File::open(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
            Ok(Self { file, hasher: Sha256::new(), length: 0 })
        })
        .await?
    }

    /// The next block; empty at the end.
    fn next(&mut self) -> std::io::Result<Bytes> {
        let mut block = Vec::new();
        (&self.file).take(BLOCK as u64).read_to_end(&mut block)?;
        self.hasher.update(&block);
        self.length += block.len() as u64;
        Ok(block.into())
    }

    fn finish(self) -> (u64, Digest) {
        (self.length, Digest::finish(self.hasher))
    }
}
