//! Simulates the gate on systems with known quality: its false-alarm rate stays within the level, and it detects real drops.

use crate::model::{ScoreStatus, Trial};
use crate::scoring::compare::is_regression;
use crate::scoring::testing::{scored, trial};

const PAIRS: usize = 200;
const LEVEL: f64 = 0.05;

/// The most false alarms in `PAIRS` runs that a gate of this level has in 99 of 100 simulations.
fn most_false_alarms() -> usize {
    let (mut chance, mut sum) = ((1.0 - LEVEL).powi(200), 0.0);
    for count in 0..PAIRS {
        sum += chance;
        if sum >= 0.99 {
            return count;
        }
        let (k, n) = (u32::try_from(count).unwrap(), u32::try_from(PAIRS).unwrap());
        chance *= f64::from(n - k) / f64::from(k + 1) * LEVEL / (1.0 - LEVEL);
    }
    PAIRS
}

/// How often the gate fails over pairs of runs; each test has its own pass probability, `drop` lower in the second run.
fn failures(
    tests: u32,
    tries: u32,
    drop: f64,
    run: fn(&mut fastrand::Rng, &str, u32, f64) -> Trial,
) -> usize {
    let mut random = fastrand::Rng::with_seed(42);
    let mut failures = 0;
    for _ in 0..PAIRS {
        // As in real suites: most tests are easy, some are flaky.
        let chances: Vec<f64> =
            (0..tests).map(|_| if random.f64() < 0.6 { 0.97 } else { 0.3 + random.f64() * 0.5 }).collect();
        let mut rows = |drop: f64| -> Vec<Trial> {
            let mut rows = Vec::new();
            for (test, chance) in chances.iter().enumerate() {
                for replicate in 1..=tries {
                    rows.push(run(&mut random, &test.to_string(), replicate, chance - drop));
                }
            }
            rows
        };
        let (before, now) = (rows(0.0), rows(drop));
        failures += usize::from(is_regression(&now, &before, LEVEL));
    }
    failures
}

fn pass_or_fail(random: &mut fastrand::Rng, test: &str, replicate: u32, chance: f64) -> Trial {
    let status = if random.f64() < chance { ScoreStatus::Passed } else { ScoreStatus::Failed };
    trial("gpt", test, replicate, status)
}

/// A score around the probability, by several pass/fail graders.
fn graded(random: &mut fastrand::Rng, test: &str, replicate: u32, chance: f64) -> Trial {
    let passed = (0..4).filter(|_| random.f64() < chance).count();
    scored(test, replicate, f64::from(u32::try_from(passed).unwrap()) / 4.0)
}

#[test]
fn equal_systems_fail_no_more_often_than_the_level_allows() {
    let most = most_false_alarms();
    assert_eq!(most, 18);
    for (what, found) in [
        ("300 tests", failures(300, 1, 0.0, pass_or_fail)),
        ("40 tests", failures(40, 1, 0.0, pass_or_fail)),
        ("8 tests", failures(8, 1, 0.0, pass_or_fail)),
        ("60 tests, 3 tries", failures(60, 3, 0.0, pass_or_fail)),
        ("100 graded tests", failures(100, 1, 0.0, graded)),
        ("6 graded tests", failures(6, 1, 0.0, graded)),
    ] {
        assert!(found <= most, "{what}: {found} of {PAIRS} equal pairs fail, at most {most} may");
    }
}

#[test]
fn ten_points_less_over_300_tests_are_seen() {
    for (what, found) in
        [("pass or fail", failures(300, 1, 0.1, pass_or_fail)), ("graded", failures(300, 1, 0.1, graded))]
    {
        assert!(found * 10 >= PAIRS * 9, "{what}: {found} of {PAIRS} are seen");
    }
}
