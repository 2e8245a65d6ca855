//! `report`: results made by hand, in every format.

mod baselines;
mod broken;
mod comments;
mod golden;
mod hostile;
mod junit;
mod large;
mod requests;
mod steps;

use crate::support::{Came, Results, Workspace};

/// Eight tests with every kind of result.
fn planets() -> Results {
    use Came::{Nothing, Skipped, To};
    Results::new("planets")
        .test("mercury", &[To(1.0, "Mercury."), To(1.0, "Mercury!")])
        .test("venus", &[To(1.0, "Venus."), To(0.2, "No idea.")])
        .test("earth", &[To(0.25, "The moon."), To(0.0, "The sun.")])
        .test("mars", &[Nothing { retryable: false }, Nothing { retryable: false }])
        .test("jupiter", &[Skipped("Jupiter."), Skipped("Jupiter.")])
        .test("saturn", &[To(0.75, "Saturn has rings."), To(1.0, "Saturn.")])
}

/// This many tests, of which the first `failed` fail.
fn many(tests: usize, failed: usize) -> Results {
    (0..tests).fold(Results::new("many"), |results, test| {
        let came = if test < failed { Came::To(0.0, "wrong") } else { Came::To(1.0, "right") };
        results.test(&format!("t{test:03}"), &[came])
    })
}

/// A workspace with the results `now` and `before`.
fn workspace(now: &Results, before: &Results) -> Workspace {
    let workspace = Workspace::new();
    now.write(&workspace, "now");
    before.write(&workspace, "before");
    workspace
}
