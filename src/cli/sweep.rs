//! `sweep`: requests the evaluations that triggers missed.

use jiff::{SignedDuration, Timestamp};

use super::args::SweepArgs;
use super::display::Display;
use super::trigger::{print, service};
use crate::model::{Exit, Failure};
use crate::skills::trigger::{Sweep, TriggerReport, library_url, repository, sweep as sweep_up};
use crate::util::process_env::ProcessEnv;

pub(super) async fn sweep(args: SweepArgs, display: &Display) -> anyhow::Result<Exit> {
    let env = ProcessEnv::read();
    let repo = repository(args.repo.as_deref(), &env)?;
    let service = service(&args.service, &env)?;
    let client = args.github.client(&env, display)?;
    let since = SignedDuration::try_from(args.since)
        .ok()
        .and_then(|since| Timestamp::now().checked_sub(since).ok())
        .ok_or_else(|| Failure::new(Exit::Usage, "`--since` is too large"))?;
    let patrol = Sweep {
        client: &client,
        repo: &repo,
        branch: None,
        since,
        service: &service,
        replicates: args.replicates,
        wait_limit: args.wait_limit,
        pause: args.pause,
        dry_run: args.dry_run,
        tell: &|text| display.note(text),
    };
    let (range, found, attempts) = sweep_up(&patrol).await?;
    display.warnings(&found.warnings);
    let report = TriggerReport {
        title: "Sweep of skill evaluations",
        library: library_url(&env, Some(&repo)),
        range: range.as_ref(),
        attempts: &attempts,
        others: found.others,
        requests: client.requests_sent(),
    };
    print(&report, args.format)
}
