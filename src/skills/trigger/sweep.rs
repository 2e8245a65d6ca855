//! Requests missing evaluations: bumps that are neither on the leaderboard nor in an open pull request nor known to the service.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::bumps::{Bump, BumpSearch, find_bumps};
use super::outcome::{CurrentJob, RequestOutcome};
use super::range::{Range, recent};
use super::request::{Attempt, order};
use super::service::{Service, ServiceJob};
use crate::github::{ApiError, Client, OpenPull};
use crate::leaderboard::Leaderboard;
use crate::model::{Failure, Replicates, printable};
use crate::util::backoff::Backoff;
use crate::util::clock;

/// The prefix of results branches.
const BRANCHES: &str = "eval-results/";
/// The wait before retrying a busy service grows up to this.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The options of a sweep.
pub struct Sweep<'a> {
    /// GitHub.
    pub client: &'a Client,
    /// The skill library.
    pub repo: &'a str,
    /// Its branch; by default the default branch.
    pub branch: Option<&'a str>,
    /// Older commits are ignored.
    pub since: Timestamp,
    /// The service.
    pub service: &'a Service,
    /// How often each case is run.
    pub replicates: Replicates,
    /// The total time to wait for a busy service.
    pub wait_limit: Duration,
    /// The first wait before retrying a busy service.
    pub pause: Duration,
    /// Whether to request nothing.
    pub dry_run: bool,
    /// Prints notes for the user.
    pub tell: &'a (dyn Fn(&str) + Sync),
}

/// Finds missing evaluations and requests them, one after the other, each once.
pub async fn sweep(patrol: &Sweep<'_>) -> Result<(Option<Range>, BumpSearch, Vec<Attempt>), Failure> {
    let begun = Timestamp::now();
    let branch = match patrol.branch {
        Some(branch) => branch.to_owned(),
        None => patrol.client.repository(patrol.repo).await?.default_branch,
    };
    let Some(range) = recent(patrol.client, patrol.repo, &branch, patrol.since).await? else {
        return Ok((None, BumpSearch::default(), Vec::new()));
    };
    let mut found = find_bumps(patrol.client, patrol.repo, &range).await?;
    let mut known = SweepHistory::read(patrol, &branch, &found.bumps).await?;
    found.warnings.append(&mut known.warnings);
    let attempts = patrol.fire_missing(&found.bumps, &known, begun).await?;
    Ok((Some(range), found, attempts))
}

/// Existing evaluations, by index of the bump.
#[derive(Default)]
struct SweepHistory {
    outcomes: BTreeMap<usize, RequestOutcome>,
    warnings: Vec<String>,
}

impl SweepHistory {
    async fn read(patrol: &Sweep<'_>, branch: &str, bumps: &[Bump]) -> Result<Self, Failure> {
        let mut known = Self::default();
        if bumps.is_empty() {
            return Ok(known);
        }
        if let Some(bytes) = patrol.client.file(patrol.repo, Leaderboard::PATH, branch).await? {
            let board = Leaderboard::parse(&bytes, Path::new(Leaderboard::PATH))?;
            for (place, bump) in bumps.iter().enumerate().filter(|(_, bump)| has_entry(&board, bump)) {
                tracing::debug!("{} is merged", bump.skill);
                known.outcomes.insert(place, RequestOutcome::Merged);
            }
        }
        for (place, bump) in bumps.iter().enumerate() {
            if known.outcomes.contains_key(&place) {
                continue;
            }
            let path = Leaderboard::path_of(&bump.skill);
            if let Some(bytes) = patrol.client.file(patrol.repo, &path, branch).await?
                && has_entry(&Leaderboard::parse(&bytes, Path::new(&path))?, bump)
            {
                known.outcomes.insert(place, RequestOutcome::Merged);
            }
        }
        if known.outcomes.len() == bumps.len() {
            return Ok(known);
        }
        for pull in patrol.client.open_pulls(patrol.repo).await? {
            known.look_into(patrol, &pull, bumps).await?;
        }
        Ok(known)
    }

    /// A pull request of ours: from a fork, anyone could claim that an evaluation exists.
    async fn look_into(
        &mut self,
        patrol: &Sweep<'_>,
        pull: &OpenPull,
        bumps: &[Bump],
    ) -> Result<(), ApiError> {
        let is_ours =
            pull.head.repo.as_ref().is_some_and(|repo| repo.full_name.eq_ignore_ascii_case(patrol.repo));
        let about = |bump: &Bump| pull.head.branch.starts_with(&format!("{BRANCHES}{}-", bump.skill));
        let missing = |place: &usize| !self.outcomes.contains_key(place);
        let open: Vec<usize> =
            (0..bumps.len()).filter(missing).filter(|place| is_ours && about(&bumps[*place])).collect();
        if open.is_empty() {
            return Ok(());
        }
        let mut paths: Vec<String> =
            open.iter().map(|place| Leaderboard::path_of(&bumps[*place].skill)).collect();
        paths.dedup();
        paths.push(Leaderboard::PATH.to_owned());
        for path in paths {
            let Some(bytes) = patrol.client.file(patrol.repo, &path, &pull.head.sha).await? else { continue };
            match Leaderboard::parse(&bytes, Path::new(&path)) {
                Ok(board) => {
                    for place in open.iter().filter(|place| has_entry(&board, &bumps[**place])) {
                        self.outcomes.insert(
                            *place,
                            RequestOutcome::Proposed { pull_request: printable(&pull.html_url) },
                        );
                    }
                }
                Err(error) => self.warnings.push(format!(
                    "the leaderboard of pull request {} does not count: {}",
                    pull.number,
                    printable(&error.to_string())
                )),
            }
        }
        Ok(())
    }
}

fn has_entry(board: &Leaderboard, bump: &Bump) -> bool {
    let is_it = |skill: &str, commit: &str| skill == bump.skill.as_str() && commit == bump.commit.as_str();
    board.entries().iter().any(|entry| is_it(entry.skill.as_str(), entry.prompt_commit.as_str()))
}

impl Sweep<'_> {
    async fn fire_missing(
        &self,
        bumps: &[Bump],
        known: &SweepHistory,
        begun: Timestamp,
    ) -> Result<Vec<Attempt>, Failure> {
        let deadline = Instant::now() + self.wait_limit;
        let mut attempts = Vec::new();
        let mut jobs =
            if known.outcomes.len() < bumps.len() { self.service.jobs().await? } else { Vec::new() };
        let mut silent: Option<String> = None;
        for (place, bump) in bumps.iter().enumerate() {
            let outcome = match (known.outcomes.get(&place), &silent) {
                (Some(outcome), _) => outcome.clone(),
                (None, Some(cause)) => RequestOutcome::Silence { cause: cause.clone(), sent: false },
                (None, None) => match self.turn(bump, &mut jobs, begun, deadline).await {
                    Ok(outcome) => outcome,
                    Err(failure) => {
                        let cause = failure.to_string();
                        silent = Some(cause.clone());
                        RequestOutcome::Silence { cause, sent: false }
                    }
                },
            };
            attempts.push(Attempt::of(bump, outcome));
        }
        Ok(attempts)
    }

    /// Waits until the service is free, and requests a bump unless it was requested meanwhile.
    async fn turn(
        &self,
        bump: &Bump,
        jobs: &mut Vec<ServiceJob>,
        begun: Timestamp,
        deadline: Instant,
    ) -> Result<RequestOutcome, Failure> {
        let is_done =
            |job: &ServiceJob| job.state == "completed" && job.finished_at.is_some_and(|end| end >= begun);
        let backoff = Backoff { first: self.pause, factor: 1.5, longest: LONGEST_PAUSE.max(self.pause) };
        let mut refusals = 0;
        loop {
            let same = |job: &&ServiceJob| job.is_of(&bump.skill, bump.commit.as_str());
            if let Some(job) = jobs.iter().filter(same).find(|job| job.is_open() || is_done(job)) {
                return Ok(RequestOutcome::Running { job_id: job.job_id.clone() });
            }
            if self.dry_run {
                return Ok(RequestOutcome::Wanted);
            }
            let open = jobs.iter().find(|job| job.is_open());
            let busy = match open {
                Some(job) => {
                    RequestOutcome::Busy(Some(CurrentJob { skill: job.skill.clone(), started_at: None }))
                }
                None => self.service.evaluate(&order(bump, self.replicates)).await,
            };
            if !matches!(busy, RequestOutcome::Busy(_)) {
                // The requested job is open now; the list is read again before the next one.
                *jobs = self.service.jobs().await.unwrap_or_default();
                return Ok(busy);
            }
            refusals += 1;
            let pause = backoff.wait(refusals);
            if Instant::now() + pause > deadline {
                return Ok(busy);
            }
            (self.tell)(&format!("{}; `{}` waits", busy.detail(), bump.skill));
            clock::sleep(pause).await;
            *jobs = self.service.jobs().await?;
        }
    }
}
