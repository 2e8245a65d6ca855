//! Which rows count: those that answer what the batch asks.
//!
//! Rows come from branches and artifacts that others can write to. One rule decides for all of them, wherever they are
//! read: a row must be whole, and answer the very request that the batch has at its index.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use super::LocalExchange;
use crate::archive;
use crate::model::{BatchId, BatchManifest, Digest, Response};

/// What a batch asks, as far as rows are held against it: eight bytes a request.
#[derive(Debug)]
pub struct Asked {
    requests: u64,
    shards: u32,
    marks: Marks,
}

/// What is known of each request, in order.
#[derive(Debug)]
enum Marks {
    /// Nothing: the batch itself is not here.
    None,
    /// Its id and its digest, as one number.
    Requests(Vec<u64>),
    /// The very row that was accepted for it before.
    Rows(Vec<u64>),
}

impl Asked {
    /// What an unpacked batch asks.
    pub fn read(dir: &Path, manifest: &BatchManifest) -> anyhow::Result<Self> {
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
            // A line that is no request has no answer.
            let id =
                serde_json::from_slice::<Id<'_>>(request).map_or(Cow::Borrowed(""), |request| request.id);
            marks.push(request_mark(&id, Digest::of(request)));
            line.clear();
        }
        Ok(Self { requests: manifest.requests, shards: manifest.shards, marks: Marks::Requests(marks) })
    }

    /// Of a batch that is not here only the counts are known.
    pub fn unknown(requests: u64, shards: u32) -> Self {
        Self { requests, shards, marks: Marks::None }
    }

    /// A batch whose rows were all accepted before: these count again, and no others.
    pub(super) fn accepted(shards: u32, rows: Vec<u64>) -> Self {
        Self { requests: rows.len() as u64, shards, marks: Marks::Rows(rows) }
    }

    /// The row in a line, without its line feed, if it answers a request of the batch; where it lies in a place for one
    /// `shard`, a request of that shard. It has an index, and exactly one of an output and an error.
    pub fn answer(&self, line: &[u8], shard: Option<u32>) -> Option<Response> {
        let (index, _) = split_index(line)?;
        let of_shard = u32::try_from(index % u64::from(self.shards.max(1))).ok()?;
        if index >= self.requests || shard.is_some_and(|shard| shard != of_shard) {
            return None;
        }
        let row: Response = serde_json::from_slice(line).ok()?;
        let whole = row.index == Some(index) && row.output.is_some() != row.error.is_some();
        let sane = row.cost_usd.is_none_or(|cost| cost.is_finite() && cost >= 0.0);
        let place = usize::try_from(index).ok()?;
        let fits = match &self.marks {
            Marks::None => true,
            Marks::Requests(marks) => marks.get(place) == Some(&request_mark(&row.id, row.request_sha256)),
            Marks::Rows(marks) => marks.get(place) == Some(&row_mark(line)),
        };
        (whole && sane && fits).then_some(row)
    }

    /// Hears the rows of a JSONL file that count, each as it is and as its line without the line feed; tells how many
    /// others there are. A file that is not there has none.
    pub fn each_answer(
        &self,
        rows: &Path,
        shard: Option<u32>,
        mut each: impl FnMut(&Response, &[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        if !rows.exists() {
            return Ok(0);
        }
        let cannot = || format!("cannot read the rows in `{}`", rows.display());
        let mut reader = BufReader::with_capacity(1 << 16, File::open(rows).with_context(cannot)?);
        let (mut strangers, mut line) = (0, Vec::new());
        while reader.read_until(b'\n', &mut line).with_context(cannot)? > 0 {
            // Without its end a line may be half of one.
            let row = line.strip_suffix(b"\n").and_then(|line| Some((self.answer(line, shard)?, line)));
            match row {
                Some((row, line)) => each(&row, line)?,
                None => strangers += 1,
            }
            line.clear();
        }
        Ok(strangers)
    }
}

impl LocalExchange {
    /// What the batch asks that lies here.
    pub fn asked(&self, id: &BatchId) -> anyhow::Result<Asked> {
        let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
        let (packed, dir) = (temporary.path().join("batch.tar.gz"), temporary.path().join("batch"));
        self.get_batch(id, &packed)?;
        let manifest = archive::unpack(&packed, id, None, &archive::Limits::default(), &dir)?;
        Asked::read(&dir, &manifest)
    }
}

/// What a user reads of rows that do not count.
pub fn strangers_warning(id: &BatchId, strangers: u64) -> Option<String> {
    let noun = match strangers {
        0 => return None,
        1 => "1 row among the results does".to_owned(),
        rows => format!("{rows} rows among the results do"),
    };
    Some(format!("{noun} not belong to batch `{id}`, or cannot be read: left out"))
}

/// A row's first field, `index`, which only readers of results need, and what follows it.
pub fn split_index(line: &[u8]) -> Option<(u64, &[u8])> {
    let rest = line.strip_prefix(b"{\"index\":")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let index = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    Some((index, rest[digits..].strip_prefix(b",")?))
}

/// What tells a request from every other one.
fn request_mark(id: &str, sha256: Digest) -> u64 {
    mark(Digest::of(format!("{sha256}{id}").as_bytes()))
}

/// What tells a row from every other one.
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
    use crate::model::{BATCH_FORMAT, Provenance};

    const LINES: [&str; 2] = [r#"{"id":"a","messages":[]}"#, r#"{"id":"b","messages":[]}"#];

    fn asked() -> Asked {
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
        Asked::read(dir.path(), &manifest).unwrap()
    }

    fn row(index: usize, id: &str, line: &str) -> String {
        let rest = json!({
            "id": id, "output": [], "duration_ms": 1, "target": "t", "attempts": 1,
            "request_sha256": Digest::of(line.as_bytes()),
        });
        rest.to_string().replacen('{', &format!("{{\"index\":{index},"), 1)
    }

    #[test]
    fn only_answers_to_what_is_asked_are_heard() {
        let asked = asked();
        let good = row(1, "b", LINES[1]);
        for shard in [None, Some(1)] {
            assert_eq!(asked.answer(good.as_bytes(), shard).unwrap().index, Some(1));
        }
        assert_eq!(asked.answer(good.as_bytes(), Some(0)), None, "the folder of another shard");
        let mut bad = vec![
            row(0, "b", LINES[1]),
            row(0, "b", LINES[0]),
            row(0, "a", LINES[1]),
            row(2, "a", LINES[0]),
            good.replace("\"duration_ms\":1,", ""),
            good.replace("\"output\":[],", ""),
            good.replace("\"output\":[],", "\"output\":[],\"cost_usd\":-0.1,"),
            good.replace("\"output\":[],", "\"output\":[],\"cost_usd\":1e999,"),
            // Another index where only a whole reading sees it.
            good.replace("{\"index\":1,", "{\"index\":1,\"index\":0,"),
            good.replace("{\"index\":1,", "{\"index\": 1,"),
        ];
        bad.extend((0..good.len()).map(|end| good[..end].to_owned()));
        for bad in bad {
            assert_eq!(asked.answer(bad.as_bytes(), None), None, "{bad}");
        }
        // Where the batch is gone, no more than the counts can be held against a row.
        let unknown = Asked::unknown(2, 2);
        assert!(unknown.answer(row(0, "x", "y").as_bytes(), Some(0)).is_some());
        assert_eq!(unknown.answer(row(0, "x", "y").as_bytes(), Some(1)), None);
        assert_eq!(unknown.answer(row(2, "x", "y").as_bytes(), None), None);
        let accepted = Asked::accepted(1, vec![row_mark(b""), row_mark(good.as_bytes())]);
        assert!(accepted.answer(good.as_bytes(), None).is_some());
        assert_eq!(accepted.answer(good.replace("\"attempts\":1", "\"attempts\":2").as_bytes(), None), None);
    }

    #[test]
    fn files_are_heard_and_torn_lines_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.jsonl");
        let (a, b) = (row(0, "a", LINES[0]), row(1, "b", LINES[1]));
        std::fs::write(&path, format!("{a}\nnoise\n{b}")).unwrap();
        let mut heard = Vec::new();
        let each = |row: &Response, line: &[u8]| {
            heard.push((row.index, String::from_utf8(line.to_vec()).unwrap()));
            Ok(())
        };
        assert_eq!(asked().each_answer(&path, None, each).unwrap(), 2);
        assert_eq!(heard, [(Some(0), a)]);
        assert_eq!(asked().each_answer(&dir.path().join("none"), None, |_, _| Ok(())).unwrap(), 0);
    }

    #[test]
    fn the_index_is_taken_off() {
        assert_eq!(split_index(br#"{"index":12,"id":"a"}"#), Some((12, &br#""id":"a"}"#[..])));
        for no_row in [&br#"{"id":"a"}"#[..], b"{\"index\":", b"{\"index\":1", b"{\"index\":x,"] {
            assert_eq!(split_index(no_row), None);
        }
    }
}
