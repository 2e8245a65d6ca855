//! The leaderboard of a service: the results of the library's default branch, fetched at most a minute before they are shown.

use super::service::{OURS, Service};
use crate::evaluate::stage::{LIBRARY, SKILL, Stage, git};
use crate::studio::visitor::Visitor;
use crate::support::until;

const MORE: [&str; 2] = ["--report-failures", "none"];

fn signed_in(service: &Service) -> Visitor {
    let mut visitor = Visitor::new(&service.address);
    visitor.sign_in(OURS).expect(303);
    visitor
}

/// A library with a file for each skill.
fn split(stage: &Stage) {
    stage.push(|dir| {
        std::fs::write(dir.join(".evaluator/config.yaml"), "leaderboard: split\ncase_details: true\n")
            .unwrap();
    });
}

#[test]
fn merged_results_appear_without_a_pull() {
    let stage = Stage::new();
    split(&stage);
    let llm = stage.gateway(&[]);
    let service = Service::start(&stage, &MORE);
    let visitor = signed_in(&service);
    let page = visitor.get("/studio/leaderboard").expect(200).body;
    assert!(page.contains("The library has no results yet."), "{page}");
    let main = stage.commit("main");
    assert!(
        page.contains(&format!("Commit <code>{}</code> of <code>main</code>, fetched", &main[..12])),
        "{page}"
    );

    let id = service.accepted(2);
    service.ended(&id, "completed");
    let pulls = stage.github.pulls();
    let changed = stage.github.git(LIBRARY, &["diff", "--name-only", "main", &pulls[0].head]);
    assert!(changed.lines().all(|file| file.starts_with("leaderboard/")), "{changed}");
    assert!(changed.contains(&format!("leaderboard/{SKILL}.json")), "{changed}");
    // Not merged: not shown.
    assert!(visitor.get("/studio/leaderboard").expect(200).body.contains("The library has no results yet."));
    let before = git(&stage.workspace.path("library"), &["rev-parse", "HEAD"]);
    stage.github.git(LIBRARY, &["update-ref", "refs/heads/main", &pulls[0].head]);
    until("the merged results", || {
        visitor.get("/studio/leaderboard").expect(200).body.contains("3 entries of 1 skill and 4 models")
    });
    assert_eq!(
        git(&stage.workspace.path("library"), &["rev-parse", "HEAD"]),
        before,
        "the clone is left alone"
    );
    // Down to the fields of a case.
    let skill = visitor.get(&format!("/studio/leaderboard/skills/{SKILL}/index.html")).expect(200).body;
    assert!(skill.contains("12 cases"), "{skill}");
    let case = visitor
        .get(&format!("/studio/leaderboard/skills/{SKILL}/cases/birch-lab/index.html"))
        .expect(200)
        .body;
    assert!(case.contains("<code>grant_number</code>") && case.contains("something else"), "{case}");
    assert_eq!(llm.counter("ok"), 72);
}

#[test]
fn an_unreachable_library_is_named_and_the_last_results_stay() {
    let stage = Stage::new();
    split(&stage);
    let _llm = stage.gateway(&[]);
    stage.evaluate(&["--replicates", "1", "-q", "--open-pr"]).expect(0);
    let head = stage.github.pulls()[0].head.clone();
    stage.github.git(LIBRARY, &["update-ref", "refs/heads/main", &head]);
    let service = Service::start(&stage, &MORE);
    let visitor = signed_in(&service);
    let page = visitor.get("/studio/leaderboard").expect(200).body;
    assert!(page.contains("3 entries of 1 skill") && !page.contains("out of date"), "{page}");
    let library = stage.workspace.path("library");
    git(&library, &["remote", "set-url", "origin", "http://127.0.0.1:1/meadow/skills.git"]);
    until("the problem", || {
        visitor.get("/studio/leaderboard").expect(200).body.contains("This may be out of date")
    });
    let page = visitor.get("/studio/leaderboard").expect(200).body;
    assert!(page.contains("3 entries of 1 skill"), "{page}");
    // A service that has never reached it shows what is checked out.
    drop(service);
    let service = Service::start(&stage, &MORE);
    let page = signed_in(&service).get("/studio/leaderboard").expect(200).body;
    assert!(page.contains("This is what is checked out here") && page.contains("no results yet"), "{page}");
}
