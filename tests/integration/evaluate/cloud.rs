//! The workflow that evaluates on GitHub's own machines.

use std::path::Path;

use run_evals::config::Document;
use serde_json::Value;

#[test]
fn what_was_paid_for_is_kept_however_the_step_ends() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("workflows/evaluate-cloud.yml");
    let text = std::fs::read_to_string(&path).unwrap();
    let workflow = Document::parse(path, text).unwrap().root.to_json();
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
        // Hidden files and folders are left out of an artifact.
        assert!(!written.split('/').any(|part| part.starts_with('.')), "`{written}` is hidden");
    }
}
