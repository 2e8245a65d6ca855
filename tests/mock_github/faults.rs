//! Faults: what fails, how often, and when.

use std::time::Duration;

use crate::wire::{Fault, FaultState, What, When, Wrong};
use crate::world::World;

/// All faults, in the order of their creation.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    all: Vec<FaultState>,
    last_id: u64,
}

/// How often an external counter is polled.
const LOOK: Duration = Duration::from_millis(5);

impl Faults {
    /// Adds a fault and returns its number.
    pub(crate) fn add(&mut self, fault: Fault) -> u64 {
        self.last_id += 1;
        self.all.push(FaultState { id: self.last_id, fault, struck: 0 });
        self.last_id
    }

    /// Removes this fault, or all.
    pub(crate) fn remove(&mut self, id: Option<u64>) {
        self.all.retain(|state| id.is_some_and(|id| state.id != id));
    }

    /// All, with how often they struck.
    pub(crate) fn all(&self) -> &[FaultState] {
        &self.all
    }

    /// The first matching fault that is not used up; counts it.
    pub(crate) fn strike(&mut self, fits: impl Fn(&What) -> bool) -> Option<What> {
        for state in &mut self.all {
            if state.fault.times == Some(0) || !fits(&state.fault.what) {
                continue;
            }
            if state.fault.skip > 0 {
                state.fault.skip -= 1;
                continue;
            }
            if let Some(times) = &mut state.fault.times {
                *times -= 1;
            }
            state.struck += 1;
            return Some(state.fault.what.clone());
        }
        None
    }

    /// Every matching fault, each counted once.
    pub(crate) fn strike_all(&mut self, fits: impl Fn(&What) -> bool) -> Vec<What> {
        let mut struck = Vec::new();
        for index in 0..self.all.len() {
            let id = self.all[index].id;
            let mut one = Self { all: vec![self.all[index].clone()], last_id: id };
            struck.extend(one.strike(&fits));
            if let Some(state) = one.all.pop() {
                self.all[index] = state;
            }
        }
        struck
    }

    /// The wrong response for a route, if one is due before or after the route does its work.
    pub(crate) fn answer_to(&mut self, called: &str, after_it: bool) -> Option<Wrong> {
        let struck = self.strike(|what| match what {
            What::Answer { route, after, .. } => *after == after_it && is_route(route, called),
            What::AnyAnswer { after, .. } => *after == after_it,
            _ => false,
        });
        match struck {
            Some(What::Answer { answer, .. } | What::AnyAnswer { answer, .. }) => Some(answer),
            _ => None,
        }
    }
}

/// Whether the route of a fault matches the called one.
fn is_route(pattern: &str, called: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => called.starts_with(beginning),
        None => pattern == called,
    }
}

/// Waits for a moment in the life of a run.
pub(crate) async fn moment(world: &World, run: u64, when: &When) {
    match when {
        When::Seconds { seconds } => tokio::time::sleep(Duration::from_secs_f64(*seconds)).await,
        When::Pushes { count } => {
            let (repo, before) = {
                let state = world.lock();
                (state.runs.get(&run).map(|run| run.repo.clone()).unwrap_or_default(), state.pushes.len())
            };
            let is_counted =
                |push: &crate::wire::Push| push.accepted && push.repo.eq_ignore_ascii_case(&repo);
            world
                .until(|state| {
                    state.pushes[before..].iter().filter(|push| is_counted(push)).count() >= *count
                })
                .await;
        }
        When::Artifacts { count } => world.until(|state| state.names_of_artifacts(run).len() >= *count).await,
        When::Counter { url, pointer, at_least } => {
            let client = reqwest::Client::new();
            loop {
                let value: Option<u64> = async {
                    let request = client.get(url).header("user-agent", "mock_github");
                    let body = request.send().await.ok()?.bytes().await.ok()?;
                    serde_json::from_slice::<serde_json::Value>(&body).ok()?.pointer(pointer)?.as_u64()
                }
                .await;
                if value.is_some_and(|value| value >= *at_least) {
                    return;
                }
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &[&str]) -> Faults {
        let mut faults = Faults::default();
        for text in text {
            faults.add(serde_json::from_str(text).unwrap());
        }
        faults
    }

    #[test]
    fn a_fault_skips_strikes_and_is_used_up() {
        let mut faults = faults(&[
            r#"{"kind":"answer","route":"GET /x/*","after":false,"answer":{"answer":"hang"},"times":2,"skip":1}"#,
        ]);
        let mut call = |route: &str| faults.answer_to(route, false).is_some();
        assert_eq!(
            [call("GET /y"), call("GET /x/1"), call("GET /x/1"), call("GET /x/2"), call("GET /x/1")],
            [false, false, true, true, false]
        );
        assert_eq!((faults.all()[0].struck, faults.all()[0].fault.times), (2, Some(0)));
    }

    #[test]
    fn faults_of_one_run_strike_together() {
        let mut faults = faults(&[
            r#"{"kind":"slow_queue","seconds":1.0,"times":1}"#,
            r#"{"kind":"run_cancelled","when":{"after":"pushes","count":1}}"#,
        ]);
        assert_eq!(faults.strike_all(|_| true).len(), 2);
        assert_eq!(faults.strike_all(|_| true).len(), 1);
        faults.remove(Some(2));
        assert!(faults.strike_all(|_| true).is_empty());
    }
}
