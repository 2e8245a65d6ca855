//! `eval` over several suites and directories: each suite has its own run and results; the worst exit code wins.

use std::path::PathBuf;

use super::args::EvalArgs;
use super::display::Display;
use super::eval::{self, Suite};
use crate::bundle::folder_of;
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
        args.work.output.output = args.work.output.output.map(|dir| dir.join(folder_of(&suite.shown)));
        let exit = match Box::pin(eval::eval_one(args, suite, display)).await {
            Ok(exit) => exit,
            Err(failed) => error::report(&failed),
        };
        console::stdout(if number < count { "\n" } else { "" })?;
        worst = worst.or_worse(exit);
    }
    Ok(worst)
}

/// Refuses options for a single run.
fn check(args: &EvalArgs) -> Result<(), Failure> {
    let report = &args.report;
    let limits = &args.work.limits;
    let mut one_run = vec![
        ("--batch-id", args.work.batch.batch_id.is_some(), "name one suite".to_owned()),
        ("--replay-out", args.replay_out.is_some(), "name one suite".to_owned()),
        ("--budget-usd", limits.budget_usd.is_some(), "set `execution.budget_usd` in each suite".to_owned()),
        (
            "--max-requests",
            limits.max_requests.is_some(),
            "choose tests with `--filter`, or pass one suite".to_owned(),
        ),
        ("--deadline", limits.deadline.is_some(), "name one suite".to_owned()),
    ];
    let files = report.files().into_iter().chain([("--baseline", "BASELINE", report.baseline.is_some())]);
    one_run.extend(files.map(|(option, value, is_set)| {
        let verb = if option == "--baseline" { "compare" } else { "write it for" };
        (option, is_set, format!("{verb} each run: `run-evals report RUN {option} {value}`"))
    }));
    let Some((option, _, hint)) = one_run.into_iter().find(|(_, is_set, _)| *is_set) else { return Ok(()) };
    Err(Failure::new(Exit::Usage, format!("`{option}` supports only one suite")).hint(hint))
}
