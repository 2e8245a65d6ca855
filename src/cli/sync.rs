//! `sync`: brings benchmarks up to date, or shows their status.

use serde::Serialize;
use serde_json::json;

use super::args::{Format, SyncArgs};
use super::display::Display;
use crate::config::Env;
use crate::console::{self, actions};
use crate::model::Exit;
use crate::sync::{self, Options, Registration, Registry, Status, SyncOutcome, Table, for_each};

pub(super) fn sync(args: &SyncArgs, display: &Display) -> anyhow::Result<Exit> {
    let env = Env::from_process();
    actions::mask(&env.likely_secrets());
    let (registry, warnings) = Registry::find(args.registry.as_deref(), &env)?;
    display.warnings(&warnings);
    let chosen = registry.choose(&args.ids, args.all, args.status)?;
    let options = Options {
        env,
        reset: args.reset,
        allow_local: args.allow_local,
        submodules: args.submodules,
        lfs: args.lfs,
        offline: args.offline,
    };
    if args.status {
        let found = for_each(&chosen, args.jobs.get(), |benchmark| sync::status(benchmark, &options));
        let table = Table::of_status(&found);
        print(&found, &table, args.format)?;
        actions::outputs(&[("benchmarks", serde_json::to_string(&found)?)])?;
        actions::step_summary(&table.to_markdown())?;
        let is_fine = |status: &Status| ["current", "local"].contains(&status.state);
        return Ok(if args.exit_code && !found.iter().all(is_fine) { Exit::Failure } else { Exit::Ok });
    }
    let outcomes = for_each(&chosen, args.jobs.get(), |benchmark| {
        let outcome = SyncOutcome::of(benchmark, &options, display.say());
        if let Some(error) = outcome.error_text() {
            console::error(&error);
        }
        outcome
    });
    let exit = report(&outcomes, args.format, display)?;
    if args.register {
        let synced = chosen.iter().zip(&outcomes).filter(|(_, outcome)| outcome.error.is_none());
        for (benchmark, _) in synced {
            let note = match sync::register(benchmark, &options.env)? {
                Registration::Added(file) => format!("added to `projects` in `{}`", file.display()),
                Registration::AlreadyAs(id) => format!("AgentV already has it, as the project `{id}`"),
            };
            display.note(&format!("{}: {note}", benchmark.id));
        }
    }
    Ok(exit)
}

fn report(outcomes: &[SyncOutcome], format: Format, display: &Display) -> anyhow::Result<Exit> {
    for outcome in outcomes {
        for note in outcome.synced.iter().flat_map(|synced| &synced.notes) {
            display.warning(&format!("{}: {note}", outcome.id));
        }
        if let Some(saved) = outcome.synced.as_ref().and_then(|synced| synced.saved.as_ref()) {
            display
                .note(&format!("{}: the discarded changes are kept as `{saved}` in the clone", outcome.id));
        }
    }
    let failed = outcomes.iter().filter(|outcome| outcome.error.is_some()).count();
    let table = Table::of_outcomes(outcomes);
    print(outcomes, &table, format)?;
    actions::outputs(&[
        ("synced", (outcomes.len() - failed).to_string()),
        ("unsynced", failed.to_string()),
        ("benchmarks", serde_json::to_string(outcomes)?),
    ])?;
    actions::step_summary(&table.to_markdown())?;
    Ok(if failed > 0 { Exit::Failure } else { Exit::Ok })
}

fn print(benchmarks: &[impl Serialize], table: &Table, format: Format) -> anyhow::Result<()> {
    format.print(&json!({ "benchmarks": benchmarks }), || table.to_text())
}
