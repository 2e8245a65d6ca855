//! The comment on a pull request: one a suite, known by a mark that nobody sees.

use std::fmt::Write as _;

use super::results::Results;
use super::text::markup;
use super::verdict::{LONGEST_COMMENT, render_verdict};
use crate::model::{Digest, Evaluation};

/// A comment and the mark by which it is found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// The first line of the body. It has the digest of the suite's name: the name itself could end the mark.
    pub mark: String,
    /// The whole body.
    pub body: String,
}

/// The comment that tells an evaluation; `run_url` is where its files are.
pub fn render_comment(evaluation: &Evaluation, results: &Results, run_url: Option<&str>) -> Comment {
    let suite = evaluation.suite.as_deref().unwrap_or_default();
    let digest = Digest::of(suite.as_bytes()).to_string();
    let mark = format!("<!-- run-evals suite {} -->", &digest[..16]);
    let mut body = format!("{mark}\n{}", render_verdict(evaluation, results, LONGEST_COMMENT));
    if let Some(url) = run_url.filter(|url| url.starts_with("https://") || url.starts_with("http://")) {
        let _ = writeln!(body, "\n<a href=\"{}\">The run</a> has the whole report.", markup(url));
    }
    Comment { mark, body }
}
