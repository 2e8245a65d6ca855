//! Our scores against those that AgentV gave the same answers, as `tests/acceptance` has recorded them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::Workspace;
use crate::support::grades::{SUITES, is_same, of_ours};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/evals/grading")
}

#[test]
fn scores_are_those_of_agentv() {
    let mut cases = 0;
    for (name, _) in SUITES {
        let workspace = Workspace::new();
        let suite = fixtures().join(format!("{name}.eval.yaml"));
        let output = workspace.run(&["eval", suite.to_str().unwrap(), "--output", "out", "-q"]);
        assert!(matches!(output.code, Some(0 | 4)), "{}", output.stderr);
        let record = std::fs::read_to_string(fixtures().join(format!("{name}.expected.jsonl"))).unwrap();
        let expected: Vec<Value> = record.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let ours: Vec<Value> = workspace.rows("out/scores.jsonl").iter().map(of_ours).collect();
        let ids = |rows: &[Value]| rows.iter().map(|row| row["test_id"].to_string()).collect::<Vec<_>>();
        assert_eq!(ids(&ours), ids(&expected));
        for (ours, expected) in ours.iter().zip(&expected) {
            assert!(is_same(ours, expected), "ours:   {ours}\nAgentV: {expected}");
            cases += 1;
        }
    }
    assert!(cases >= 60, "only {cases} cases");
}
