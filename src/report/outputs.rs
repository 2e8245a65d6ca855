//! The outputs of a step on GitHub Actions.

use std::path::Path;

use super::Summary;
use crate::model::Evaluation;

/// The outputs for the verdict and the figures. One target has a score, several have one each.
pub fn evaluation_outputs(evaluation: &Evaluation) -> Vec<(&'static str, String)> {
    let tests = &evaluation.figures.tests;
    let scores = evaluation.targets.iter().map(|target| target.figures.score);
    let scores = scores.map(|score| score.map(|score| format!("{:.6}", score.value)).unwrap_or_default());
    vec![
        ("verdict", evaluation.verdict.as_str().to_owned()),
        ("tests", tests.total.to_string()),
        ("passed", tests.passed.to_string()),
        ("flaky", tests.flaky.to_string()),
        ("failed", tests.failed.to_string()),
        ("errors", tests.errors.to_string()),
        ("skipped", tests.skipped.to_string()),
        ("score", scores.collect::<Vec<_>>().join(",")),
    ]
}

/// The outputs for the calls.
pub fn call_outputs(summary: &Summary) -> Vec<(&'static str, String)> {
    let targets = &summary.targets;
    let joined = |values: Vec<String>| values.join(",");
    let answered: u64 = targets.iter().map(|target| target.totals.answered).sum();
    let costs: Vec<f64> = targets.iter().filter_map(|target| target.totals.cost_usd).collect();
    let run_urls: Vec<String> = targets.iter().filter_map(|target| target.run_url.clone()).collect();
    let run_ids = run_urls.iter().filter_map(|url| url.rsplit('/').next()).map(ToOwned::to_owned).collect();
    let folder = summary.responses.as_ref().and_then(|path| Path::new(path).parent());
    vec![
        ("batch-id", joined(targets.iter().map(|target| target.batch_id.to_string()).collect())),
        ("run-id", joined(run_ids)),
        ("run-url", joined(run_urls)),
        ("results-branch", joined(targets.iter().map(|target| target.results_branch.clone()).collect())),
        ("results-path", folder.map(|path| path.display().to_string()).unwrap_or_default()),
        ("answered", answered.to_string()),
        (
            "cost-usd",
            if costs.is_empty() { String::new() } else { format!("{:.6}", costs.iter().sum::<f64>()) },
        ),
    ]
}

/// The number of requests without a response, for a command that does not grade.
pub fn call_errors_output(summary: &Summary) -> (&'static str, String) {
    let requests: u64 = summary.targets.iter().map(|target| target.requests).sum();
    let answered: u64 = summary.targets.iter().map(|target| target.totals.answered).sum();
    ("errors", requests.saturating_sub(answered).to_string())
}
