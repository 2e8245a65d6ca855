//! Untrusted text, wherever it can appear: displayed, never interpreted.

use serde_json::json;

use super::scene::{Scene, entry, git, job};
use crate::support::{Came, Results, until};

const EVIL: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{202e}";
const SHOWN: &str =
    "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&gt;&lt;img src=x onerror=alert(1)&gt;\\u{202e}";

fn inert(page: &str, times: usize, what: &str) {
    for obeyed in ["<script>", "<img src=x", "\u{202e}"] {
        assert!(!page.contains(obeyed), "{what}: {obeyed} in {page}");
    }
    assert!(page.matches(SHOWN).count() >= times, "{what}: not shown in {page}");
}

#[test]
fn names_and_reasons_are_escaped() {
    let scene = Scene::new();
    let missing = scene.workspace.path("up/<img src=x onerror=alert(1)>");
    scene.workspace.write(
        "benchmarks.yaml",
        json!({"benchmarks": [{
            "id": "evil", "name": EVIL, "path": scene.workspace.path("benchmarks/<img src=x>"),
            "source": {"url": missing, "ref": "main"},
        }]})
        .to_string(),
    );
    scene.jobs(&[
        job(1, "letters", &json!({"state": "failed", "reason": format!("{EVIL}\nsecond line `{EVIL}`")})),
        job(
            2,
            "letters",
            &json!({
                "state": "completed", "pull_request": "javascript:alert(1)", "warnings": [EVIL],
                "summary": {"models": [{"model": EVIL, "accuracy": 0.5}], "note": EVIL},
            }),
        ),
    ]);
    let library = scene.workspace.path("library");
    std::fs::create_dir_all(&library).unwrap();
    git(&library, &["init", "--quiet", "."]);
    let mut board = run_evals::testing::Leaderboard::empty();
    board.insert(serde_json::from_value(entry("letters", EVIL, &"a".repeat(40), EVIL, 300)).unwrap());
    scene.workspace.write("library/leaderboard.json", board.to_bytes());
    Results::new(EVIL).test(EVIL, &[Came::To(1.0, EVIL)]).write(&scene.workspace, "runs/a <img src=x> & b");

    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    visitor.press("/studio/benchmarks/evil/sync").expect(303);
    until("the failure", || visitor.get("/studio/benchmarks").body.contains(">Failed<"));
    inert(&visitor.get("/studio/benchmarks").body, 2, "benchmarks");
    inert(&visitor.get("/studio/jobs").body, 1, "jobs");
    inert(&visitor.get("/studio/jobs/job-20261117t120001z-00000001").body, 2, "a failed job");
    let page = visitor.get("/studio/jobs/job-20261117t120002z-00000002").body;
    inert(&page, 2, "a completed job");
    assert!(!page.contains("href=\"javascript:"), "{page}");
    let encoded: String = EVIL.bytes().map(|byte| format!("%{byte:02X}")).collect();
    // The model registry escapes such characters before they get here.
    let page = visitor.get("/studio/leaderboard/skills/letters/index.html").expect(200).body;
    inert(&page, 1, "leaderboard");
    inert(&visitor.get(&format!("/studio/leaderboard?skill={encoded}")).expect(200).body, 0, "no such skill");
    inert(&visitor.get(&format!("/studio/leaderboard/{encoded}")).expect(404).body, 0, "no such page");
    let page = visitor.get("/studio/runs").body;
    inert(&page, 1, "runs");
    let path = super::visitor::between(&page, "class=\"name\" href=\"", "\"");
    let page = visitor.get(path).expect(200).body;
    inert(&page, 1, "a run");
    let report =
        visitor.get(super::visitor::between(&page, "class=\"report\" src=\"", "\"")).expect(200).body;
    assert!(!report.contains("<img src=x") && !report.contains("<script>alert"), "{report}");
    inert(&visitor.get("/studio/%3Cscript%3Ealert(1)%3C/script%3E").expect(404).body, 0, "missing");
    inert(&visitor.get("/studio/jobs/%3Cscript%3E").expect(404).body, 0, "no job");
    inert(&studio.stranger().get("/studio/login?next=%22%3E%3Cscript%3E").expect(200).body, 0, "the door");
    // The script gets JSON, which no browser renders as a page.
    let live = visitor.get("/studio/live/benchmarks").expect(200);
    assert_eq!(live.header("content-type"), Some("application/json"));
}

#[test]
fn credentials_of_a_registry_are_not_shown() {
    let scene = Scene::new();
    scene.workspace.write(
        "benchmarks.yaml",
        "benchmarks:\n  - id: refunds\n    path: benchmarks/refunds\n    source: { url: 'https://ann:s3cr3t@127.0.0.1:9/x.git' }\n",
    );
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    for _ in 0..2 {
        let page = visitor.get("/studio/benchmarks").expect(200).body;
        assert!(!page.contains("s3cr3t"), "{page}");
        assert!(page.contains("The registry cannot be read"), "{page}");
        assert!(!visitor.get("/studio/live/benchmarks").expect(200).body.contains("s3cr3t"));
    }
    assert!(!studio.stderr().contains("s3cr3t"));
}
