//! The benchmarks: the live state against real repositories, the last sync apart from it, and Sync all.

use super::scene::{Scene, git};
use super::visitor::{Visitor, between};
use crate::support::until;

fn card(visitor: &Visitor, id: &str) -> String {
    let page = visitor.get("/studio/benchmarks").expect(200).body;
    between(&page, &format!("data-row=\"{id}\""), "<li class=\"card\"").to_owned()
}

/// A service with five benchmarks from git, and one that ends the list.
fn five() -> (Scene, Vec<String>) {
    let scene = Scene::new();
    let ids: Vec<String> = ["one", "two", "three", "four", "five"].map(str::to_owned).to_vec();
    for id in &ids {
        scene.upstream(id);
    }
    let mut all: Vec<(&str, &str, bool)> = ids.iter().map(|id| (id.as_str(), id.as_str(), true)).collect();
    all.extend([("local", "Local files", false), ("last", "Last", false)]);
    scene.registry(&all);
    (scene, ids)
}

fn sync_all(visitor: &Visitor) {
    assert_eq!(
        visitor.press("/studio/benchmarks/sync").expect(303).header("location"),
        Some("/studio/benchmarks")
    );
    until("the end of all syncs", || {
        let page = visitor.get("/studio/benchmarks").expect(200).body;
        !page.contains(">Syncing<") && page.matches("data-field=\"synced\" datetime").count() == 5
    });
}

#[test]
fn the_live_state_is_shown_apart_from_the_last_sync() {
    let (scene, ids) = five();
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    // The first page after a start has states already.
    let page = visitor.get("/studio/benchmarks").expect(200).body;
    assert_eq!(page.matches(">Out of sync</span>").count(), 5, "{page}");
    assert_eq!(page.matches("Not cloned yet").count(), 5, "{page}");
    sync_all(&visitor);
    for id in &ids {
        assert!(scene.workspace.path(&format!("benchmarks/{id}/EVAL.yaml")).exists());
        let card = card(&visitor, id);
        assert!(card.contains(">Synced<") && card.contains(">Succeeded<"), "{card}");
        assert!(card.contains(">History: 1 sync<") && card.contains("Cloned at "), "{card}");
    }

    // Behind by three commits, with local changes, without its remote, and a failure that is solved elsewhere.
    let old = git(&scene.workspace.path("up/two"), &["rev-parse", "HEAD"]);
    let subjects = ["Add refunds", "Fix <b>amounts</b>", "Rename `totals`\u{202e}"];
    let [_, _, new] = subjects.map(|subject| scene.commit("two", subject));
    scene.workspace.write("benchmarks/three/EVAL.yaml", "mine");
    scene.workspace.write("benchmarks/five/EVAL.yaml", "mine");
    std::fs::rename(scene.workspace.path("up/four"), scene.workspace.path("up/gone")).unwrap();
    until("out of sync", || card(&visitor, "two").contains(">Out of sync<"));
    let two = card(&visitor, "two");
    assert!(two.contains("3 commits behind") && two.contains("3 commits to take over"), "{two}");
    assert!(two.contains(&old[..12]) && two.contains(&new[..12]), "{two}");
    assert!(two.contains(">Succeeded<"), "the last sync is apart from the state: {two}");
    let places: Vec<usize> = [
        "Rename &#39;totals&#39;\\u{202e} (Ann, ",
        "Fix &lt;b&gt;amounts&lt;/b&gt; (Ann, ",
        "Add refunds (Ann, ",
    ]
    .iter()
    .map(|subject| two.rfind(subject).unwrap_or_else(|| panic!("{subject}: {two}")))
    .collect();
    assert!(places.is_sorted(), "the newest first: {two}");
    until("local changes", || card(&visitor, "three").contains(">Local changes<"));
    assert!(card(&visitor, "three").contains("1 changed file"));
    until("unknown", || card(&visitor, "four").contains(">Unknown<"));
    let four = card(&visitor, "four");
    assert!(four.contains(">Not checked:<") && four.contains("no repository found at"), "{four}");

    visitor.press("/studio/benchmarks/five/sync").expect(303);
    until("the failure", || card(&visitor, "five").contains(">Failed<"));
    assert!(card(&visitor, "five").contains("has local changes: <code>EVAL.yaml</code>"));
    git(&scene.workspace.path("benchmarks/five"), &["checkout", "--quiet", "."]);
    until("the solution", || card(&visitor, "five").contains(">Synced<"));
    let five = card(&visitor, "five");
    assert!(five.contains(">Failed, resolved since<") && !five.contains(">Failed<"), "{five}");
    assert!(five.contains("data-field=\"problem\" hidden") && five.contains(">History: 2 syncs<"), "{five}");

    for (state, count) in
        [("synced", 2), ("out-of-sync", 1), ("local-changes", 1), ("unknown", 1), ("local", 2), ("odd", 7)]
    {
        let page = visitor.get(&format!("/studio/benchmarks?state={state}")).expect(200).body;
        assert_eq!(page.matches("<li class=\"card\"").count(), count, "{state}: {page}");
    }
    // The history outlives the service, and has the syncs of the command line.
    drop(studio);
    let workspace = &scene.workspace;
    workspace.run(&["sync", "two", "--registry", "benchmarks.yaml", "--allow-local"]).expect(0);
    let visitor_again = scene.start(&[]);
    let two = card(&visitor_again.visitor(), "two");
    assert!(two.contains(">History: 2 syncs<") && two.contains(">Synced<"), "{two}");
    assert!(two.contains(&format!("Updated from {} to {}", &old[..7], &new[..7])), "{two}");
}

#[test]
fn more_than_twenty_commits_are_counted_and_not_listed() {
    let scene = Scene::new();
    scene.upstream("far");
    scene.registry(&[("far", "Far", true), ("last", "Last", false)]);
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    visitor.press("/studio/benchmarks/far/sync").expect(303);
    until("the clone", || card(&visitor, "far").contains(">Synced<"));
    for number in 0..25 {
        scene.commit("far", &format!("Change {number} {}", "x".repeat(3000)));
    }
    until("out of sync", || card(&visitor, "far").contains(">25 commits to take over<"));
    let far = card(&visitor, "far");
    assert!(far.contains("<li>and 5 more</li>") && far.contains("Change 24 "), "{far}");
    assert!(far.contains("Change 5 ") && !far.contains("Change 4 "), "{far}");
    assert!(far.len() < 20_000, "{}", far.len());
}

#[test]
fn only_a_session_that_may_act_syncs_all() {
    let (scene, _) = five();
    scene.workspace.write_private("readers", "5eefeed05eefeed05eefeed05eefeed0");
    let studio = scene.start(&["--read-only-token-file", "readers"]);
    let visitor = studio.visitor();
    let csrf = visitor.csrf();
    for headers in [[("Sec-Fetch-Site", "cross-site")], [("Origin", "http://evil.example")]] {
        visitor.post("/studio/benchmarks/sync", &headers, &[("csrf", &csrf)]).expect(403);
    }
    visitor.post("/studio/benchmarks/sync", &[], &[("csrf", "no")]).expect(403);
    visitor.get("/studio/benchmarks/sync").expect(405);
    assert_eq!(
        studio.stranger().post("/studio/benchmarks/sync", &[], &[]).expect(303).header("location"),
        Some("/studio/login")
    );
    let mut reader = studio.stranger();
    reader.sign_in("5eefeed05eefeed05eefeed05eefeed0").expect(303);
    reader.post("/studio/benchmarks/sync", &[], &[("csrf", &reader.csrf())]).expect(403);
    let page = reader.get("/studio/benchmarks").expect(200).body;
    assert!(!page.contains("Sync all") && page.contains(">Out of sync<"), "{page}");
    assert!(visitor.get("/studio/benchmarks").body.contains(">Sync all<"));
    assert!(!scene.workspace.path("benchmarks").exists(), "a refused form has synced");
}

#[test]
fn only_web_addresses_are_links() {
    let scene = Scene::new();
    scene.workspace.write(
        "benchmarks.yaml",
        "benchmarks:\n  - { id: web, path: a, source: { url: 'http://127.0.0.1:9/o/r.git' } }\n  - { id: ssh, path: b, source: { url: 'ssh://git@127.0.0.1:9/o/r' } }\n  - { id: scp, path: c, source: { url: 'git@github.com:o/r.git' } }\n",
    );
    let studio = scene.start(&[]);
    let page = studio.visitor().get("/studio/benchmarks").expect(200).body;
    let link = "<a rel=\"noreferrer noopener\" href=\"http://127.0.0.1:9/o/r.git\"><bdi>";
    assert!(page.contains(link) && page.contains("<bdi>ssh://git@127.0.0.1:9/o/r</bdi>"), "{page}");
    assert!(!page.contains("href=\"ssh:"), "{page}");
    // The address of an SSH clone leads to the pages of its host.
    assert!(page.contains("href=\"https://github.com/o/r\"><bdi>git@github.com:o/r.git</bdi>"), "{page}");
}
