//! `workflows/pages.yml`: the command of its step writes what the next step uploads.

use std::process::Command;

use serde_json::Value;

use crate::evaluate::stage::{LIBRARY, Stage};

/// The arguments that the template gives to the image.
fn arguments() -> Vec<String> {
    let text = include_str!("../../workflows/pages.yml");
    let workflow: Value = serde_yaml::from_str(text).unwrap();
    let steps = workflow["jobs"]["build"]["steps"].as_array().unwrap();
    let script = steps.iter().find_map(|step| step["run"].as_str()).unwrap().replace("\\\n", " ");
    let mut words = script.split_whitespace().map(str::to_owned);
    words.find(|word| word.starts_with("ghcr.io/agentv/run-evals:")).expect("the image");
    words.map(|word| word.replace("\"$GITHUB_REPOSITORY\"", LIBRARY)).collect()
}

#[test]
fn the_union_and_the_pages_are_written_after_a_merge() {
    let stage = Stage::new();
    stage.push(|dir| std::fs::write(dir.join(".evaluator/config.yaml"), "leaderboard: split\n").unwrap());
    std::fs::remove_dir_all(stage.workspace.path("library")).unwrap();
    stage.clone_of(LIBRARY, "library", &[]);
    let _llm = stage.gateway(&[]);
    stage.evaluate(&["--replicates", "1", "-q", "--open-pr"]).expect(0);
    let branch = stage.github.pulls()[0].head.clone();
    stage.github.git(LIBRARY, &["update-ref", "refs/heads/main", &branch]);
    let checkout = stage.clone_of(LIBRARY, "checkout", &[]);
    assert!(!checkout.join("leaderboard.json").exists(), "the union is generated, not committed");

    let output = Command::new(env!("CARGO_BIN_EXE_run-evals"))
        .args(arguments())
        .current_dir(&checkout)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // `actions/upload-pages-artifact` uploads `_site` by default.
    let site = checkout.join("_site");
    let union = std::fs::read_to_string(site.join("leaderboard.json")).unwrap();
    let args = ["leaderboard", "merge", "-q", "checkout/leaderboard"];
    assert_eq!(union, stage.workspace.run(&args).expect(0).stdout);
    let csv = std::fs::read_to_string(site.join("leaderboard.csv")).unwrap();
    let export = ["leaderboard", "export", "--format", "csv", "checkout/leaderboard"];
    assert_eq!(csv, stage.workspace.run(&export).expect(0).stdout, "the download equals the export");
    let skill = std::fs::read_to_string(site.join("skills/grant-letter-extraction/index.html")).unwrap();
    let signatures = format!("https://api.github.com/repos/{LIBRARY}/attestations/sha256:");
    assert_eq!(skill.matches(&signatures).count(), 3, "each entry links by its digest");
    for page in ["index.html", "skills/grant-letter-extraction/index.html", "method/index.html"] {
        assert!(site.join(page).is_file(), "{page}");
    }
}
