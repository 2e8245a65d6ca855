//! The screens with no content, with a lot of it, and with broken content.

use clap::Parser as _;
use run_evals::testing::Cli;
use serde_json::json;

use super::scene::{Scene, git, job};
use crate::support::{Came, Results};

#[test]
fn empty_screens_say_what_to_do_next() {
    let scene = Scene::new();
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    for (screen, words) in [
        ("benchmarks", "No benchmarks yet"),
        ("jobs", "run-evals serve --library DIR --targets FILE"),
        ("leaderboard", "run-evals evaluate SKILL --open-pr"),
        ("runs", "run-evals eval suite.eval.yaml"),
    ] {
        let page = visitor.get(&format!("/studio/{screen}")).expect(200).body;
        assert!(page.contains(words), "{screen}: {page}");
        // The advised command line is valid.
        if words.starts_with("run-evals ") {
            Cli::try_parse_from(words.replace("SKILL", "summarize").split_whitespace()).unwrap();
        }
    }
    std::fs::remove_file(scene.workspace.path("benchmarks.yaml")).unwrap();
    let bare = super::scene::Studio::spawn(
        &scene.workspace,
        &["serve", "--studio", "--listen", "127.0.0.1:0", "--auth-token-file", "tokens", "--state", "other"],
    );
    let visitor = bare.visitor();
    for (screen, words) in
        [("benchmarks", "no registry at"), ("leaderboard", "--leaderboard FILE"), ("runs", "--runs DIR")]
    {
        let page = visitor.get(&format!("/studio/{screen}")).expect(200).body;
        assert!(page.contains(words), "{screen}: {page}");
    }
}

#[test]
fn many_benchmarks_are_paginated() {
    let scene = Scene::new();
    scene.upstream("b119");
    let ids: Vec<String> = (0..120).map(|number| format!("b{number}")).collect();
    let all: Vec<(&str, &str, bool)> =
        ids.iter().map(|id| (id.as_str(), "Named alike", id == "b119")).collect();
    scene.registry(&all);
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    for (page, count) in [("", 50), ("?page=2", 50), ("?page=3", 20), ("?page=99", 20), ("?page=x", 50)] {
        let body = visitor.get(&format!("/studio/benchmarks{page}")).expect(200).body;
        assert_eq!(body.matches("<li class=\"card\"").count(), count, "{page}");
        assert!(body.len() < 200_000, "{page}: {} bytes", body.len());
    }
    let answer = visitor.press("/studio/benchmarks/b119/sync").expect(303);
    assert_eq!(answer.header("location"), Some("/studio/benchmarks?page=3#b-b119"));
}

#[test]
fn jobs_are_paginated_and_have_a_page_each() {
    let scene = Scene::new();
    let states = [
        json!({"state": "completed", "summary": {"models": [{"model": "quill", "accuracy": 0.875, "interval": [0.8, 0.925]}]}, "pull_request": "https://github.com/o/r/pull/4", "warnings": ["look `here`"]}),
        json!({"state": "failed", "reason": "no `## Prompt`\nhint: add one"}),
        json!({"state": "running", "progress": {"done": 3, "total": 12}}),
    ];
    let jobs: Vec<_> = (0..60).map(|number| job(number, "letters", &states[number % 3])).collect();
    scene.jobs(&jobs);
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    let first = visitor.get("/studio/jobs").expect(200).body;
    assert!(first.contains("60 jobs, the newest first") && first.contains("Page 1 of 2"), "{first}");
    assert_eq!(first.matches("<li class=\"row\" data-row=\"job-").count(), 50);
    let second = visitor.get("/studio/jobs?page=2").expect(200).body;
    assert_eq!(second.matches("<li class=\"row\" data-row=\"job-").count(), 10);
    assert!(!second.contains("data-live"), "only the first page changes");

    let page = visitor.get("/studio/jobs/job-20261117t120000z-00000000").expect(200).body;
    for words in [
        "Completed",
        "https://github.com/o/r/pull/4",
        "look <code>here</code>",
        "87.5 %",
        "80.0 % to 92.5 %",
        "3 min 5 s",
        "datetime=\"2026-11-17T12:00:00Z\"",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let page = visitor.get("/studio/jobs/job-20261117t120001z-00000001").expect(200).body;
    assert!(page.contains("no <code>## Prompt</code>\nhint: add one"), "{page}");
    // A job that was running when the last service ended was interrupted.
    let live = visitor.get("/studio/live/jobs").expect(200).body;
    let live: serde_json::Value = serde_json::from_str(&live).unwrap();
    let words: Vec<&str> =
        live["rows"].as_array().unwrap().iter().take(3).map(|row| row["word"].as_str().unwrap()).collect();
    assert_eq!(words, ["Interrupted", "Failed", "Completed"]);
}

#[test]
fn runs_come_from_directories_and_branches() {
    let scene = Scene::new();
    let results = |suite: &str| Results::new(suite).test("mars", &[Came::To(1.0, "red")]);
    results("on disk").write(&scene.workspace, "runs/nightly");
    scene.workspace.write("runs/empty/notes.txt", "no results");
    scene.workspace.write("elsewhere/scores.jsonl", "");
    std::os::unix::fs::symlink(scene.workspace.path("elsewhere"), scene.workspace.path("runs/link")).unwrap();
    results("on a branch").write(&scene.workspace, "kept/blessed");
    let root = scene.workspace.root().to_owned();
    git(&root, &["init", "--quiet", "--initial-branch=results", "."]);
    git(&root, &["add", "kept"]);
    git(&root, &["commit", "--quiet", "--message", "Bless"]);
    std::fs::remove_dir_all(scene.workspace.path("kept")).unwrap();
    let studio = scene.start(&["--runs", "results:kept", "--runs", "results:nowhere"]);
    let visitor = studio.visitor();
    let page = visitor.get("/studio/runs").expect(200).body;
    assert!(
        page.contains("2 runs, the newest first")
            && page.contains("on disk")
            && page.contains("results: blessed"),
        "{page}"
    );
    assert!(page.contains("<code>results:nowhere</code> not found in the local repository"), "{page}");
    for (path, title) in [("0~nightly", "on disk"), ("1~blessed", "on a branch")] {
        let page = visitor.get(&format!("/studio/runs/{path}")).expect(200).body;
        assert!(page.contains(&format!("<title>{title} · run-evals studio</title>")), "{path}");
        let report = visitor.get(&format!("/studio/runs/{path}/report")).expect(200).body;
        assert!(report.contains(&format!("<title>{title}</title>")), "{path}");
    }
    scene.workspace.write("runs/nightly/scores.jsonl", "{\"id\": \"torn");
    let page = visitor.get("/studio/runs/0~nightly").expect(200).body;
    assert!(page.contains("No report") && page.contains("scores.jsonl"), "{page}");
}
