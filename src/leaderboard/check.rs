//! Checks whether the figures of an entry are consistent, to detect manual edits.

use crate::model::{Entry, Ratio};

/// The first inconsistency, if any.
pub(super) fn figures(entry: &Entry) -> Result<(), String> {
    let Entry { cases, calls, schema_valid, accuracy, prose, reproducibility, per_case, .. } = entry;
    let of_prose = prose.unwrap_or_default();
    let attempted = cases.run * u64::from(entry.replicates.get());
    let within = |interval: Option<[Ratio; 2]>, score: Option<Ratio>| match (interval, score) {
        (None, _) => true,
        (Some([low, high]), Some(score)) => low <= score && score <= high,
        (Some(_), None) => false,
    };
    let is_repeated = entry.replicates.get() > 1;
    let alike =
        is_repeated.then(|| Ratio::of(reproducibility.fields_full_agreement, reproducibility.fields_probed));
    let per_case_ok: u64 = per_case.iter().map(|case| case.ok).sum();
    let per_case_errors: u64 = per_case.iter().map(|case| case.errors).sum();
    let checks = [
        (
            cases.total == cases.run + cases.skipped.len() as u64,
            "`cases`: `total` is not `run` and `skipped` together",
        ),
        (cases.run == per_case.len() as u64, "`per_case`: not as many as `cases.run`"),
        (calls.attempted == attempted, "`calls.attempted` is not cases times replicates"),
        (
            calls.attempted == calls.ok + calls.api_error + calls.parse_error,
            "`calls` do not add up to `attempted`",
        ),
        (
            per_case_ok == calls.ok && per_case_ok + per_case_errors == attempted,
            "`per_case` does not add up to `calls`",
        ),
        (schema_valid.n <= schema_valid.of, "`schema_valid`: `n` is more than `of`"),
        (
            schema_valid.rate == Ratio::of(schema_valid.n, schema_valid.of),
            "`schema_valid.rate` is not `n` of `of`",
        ),
        (
            accuracy.score == Ratio::of(accuracy.n_correct, accuracy.counted()),
            "`accuracy.score` does not match its counts",
        ),
        (within(accuracy.interval, accuracy.score), "`accuracy.score` is not in its interval"),
        (
            prose.is_some() == entry.rules_sha256.is_some(),
            "`rules_sha256` and `prose` are both there, or neither",
        ),
        (
            of_prose.score
                == Ratio::of(
                    of_prose.n_correct,
                    of_prose.n_correct + of_prose.n_incorrect + of_prose.n_missing,
                ),
            "`prose.score` does not match its counts",
        ),
        (
            of_prose.n_correct <= accuracy.n_correct
                && of_prose.n_incorrect <= accuracy.n_incorrect
                && of_prose.n_missing <= accuracy.n_missing,
            "`prose` has more fields than `accuracy`",
        ),
        (reproducibility.score == alike.flatten(), "`reproducibility.score` does not match its counts"),
        (
            within(reproducibility.interval, reproducibility.score),
            "`reproducibility.score` is not in its interval",
        ),
    ];
    match checks.iter().find(|(holds, _)| !holds) {
        Some((_, what)) => Err((*what).to_owned()),
        None => Ok(()),
    }
}
