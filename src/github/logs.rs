//! The last lines of a workflow job's log.

use std::collections::VecDeque;

use jiff::Timestamp;

use super::call::Call;
use super::client::Client;
use super::download::location;
use super::error::{About, ApiError};
use super::transport::{TransportError, host};
use crate::model::printable;

/// Size limit of a log.
const LARGEST_LOG: u64 = 256 << 20;
/// Limit of a line.
const LONGEST_LINE: usize = 2000;

impl Client {
    /// The last lines of a job's log, without GitHub's timestamps.
    pub async fn job_log_tail(&self, repo: &str, job_id: u64, lines: usize) -> Result<Vec<String>, ApiError> {
        let url = self.repo_url(repo, &["actions", "jobs", &job_id.to_string(), "logs"])?;
        let call = Call::get(About::Log, repo, &job_id, url);
        let answer = self.call(call.clone()).await?;
        let mut tail = Tail::new(lines);
        if answer.status.is_success() {
            tail.feed(&answer.body);
            return Ok(tail.finish());
        }
        let Some(url) = location(&self.inner.base, &call.url, &answer) else {
            return Err(self.refused(&call, &answer));
        };
        let host = host(&url);
        let failed = |error: reqwest::Error| ApiError::transport(&host, &TransportError::from(error));
        let mut log = self.inner.plain.get(url).send().await.map_err(failed)?;
        if !log.status().is_success() {
            let what = format!("the log of the job {job_id}");
            return Err(ApiError::Store { host, status: log.status().as_u16(), what });
        }
        let mut read = 0;
        while let Some(chunk) = log.chunk().await.map_err(failed)? {
            read += chunk.len() as u64;
            tail.feed(&chunk);
            if read > LARGEST_LOG {
                break;
            }
        }
        Ok(tail.finish())
    }
}

/// Keeps the last lines of its input.
struct Tail {
    most: usize,
    lines: VecDeque<Vec<u8>>,
    current: Vec<u8>,
}

impl Tail {
    fn new(most: usize) -> Self {
        Self { most, lines: VecDeque::new(), current: Vec::new() }
    }

    fn feed(&mut self, bytes: &[u8]) {
        for (index, part) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if index > 0 {
                self.end_line();
            }
            let room = LONGEST_LINE.saturating_sub(self.current.len());
            self.current.extend_from_slice(&part[..part.len().min(room)]);
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.current);
        // Masks are noise, and there are many.
        if shown(&String::from_utf8_lossy(&line)).starts_with("::add-mask::") {
            return;
        }
        self.lines.push_back(line);
        if self.lines.len() > self.most {
            self.lines.pop_front();
        }
    }

    fn finish(mut self) -> Vec<String> {
        if !self.current.is_empty() {
            self.end_line();
        }
        self.lines.iter().map(|line| shown(&String::from_utf8_lossy(line))).collect()
    }
}

/// A line without its timestamp and carriage return.
fn shown(line: &str) -> String {
    let line = line.trim_start_matches('\u{feff}').trim_end_matches('\r');
    let text = match line.split_once(' ') {
        Some((time, text)) if time.parse::<Timestamp>().is_ok() => text,
        None if line.parse::<Timestamp>().is_ok() => "",
        _ => line,
    };
    printable(text)
}
