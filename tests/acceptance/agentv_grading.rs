//! The real AgentV grades the same answers: its scores equal the record in `fixtures/evals/grading`, and ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::Workspace;
use crate::support::grades::{SUITES, comparable, is_same, of_ours};

/// The path of AgentV; set by `.ci/acceptance`.
const AGENTV: &str = "RUN_EVALS_AGENTV";
/// With this variable, the record is rewritten instead of compared.
const RECORD: &str = "RUN_EVALS_RECORD";

#[test]
fn agentvs_scores_equal_the_record_and_ours() {
    let agentv = std::env::var(AGENTV).unwrap_or_else(|_| panic!("{AGENTV} names the program `agentv`"));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/evals/grading");
    // Custom assertions run with bun, which is installed beside it.
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", Path::new(&agentv).parent().unwrap().display());
    let mut cases = 0;
    for (name, more) in SUITES {
        let workspace = Workspace::new().env("PATH", &path);
        copy(&fixtures, &workspace.path("suite"));
        let suite = format!("suite/{name}.eval.yaml");
        let ours = workspace.run(&["eval", &suite, "--output", "ours", "-q"]);
        assert!(matches!(ours.code, Some(0 | 4)), "{}", ours.stderr);
        let output = Command::new(&agentv)
            .args(["eval", "run", &suite, "--targets", "suite/agentv/targets.yaml", "--output", "theirs"])
            .args(more)
            .current_dir(workspace.root())
            .env("PATH", &path)
            .env("HOME", workspace.root())
            .env("TZ", "UTC")
            .env("RESPONSES", workspace.path("ours/responses.jsonl"))
            .env("GRADES", workspace.path("suite/grades.jsonl"))
            .env("GRADING_DIR", workspace.path("suite"))
            .output()
            .unwrap();
        let shown =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(workspace.path("theirs/index.jsonl").exists(), "{shown}");
        let theirs: Vec<Value> = workspace.rows("theirs/index.jsonl").iter().map(of_agentv).collect();
        let ours: Vec<Value> = workspace.rows("ours/scores.jsonl").iter().map(of_ours).collect();
        let ordered: Vec<&Value> = ours
            .iter()
            .map(|ours| {
                let same = |row: &&Value| row["test_id"] == ours["test_id"];
                theirs
                    .iter()
                    .find(same)
                    .unwrap_or_else(|| panic!("AgentV leaves {} out:\n{shown}", ours["test_id"]))
            })
            .collect();
        assert_eq!(theirs.len(), ours.len(), "{shown}");
        let record = fixtures.join(format!("{name}.expected.jsonl"));
        if std::env::var_os(RECORD).is_some() {
            std::fs::write(&record, ordered.iter().map(|row| format!("{row}\n")).collect::<String>())
                .unwrap();
        }
        let recorded = std::fs::read_to_string(&record).unwrap();
        let recorded: Vec<Value> = recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for ((ours, theirs), recorded) in ours.iter().zip(&ordered).zip(&recorded) {
            assert!(is_same(ours, theirs), "ours:   {ours}\nAgentV: {theirs}");
            assert_eq!(*theirs, recorded, "AgentV says something else than on record");
            cases += 1;
        }
        assert_eq!(recorded.len(), ours.len());
    }
    eprintln!("{cases} cases, equal scores");
    assert!(cases >= 100);
}

/// A row of AgentV's `index.jsonl`.
fn of_agentv(row: &Value) -> Value {
    let status = match row["execution_status"].as_str().unwrap() {
        "ok" => "passed",
        "quality_failure" => "failed",
        _ => "error",
    };
    comparable(row, status)
}

fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from) {
        let entry = entry.unwrap();
        let path: PathBuf = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(&path).unwrap();
        } else {
            std::fs::copy(entry.path(), &path).unwrap();
        }
    }
}
