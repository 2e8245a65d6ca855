//! When the next call may start. Pure: the caller brings the time, so that every rule is tested without a clock.
//!
//! Three things hold a call back: the concurrency window, which grows from a slow start and halves on overload; the
//! limits that `targets.yaml` names; and a rate that is learned from refusals. A vendor that accepts 20 calls a second
//! and says so nowhere is found by the share of refused calls, then called at just above the rate it accepts. Random
//! refusals do not slow the run: the rate follows what was accepted at best, and looks upwards now and then.

mod bucket;
mod meter;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use self::bucket::Bucket;
use self::meter::Meter;
use crate::model::Limits;

/// Calls in flight at the start, and by how much an answer widens the window: it triples with every round of answers.
const FIRST_WINDOW: f64 = 32.0;
const WIDEN: f64 = 2.0;
/// The share of refusals among the calls of the latest second that means "stop and think", and how many it takes.
const OVERLOAD_SHARE: f64 = 0.5;
const OVERLOAD_REFUSALS: f64 = 10.0;
/// The window halves when this many of the latest 20 answers were broken.
const BROKEN_OF_20: u32 = 12;
/// The share of refusals in a second that means that the vendor has a limit below the present rate.
const LIMITED_SHARE: f64 = 0.25;
/// Fewer outcomes in a second than this say nothing about a share.
const LIMITED_OUTCOMES: u32 = 50;
/// The learned rate is this much above what was accepted, so that the whole of it is used.
const ABOVE: f64 = 1.02;
/// Where lowering the rate does not help, refusals do not come from the rate: it goes up again, to this much above the
/// best of so many latest seconds.
const BEST_OF: usize = 4;
const RECOVER: f64 = 1.12;
/// A refusal in the last seconds of a run prolongs it by the whole wait that the vendor asks for, so these are careful.
const LAST_SECONDS: f64 = 1.5;
const CAREFUL: f64 = 0.92;
/// How much a learned rate grows after a second without refusals, and the least it may be.
const GROWTH: f64 = 0.05;
const MOST_GROWTH: f64 = 0.1;
const SLOWEST: f64 = 0.05;
/// The pause after an overload where the vendor names none.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);
/// After so many seconds a learned rate that the run stays far below is forgotten.
const IDLE_AFTER: u32 = 10;
/// How many calls of a pause look whether the vendor accepts again already.
const PROBES_IN_A_PAUSE: u32 = 4;
/// The calls a second with which a vendor that accepts early is approached, by how much they grow, and how often.
const RAMP_FROM: f64 = 8.0;
const RAMP: f64 = 1.5;
const RAMP_STEP: Duration = Duration::from_millis(250);
/// Paced starts that were late may catch up this much at once.
const CATCH_UP: Duration = Duration::from_millis(20);

/// The gate in front of a target.
#[derive(Debug)]
pub(super) struct Pace {
    in_flight: u32,
    most_in_flight: f64,
    window: f64,
    /// Below it the window grows by `WIDEN` an answer, above by one a round.
    slow_start_below: f64,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    not_before: Option<Instant>,
    /// The latest 20 outcomes; a broken one is a 1.
    broken: u32,
    meter: Meter,
    /// Since when the meter's counts speak of the present conditions.
    epoch: Instant,
    rate: Option<Rate>,
    pause: Option<Pause>,
    next_review: Instant,
}

/// Nothing starts until it ends, but for a few probes: a vendor that counts calls in a window refuses them, one that
/// only wants them evenly spread accepts, and the pause is over.
#[derive(Debug)]
struct Pause {
    since: Instant,
    until: Instant,
    next_probe: Instant,
}

/// A learned rate.
#[derive(Debug)]
struct Rate {
    per_second: f64,
    next: Instant,
    /// What was accepted in each of the latest seconds.
    accepted: [f64; BEST_OF],
    seconds: u32,
    /// The share that was refused in the latest second, and whether the rate was lowered for it.
    share: f64,
    lowered: bool,
    /// How much the rate grows after a second without refusals; it doubles with each.
    step: f64,
    /// When the rate grows next, until the first refusal.
    ramp: Option<Instant>,
}

/// Whether a call may start.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Now.
    Open,
    /// Not before this moment.
    At(Instant),
    /// When a call ends.
    Full,
}

/// How a call ended, as far as the pace is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The vendor worked on it: an answer, or a refusal of the request itself.
    Accepted,
    /// Too many calls, with the wait it asked for.
    Refused(Option<Duration>),
    /// The vendor or the way to it broke.
    Broken,
}

impl Pace {
    /// A gate for these limits, divided by the number of runners that share them.
    pub(super) fn new(limits: Limits, sharers: u32, now: Instant) -> Self {
        let most_in_flight = f64::from(limits.max_concurrency.get());
        let bucket = |per_minute: std::num::NonZeroU32| {
            Bucket::new(f64::from(per_minute.get()) / 60.0 / f64::from(sharers.max(1)), now)
        };
        Self {
            in_flight: 0,
            most_in_flight,
            window: FIRST_WINDOW.min(most_in_flight),
            slow_start_below: most_in_flight,
            requests: limits.requests_per_minute.map(bucket),
            tokens: limits.tokens_per_minute.map(bucket),
            not_before: None,
            broken: 0,
            meter: Meter::new(now),
            epoch: now,
            rate: None,
            pause: None,
            next_review: now + Duration::from_secs(1),
        }
    }

    /// Whether a call of about so many tokens may start.
    pub(super) fn gate(&mut self, now: Instant, tokens: u64) -> Gate {
        self.review(now);
        if f64::from(self.in_flight) >= self.window.floor().max(1.0) {
            return Gate::Full;
        }
        let waits = [
            self.not_before,
            self.pause.as_ref().map(|pause| pause.next_probe.min(pause.until)),
            self.rate.as_ref().map(|rate| rate.next),
            self.requests.as_ref().map(|bucket| bucket.ready(now, 1.0)),
            self.tokens.as_ref().map(|bucket| bucket.ready(now, as_f64(tokens))),
        ];
        match waits.into_iter().flatten().max().filter(|ready| *ready > now) {
            Some(ready) => Gate::At(ready),
            None => Gate::Open,
        }
    }

    /// A call of about so many tokens starts, and so many more are to come.
    pub(super) fn started(&mut self, now: Instant, tokens: u64, to_come: u64) {
        self.in_flight += 1;
        self.meter.started(now);
        if let Some(bucket) = &mut self.requests {
            bucket.take(now, 1.0);
        }
        if let Some(bucket) = &mut self.tokens {
            bucket.take(now, as_f64(tokens));
        }
        if let Some(pause) = &mut self.pause {
            pause.next_probe = now + (pause.until - pause.since) / PROBES_IN_A_PAUSE;
        }
        if let Some(rate) = &mut self.rate {
            let earliest = now.checked_sub(CATCH_UP).unwrap_or(now);
            let last_ones = as_f64(to_come) < LAST_SECONDS * rate.per_second;
            let per_second = rate.per_second * if last_ones { CAREFUL } else { 1.0 };
            rate.next = rate.next.max(earliest) + Duration::from_secs_f64(1.0 / per_second);
        }
    }

    /// A call that started then has ended; `tokens` is how many more than estimated it took.
    pub(super) fn ended(&mut self, now: Instant, started: Instant, outcome: Outcome, tokens: i64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(bucket) = &mut self.tokens {
            #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
            bucket.take(now, tokens as f64);
        }
        self.broken = (self.broken << 1 | u32::from(outcome == Outcome::Broken)) & 0xF_FFFF;
        match outcome {
            Outcome::Accepted => {
                let step = if self.window < self.slow_start_below { WIDEN } else { 1.0 / self.window };
                self.window = (self.window + step).min(self.most_in_flight);
                if self.pause.as_ref().is_some_and(|pause| started > pause.since) {
                    let half = self.accepted_rate(now) / 2.0;
                    self.resume(now, Rate::ramp(half, now));
                }
            }
            Outcome::Refused(wait) => {
                self.meter.refused(started);
                self.refused(now, wait.unwrap_or(DEFAULT_PAUSE));
            }
            Outcome::Broken if self.broken.count_ones() >= BROKEN_OF_20 => {
                self.halve();
                self.broken = 0;
            }
            Outcome::Broken => {}
        }
    }

    /// The vendor's headers say that nothing is left until then.
    pub(super) fn exhausted_until(&mut self, ready: Instant) {
        self.not_before = Some(self.not_before.map_or(ready, |known| known.max(ready)));
    }

    /// The learned rate, for people to read; 0 where there is none.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "for people to read")]
    pub(super) fn learned_per_minute(&self) -> usize {
        self.rate.as_ref().map_or(0, |rate| (rate.per_second * 60.0).round() as usize)
    }

    fn refused(&mut self, now: Instant, wait: Duration) {
        if self.pause.is_some() {
            return;
        }
        let Some(rate) = &mut self.rate else {
            let (accepted, refused) = self.meter.counts(self.latest_second(now), now);
            if refused >= OVERLOAD_REFUSALS && refused >= OVERLOAD_SHARE * (accepted + refused) {
                self.halve();
                let next_probe = now + wait / PROBES_IN_A_PAUSE;
                self.pause = Some(Pause { since: now, until: now + wait, next_probe });
            }
            return;
        };
        if rate.ramp.is_some() {
            let since = self.epoch.max(now.checked_sub(2 * RAMP_STEP).unwrap_or(self.epoch));
            let measured = self.meter.rates(since, now).0;
            *rate = Rate::new(measured.max(rate.per_second / RAMP), now);
        }
    }

    fn halve(&mut self) {
        self.window = (self.window / 2.0).max(1.0);
        self.slow_start_below = self.window;
    }

    fn latest_second(&self, now: Instant) -> Instant {
        now.checked_sub(Duration::from_secs(1)).unwrap_or(self.epoch).max(self.epoch)
    }

    fn resume(&mut self, now: Instant, rate: Rate) {
        self.pause = None;
        self.rate = Some(rate);
        self.epoch = now;
        self.next_review = now + Duration::from_secs(1);
    }

    /// What was accepted a second since the present conditions began.
    fn accepted_rate(&self, now: Instant) -> f64 {
        let since = self.epoch.max(now.checked_sub(Meter::SPAN).unwrap_or(self.epoch));
        self.meter.rates(since, now).0
    }

    /// Once a second, or when a pause ends: learns the rate from what was accepted.
    fn review(&mut self, now: Instant) {
        if let Some(pause) = &self.pause {
            if now >= pause.until {
                let rate = self.accepted_rate(now);
                self.resume(now, Rate::new(rate, now));
            }
            return;
        }
        if let Some(rate) = &mut self.rate
            && let Some(step) = rate.ramp.filter(|step| now >= *step)
        {
            rate.per_second *= RAMP;
            rate.ramp = Some(step.max(now) + RAMP_STEP);
        }
        if now < self.next_review {
            return;
        }
        let (accepted, refused) = self.meter.rates(self.latest_second(now), now);
        self.next_review = now + Duration::from_secs(1);
        match &mut self.rate {
            Some(rate) if rate.is_idle(accepted) => self.rate = None,
            Some(rate) if rate.ramp.is_none() => rate.review(accepted, refused),
            Some(_) => {}
            None => {
                let outcomes = accepted + refused;
                if outcomes >= f64::from(LIMITED_OUTCOMES) && refused / outcomes >= LIMITED_SHARE {
                    self.rate = Some(Rate::new(accepted * ABOVE, now));
                }
            }
        }
    }
}

impl Rate {
    fn new(per_second: f64, now: Instant) -> Self {
        let per_second = per_second.max(SLOWEST);
        let accepted = [0.0; BEST_OF];
        Self {
            per_second,
            next: now,
            accepted,
            seconds: 0,
            share: 0.0,
            lowered: false,
            step: GROWTH,
            ramp: None,
        }
    }

    fn ramp(from: f64, now: Instant) -> Self {
        Self { ramp: Some(now + RAMP_STEP), ..Self::new(from.max(RAMP_FROM), now) }
    }

    fn review(&mut self, accepted: f64, refused: f64) {
        if accepted + refused == 0.0 {
            return;
        }
        self.accepted.rotate_right(1);
        self.accepted[0] = accepted;
        self.seconds += 1;
        if refused == 0.0 {
            // Only a rate that was used up says that more would be accepted.
            if accepted >= (0.8 * self.per_second).floor() {
                self.per_second *= 1.0 + self.step;
                self.step = (self.step * 2.0).min(MOST_GROWTH);
            }
            return;
        }
        self.step = GROWTH;
        let share = refused / (accepted + refused);
        let best = self.accepted.iter().copied().fold(SLOWEST, f64::max);
        let in_vain = self.lowered && share >= 0.8 * self.share;
        // A second with a few unlucky calls says little, so the rate never falls by more than half.
        let next = if in_vain { best * RECOVER } else { accepted * ABOVE }.max(self.per_second / 2.0);
        self.lowered = next < 0.97 * self.per_second;
        self.share = share;
        self.per_second = next;
    }

    /// The run is far from this rate: something else holds it back, and the rate need not be known.
    fn is_idle(&self, accepted: f64) -> bool {
        let settled = self.seconds >= IDLE_AFTER || self.ramp.is_some();
        settled && self.per_second > 4.0 * accepted.max(RAMP_FROM)
    }
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn as_f64(tokens: u64) -> f64 {
    tokens as f64
}
