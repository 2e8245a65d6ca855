//! `dedupe`: calls the first of identical requests; its duplicates get the same response at no cost.

use anyhow::Context as _;

use super::batch::RequestLine;
use super::fanout::Fanout;
use super::ledger::{ContentKey, Duplicate, DuplicateGroup};
use crate::model::{Digest, Request, Response};

impl Fanout<'_> {
    /// Records a request that an earlier run has called, so that its duplicates need no call.
    pub(super) fn remember_content(&mut self, line: &RequestLine<'_>) -> anyhow::Result<()> {
        if let Some(offset) = self.ledger.answered_at(line.index) {
            let key = content_key(&line.parse()?)?;
            if let Some(same) = self.ledger.same() {
                same.entry(key).or_insert(DuplicateGroup::Answered(offset));
            }
        }
        Ok(())
    }

    /// Whether an identical request was called or is in flight.
    pub(super) fn joins_duplicate(
        &mut self,
        key: ContentKey,
        duplicate: Duplicate,
        rows: &mut Vec<u8>,
    ) -> anyhow::Result<bool> {
        let Some(same) = self.ledger.same() else { return Ok(false) };
        match same.get_mut(&key) {
            Some(DuplicateGroup::Waiting(duplicates)) => duplicates.push(duplicate),
            Some(DuplicateGroup::Answered(offset)) => {
                let line = self.journal.line_at(*offset)?;
                let first: Response = serde_json::from_slice(&line).context("cannot read the journal")?;
                self.settle_duplicate(&first, duplicate, rows)?;
            }
            None => {
                same.insert(key, DuplicateGroup::Waiting(Vec::new()));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the row of a duplicate: the same response, no call, no cost.
    pub(super) fn settle_duplicate(
        &mut self,
        first: &Response,
        duplicate: Duplicate,
        rows: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        let response = Response {
            index: Some(duplicate.index),
            id: duplicate.id,
            request_sha256: duplicate.request_sha256,
            same_as: Some(first.id.clone()),
            attempts: 0,
            cost_usd: first.cost_usd.map(|_| 0.0),
            token_usage: None,
            duration_ms: 0,
            ..first.clone()
        };
        rows.extend_from_slice(&self.line(&response)?);
        self.count(&response);
        Ok(())
    }
}

/// Digest of what a request asks, without its id.
pub(super) fn content_key(request: &Request) -> anyhow::Result<ContentKey> {
    // Replicates exist because responses vary, so they are never duplicates.
    let replicate = request.metadata.replicate;
    let asked =
        serde_json::to_vec(&(&request.messages, &request.params, &request.tools, &request.files, replicate))?;
    Ok(Digest::of(&asked).half())
}
