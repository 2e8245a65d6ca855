//! Formats the report.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::outcome::RequestOutcome;
use super::range::{Range, shortened};
use super::request::Attempt;
use crate::util::markdown;

/// The longest message in a step summary.
const LONGEST_TEXT: usize = 500;

/// The content of a report.
#[derive(Debug)]
pub struct TriggerReport<'a> {
    /// The heading.
    pub title: &'a str,
    /// The URL of the skill library, for links.
    pub library: Option<String>,
    /// The checked commits.
    pub range: Option<&'a Range>,
    /// The attempt for each component.
    pub attempts: &'a [Attempt],
    /// How many other prompts changed.
    pub others: usize,
    /// The number of requests to GitHub.
    pub requests: u64,
}

impl TriggerReport<'_> {
    fn looked_at(&self) -> Option<String> {
        let range = self.range?;
        let base = range.base.as_deref().map_or("the beginning", shortened);
        Some(format!("{base}..{}", shortened(&range.head)))
    }

    /// The outputs of a step.
    pub fn outputs(&self) -> [(&'static str, String); 2] {
        let (mut jobs, mut fired) = (Vec::new(), Vec::new());
        for attempt in self.attempts {
            if let RequestOutcome::Fired { job_id } = &attempt.outcome {
                jobs.push(job_id.as_str());
                fired.push(attempt.skill.as_str());
            }
        }
        [("job-id", jobs.join(",")), ("fired", fired.join(","))]
    }

    /// The checked range, and the number of requests.
    fn footer(&self) -> Option<String> {
        let looked_at = self.looked_at()?;
        let others = match self.others {
            0 => String::new(),
            1 => ", 1 other prompt changed".to_owned(),
            others => format!(", {others} other prompts changed"),
        };
        let requests = if self.requests == 1 { "request" } else { "requests" };
        Some(format!("{looked_at}{others}; {} {requests} to GitHub", self.requests))
    }
}

const NOTHING: &str = "no component has a MAJOR or MINOR version bump";

fn version(attempt: &Attempt) -> String {
    match (attempt.from, attempt.to) {
        (Some(from), Some(to)) => format!("{from} → {to}"),
        (None, Some(to)) => format!("{to} (new)"),
        (_, None) => "-".to_owned(),
    }
}

fn commit(attempt: &Attempt) -> &str {
    attempt.git_sha.as_ref().map_or("newest", |sha| shortened(sha.as_str()))
}

/// The text for a terminal.
pub fn render_text(report: &TriggerReport<'_>) -> String {
    let mut out = String::new();
    if report.attempts.is_empty() {
        let _ = writeln!(out, "{NOTHING}");
    }
    let width = |text: &dyn Fn(&Attempt) -> String| {
        report.attempts.iter().map(|attempt| text(attempt).chars().count()).max().unwrap_or(0)
    };
    let names = width(&|attempt| attempt.skill.to_string());
    let versions = width(&version);
    for attempt in report.attempts {
        let (word, detail) = (attempt.outcome.word(), attempt.outcome.detail());
        let (skill, version, commit) = (attempt.skill.as_str(), version(attempt), commit(attempt));
        let _ = writeln!(out, "{word:<9}  {skill:<names$}  {version:<versions$}  {commit:<7}  {detail}");
    }
    if let Some(footer) = report.footer() {
        let _ = writeln!(out, "\n{footer}");
    }
    out
}

/// The table for the step summary.
pub fn render_markdown(report: &TriggerReport<'_>) -> String {
    let inert = |text: &str| markdown::code(text, LONGEST_TEXT);
    let mut out = format!("### {}\n\n", report.title);
    if report.attempts.is_empty() {
        let _ = writeln!(out, "{}{}.", NOTHING[..1].to_uppercase(), &NOTHING[1..]);
    } else {
        out.push_str("| component | version | commit | outcome | |\n| --- | --- | --- | --- | --- |\n");
    }
    for attempt in report.attempts {
        let commit = match (&report.library, &attempt.git_sha) {
            (Some(library), Some(sha)) => format!("[{}]({library}/commit/{sha})", commit(attempt)),
            _ => commit(attempt).to_owned(),
        };
        let detail = match &attempt.outcome {
            RequestOutcome::Proposed { pull_request } if is_plain_link(pull_request) => {
                format!("[pull request]({pull_request})")
            }
            outcome => inert(&outcome.detail()),
        };
        let word = match attempt.outcome.word() {
            word @ ("busy" | "refused" | "no answer") => format!("**{word}**"),
            word => word.to_owned(),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {commit} | {word} | {detail} |",
            inert(attempt.skill.as_str()),
            version(attempt)
        );
    }
    let hints: std::collections::BTreeSet<&str> =
        report.attempts.iter().filter_map(|attempt| attempt.outcome.hint()).collect();
    for hint in hints {
        let _ = write!(out, "\n{}{}.\n", hint[..1].to_uppercase(), &hint[1..]);
    }
    if let Some(footer) = report.footer() {
        let _ = write!(out, "\n<sub>{footer}</sub>\n");
    }
    out.push('\n');
    out
}

/// Whether a URL needs no escaping in markdown.
fn is_plain_link(url: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b":/.-_%#".contains(&byte);
    url.starts_with("https://") && url.bytes().all(plain)
}

/// The JSON output.
pub fn render_json(report: &TriggerReport<'_>) -> Value {
    let components: Vec<Value> = report.attempts.iter().map(component).collect();
    let range = report.range.map(|range| json!({ "base": range.base, "head": range.head }));
    json!({
        "range": range,
        "components": components,
        "other_prompts": report.others,
        "github_requests": report.requests,
    })
}

fn component(attempt: &Attempt) -> Value {
    let mut value = json!({
        "skill": attempt.skill,
        "previous_version": attempt.from.map(|version| version.to_string()),
        "version": attempt.to.map(|version| version.to_string()),
        "git_sha": attempt.git_sha,
        "outcome": attempt.outcome.word().replace(' ', "_"),
    });
    let more = match &attempt.outcome {
        RequestOutcome::Fired { job_id } | RequestOutcome::Running { job_id } => json!({ "job_id": job_id }),
        RequestOutcome::Busy(current) => json!({ "current_job": current }),
        RequestOutcome::Refused { status, reason, .. } => json!({ "status": status, "reason": reason }),
        RequestOutcome::Silence { cause, sent } => json!({ "reason": cause, "sent": sent }),
        RequestOutcome::Proposed { pull_request } => json!({ "pull_request": pull_request }),
        RequestOutcome::Merged | RequestOutcome::Wanted => json!({}),
    };
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}
