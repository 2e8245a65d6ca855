//! The workflow that evaluates on GitHub-hosted runners.

use std::path::Path;

use serde_json::Value;

#[test]
fn paid_answers_are_kept_however_the_step_ends() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("workflows/evaluate-cloud.yml");
    let workflow: Value = serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let steps = workflow["jobs"]["evaluate"]["steps"].as_array().unwrap();
    let uses = |name: &str| -> &Value {
        let step = |step: &&Value| step["uses"].as_str().is_some_and(|uses| uses.starts_with(name));
        steps.iter().find(step).unwrap_or_else(|| panic!("no step `{name}`"))
    };
    let (evaluate, upload) = (uses("agentv/run-evals@"), uses("actions/upload-artifact@"));
    assert_eq!(upload["if"], "always()");
    let kept = upload["with"]["path"].as_str().unwrap();
    for input in ["output", "state"] {
        let written = evaluate["with"][input].as_str().unwrap_or_else(|| panic!("no `{input}`"));
        assert!(written.starts_with(&format!("{kept}/")), "`{written}` is not in `{kept}`");
        // Artifacts exclude hidden files and folders.
        assert!(!written.split('/').any(|part| part.starts_with('.')), "`{written}` is hidden");
    }
}
