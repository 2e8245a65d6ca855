//! Writes each row when it finishes, and finally all rows in input order.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use crate::util::durable::{self, AppendFile};

/// The rows that have ended, by input position.
#[derive(Debug)]
pub(super) struct Output {
    file: Option<AppendFile>,
    rows: BTreeMap<usize, Value>,
}

impl Output {
    /// Opens the output with the rows that an earlier command finished; `place` finds their positions.
    pub(super) fn open(path: Option<&Path>, place: impl Fn(&str) -> Option<usize>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self { file: None, rows: BTreeMap::new() }) };
        let cannot = || format!("cannot use `{}`", path.display());
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(cannot),
        };
        let mut rows = BTreeMap::new();
        let lines = bytes.split(|byte| *byte == b'\n');
        for row in lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok()) {
            let rollout_id = row.pointer("/execution_metadata/rollout_id").and_then(Value::as_str);
            if let Some(index) = rollout_id.and_then(&place) {
                rows.insert(index, row);
            }
        }
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            durable::create_dir_all(parent).with_context(cannot)?;
        }
        let mut file = AppendFile::open(path).with_context(cannot)?;
        if !bytes.is_empty() && !bytes.ends_with(b"\n") {
            // Terminate a line that a crash truncated.
            file.append(b"\n").with_context(cannot)?;
        }
        Ok(Self { file: Some(file), rows })
    }

    /// The rows that finished successfully.
    pub(super) fn finished(&self) -> Vec<usize> {
        self.rows.iter().filter(|(_, row)| is_finished(row)).map(|(index, _)| *index).collect()
    }

    /// Whether a row has ended, successfully or not.
    pub(super) fn has(&self, index: usize) -> bool {
        self.rows.contains_key(&index)
    }

    /// Drops the result of a row, to run it again.
    pub(super) fn forget(&mut self, index: usize) {
        self.rows.remove(&index);
    }

    /// Adds a row that has ended.
    pub(super) fn put(&mut self, index: usize, row: Value) -> anyhow::Result<()> {
        if let Some(file) = &mut self.file {
            let line = format!("{row}\n");
            file.append(line.as_bytes())
                .and_then(|()| file.sync())
                .with_context(|| format!("cannot write to `{}`", file.path().display()))?;
        }
        self.rows.insert(index, row);
        Ok(())
    }

    /// Rewrites all rows in order, each once, and returns them.
    pub(super) fn finish(self) -> anyhow::Result<Vec<Value>> {
        let rows: Vec<Value> = self.rows.into_values().collect();
        if let Some(file) = &self.file {
            let cannot = || format!("cannot write `{}`", file.path().display());
            let mut temporary = durable::temporary_for(file.path()).with_context(cannot)?;
            for row in &rows {
                writeln!(temporary, "{row}").with_context(cannot)?;
            }
            durable::persist(temporary, file.path()).with_context(cannot)?;
        }
        Ok(rows)
    }
}

/// Whether a row has been rolled out.
pub fn is_finished(row: &Value) -> bool {
    row.pointer("/rollout_status/code").and_then(Value::as_i64) == Some(100)
}
