//! Delays failed attempts: each further failure of a peer waits longer for its refusal, in bounded memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::serve::Refusal;
use crate::util::backoff;
use crate::util::caller::counted_as;
use crate::util::clock;

/// A peer without failures for this long starts over.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(10);
/// The most peers remembered; the longest quiet one is dropped first.
const MOST_PEERS: usize = 4096;
/// The most refusals that wait at once, per peer and in total; further ones are refused at once, so that connections cannot
/// pile up.
const WAITING_OF_ONE: u32 = 8;
const WAITING_OF_ALL: usize = 128;

/// The failures of each peer.
#[derive(Debug)]
pub struct Throttle {
    peers: Mutex<HashMap<IpAddr, Failures>>,
    waiting: Semaphore,
}

#[derive(Debug)]
struct Failures {
    count: u64,
    waiting: u32,
    last: Instant,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { peers: Mutex::default(), waiting: Semaphore::new(WAITING_OF_ALL) }
    }
}

impl Throttle {
    /// Records a failed attempt, waits, and returns the refusal.
    pub async fn failed(&self, peer: IpAddr, had_token: bool) -> Refusal {
        let key = counted_as(peer);
        let (count, waiting) = self.note(key, Instant::now());
        if is_worth_a_line(count) {
            let what = if had_token { "wrong token" } else { "no token" };
            tracing::warn!(%peer, attempt = count, "refused: {what}");
        }
        let guard = WaitingRefusal { slow_down: self, key };
        let Ok(_permit) = self.waiting.try_acquire() else { return Refusal::TooMany };
        if waiting > WAITING_OF_ONE {
            return Refusal::TooMany;
        }
        clock::sleep(wait(count)).await;
        drop(guard);
        Refusal::Unauthorized
    }

    /// Records a peer that is rejected at once; returns the count if it is worth a log line.
    pub fn turned_away(&self, peer: IpAddr) -> Option<u64> {
        let key = counted_as(peer);
        let (count, _) = self.note(key, Instant::now());
        drop(WaitingRefusal { slow_down: self, key });
        is_worth_a_line(count).then_some(count)
    }

    fn note(&self, key: IpAddr, now: Instant) -> (u64, u32) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.len() >= MOST_PEERS && !peers.contains_key(&key) {
            peers.retain(|_, failures| {
                failures.waiting > 0 || now.duration_since(failures.last) < FORGOTTEN_AFTER
            });
            if peers.len() >= MOST_PEERS
                && let Some(oldest) =
                    peers.iter().min_by_key(|(_, failures)| failures.last).map(|(key, _)| *key)
            {
                peers.remove(&oldest);
            }
        }
        let failures = peers.entry(key).or_insert(Failures { count: 0, waiting: 0, last: now });
        if now.duration_since(failures.last) >= FORGOTTEN_AFTER {
            failures.count = 0;
        }
        failures.count += 1;
        failures.waiting += 1;
        failures.last = now;
        (failures.count, failures.waiting)
    }
}

/// A waiting refusal; also counts down if the client disconnects.
struct WaitingRefusal<'a> {
    slow_down: &'a Throttle,
    key: IpAddr,
}

impl Drop for WaitingRefusal<'_> {
    fn drop(&mut self) {
        let mut peers = self.slow_down.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failures) = peers.get_mut(&self.key) {
            failures.waiting = failures.waiting.saturating_sub(1);
        }
    }
}

/// A million attempts give 10 lines, then one for each doubling.
fn is_worth_a_line(count: u64) -> bool {
    count <= 10 || count.is_power_of_two()
}

/// Doubles with each failure.
fn wait(count: u64) -> Duration {
    backoff::LOGIN.wait(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_waits_longer_up_to_a_limit() {
        let waits: Vec<u128> = [1, 2, 3, 6, 7, 1_000_000, u64::MAX].map(|n| wait(n).as_millis()).to_vec();
        assert_eq!(waits, [100, 200, 400, 3200, 5000, 5000, 5000]);
    }

    #[test]
    fn a_million_peers_fit_into_bounded_memory_and_the_latest_are_kept() {
        let (slow_down, now) = (Throttle::default(), Instant::now());
        for n in 0..10_000_u32 {
            let peer = IpAddr::V4((0x0a00_0000 + n).into());
            slow_down.note(peer, now + Duration::from_millis(n.into()));
            drop(WaitingRefusal { slow_down: &slow_down, key: peer });
        }
        assert_eq!(slow_down.peers.lock().unwrap().len(), MOST_PEERS);
        let latest = IpAddr::V4((0x0a00_0000_u32 + 9_999).into());
        assert_eq!(slow_down.note(latest, now + Duration::from_secs(20)).0, 2);
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_peer_and_quiet_ones_are_forgotten() {
        let (slow_down, now) = (Throttle::default(), Instant::now());
        let first = counted_as("2001:db8::1".parse().unwrap());
        assert_eq!(first, counted_as("2001:db8::ffff:1".parse().unwrap()));
        assert_ne!(first, counted_as("2001:db8:0:1::1".parse().unwrap()));
        assert_eq!(slow_down.note(first, now).0, 1);
        assert_eq!(slow_down.note(first, now).0, 2);
        assert_eq!(slow_down.note(first, now + FORGOTTEN_AFTER).0, 1);
    }
}
