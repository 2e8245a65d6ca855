//! The public site in a real browser: accessible, within the window, without a request to anywhere, in every look.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::evaluate::stage::{LIBRARY, SKILL, Stage};
use crate::studio_scene::Scene;

const LOOKS: [(u32, &str); 4] = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")];

fn axe() -> String {
    std::fs::read_to_string(std::env::var("RUN_EVALS_AXE").expect("`RUN_EVALS_AXE` names axe.min.js"))
        .unwrap()
}

/// Each look of a page: nothing that axe-core finds, nothing wider than the window, nothing loaded from elsewhere.
fn check(browser: &Browser, axe: &str, site: &Path, page: &str, name: &str) {
    browser.open(&site.join(page));
    browser.until("return document.readyState === 'complete'");
    for (width, scheme) in LOOKS {
        browser.look(width, scheme);
        let wide = browser.script("return document.documentElement.scrollWidth").as_u64().unwrap();
        assert!(wide <= u64::from(width), "{name}, {width} px {scheme}: {wide} px wide");
        browser.evaluate(&format!("if (!window.axe) {{ {axe} }}"));
        let found = browser.script_async(
            "const done = arguments[0]; axe.run(document, {preload: false}).then(({violations}) => done(violations.map((one) => `${one.impact} ${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html).join(' ')}`)), (error) => done([String(error)]))",
        );
        assert_eq!(found, json!([]), "{name}, {width} px {scheme}");
        if let Some(dir) = std::env::var_os("RUN_EVALS_SHOTS").map(PathBuf::from) {
            std::fs::create_dir_all(&dir).unwrap();
            browser.screenshot(&dir.join(format!("{name}-{width}-{scheme}.png")));
        }
    }
    browser.look(1280, "light");
    let loaded = browser.script("return performance.getEntriesByType('resource').map((one) => one.name)");
    let elsewhere = |url: &Value| !url.as_str().unwrap().starts_with("file:///");
    assert!(!loaded.as_array().unwrap().iter().any(elsewhere), "{name}: {loaded}");
    assert_eq!(browser.console(), Vec::<String>::new(), "{name}");
}

#[test]
fn five_thousand_entries_are_accessible_pages() {
    let scene = Scene::new();
    let skills: Vec<String> = (0..50).map(|number| format!("skill-{number:02}")).collect();
    let models: Vec<String> = (0..10).map(|number| format!("meadow/quill-{number}")).collect();
    let entries = scene.leaderboard(&skills, &models, 10);
    assert_eq!(entries["entries"].as_array().unwrap().len(), 5000);
    let start = Instant::now();
    scene.workspace.run(&["leaderboard", "site", "library", "-o", "_site"]).expect(0);
    eprintln!("a site of 5000 entries in {:?}", start.elapsed());
    let (site, axe, browser) = (scene.workspace.path("_site"), axe(), Browser::start());
    let pages = [
        ("index.html", "landing"),
        ("skills/skill-07/index.html", "skill"),
        ("models/meadow-quill-3", "model"),
        ("compare", "compare"),
        ("method/index.html", "method"),
    ];
    for (page, name) in pages {
        check(&browser, &axe, &site, &first_page(&site, page), name);
    }
    // The figures of a cell are reached by keyboard.
    browser.open(&site.join("index.html"));
    let focusable = browser.script("return document.querySelectorAll('.matrix td a[href]').length");
    assert!(focusable.as_u64().unwrap() >= 500, "{focusable}");
}

/// The page itself, or the first one below a path that begins so.
fn first_page(site: &Path, page: &str) -> String {
    if page.contains("index.html") {
        return page.to_owned();
    }
    let mut below: Vec<String> = walkdir::WalkDir::new(site)
        .into_iter()
        .filter_map(|entry| entry.unwrap().path().strip_prefix(site).unwrap().to_str().map(str::to_owned))
        .filter(|path| path.starts_with(page) && path.ends_with("index.html"))
        .collect();
    below.sort();
    below.into_iter().next().unwrap_or_else(|| panic!("no page at {page}"))
}

/// A library whose results were merged: the pages of cases show what the models answered.
#[test]
fn a_merged_evaluation_is_accessible_pages() {
    let stage = Stage::new();
    stage.push(|dir| {
        std::fs::write(dir.join(".evaluator/config.yaml"), "leaderboard: split\ncase_details: true\n")
            .unwrap();
    });
    std::fs::remove_dir_all(stage.workspace.path("library")).unwrap();
    stage.clone_of(LIBRARY, "library", &[]);
    let _llm = stage.gateway(&[]);
    stage.evaluate(&["--replicates", "3", "-q", "--open-pr"]).expect(0);
    let branch = stage.github.pulls()[0].head.clone();
    stage.github.git(LIBRARY, &["update-ref", "refs/heads/main", &branch]);
    stage.clone_of(LIBRARY, "merged", &[]);
    stage
        .workspace
        .run(&["leaderboard", "site", "merged", "-o", "_site", "--title", "Meadow skills"])
        .expect(0);
    let (site, axe, browser) = (stage.workspace.path("_site"), axe(), Browser::start());
    for (page, name) in [
        ("index.html".to_owned(), "merged-landing"),
        (format!("skills/{SKILL}/index.html"), "merged-skill"),
        (format!("skills/{SKILL}/cases/dune-watch/index.html"), "merged-case"),
        (first_page(&site, "compare"), "merged-compare"),
    ] {
        check(&browser, &axe, &site, &page, name);
    }
    let case =
        std::fs::read_to_string(site.join(format!("skills/{SKILL}/cases/dune-watch/index.html"))).unwrap();
    assert!(case.contains("something else"), "the wrong answer of a model is shown");
}
