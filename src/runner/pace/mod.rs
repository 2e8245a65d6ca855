//! Decides when the next call may start. Pure: the caller passes the time, so every rule is tested without
//! a clock.
//!
//! Three limits apply: the concurrency window, which grows in a slow start and halves on overload; the
//! limits in `targets.yaml`; and a rate learned from rate-limit responses. For a provider with an
//! unannounced limit, the share of 429 responses reveals it, and the rate settles just above what the
//! provider accepts. Random 429 responses do not slow the run: the rate follows the best accepted rate and
//! probes upwards now and then.

mod bucket;
mod meter;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use self::bucket::Bucket;
use self::meter::Meter;
use crate::model::Limits;

/// Initial window, and its growth per response: it triples with every round.
const FIRST_WINDOW: f64 = 32.0;
const WIDEN: f64 = 2.0;
/// Share and number of rate-limited calls in the last second that trigger a pause.
const OVERLOAD_SHARE: f64 = 0.5;
const OVERLOAD_REFUSALS: f64 = 10.0;
/// The window halves if this many of the last 20 calls failed.
const BROKEN_OF_20: u32 = 12;
/// Share of rate-limited calls in a second that means the rate is above the provider's limit.
const LIMITED_SHARE: f64 = 0.25;
/// With fewer outcomes in a second, the share is not meaningful.
const LIMITED_OUTCOMES: u32 = 50;
/// The learned rate is this factor above the accepted rate, to use all of it.
const ABOVE: f64 = 1.02;
/// If lowering the rate does not help, it is not the cause. The rate returns to this factor above the best
/// of the last seconds.
const BEST_OF: usize = 4;
const RECOVER: f64 = 1.12;
/// A 429 in the last seconds of a run extends it by the whole `Retry-After`, so the rate is lower there.
const LAST_SECONDS: f64 = 1.5;
const CAREFUL: f64 = 0.92;
/// Growth of a learned rate after a second without 429, and its minimum.
const GROWTH: f64 = 0.05;
const MOST_GROWTH: f64 = 0.1;
const SLOWEST: f64 = 0.05;
/// Pause after an overload without `Retry-After`.
const DEFAULT_PAUSE: Duration = Duration::from_secs(1);
/// A learned rate is dropped after this many seconds far below it.
const IDLE_AFTER: u32 = 10;
/// Probe calls during a pause.
const PROBES_IN_A_PAUSE: u32 = 4;
/// Rate, growth and interval of the ramp after a probe was accepted early.
const RAMP_FROM: f64 = 8.0;
const RAMP: f64 = 1.5;
const RAMP_STEP: Duration = Duration::from_millis(250);
/// Late starts may catch up by this much at once.
const CATCH_UP: Duration = Duration::from_millis(20);

/// The rate control of one target.
#[derive(Debug)]
pub(super) struct Pace {
    in_flight: u32,
    most_in_flight: f64,
    window: f64,
    /// Below it, the window grows by `WIDEN` per response; above, by one per round.
    slow_start_below: f64,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    not_before: Option<Instant>,
    /// The last 20 outcomes as bits; 1 is a failure.
    broken: u32,
    meter: Meter,
    /// Start of the period that the meter's counts apply to.
    epoch: Instant,
    rate: Option<Rate>,
    pause: Option<Pause>,
    next_review: Instant,
}

/// A pause with a few probe calls. A provider that counts calls per window rejects them. One that only
/// wants them spread accepts them, which ends the pause.
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
    /// Accepted calls in each of the last seconds.
    accepted: [f64; BEST_OF],
    seconds: u32,
    /// Rate-limited share of the last second, and whether the rate was lowered for it.
    share: f64,
    lowered: bool,
    /// Growth after a second without 429; doubles each time.
    step: f64,
    /// Next step of the ramp, until the first 429.
    ramp: Option<Instant>,
}

/// Whether a call may start.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    At(Instant),
    /// When a call ends.
    Full,
}

/// Outcome of a call, for the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallResult {
    /// The provider processed it: a response, or a rejection of the request itself.
    Accepted,
    /// Rate limited, with its `Retry-After`.
    Refused(Option<Duration>),
    /// The provider or the connection failed.
    Broken,
}

impl Pace {
    /// A pace for these limits, divided by the number of runners that share them.
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

    /// Whether a call with this many estimated tokens may start.
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

    /// Counts the start of a call; `to_come` is the number of calls after it.
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

    /// Counts the end of a call; `tokens` is the actual minus the estimated number.
    pub(super) fn ended(&mut self, now: Instant, started: Instant, outcome: CallResult, tokens: i64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if let Some(bucket) = &mut self.tokens {
            #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
            bucket.take(now, tokens as f64);
        }
        self.broken = (self.broken << 1 | u32::from(outcome == CallResult::Broken)) & 0xF_FFFF;
        match outcome {
            CallResult::Accepted => {
                let step = if self.window < self.slow_start_below { WIDEN } else { 1.0 / self.window };
                self.window = (self.window + step).min(self.most_in_flight);
                if self.pause.as_ref().is_some_and(|pause| started > pause.since) {
                    let half = self.accepted_rate(now) / 2.0;
                    self.resume(now, Rate::ramp(half, now));
                }
            }
            CallResult::Refused(wait) => {
                self.meter.refused(started);
                self.refused(now, wait.unwrap_or(DEFAULT_PAUSE));
            }
            CallResult::Broken if self.broken.count_ones() >= BROKEN_OF_20 => {
                self.halve();
                self.broken = 0;
            }
            CallResult::Broken => {}
        }
    }

    /// The provider's headers announce that the limit is exhausted until then.
    pub(super) fn exhausted_until(&mut self, ready: Instant) {
        self.not_before = Some(self.not_before.map_or(ready, |known| known.max(ready)));
    }

    /// The learned rate for progress messages; 0 if there is none.
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

    /// Accepted calls per second in the current period.
    fn accepted_rate(&self, now: Instant) -> f64 {
        let since = self.epoch.max(now.checked_sub(Meter::SPAN).unwrap_or(self.epoch));
        self.meter.rates(since, now).0
    }

    /// Updates the learned rate once a second and at the end of a pause.
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
            // Raise the rate only if it was used up.
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
        // One bad second says little, so the rate at most halves.
        let next = if in_vain { best * RECOVER } else { accepted * ABOVE }.max(self.per_second / 2.0);
        self.lowered = next < 0.97 * self.per_second;
        self.share = share;
        self.per_second = next;
    }

    /// Whether something else keeps the run far below this rate.
    fn is_idle(&self, accepted: f64) -> bool {
        let settled = self.seconds >= IDLE_AFTER || self.ramp.is_some();
        settled && self.per_second > 4.0 * accepted.max(RAMP_FROM)
    }
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn as_f64(tokens: u64) -> f64 {
    tokens as f64
}
