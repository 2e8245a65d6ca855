//! The comment on a pull request: one per suite, identified by an invisible marker.

use std::fmt::Write as _;

use super::results::Results;
use super::text::markup;
use super::verdict::{LONGEST_COMMENT, render_verdict};
use crate::model::{Digest, Evaluation};

/// A comment and its marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// The first line of the body. It contains the digest of the suite's name, because the name itself could end the marker.
    pub mark: String,
    /// The whole body.
    pub body: String,
}

/// The comment for an evaluation; `run_url` is the page with its files.
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
