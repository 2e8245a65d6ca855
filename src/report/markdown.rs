//! The calls of a command that does not grade, as markdown for the step summary.

use std::fmt::Write as _;

use super::Summary;
use crate::util::figures::{dash, dollars, milliseconds, thousands};
use crate::util::markdown::code;

const HEADER: &str = "\
| target | requests | answered | errors | not run | p50 | p95 | tokens in | tokens out | cost |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
";

/// GitHub drops a summary above 1 MiB as a whole.
const LONGEST: usize = 900 << 10;
/// How many kinds of failures are listed per target.
const MOST_FAILURES: usize = 20;
/// How much of a message is repeated.
const LONGEST_TEXT: usize = 300;

/// A table with one line per target, and the failures below it. Ids, names and messages are untrusted: they cannot leave their
/// cell, become markup, a link or an image, or mention anyone.
pub fn render_markdown(title: &str, summary: &Summary) -> String {
    let mut out = format!("### {}\n\n{HEADER}", inert(title));
    for target in &summary.targets {
        let totals = &target.totals;
        let line = format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            inert(&target.target),
            thousands(target.requests),
            thousands(totals.answered),
            thousands(totals.failed),
            thousands(totals.not_run),
            target.p50_ms.map_or_else(dash, milliseconds),
            target.p95_ms.map_or_else(dash, milliseconds),
            thousands(totals.tokens.input),
            thousands(totals.tokens.output),
            totals.cost_usd.map_or_else(dash, dollars),
        );
        if !push(&mut out, &line) {
            return out;
        }
    }
    let failures = summary.targets.iter().flat_map(|target| {
        target.failures.iter().take(MOST_FAILURES).map(move |failure| (&target.target, failure))
    });
    for (position, (target, failure)) in failures.enumerate() {
        let mut line = String::new();
        if position == 0 {
            line.push_str(
                "\n| target | errors | kind | first | message |\n| --- | ---: | --- | --- | --- |\n",
            );
        }
        let status = failure.status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        let _ = writeln!(
            line,
            "| {} | {} | {}{status} | {} | {} |",
            inert(target),
            thousands(failure.count),
            failure.kind,
            inert(&failure.first_id),
            inert(&failure.message),
        );
        if !push(&mut out, &line) {
            return out;
        }
    }
    for target in &summary.targets {
        if let Some(stop) = target.stopped {
            push(&mut out, &format!("\n{} stopped early: {}.\n", inert(&target.target), stop.describe()));
        }
    }
    out
}

/// Adds a part if it fits; otherwise adds a note.
fn push(out: &mut String, part: &str) -> bool {
    if out.len() + part.len() > LONGEST {
        out.push_str("\n…\n");
        return false;
    }
    out.push_str(part);
    true
}

fn inert(text: &str) -> String {
    code(text, LONGEST_TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Stop, Totals};
    use crate::report::{FailureGroup, TargetSummary};

    fn summary(message: &str, failures: usize) -> Summary {
        let failure = FailureGroup {
            kind: "bad_request",
            status: Some(400),
            count: 2,
            first_id: "a|b".to_owned(),
            message: message.to_owned(),
        };
        let target = TargetSummary {
            target: "gpt".to_owned(),
            runner_target: None,
            batch_id: "b1".parse().unwrap(),
            batch_sha256: None,
            results_repo: "o/r".to_owned(),
            results_branch: "eval-results/b1".to_owned(),
            run_url: None,
            policy_sha256: None,
            requests: 1234,
            totals: Totals { answered: 1232, failed: 2, cost_usd: Some(1.5), ..Totals::default() },
            models: std::collections::BTreeMap::new(),
            p50_ms: Some(120),
            p95_ms: None,
            stopped: Some(Stop::Deadline),
            failures: vec![failure; failures],
            scores: None,
            graders: None,
        };
        Summary::new(None, vec![target])
    }

    #[test]
    fn a_table_with_its_failures() {
        insta::assert_snapshot!(render_markdown("batch b1, shard 0", &summary("no", 1)), @r"
        ### <code>batch b1&#44; shard 0</code>

        | target | requests | answered | errors | not run | p50 | p95 | tokens in | tokens out | cost |
        | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
        | <code>gpt</code> | 1,234 | 1,232 | 2 | 0 | 120 ms | – | 0 | 0 | $1.50 |

        | target | errors | kind | first | message |
        | --- | ---: | --- | --- | --- |
        | <code>gpt</code> | 2 | bad_request (HTTP 400) | <code>a&#124;b</code> | <code>no</code> |

        <code>gpt</code> stopped early: the deadline of the run passed.
        ");
    }

    #[test]
    fn untrusted_text_stays_text() {
        let hostile = "</code>|\n# x\n<img src=x>![a](https://evil.example)[b](c) @octocat `x` www.evil.example ::error::";
        let markdown = render_markdown("b1", &summary(hostile, 1));
        let line = markdown.lines().find(|line| line.contains("bad_request")).unwrap();
        let cell = line.rsplit("<code>").next().unwrap().strip_suffix("</code> |").unwrap();
        for sign in ['<', '>', '|', '`', '[', '!', '(', '@', ':', '.', '/', '_', '*'] {
            assert!(!cell.contains(sign), "{sign} in {cell}");
        }
        assert!(cell.contains("&#64;&#8203;octocat"), "{cell}");
    }

    #[test]
    fn the_report_stays_below_githubs_limit() {
        let one = summary(&"x".repeat(5000), 100).targets.remove(0);
        let summary = Summary::new(None, vec![one; 500]);
        let markdown = render_markdown("b1", &summary);
        assert!((LONGEST / 2..1 << 20).contains(&markdown.len()), "{}", markdown.len());
        assert!(markdown.ends_with("…\n"));
    }
}
