//! Forms: which actions are allowed, for which sessions and origins.

use super::scene::Scene;
use super::visitor::Visitor;
use crate::support::until;

/// Headers, or the fields of a form.
type Pairs<'p> = &'p [(&'p str, &'p str)];

const SYNC: &str = "/studio/benchmarks/refunds/sync";

#[test]
fn a_form_of_another_session_or_site_is_rejected_and_has_no_effect() {
    let scene = Scene::new();
    scene.upstream("refunds");
    scene.registry(&[("refunds", "Refunds", true)]);
    let studio = scene.start(&[]);
    let (visitor, other) = (studio.visitor(), studio.visitor());
    let (ours, theirs) = (visitor.csrf(), other.csrf());
    let own = format!("http://{}", studio.address);
    let refused: [(Pairs<'_>, Pairs<'_>); 9] = [
        (&[], &[]),
        (&[], &[("csrf", "")]),
        (&[], &[("csrf", &theirs)]),
        (&[("Sec-Fetch-Site", "cross-site")], &[("csrf", &ours)]),
        (&[("Sec-Fetch-Site", "same-site")], &[("csrf", &ours)]),
        (&[("Origin", "http://evil.example")], &[("csrf", &ours)]),
        (&[("Origin", "null")], &[("csrf", &ours)]),
        (&[("Origin", "http://127.0.0.1:1")], &[("csrf", &ours)]),
        (&[("Origin", &own), ("Sec-Fetch-Site", "cross-site")], &[("csrf", &ours)]),
    ];
    for (headers, fields) in refused {
        for path in [SYNC, "/studio/logout"] {
            visitor.post(path, headers, fields).expect(403);
        }
    }
    assert!(!scene.workspace.path("benchmarks/refunds").exists(), "a refused form has synced");
    // Another site cannot sign users in, either.
    let answer = studio.stranger().post(
        "/studio/login",
        &[("Sec-Fetch-Site", "cross-site")],
        &[("token", super::scene::TOKEN)],
    );
    assert!(answer.expect(403).header("set-cookie").is_none());
    visitor.get(SYNC).expect(405);
    // Without a session, it leads to the sign-in page; with everything right, it works.
    assert_eq!(
        studio.stranger().post(SYNC, &[], &[("csrf", &ours)]).expect(303).header("location"),
        Some("/studio/login")
    );
    let headers = [("Origin", own.as_str()), ("Sec-Fetch-Site", "same-origin")];
    visitor.post(SYNC, &headers, &[("csrf", &ours)]).expect(303);
    until("the clone", || scene.workspace.path("benchmarks/refunds/EVAL.yaml").exists());
}

#[test]
fn malformed_forms_are_rejected() {
    let scene = Scene::new();
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    visitor.post(SYNC, &[], &[("csrf", &"a".repeat(20_000))]).expect(413);
    visitor.send("POST", SYNC, &[("Content-Type", "application/json")], "{}").expect(415);
    let csrf = visitor.csrf();
    for id in ["nothing", "..%2F..%2Fetc", "%00", "%3Cscript%3E"] {
        visitor.post(&format!("/studio/benchmarks/{id}/sync"), &[], &[("csrf", &csrf)]).expect(404);
    }
}

#[test]
fn a_sync_without_javascript_shows_the_new_commit_and_a_failed_one_its_fix() {
    let scene = Scene::new();
    let first = scene.upstream("refunds");
    scene.upstream("contracts");
    scene.registry(&[
        ("refunds", "Refunds", true),
        ("contracts", "Contracts", true),
        ("notes", "Notes", false),
    ]);
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    let page = visitor.get("/studio/benchmarks").expect(200).body;
    assert!(
        page.contains("3 benchmarks, 2 from git") && page.contains("<h2><bdi>Notes</bdi></h2>"),
        "{page}"
    );
    assert_eq!(page.matches("/sync\" data-press>").count(), 2, "only those from git have a button");

    synced(&visitor, "refunds", &first);
    let second = scene.commit("refunds", "second");
    synced(&visitor, "refunds", &second);
    let page = visitor.get("/studio/benchmarks").expect(200).body;
    assert!(page.contains(&format!("Updated from {} to {}", &first[..7], &second[..7])), "{page}");

    visitor.press("/studio/benchmarks/contracts/sync").expect(303);
    until("the clone", || scene.workspace.path("benchmarks/contracts/EVAL.yaml").exists());
    until("its end", || !visitor.get("/studio/benchmarks").body.contains(">Syncing<"));
    scene.workspace.write("benchmarks/contracts/EVAL.yaml", "changed by hand");
    visitor.press("/studio/benchmarks/contracts/sync").expect(303);
    until("the refusal", || visitor.get("/studio/benchmarks").body.contains(">Failed<"));
    let page = visitor.get("/studio/benchmarks").body;
    assert!(page.contains("has local changes: <code>EVAL.yaml</code>"), "{page}");
    assert!(page.contains("run-evals sync contracts --registry ") && page.contains(" --reset"), "{page}");
    assert_eq!(scene.workspace.read("benchmarks/contracts/EVAL.yaml"), "changed by hand");
}

fn synced(visitor: &Visitor, id: &str, commit: &str) {
    let answer = visitor.press(&format!("/studio/benchmarks/{id}/sync")).expect(303);
    assert_eq!(answer.header("location").unwrap(), format!("/studio/benchmarks#b-{id}"));
    until("the new commit", || {
        let page = visitor.get("/studio/benchmarks").expect(200).body;
        page.contains(&format!("data-field=\"commit\">{}<", &commit[..12])) && page.contains(">Synced<")
    });
}
