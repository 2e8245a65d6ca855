//! Errors and warnings of a run.

use super::backends::ServedModel;
use super::failure::Failure;
use crate::config::Skill;
use crate::engine::Collection;
use crate::model;
use crate::model::{Exit, printable};
use crate::protocol::Stop;

pub(super) fn nothing_to_run(skill: &Skill) -> model::Failure {
    let why: Vec<String> = skill
        .skipped
        .iter()
        .map(|skipped| format!("`{}`: {}", printable(&skipped.case), skipped.reason.explain()))
        .collect();
    let message = match why.as_slice() {
        [] => format!("`{}` has no cases", skill.name),
        why => format!("no case of `{}` can be run: {}", skill.name, why.join("; ")),
    };
    model::Failure::config(message)
        .hint("a case is a folder of `evals/cases` with `input.md` or `input.json`, and `expected.json` or `expected.md`")
}

/// The error if the model cannot be called, or if the whole evaluation was stopped.
pub(super) fn stopped(reason: Stop, model: &str) -> Result<model::Failure, Failure> {
    match reason {
        Stop::Signal | Stop::Deadline | Stop::Budget | Stop::MaxRequests => {
            Err(Failure::stopped(format!("the evaluation was stopped: {}", reason.describe())))
        }
        Stop::Refused | Stop::Account => {
            let message = format!("`{}` could not be called: {}", printable(model), reason.describe());
            Ok(model::Failure::new(Exit::Failure, message))
        }
    }
}

pub(super) fn always_fails(served: &ServedModel, collection: &Collection) -> model::Failure {
    let first = collection.summary.failures.first();
    let why = first.map_or_else(String::new, |group| {
        let status = group.status.map(|status| format!(" {status}")).unwrap_or_default();
        format!(": {}{status}: {}", group.kind, printable(&group.message))
    });
    let message = format!(
        "`{}` on target `{}` gave no response to {} calls{why}",
        printable(&served.settings.id),
        served.served_by,
        collection.summary.requests
    );
    model::Failure::new(Exit::Failure, message)
}

/// The warnings about a model's entry.
pub(super) fn warnings(served: &ServedModel, collection: &Collection) -> Vec<String> {
    let totals = &collection.summary.totals;
    let mut warnings = collection.warnings.clone();
    let failed = totals.failed + totals.not_run;
    if failed > 0 {
        let first = collection.summary.failures.first();
        let why = first.map(|group| format!(", most of them {}", group.kind)).unwrap_or_default();
        warnings.push(format!(
            "{failed} of {} calls of `{}` have no response{why}: all their fields count as missing",
            collection.summary.requests,
            printable(&served.settings.id)
        ));
    }
    warnings
}
