//! Decides which rows count: those that answer a request of the batch.
//!
//! Rows come from branches and artifacts that others can write to, and from disks that fail. One rule applies everywhere: a row
//! must match its checksum and answer exactly the request that the batch has at its index. Any other row is treated as missing,
//! and its place is reported.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use super::LocalExchange;
use crate::model::{BatchId, Digest, Failure, Response, is_obeyed};
use crate::protocol::{BatchManifest, RowSeal};
use crate::util::WorkDir;

/// The longest target name in a row.
const LONGEST_TARGET: usize = 1024;

/// Decides which rows count for a batch. It holds eight bytes for each request.
#[derive(Debug)]
pub struct RowFilter {
    requests: u64,
    shards: u32,
    seal: RowSeal,
    marks: Marks,
}

/// The rows that do not count: their number, and the place of the first.
#[derive(Debug, Default, Clone)]
pub struct ForeignRows {
    count: u64,
    first: Option<String>,
}

impl ForeignRows {
    /// Adds one at this place.
    pub fn add(&mut self, place: impl FnOnce() -> String) {
        self.count += 1;
        self.first.get_or_insert_with(place);
    }

    /// The warning for the user.
    pub fn warning(&self, id: &BatchId) -> Option<String> {
        let first = self.first.as_ref()?;
        let (noun, first) = match self.count {
            1 => ("1 row among the results does".to_owned(), first.clone()),
            rows => (format!("{rows} rows among the results do"), format!("the first: {first}")),
        };
        Some(format!("{noun} not belong to batch `{id}`, or cannot be read: left out ({first})"))
    }
}

impl std::ops::AddAssign for ForeignRows {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.take().or(other.first);
    }
}

/// How to check the row of each request, in order.
#[derive(Debug)]
enum Marks {
    /// Unknown: the batch itself is not here.
    None,
    /// A request's id and digest, as one number.
    Requests(Vec<u64>),
    /// The row that was accepted for it before.
    Rows(Vec<u64>),
}

impl RowFilter {
    /// For an unpacked batch whose archive has this digest.
    pub fn read(dir: &Path, manifest: &BatchManifest, batch: Digest) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Id<'l> {
            #[serde(borrow)]
            id: Cow<'l, str>,
        }
        let cannot = "cannot read the requests of the batch";
        let file = File::open(dir.join("requests.jsonl")).context(cannot)?;
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let mut marks = Vec::with_capacity(usize::try_from(manifest.requests).unwrap_or_default());
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).context(cannot)? > 0 {
            let request = line.strip_suffix(b"\n").unwrap_or(&line);
            // An invalid request has no response.
            let id =
                serde_json::from_slice::<Id<'_>>(request).map_or(Cow::Borrowed(""), |request| request.id);
            marks.push(request_mark(&id, Digest::of(request)));
            line.clear();
        }
        let (requests, shards, seal) = (manifest.requests, manifest.shards, RowSeal::of(batch));
        Ok(Self { requests, shards, seal, marks: Marks::Requests(marks) })
    }

    /// For a batch that is not here: only the counts are known.
    pub fn unknown(requests: u64, shards: u32, batch: Digest) -> Self {
        Self { requests, shards, seal: RowSeal::of(batch), marks: Marks::None }
    }

    /// For a batch whose rows were all accepted before: only these count again.
    pub(super) fn accepted(shards: u32, batch: Digest, rows: Vec<u64>) -> Self {
        Self { requests: rows.len() as u64, shards, seal: RowSeal::of(batch), marks: Marks::Rows(rows) }
    }

    /// The row in a line, without its line feed, if it answers a request of the batch (of that `shard`, if given). It needs an
    /// index, and exactly one of an output and an error. A row of another format is refused
    /// (exit 3).
    pub fn answer(&self, line: &[u8], shard: Option<u32>) -> Result<Option<Response>, Failure> {
        let index = self.seal.index(line)?;
        Ok(index.and_then(|index| self.answer_at(index, line, shard)))
    }

    fn answer_at(&self, index: u64, line: &[u8], shard: Option<u32>) -> Option<Response> {
        let of_shard = u32::try_from(index % u64::from(self.shards.max(1))).ok()?;
        if index >= self.requests || shard.is_some_and(|shard| shard != of_shard) {
            return None;
        }
        let row: Response = serde_json::from_slice(line).ok()?;
        let whole = row.index == Some(index) && row.output.is_some() != row.error.is_some();
        // Only the dispatcher sets this field, so a row that contains it was not written by a runner.
        let whole = whole && row.runner_target.is_none();
        let sane = row.cost_usd.is_none_or(|cost| cost.is_finite() && cost >= 0.0)
            && row.target.len() <= LONGEST_TARGET
            && !row.target.contains(is_obeyed);
        let place = usize::try_from(index).ok()?;
        let fits = match &self.marks {
            Marks::None => true,
            Marks::Requests(marks) => marks.get(place) == Some(&request_mark(&row.id, row.request_sha256)),
            Marks::Rows(marks) => marks.get(place) == Some(&row_mark(line)),
        };
        (whole && sane && fits).then_some(row)
    }

    /// Passes the rows of a JSONL file that count to a function, parsed and as lines without line feeds; returns the others. A
    /// missing file has none.
    pub fn each_answer(
        &self,
        rows: &Path,
        shard: Option<u32>,
        mut each: impl FnMut(&Response, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<ForeignRows> {
        let mut strangers = ForeignRows::default();
        if !rows.exists() {
            return Ok(strangers);
        }
        let cannot = || format!("cannot read the rows in `{}`", rows.display());
        let mut reader = BufReader::with_capacity(1 << 16, File::open(rows).with_context(cannot)?);
        let (mut number, mut line) = (0_u64, Vec::new());
        while reader.read_until(b'\n', &mut line).with_context(cannot)? > 0 {
            number += 1;
            // An unterminated line may be incomplete.
            let whole = line.strip_suffix(b"\n").unwrap_or_default();
            match self.answer(whole, shard)? {
                Some(row) => each(&row, whole)?,
                None => strangers.add(|| format!("`{}`, line {number}", rows.display())),
            }
            line.clear();
        }
        Ok(strangers)
    }
}

impl LocalExchange {
    /// The filter of a batch in this exchange.
    pub fn row_filter(&self, id: &BatchId) -> anyhow::Result<RowFilter> {
        let temporary = WorkDir::new().context("cannot create a temporary directory")?;
        let dir = temporary.path().join("batch");
        let (manifest, digest) = self.unpack_batch(id, None, &dir)?;
        RowFilter::read(&dir, &manifest, digest)
    }
}

/// Identifies a request.
fn request_mark(id: &str, sha256: Digest) -> u64 {
    mark(sha256.and(id.as_bytes()))
}

/// Identifies a row.
pub fn row_mark(line: &[u8]) -> u64 {
    mark(Digest::of(line))
}

fn mark(digest: Digest) -> u64 {
    u64::try_from(digest.half() >> 64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protocol::{BATCH_FORMAT, Provenance};

    const LINES: [&str; 2] = [r#"{"id":"a","messages":[]}"#, r#"{"id":"b","messages":[]}"#];

    fn filter() -> RowFilter {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("requests.jsonl"), LINES.map(|line| format!("{line}\n")).concat())
            .unwrap();
        let manifest = BatchManifest {
            format: BATCH_FORMAT,
            batch_id: "b1".parse().unwrap(),
            target: "t".to_owned(),
            shards: 2,
            requests: 2,
            requests_sha256: Digest::of(b""),
            files: 0,
            generator: String::new(),
            provenance: Provenance::default(),
        };
        RowFilter::read(dir.path(), &manifest, batch()).unwrap()
    }

    fn answer(filter: &RowFilter, line: &[u8], shard: Option<u32>) -> Option<Response> {
        filter.answer(line, shard).unwrap()
    }

    fn batch() -> Digest {
        Digest::of(b"batch")
    }

    /// A sealed row.
    fn row(index: usize, id: &str, line: &str) -> String {
        sealed(&bare(index, id, line))
    }

    fn sealed(row: &str) -> String {
        RowSeal::of(batch()).seal(row)
    }

    fn bare(index: usize, id: &str, line: &str) -> String {
        let rest = json!({
            "id": id, "output": [], "duration_ms": 1, "target": "t", "attempts": 1,
            "request_sha256": Digest::of(line.as_bytes()),
        });
        rest.to_string().replacen('{', &format!("{{\"index\":{index},"), 1)
    }

    #[test]
    fn only_answers_to_requests_of_the_batch_are_accepted() {
        let filter = filter();
        let good = row(1, "b", LINES[1]);
        for shard in [None, Some(1)] {
            assert_eq!(answer(&filter, good.as_bytes(), shard).unwrap().index, Some(1));
        }
        assert_eq!(answer(&filter, good.as_bytes(), Some(0)), None, "the folder of another shard");
        let bare_good = bare(1, "b", LINES[1]);
        let mut bad = vec![
            row(0, "b", LINES[1]),
            row(0, "b", LINES[0]),
            row(0, "a", LINES[1]),
            row(2, "a", LINES[0]),
            // A checksum is not a signature: a row that matches it must still be an answer.
            sealed(&bare_good.replace("\"duration_ms\":1,", "")),
            sealed(&bare_good.replace("\"output\":[],", "")),
            sealed(&bare_good.replace("\"output\":[],", "\"output\":[],\"cost_usd\":-0.1,")),
            sealed(&bare_good.replace("\"output\":[],", "\"output\":[],\"cost_usd\":1e999,")),
            // Another index, visible only when the whole row is parsed.
            sealed(&bare_good.replace("{\"index\":1,", "{\"index\":1,\"index\":0,")),
            good.replace("\"index\":1,", "\"index\": 1,"),
            RowSeal::of(Digest::of(b"another batch")).seal(&bare_good),
            bare_good,
        ];
        bad.extend((0..good.len()).map(|end| good[..end].to_owned()));
        for bad in bad {
            assert_eq!(answer(&filter, bad.as_bytes(), None), None, "{bad}");
        }
        // If the batch is gone, a row can only be checked against the counts.
        let unknown = RowFilter::unknown(2, 2, batch());
        assert!(answer(&unknown, row(0, "x", "y").as_bytes(), Some(0)).is_some());
        assert_eq!(answer(&unknown, row(0, "x", "y").as_bytes(), Some(1)), None);
        assert_eq!(answer(&unknown, row(2, "x", "y").as_bytes(), None), None);
        let accepted = RowFilter::accepted(1, batch(), vec![row_mark(b""), row_mark(good.as_bytes())]);
        assert!(answer(&accepted, good.as_bytes(), None).is_some());
        let another = sealed(&bare(1, "b", LINES[1]).replace("\"attempts\":1", "\"attempts\":2"));
        assert!(answer(&filter, another.as_bytes(), None).is_some());
        assert_eq!(answer(&accepted, another.as_bytes(), None), None);
    }

    #[test]
    fn files_are_read_and_torn_lines_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        let (a, b) = (row(0, "a", LINES[0]), row(1, "b", LINES[1]));
        std::fs::write(&path, format!("{a}\nnoise\n{b}")).unwrap();
        let mut heard = Vec::new();
        let each = |row: &Response, line: &[u8]| {
            heard.push((row.index, String::from_utf8(line.to_vec()).unwrap()));
            Ok(())
        };
        let strangers = filter().each_answer(&path, None, each).unwrap();
        let warning =
            strangers.warning(&"b1".parse().unwrap()).unwrap().replace(path.to_str().unwrap(), "rows");
        assert_eq!(
            warning,
            "2 rows among the results do not belong to batch `b1`, or cannot be read: left out (the first: `rows`, line 2)"
        );
        assert_eq!(heard, [(Some(0), a)]);
        let none = filter().each_answer(&dir.path().join("none"), None, |_, _| Ok(())).unwrap();
        assert!(none.warning(&"b1".parse().unwrap()).is_none());
    }
}
