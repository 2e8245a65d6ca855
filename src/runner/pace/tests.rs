//! The pace against simulated providers, in simulated time.

use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroU32;

use super::*;

/// How the simulated provider limits.
#[derive(Clone, Copy)]
enum Vendor {
    /// At most this many accepted in any second.
    Sliding(u32),
    /// At most this many accepted in each calendar second.
    Fixed(u32),
    /// This many per second, with this burst.
    Bucket(u32, u32),
    /// At most this many at once.
    InFlight(u32),
    /// This percentage is rejected, whatever the rate.
    Random(u32),
}

struct Sim {
    vendor: Vendor,
    accepted: VecDeque<u64>,
    in_flight: u32,
    level: f64,
    level_at: u64,
    dice: fastrand::Rng,
}

impl Sim {
    fn accepts(&mut self, at: u64) -> bool {
        let second = 1_000_000;
        let ok = match self.vendor {
            Vendor::Sliding(limit) => {
                while self.accepted.front().is_some_and(|first| *first + second <= at) {
                    self.accepted.pop_front();
                }
                self.accepted.len() < limit as usize
            }
            Vendor::Fixed(limit) => {
                let window = (at + 370_000) / second;
                self.accepted.retain(|then| (then + 370_000) / second == window);
                self.accepted.len() < limit as usize
            }
            Vendor::Bucket(rate, burst) => {
                #[expect(clippy::cast_precision_loss, reason = "a short simulation")]
                let elapsed = (at - self.level_at) as f64 / 1e6;
                self.level = (self.level + elapsed * f64::from(rate)).min(f64::from(burst));
                self.level_at = at;
                self.level >= 1.0
            }
            Vendor::InFlight(limit) => self.in_flight < limit,
            Vendor::Random(percent) => self.dice.u32(0..100) >= percent,
        };
        if ok {
            self.accepted.push_back(at);
            self.level -= 1.0;
            self.in_flight += 1;
        }
        ok
    }
}

struct Result {
    seconds: f64,
    refused_per_answer: f64,
}

/// Runs `calls` calls of 50 ms; a rejection takes `refusal_ms` and asks for a second.
fn simulate(vendor: Vendor, calls: u32, concurrency: u32, refusal_ms: u64) -> Result {
    let limits = Limits {
        max_concurrency: NonZeroU32::new(concurrency).unwrap(),
        requests_per_minute: None,
        tokens_per_minute: None,
    };
    let origin = Instant::now();
    let at = |micros: u64| origin + Duration::from_micros(micros);
    let mut pace = Pace::new(limits, 1, origin);
    let burst = if let Vendor::Bucket(_, burst) = vendor { f64::from(burst) } else { 0.0 };
    let mut sim = Sim {
        vendor,
        accepted: VecDeque::new(),
        in_flight: 0,
        level: burst,
        level_at: 0,
        dice: fastrand::Rng::with_seed(7),
    };
    let (mut now, mut fresh, mut answered, mut refused) = (0_u64, calls, 0_u32, 0_u32);
    let mut ends: BinaryHeap<std::cmp::Reverse<(u64, u64, bool)>> = BinaryHeap::new();
    let mut waiting: BinaryHeap<std::cmp::Reverse<u64>> = BinaryHeap::new();
    while answered < calls {
        let mut wake = u64::MAX;
        loop {
            let retry = waiting.peek().is_some_and(|ready| ready.0 <= now);
            if !retry && fresh == 0 {
                break;
            }
            match pace.gate(at(now), 10) {
                Gate::Open => {
                    if retry {
                        waiting.pop();
                    } else {
                        fresh -= 1;
                    }
                    pace.started(at(now), 10, u64::from(fresh) + waiting.len() as u64);
                    let ok = sim.accepts(now);
                    let took = if ok { 50_000 } else { refusal_ms * 1000 + 500 };
                    ends.push(std::cmp::Reverse((now + took, now, ok)));
                }
                Gate::At(ready) => {
                    // The timer of the runtime counts in milliseconds.
                    wake = (u64::try_from((ready - origin).as_micros()).unwrap() / 1000 + 1) * 1000;
                    break;
                }
                Gate::Full => break,
            }
        }
        let next_end = ends.peek().map_or(u64::MAX, |end| end.0.0);
        let next_retry = waiting.peek().map_or(u64::MAX, |ready| ready.0);
        let next_retry = if next_retry <= now { u64::MAX } else { next_retry };
        now = next_end.min(next_retry).min(wake);
        assert!(now < 3_600_000_000, "the simulation hangs: {answered} of {calls}");
        while let Some(std::cmp::Reverse((end, started, ok))) = ends.peek().copied()
            && end <= now
        {
            ends.pop();
            if ok {
                sim.in_flight -= 1;
                answered += 1;
                pace.ended(at(now), at(started), CallResult::Accepted, 0);
            } else {
                refused += 1;
                waiting.push(std::cmp::Reverse(now + 1_000_000));
                pace.ended(at(now), at(started), CallResult::Refused(Some(Duration::from_secs(1))), 0);
            }
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a short simulation")]
    let seconds = now as f64 / 1e6;
    Result { seconds, refused_per_answer: f64::from(refused) / f64::from(calls) }
}

#[test]
fn an_unlimited_provider_is_called_at_full_speed() {
    let result = simulate(Vendor::Random(0), 20_000, 256, 0);
    let ideal = 20_000.0 * 0.05 / 256.0;
    assert!(result.seconds < 1.05 * ideal, "{} s of {ideal}", result.seconds);
}

#[test]
fn an_unannounced_rate_limit_is_discovered() {
    // A rejection that takes as long as an answer is noticed when the next round is already in flight.
    for (refusal_ms, most_refused) in [(0, 0.22), (50, 0.35)] {
        for (calls, limit) in [(400, 20), (4000, 200), (12_000, 600)] {
            for (name, vendor) in [
                ("sliding", Vendor::Sliding(limit)),
                ("fixed", Vendor::Fixed(limit)),
                ("bucket", Vendor::Bucket(limit, limit)),
                ("small bucket", Vendor::Bucket(limit, limit.div_ceil(10))),
            ] {
                let result = simulate(vendor, calls, 64, refusal_ms);
                let floor = f64::from(calls) / f64::from(limit);
                let (ratio, refused) = (result.seconds / floor, result.refused_per_answer);
                assert!(ratio <= 1.10, "{name} {limit}/s: {ratio:.3} of the floor");
                assert!(refused <= most_refused, "{name} {limit}/s: {refused:.3} refused an answer");
            }
        }
    }
}

#[test]
fn random_rejections_do_not_slow_the_run() {
    let result = simulate(Vendor::Random(10), 60_000, 64, 0);
    let ideal = 60_000.0 * 0.05 / 64.0 / 0.9;
    assert!(result.seconds < 1.15 * ideal, "{} s of {ideal}", result.seconds);
}

#[test]
fn a_provider_with_low_concurrency_is_not_hammered() {
    let result = simulate(Vendor::InFlight(8), 2_000, 64, 0);
    let floor = 2_000.0 * 0.05 / 8.0;
    assert!(result.seconds < 1.4 * floor, "{} s of {floor}", result.seconds);
    assert!(result.refused_per_answer < 0.3, "{}", result.refused_per_answer);
}

#[test]
fn configured_limits_hold() {
    let limits = Limits {
        max_concurrency: NonZeroU32::new(64).unwrap(),
        requests_per_minute: NonZeroU32::new(600),
        tokens_per_minute: None,
    };
    let now = Instant::now();
    let mut pace = Pace::new(limits, 2, now);
    let mut started = 0;
    for millisecond in 0..10_000 {
        let now = now + Duration::from_millis(millisecond);
        while pace.gate(now, 1) == Gate::Open {
            pace.started(now, 1, 100);
            pace.ended(now, now, CallResult::Accepted, 0);
            started += 1;
        }
    }
    // 600 per minute for two runners: 5 per second each, and one second's worth at once.
    assert!((50..=56).contains(&started), "{started}");
}

#[test]
fn underestimated_tokens_are_paid_back() {
    let limits = Limits {
        max_concurrency: NonZeroU32::new(64).unwrap(),
        requests_per_minute: None,
        tokens_per_minute: NonZeroU32::new(6_000),
    };
    let now = Instant::now();
    let mut pace = Pace::new(limits, 1, now);
    pace.started(now, 50, 100);
    pace.ended(now, now, CallResult::Accepted, 250);
    let Gate::At(ready) = pace.gate(now, 50) else { panic!("the debt of 200 tokens was forgotten") };
    assert!((ready - now).as_secs_f64() > 2.4, "{:?}", ready - now);
}
