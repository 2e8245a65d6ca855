//! Our scores against AgentV's scores for the same answers, as recorded by `tests/acceptance`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::Workspace;
use crate::support::grades::{SUITES, is_same, of_ours};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/evals/grading")
}

/// A `bun` that runs the shell script beside a custom assertion: the scripts of `.agentv` say the same twice, so that nothing but a
/// shell is needed here. `tests/acceptance` runs the real ones with the real bun.
fn with_bun(workspace: Workspace) -> Workspace {
    let bun = workspace.write_program("bin/bun", "#!/bin/sh\n[ \"$1\" = run ] && exec sh \"${2%.*}.sh\"\n");
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", bun.parent().unwrap().display());
    workspace.env("PATH", &path)
}

#[test]
fn scores_match_agentv() {
    let mut cases = 0;
    for (name, _) in SUITES {
        let workspace = with_bun(Workspace::new());
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
    assert!(cases >= 100, "only {cases} cases");
}
