//! The leaderboard: the pages of the site, and the file as it changes.

use super::scene::Scene;

#[test]
fn the_pages_are_those_of_the_site() {
    let scene = Scene::new();
    let skills = ["invoices", "letters"].map(ToOwned::to_owned);
    let models: Vec<String> = (0..9).map(|number| format!("meadow/quill-{number}")).collect();
    scene.leaderboard(&skills, &models, 8);
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    let page = visitor.get("/studio/leaderboard").expect(200).body;
    assert!(page.contains("144 entries of 2 skills and 9 models"), "{page}");
    // Every page that can be reached by links exists, and has the numbers of the file.
    let mut known = std::collections::BTreeSet::new();
    let mut next: Vec<String> = vec!["/studio/leaderboard".to_owned()];
    while let Some(path) = next.pop() {
        if !known.insert(path.clone()) {
            continue;
        }
        let page = visitor.get(&path).expect(200);
        if page.header("content-type") == Some("text/html; charset=utf-8") {
            let links =
                page.body.split(" href=\"").skip(1).map(|link| link.split(['"', '#', '?']).next().unwrap());
            next.extend(links.filter(|link| link.starts_with("/studio/leaderboard")).map(ToOwned::to_owned));
        }
    }
    assert!(known.len() > 2 + 9, "{known:?}");
    for page in ["skills/letters/index.html", "skills/invoices/index.html", "leaderboard.json"] {
        assert!(known.contains(&format!("/studio/leaderboard/{page}")), "{page}: {known:?}");
    }
    let to_skill = visitor.get("/studio/leaderboard?skill=letters").expect(303);
    assert_eq!(to_skill.header("location"), Some("/studio/leaderboard/skills/letters/index.html"));
    visitor.get("/studio/leaderboard/skills/nothing/index.html").expect(404);
    visitor.get("/studio/leaderboard/..%2F..%2Fleaderboard.json").expect(404);
}

#[test]
fn the_file_is_reloaded_when_it_changes_and_its_errors_are_shown() {
    let scene = Scene::new();
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    let page = || visitor.get("/studio/leaderboard").expect(200).body;
    assert!(page().contains("No entries yet"));
    scene.leaderboard(&["letters".to_owned()], &["quill".to_owned()], 2);
    assert!(page().contains("2 entries of 1 skill and 1 model"));
    let good = scene.workspace.read("library/leaderboard.json");
    scene.workspace.write("library/leaderboard.json", good.replace("1.1.0", "1.1.1 "));
    let told = page();
    assert!(told.contains("2 entries") || told.contains("The leaderboard cannot be read"), "{told}");
    scene.workspace.write("library/leaderboard.json", good.replace("\"n_correct\": 2", "\"n_correct\": 9"));
    for _ in 0..2 {
        assert!(page().contains("was changed by hand"), "{}", page());
    }
    scene.workspace.write("library/leaderboard.json", &good);
    assert!(page().contains("2 entries of 1 skill and 1 model"));
    std::fs::remove_file(scene.workspace.path("library/leaderboard.json")).unwrap();
    assert!(page().contains("No entries yet"));
}
