//! `--agentv-run`: the grades of `eval`, read by the real AgentV.

use std::process::Command;

use serde_json::Value;

use crate::agentv::agentv;
use crate::agentv_run::{eval, repository, verdicts};
use crate::support::Workspace;

const SUITE: &str = "name: planets
tests:
  - id: right
    input: Jupiter
    criteria: names it
    assertions: [{ type: contains, value: Jupiter }]
  - id: half
    input: Mars
    criteria: names both
    assertions: [{ type: contains, value: Mars }, { type: contains, value: Venus }]
  - id: wrong
    input: Pluto
    criteria: names it
    assertions: [{ type: equals, value: Saturn }]
";

const TARGETS: &str = "targets:
  - { name: here, provider: mock }
  - { name: echo, provider: cli, command: 'cp {PROMPT_FILE} {OUTPUT_FILE}' }
";

/// Runs an AgentV command and returns its output.
fn shown(workspace: &Workspace, args: &[&str]) -> String {
    let mut command = Command::new(agentv());
    let output = workspace.like(&mut command).args(args).env("NO_COLOR", "1").output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{args:?}: {text}");
    text
}

#[test]
fn agentv_reads_the_grades_of_eval() {
    let workspace = repository();
    workspace.write("suite.eval.yaml", SUITE);
    workspace.write("targets.yaml", TARGETS);
    let dir = ".agentv/results/runs/cloud/2026-11-17T10-00-00-000Z";
    workspace.run(&["eval", "suite.eval.yaml", "--target", "here", "--agentv-run", dir]).expect(4);
    let validated = shown(&workspace, &["results", "validate", dir]);
    assert!(validated.contains("Valid run directory: 3 test(s), no issues found"), "{validated}");
    let summary: Value = serde_json::from_str(&shown(&workspace, &["results", "summary", dir])).unwrap();
    assert_eq!(
        (&summary["total"], &summary["passed"], &summary["failed"]),
        (&3.into(), &1.into(), &2.into())
    );
    // AgentV's own run of the same suite gives the same result for each test, and compares the two.
    let own = eval(&workspace, "suite.eval.yaml", "echo", &[]);
    assert_eq!(verdicts(&workspace.rows(&format!("{dir}/index.jsonl"))), verdicts(&own));
    let compared = shown(&workspace, &["compare", "agentv-echo/index.jsonl", &format!("{dir}/index.jsonl")]);
    assert!(compared.contains("3 ties"), "{compared}");
}
