//! LLM graders in a runner repository: a second batch, for one of its own targets.

use super::scores;
use crate::support::stage::{REPO, Stage};

#[test]
fn the_runner_repository_grades_with_its_own_target() {
    let stage = Stage::new();
    // The model echoes the question; the runner's own `judge` always gives the same answer.
    let own = stage.github.git(REPO, &["show", "HEAD:targets.yaml"]);
    let judge = "  - { name: judge, provider: mock, response: '{\"score\": 0.9}' }\n";
    stage.github.put_file(REPO, "targets.yaml", format!("{}\n{judge}", own.trim_end()));
    stage.target("grader_target: judge");
    stage.workspace.write(
        "s.eval.yaml",
        "tests:\n  - { id: a, input: one, criteria: good }\n  - { id: b, input: two, assertions: [{ type: contains, value: two }] }\n",
    );
    let args = ["eval", "s.eval.yaml", "--target", "cloud", "--output", "out", "--batch-id", "b1", "-q"];
    stage.workspace.run(&args).expect(0);
    assert_eq!(
        scores(&stage.workspace),
        [("a".into(), "passed".into(), 0.9), ("b".into(), "passed".into(), 1.0)]
    );
    assert_eq!(stage.starts(), 2);
    let branches = stage.github.git(REPO, &["branch", "--list", "eval-results/*"]);
    assert!(branches.contains("eval-results/b1-g"), "{branches}");
    // Nothing is started again for known grades.
    stage.workspace.run(&args).expect(0);
    assert_eq!(stage.starts(), 2);
}
