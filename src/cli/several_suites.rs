//! `eval` over several suites and directories: each suite has its own run and results; the worst exit code wins.

use std::path::{Path, PathBuf};

use super::args::EvalArgs;
use super::display::Display;
use super::eval::{self, Suite};
use crate::console;
use crate::engine::{TestChoice, no_match};
use crate::error;
use crate::model::{Exit, Failure, printable};

pub(super) async fn eval_all(
    args: EvalArgs,
    suites: Vec<PathBuf>,
    display: &Display,
) -> anyhow::Result<Exit> {
    check(&args)?;
    let choice = TestChoice { may_be_empty: true, ..args.choice() };
    // Read all suites before the first call.
    let (mut chosen, mut ids) = (Vec::new(), Vec::new());
    for path in suites {
        let suite = Suite::open(path, display)?;
        let plan = eval::plan(&args, &suite, choice.clone(), display)?;
        ids.extend_from_slice(plan.all_tests());
        if !plan.is_empty() {
            plan.batches()?;
            chosen.push(suite);
        }
    }
    if chosen.is_empty() {
        return Err(no_match(args.filter.as_deref().unwrap_or_default(), &ids).into());
    }
    let count = chosen.len();
    let mut worst = Exit::Ok;
    for (number, suite) in (1..).zip(chosen) {
        display
            .note(&format!("suite {number} of {count}: {}", printable(&suite.shown.display().to_string())));
        let mut args = args.clone();
        args.work.output.output = args.work.output.output.map(|dir| dir.join(folder(&suite.shown)));
        let exit = match Box::pin(eval::eval_one(args, suite, display)).await {
            Ok(exit) => exit,
            Err(failed) => error::report(&failed),
        };
        console::stdout(if number < count { "\n" } else { "" })?;
        if severity(exit) > severity(worst) {
            worst = exit;
        }
    }
    Ok(worst)
}

/// Refuses options for a single run.
fn check(args: &EvalArgs) -> Result<(), Failure> {
    let report = &args.report;
    let limits = &args.work.limits;
    let named = |hint: &str| hint.to_owned();
    let mut one_run = vec![
        ("--batch-id", args.work.batch.batch_id.is_some(), named("name one suite")),
        ("--replay-out", args.replay_out.is_some(), named("name one suite")),
        (
            "--baseline",
            report.baseline.is_some(),
            named("compare each run: `run-evals report RUN --baseline BASELINE`"),
        ),
    ];
    one_run.extend(report.files().map(|(option, value, is_set)| {
        (option, is_set, format!("write it for each run: `run-evals report RUN {option} {value}`"))
    }));
    one_run.extend([
        ("--budget-usd", limits.budget_usd.is_some(), named("set `execution.budget_usd` in each suite")),
        (
            "--max-requests",
            limits.max_requests.is_some(),
            named("choose tests with `--filter`, or pass one suite"),
        ),
        ("--deadline", limits.deadline.is_some(), named("name one suite")),
    ]);
    let Some((option, _, hint)) = one_run.into_iter().find(|(_, is_set, _)| *is_set) else { return Ok(()) };
    Err(Failure::new(Exit::Usage, format!("`{option}` supports only one suite")).hint(hint))
}

/// A suite's folder in the common output directory.
fn folder(suite: &Path) -> String {
    let text = suite.to_string_lossy();
    let text = text.trim_start_matches(['.', '/']);
    let end = text.rfind(['/']).map_or(0, |at| at + 1);
    let name = text[end..].split('.').next().unwrap_or_default();
    format!("{}{name}", &text[..end]).replace(['/', '.'], "-")
}

/// The order of exit codes by severity.
fn severity(exit: Exit) -> u8 {
    match exit {
        Exit::Ok => 0,
        Exit::BelowThreshold => 1,
        Exit::Incomplete => 2,
        Exit::Busy => 3,
        Exit::Failure | Exit::Usage | Exit::Config => 4,
    }
}
