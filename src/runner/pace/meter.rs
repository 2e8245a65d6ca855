//! Counts calls that started in the last seconds, and how many were rate limited.

use std::time::{Duration, Instant};

const SLOT: Duration = Duration::from_millis(50);
const SLOTS: usize = 220;

/// A ring of time slots.
#[derive(Debug)]
pub(super) struct Meter {
    origin: Instant,
    slots: Box<[Slot]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    number: u64,
    started: u32,
    refused: u32,
}

impl Meter {
    /// How far back the meter counts.
    pub(super) const SPAN: Duration = Duration::from_secs(10);

    pub(super) fn new(now: Instant) -> Self {
        Self { origin: now, slots: vec![Slot::default(); SLOTS].into() }
    }

    pub(super) fn started(&mut self, now: Instant) {
        let number = self.number(now);
        let slot = &mut self.slots[index(number)];
        if slot.number != number {
            *slot = Slot { number, ..Slot::default() };
        }
        slot.started += 1;
    }

    /// Counts a rate-limited call that started at this time.
    pub(super) fn refused(&mut self, started: Instant) {
        let number = self.number(started);
        let slot = &mut self.slots[index(number)];
        if slot.number == number {
            slot.refused += 1;
        }
    }

    /// Accepted and rate-limited calls that started since then. A call in flight counts as accepted,
    /// because rejections arrive fast and responses slowly.
    pub(super) fn counts(&self, since: Instant, now: Instant) -> (f64, f64) {
        let range = self.number(since)..=self.number(now);
        let slots = self.slots.iter().filter(|slot| range.contains(&slot.number));
        let (started, refused) =
            slots.fold((0, 0), |(started, refused), slot| (started + slot.started, refused + slot.refused));
        (f64::from(started.saturating_sub(refused)), f64::from(refused))
    }

    /// Like [`Self::counts`], per second.
    pub(super) fn rates(&self, since: Instant, now: Instant) -> (f64, f64) {
        let (accepted, refused) = self.counts(since, now);
        // A slot counts in full, so its whole duration counts too.
        let first = SLOT.as_secs_f64() * as_f64(self.number(since));
        let covered = now.saturating_duration_since(self.origin).as_secs_f64() - first;
        let covered = covered.max(SLOT.as_secs_f64());
        (accepted / covered, refused / covered)
    }

    fn number(&self, at: Instant) -> u64 {
        let slots = at.saturating_duration_since(self.origin).as_millis() / SLOT.as_millis();
        u64::try_from(slots).unwrap_or(u64::MAX)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a run is shorter than 2^52 slots")]
fn as_f64(number: u64) -> f64 {
    number as f64
}

fn index(number: u64) -> usize {
    usize::try_from(number % SLOTS as u64).unwrap_or(0)
}
