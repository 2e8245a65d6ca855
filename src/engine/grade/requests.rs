//! The requests to grading models in a pass: a file for each grader target.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::model::{Content, Message, Metadata, Params, Request, Role};

/// The requests of a pass for one target.
#[derive(Debug)]
pub struct GraderRequests {
    /// The target that the graders name; otherwise the grader of the answer's target.
    pub target: Option<String>,
    /// JSONL.
    pub requests: PathBuf,
    /// Their number.
    pub count: u64,
}

/// The files while they are written.
#[derive(Debug)]
pub struct Prompts {
    dir: PathBuf,
    files: BTreeMap<Option<String>, (BufWriter<File>, GraderRequests)>,
}

/// One of them.
pub(super) struct Prompt {
    pub(super) place: String,
    pub(super) target: Option<String>,
    pub(super) system: &'static str,
    pub(super) text: String,
    pub(super) temperature: Option<f64>,
}

/// The id of a request about an answer.
pub(super) fn request_id(row: &str, place: &str) -> String {
    format!("{row}/{place}")
}

impl Prompts {
    /// Files in this directory.
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf(), files: BTreeMap::new() }
    }

    /// Whether there is no request.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Writes a request about a row.
    pub(super) fn push(
        &mut self,
        row: &str,
        test_id: &str,
        replicate: u32,
        prompt: Prompt,
    ) -> anyhow::Result<()> {
        let Prompt { place, target, system, text, temperature } = prompt;
        if !self.files.contains_key(&target) {
            let path = self.dir.join(format!("asked-{}.jsonl", self.files.len()));
            let file = File::create(&path).with_context(|| format!("cannot write `{}`", path.display()))?;
            let asked = GraderRequests { target: target.clone(), requests: path, count: 0 };
            self.files.insert(target.clone(), (BufWriter::with_capacity(1 << 16, file), asked));
        }
        let Some((file, asked)) = self.files.get_mut(&target) else { return Ok(()) };
        let message = |role, text: String| Message { role, content: Content::Text(text) };
        let request = Request {
            id: request_id(row, &place),
            messages: vec![message(Role::System, system.to_owned()), message(Role::User, text)],
            params: Params { temperature, ..Params::default() },
            tools: Vec::new(),
            files: Vec::new(),
            metadata: Metadata { test_id: test_id.to_owned(), replicate, ..Metadata::default() },
        };
        serde_json::to_writer(&mut *file, &request)?;
        file.write_all(b"\n").context("cannot write the requests to a grader")?;
        asked.count += 1;
        Ok(())
    }

    /// Finishes and returns the files.
    pub(super) fn finish(self) -> anyhow::Result<Vec<GraderRequests>> {
        self.files
            .into_values()
            .map(|(mut file, asked)| {
                file.flush().context("cannot write the requests to a grader")?;
                Ok(asked)
            })
            .collect()
    }
}
