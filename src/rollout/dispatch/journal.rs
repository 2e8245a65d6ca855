//! The client's journal, so that a later command resumes instead of starting over: the ids, and which run has which row. It is a
//! file of lines next to the output; each line is written at once.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{Digest, Exit, Failure};
use crate::util::durable::AppendFile;

const FORMAT: u32 = 1;

/// The first line: which rows the journal belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) format: u32,
    pub(super) rows_sha256: Digest,
    pub(super) invocation_id: String,
    pub(super) experiment_id: String,
    pub(super) run_id: String,
}

/// A dispatch: the rows, the run's name, and the run itself once it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SentRow {
    pub(super) rows: Vec<usize>,
    pub(super) name: String,
    pub(super) at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<u64>,
}

/// The journal; without a file if there is no output file.
#[derive(Debug)]
pub(super) struct Journal(Option<AppendFile>);

impl Head {
    pub(super) fn new(rows_sha256: Digest, experiment_id: Option<String>) -> Self {
        let made_up = |what: &str| {
            let now = Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
            format!("{what}-{now}-{:08x}", fastrand::u32(..))
        };
        Self {
            format: FORMAT,
            rows_sha256,
            invocation_id: made_up("invocation"),
            experiment_id: experiment_id.unwrap_or_else(|| made_up("experiment")),
            run_id: made_up("run"),
        }
    }
}

impl Journal {
    /// Opens the journal next to an output and returns its content; a new one starts with `fresh`.
    pub(super) fn open(output: Option<&Path>, fresh: Head) -> anyhow::Result<(Self, Head, Vec<SentRow>)> {
        let Some(output) = output else { return Ok((Self(None), fresh, Vec::new())) };
        let path = path(output);
        let cannot = || format!("cannot use `{}`", path.display());
        let mut file = AppendFile::open(&path).with_context(cannot)?;
        rustix::fs::flock(file.file_mut(), rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(
            |_| {
                Failure::new(Exit::Busy, format!("another command writes to `{}`", output.display()))
                    .hint("wait for it, or choose another `--output`")
            },
        )?;
        let mut bytes = Vec::new();
        file.file_mut().read_to_end(&mut bytes).with_context(cannot)?;
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let Some(head) = lines.next().and_then(|line| serde_json::from_slice::<Head>(line).ok()) else {
            file.set_len(0).with_context(cannot)?;
            let mut journal = Self(Some(file));
            journal.write(&fresh)?;
            return Ok((journal, fresh, Vec::new()));
        };
        if head.format != FORMAT || head.rows_sha256 != fresh.rows_sha256 {
            let message = format!("`{}` belongs to other rows", output.display());
            let hint = format!("choose another `--output`, or delete it and `{}`", path.display());
            return Err(Failure::config(message).hint(hint).into());
        }
        // Skip a truncated line: the run can be found by its name.
        let mut sent: Vec<SentRow> = Vec::new();
        for line in lines.filter_map(|line| serde_json::from_slice::<SentRow>(line).ok()) {
            sent.retain(|known| known.name != line.name);
            sent.push(line);
        }
        let mut journal = Self(Some(file));
        if !bytes.ends_with(b"\n") {
            journal.append(b"\n")?;
        }
        Ok((journal, head, sent))
    }

    /// Appends a line durably.
    pub(super) fn write(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.append(&text)
    }

    fn append(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        file.append(bytes).and_then(|()| file.sync()).context("cannot write the journal of the rollouts")
    }
}

fn path(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".journal");
    PathBuf::from(name)
}
