//! README of a results branch.

use std::fmt::Write as _;

use super::ResultsManifest;
use super::names::{RESULTS_MANIFEST, ROWS_PATTERN};
use crate::util::figures::{dash, dollars, thousands};
use crate::util::markdown;

/// Length limit of names.
const LONGEST_NAME: usize = 200;

/// Figures of the results, and how to collect them. Names are untrusted and escaped.
pub fn readme(manifest: &ResultsManifest) -> String {
    let ResultsManifest { batch_id, target, requests, totals, stopped, run_url, runner, .. } = manifest;
    let code = |text: &str| markdown::code(text, LONGEST_NAME);
    let mut page = format!("# Results of batch `{batch_id}`\n\n");
    match run_url {
        Some(url) if is_plain_url(url) => {
            _ = writeln!(page, "Written by {} in [this workflow run]({url}).\n", code(runner));
        }
        _ => _ = writeln!(page, "Written by {}.\n", code(runner)),
    }
    page.push_str(
        "| target | requests | answered | failed | not run | tokens in | tokens out | cost |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let _ = writeln!(
        page,
        "| {} | {} | {} | {} | {} | {} | {} | {} |",
        code(target),
        thousands(*requests),
        thousands(totals.answered),
        thousands(totals.failed),
        thousands(totals.not_run),
        thousands(totals.tokens.input),
        thousands(totals.tokens.output),
        totals.cost_usd.map_or_else(dash, dollars),
    );
    if let Some(stopped) = stopped {
        let _ = writeln!(page, "\nThe run stopped early: {}.", stopped.describe());
    }
    let _ = write!(
        page,
        "\nThe responses are in `{ROWS_PATTERN}`, one per line. `{RESULTS_MANIFEST}` has the figures for programs.\n\n\
         ## Collect\n\n\
         ```sh\nrun-evals collect {batch_id}\n```\n\n\
         On a machine that did not dispatch the batch, add `--target NAME`: the target of your `targets.yaml` that names this \
         repository.\n"
    );
    page
}

/// Whether a URL needs no escaping in a link.
fn is_plain_url(url: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._~:/".contains(c);
    (url.starts_with("https://") || url.starts_with("http://")) && url.chars().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Digest, TokenUsage};
    use crate::protocol::{RESULTS_FORMAT, Stop, Totals};

    fn manifest(target: &str, run_url: &str) -> ResultsManifest {
        let tokens = TokenUsage { input: 12_345, output: 678, cached: None, reasoning: None };
        ResultsManifest {
            format: RESULTS_FORMAT,
            batch_id: "b1".parse().unwrap(),
            batch_sha256: Digest::of(b"batch"),
            target: target.to_owned(),
            shards: 2,
            requests: 1234,
            totals: Totals { answered: 1230, failed: 3, not_run: 1, tokens, cost_usd: Some(0.5) },
            stopped: Some(Stop::Deadline),
            run_url: Some(run_url.to_owned()),
            identity: None,
            policy_sha256: None,
            runner: "run-evals 1.2.3".to_owned(),
        }
    }

    #[test]
    fn a_page_shows_the_results_of_the_batch() {
        insta::assert_snapshot!(readme(&manifest("gpt", "https://github.com/o/r/actions/runs/42")), @r"
        # Results of batch `b1`

        Written by <code>run&#45;evals 1&#46;2&#46;3</code> in [this workflow run](https://github.com/o/r/actions/runs/42).

        | target | requests | answered | failed | not run | tokens in | tokens out | cost |
        | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
        | <code>gpt</code> | 1,234 | 1,230 | 3 | 1 | 12,345 | 678 | $0.50 |

        The run stopped early: the deadline of the run passed.

        The responses are in `results/shard-KKK/NNNN.jsonl`, one per line. `results/manifest.json` has the figures for programs.

        ## Collect

        ```sh
        run-evals collect b1
        ```

        On a machine that did not dispatch the batch, add `--target NAME`: the target of your `targets.yaml` that names this repository.
        ");
    }

    #[test]
    fn untrusted_names_stay_text() {
        let hostile = "</code>|\n# x\n![a](https://evil.example) @octocat `x` [b](c)";
        let page = readme(&manifest(hostile, "https://github.com/) ![x](https://evil.example"));
        assert!(
            !page.contains("evil.example") && !page.contains("@octocat") && !page.contains("# x"),
            "{page}"
        );
        let row = page.lines().find(|line| line.contains("1,234")).unwrap();
        assert_eq!(row.matches('|').count(), 9, "{row}");
    }
}
