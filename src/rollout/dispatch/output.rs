//! Where finished rows go: the moment they finish, and at the end in the order of the input.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use crate::util::durable::{self, AppendFile};

/// The rows that have ended, by their place in the input.
#[derive(Debug)]
pub(super) struct Output {
    file: Option<AppendFile>,
    rows: BTreeMap<usize, Value>,
}

impl Output {
    /// Opens the output, with the rows that an earlier command has finished; `place` finds their places.
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
            // The rest of a row that was being written during a crash stays a line of its own.
            file.append(b"\n").with_context(cannot)?;
        }
        Ok(Self { file: Some(file), rows })
    }

    /// The rows that are finished for good.
    pub(super) fn finished(&self) -> Vec<usize> {
        self.rows.iter().filter(|(_, row)| is_finished(row)).map(|(index, _)| *index).collect()
    }

    /// Whether a row has ended in whatever way.
    pub(super) fn has(&self, index: usize) -> bool {
        self.rows.contains_key(&index)
    }

    /// Forgets how a row ended: it is tried again.
    pub(super) fn forget(&mut self, index: usize) {
        self.rows.remove(&index);
    }

    /// Takes a row that has ended.
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

    /// Writes all rows anew, each once and in order, and gives them.
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
