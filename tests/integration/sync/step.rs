//! The progress events of a sync, as the studio gets them.

use std::sync::Mutex;

use run_evals::testing::Env;
use run_evals::testing::{Options, Registry, SyncStep, sync_one};

use super::Bench;

#[test]
fn the_steps_come_in_order_with_their_progress() {
    let bench = Bench::new();
    for file in 0..50 {
        std::fs::write(bench.upstream().join(format!("{file}.txt")), format!("{file}\n")).unwrap();
    }
    bench.commit("README.md", "two\n");
    let env = Env::from([("HOME", bench.workspace.root().to_str().unwrap())]);
    let (registry, warnings) = Registry::find(None, &env).unwrap();
    assert!(warnings.is_empty());
    let steps = Mutex::new(Vec::new());
    let options = Options { allow_local: true, env, ..Options::default() };
    let synced =
        sync_one(registry.get("one").unwrap(), &options, |step| steps.lock().unwrap().push(step)).unwrap();
    assert!(synced.received_bytes > 1000, "{synced:?}");
    let steps = steps.into_inner().unwrap();
    assert_eq!(steps.first(), Some(&SyncStep::Asking));
    assert_eq!(steps.last(), Some(&SyncStep::Done));
    assert!(steps.iter().any(|step| matches!(step, SyncStep::Fetching { percent: 100, .. })), "{steps:?}");
    let checking_out = steps.iter().position(|step| matches!(step, SyncStep::CheckingOut { .. })).unwrap();
    assert!(steps[checking_out..].iter().all(|step| !matches!(step, SyncStep::Fetching { .. })), "{steps:?}");
    assert_eq!(
        serde_json::to_value(SyncStep::Fetching { percent: 7, bytes: 9 }).unwrap(),
        serde_json::json!({"step": "fetching", "percent": 7, "bytes": 9})
    );
}
