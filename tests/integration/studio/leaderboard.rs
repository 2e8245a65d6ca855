//! The leaderboard: filters, pages, and the numbers of the file.

use super::scene::Scene;
use super::visitor::between;

#[test]
fn filters_and_pages_are_part_of_the_url() {
    let scene = Scene::new();
    let skills = ["invoices", "letters"].map(ToOwned::to_owned);
    let models: Vec<String> = (0..9).map(|number| format!("meadow/quill-{number}")).collect();
    scene.leaderboard(&skills, &models, 8);
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    let page = visitor.get("/studio/leaderboard").expect(200).body;
    assert!(page.contains("144 entries of 2 skills and 9 models"), "{page}");
    assert_eq!(rows(&page).len(), 18, "the latest of each");
    assert!(!page.contains("class=\"pager\""));

    let all = visitor.get("/studio/leaderboard?entries=all").expect(200).body;
    assert_eq!(rows(&all).len(), 50);
    assert!(all.contains("1–50 of 144") && all.contains("Page 1 of 3"));
    let next = between(&all, "rel=\"next\" href=\"", "#").replace("&amp;", "&");
    assert_eq!(next, "/studio/leaderboard?page=2&entries=all");
    let (second, third) =
        (visitor.get(&next).body, visitor.get("/studio/leaderboard?page=3&entries=all").body);
    assert_eq!((rows(&second).len(), rows(&third).len()), (50, 44));
    for far in ["4", "99999999999999999999", "0", "-1", "x"] {
        assert!(
            !rows(&visitor.get(&format!("/studio/leaderboard?entries=all&page={far}")).expect(200).body)
                .is_empty()
        );
    }

    let one =
        visitor.get("/studio/leaderboard?skill=letters&model=meadow%2Fquill-3&entries=all").expect(200).body;
    assert_eq!(rows(&one), vec!["letters meadow/quill-3"; 8]);
    assert!(
        one.contains("<option value=\"letters\" selected>")
            && one.contains("<option value=\"meadow/quill-3\" selected>")
    );
    let none = visitor.get("/studio/leaderboard?skill=nothing").expect(200).body;
    assert!(none.contains("No entry fits") && rows(&none).is_empty());
    // More models than there are distinct colors: they are named, not drawn.
    let chart = visitor.get("/studio/leaderboard?skill=letters").expect(200).body;
    assert!(chart.contains("Not in the chart: 3 models (choose one above)"), "{chart}");
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

/// The skill and model of each row of the table.
fn rows(page: &str) -> Vec<String> {
    let rows = page.split("<tr data-skill=\"").skip(1);
    rows.map(|row| format!("{} {}", row.split('"').next().unwrap(), between(row, "data-model=\"", "\"")))
        .collect()
}
