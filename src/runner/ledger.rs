//! State of each request of the batch, from earlier runs and this one.

use std::collections::HashMap;

use crate::model::{Digest, ErrorKind, Response, RunnerTarget, TokenUsage};
use crate::protocol::{BatchManifest, Totals};

/// State per request: two bits each, and some bytes more with `dedupe`.
#[derive(Debug)]
pub(super) struct Ledger {
    shard: u64,
    shards: u64,
    settled: Bits,
    /// Failed with a retryable error; called again.
    failed_before: Bits,
    totals: Totals,
    priced: bool,
    same: Option<HashMap<ContentKey, DuplicateGroup>>,
    /// With `dedupe`: journal offsets of earlier runs' responses.
    answered_at: HashMap<u64, u64>,
}

/// The first half of a SHA-256 of the request's content.
pub(super) type ContentKey = u128;

/// State of a group of identical requests.
#[derive(Debug)]
pub(super) enum DuplicateGroup {
    /// The first is in flight; these wait for it.
    Waiting(Vec<Duplicate>),
    /// Journal offset of the first one's row.
    Answered(u64),
}

/// A request that waits for an identical one.
#[derive(Debug, Clone)]
pub(super) struct Duplicate {
    /// Line in the batch.
    pub index: u64,
    pub id: String,
    /// Digest of its line.
    pub request_sha256: Digest,
}

impl Ledger {
    /// An empty ledger for one shard.
    pub(super) fn new(manifest: &BatchManifest, shard: u32, target: &RunnerTarget) -> Self {
        let requests = manifest.requests;
        Self {
            shard: u64::from(shard),
            shards: u64::from(manifest.shards.max(1)),
            settled: Bits::new(requests),
            failed_before: Bits::new(requests),
            totals: Totals::default(),
            priced: target.price.is_some(),
            same: target.dedupe.then(HashMap::new),
            answered_at: HashMap::new(),
        }
    }

    /// An empty ledger for a whole batch, to count its rows.
    pub(super) fn whole(manifest: &BatchManifest) -> Self {
        Self {
            shard: 0,
            shards: 1,
            settled: Bits::new(manifest.requests),
            failed_before: Bits::new(manifest.requests),
            totals: Totals::default(),
            priced: false,
            same: None,
            answered_at: HashMap::new(),
        }
    }

    /// Adds a row of an earlier run, with its journal offset.
    pub(super) fn recall(&mut self, row: &Response, offset: Option<u64>) {
        let Some(index) = row.index else { return };
        // Other shards push to the same branch.
        if index >= self.settled.len() || index % self.shards != self.shard {
            return;
        }
        if let Some(offset) = offset.filter(|_| self.same.is_some() && row.error.is_none()) {
            self.answered_at.insert(index, offset);
        }
        if self.settled.get(index) {
            return;
        }
        if row.is_settled() {
            self.settle(index, row);
        } else if row.error.as_ref().is_some_and(|error| error.kind != ErrorKind::NotRun) {
            self.failed_before.set(index, true);
        }
    }

    /// Sets the final response of a request.
    pub(super) fn settle(&mut self, index: u64, response: &Response) {
        self.settled.set(index, true);
        self.failed_before.set(index, false);
        self.count(response.error.is_none(), response.token_usage, response.cost_usd);
    }

    /// Whether a request needs no call.
    pub(super) fn is_settled(&self, index: u64) -> bool {
        self.settled.get(index)
    }

    /// With `dedupe`: journal offset of an earlier run's response.
    pub(super) fn answered_at(&self, index: u64) -> Option<u64> {
        self.answered_at.get(&index).copied()
    }

    /// Number of requests that need no call.
    pub(super) fn settled(&self) -> u64 {
        self.totals.answered + self.totals.failed
    }

    /// Cost of this run and of earlier ones.
    pub(super) fn spent_usd(&self) -> f64 {
        self.totals.cost_usd.unwrap_or(0.0)
    }

    pub(super) fn totals(&self, requests: u64) -> Totals {
        let failed = self.totals.failed + self.failed_before.ones();
        let cost_usd = self.totals.cost_usd.or(self.priced.then_some(0.0));
        Totals { failed, not_run: requests - self.totals.answered - failed, cost_usd, ..self.totals }
    }

    /// With `dedupe`: the groups of identical requests.
    pub(super) fn same(&mut self) -> Option<&mut HashMap<ContentKey, DuplicateGroup>> {
        self.same.as_mut()
    }

    fn count(&mut self, answered: bool, usage: Option<TokenUsage>, cost: Option<f64>) {
        if answered {
            self.totals.answered += 1;
        } else {
            self.totals.failed += 1;
        }
        self.totals.spend(usage, cost);
    }
}

#[derive(Debug)]
struct Bits {
    words: Vec<u64>,
    len: u64,
}

impl Bits {
    fn new(len: u64) -> Self {
        let words = usize::try_from(len.div_ceil(64)).unwrap_or(usize::MAX);
        Self { words: vec![0; words], len }
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn get(&self, at: u64) -> bool {
        self.words[index(at)] >> (at % 64) & 1 == 1
    }

    fn set(&mut self, at: u64, on: bool) {
        let bit = 1 << (at % 64);
        let word = &mut self.words[index(at)];
        if on { *word |= bit } else { *word &= !bit }
    }

    fn ones(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

fn index(at: u64) -> usize {
    usize::try_from(at / 64).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ErrorInfo;

    fn ledger(shard: u32, shards: u64) -> Ledger {
        let nothing = || Bits::new(5);
        Ledger {
            shard: u64::from(shard),
            shards,
            settled: nothing(),
            failed_before: nothing(),
            totals: Totals::default(),
            priced: true,
            same: None,
            answered_at: HashMap::new(),
        }
    }

    /// Rows of five requests; the row of another batch does not count.
    fn rows() -> Vec<Response> {
        let row = |index: u64, cost_usd: Option<f64>, error: Option<(ErrorKind, bool)>| Response {
            index: Some(index),
            attempts: 1,
            cost_usd,
            token_usage: Some(TokenUsage { input: 3, output: 1, ..TokenUsage::default() }),
            error: error.map(|(kind, retryable)| ErrorInfo { kind, retryable, ..ErrorInfo::not_run("") }),
            ..Response::blank(String::new(), "t", Digest::of(b""))
        };
        vec![
            row(0, Some(0.5), None),
            row(0, Some(0.5), None),
            row(1, None, Some((ErrorKind::Server, true))),
            row(2, None, Some((ErrorKind::BadRequest, false))),
            row(3, None, Some((ErrorKind::Server, true))),
            row(3, None, None),
            row(4, None, Some((ErrorKind::NotRun, false))),
            row(9, None, None),
        ]
    }

    #[test]
    fn the_last_row_of_a_request_counts_once() {
        let mut ledger = ledger(0, 1);
        for row in rows() {
            ledger.recall(&row, None);
        }
        let called_again: Vec<u64> = (0..5).filter(|i| !ledger.is_settled(*i)).collect();
        assert_eq!(called_again, [1, 4]);
        let totals = ledger.totals(5);
        assert_eq!((totals.answered, totals.failed, totals.not_run), (2, 2, 1));
        assert_eq!((totals.cost_usd, totals.tokens.input), (Some(0.5), 9));
    }

    #[test]
    fn rows_of_other_shards_are_ignored() {
        let mut ledger = ledger(1, 2);
        for row in rows() {
            ledger.recall(&row, None);
        }
        let totals = ledger.totals(2);
        assert_eq!((totals.answered, totals.failed, totals.not_run), (1, 1, 0));
    }
}
