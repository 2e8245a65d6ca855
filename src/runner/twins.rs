//! `dedupe`: of identical requests the first is called, and its twins get the same answer for nothing.

use anyhow::Context as _;

use super::batch::Line;
use super::fanout::Fanout;
use super::ledger::{ContentKey, Same, Twin};
use crate::model::{Digest, Request, Response};

impl Fanout<'_> {
    /// With `dedupe`: an earlier run has called this request, so its twins need no call.
    pub(super) fn remember_content(&mut self, line: &Line<'_>) -> anyhow::Result<()> {
        if let Some(offset) = self.ledger.answered_at(line.index) {
            let key = content_key(&line.parse()?)?;
            if let Some(same) = self.ledger.same() {
                same.entry(key).or_insert(Same::Answered(offset));
            }
        }
        Ok(())
    }

    /// With `dedupe`: whether an identical request is being called or was.
    pub(super) fn joins_a_twin(
        &mut self,
        key: ContentKey,
        twin: Twin,
        rows: &mut Vec<u8>,
    ) -> anyhow::Result<bool> {
        let Some(same) = self.ledger.same() else { return Ok(false) };
        match same.get_mut(&key) {
            Some(Same::Waiting(twins)) => twins.push(twin),
            Some(Same::Answered(offset)) => {
                let line = self.journal.line_at(*offset)?;
                let first: Response = serde_json::from_slice(&line).context("cannot read the journal")?;
                self.settle_twin(&first, twin, rows)?;
            }
            None => {
                same.insert(key, Same::Waiting(Vec::new()));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A twin's row: the same answer, no call, no cost.
    pub(super) fn settle_twin(
        &mut self,
        first: &Response,
        twin: Twin,
        rows: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        let response = Response {
            index: Some(twin.index),
            id: twin.id,
            request_sha256: twin.request_sha256,
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

/// What a request asks, whoever asks it.
pub(super) fn content_key(request: &Request) -> anyhow::Result<ContentKey> {
    // Replicates are asked for because answers differ, so each is a question of its own.
    let replicate = request.metadata.replicate;
    let asked = serde_json::to_vec(&(&request.messages, &request.params, &request.files, replicate))?;
    Ok(Digest::of(&asked).half())
}
