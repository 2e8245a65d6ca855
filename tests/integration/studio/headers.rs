//! Response headers: what a browser may do with the pages, and their size.

use super::scene::{Scene, job};
use crate::support::{Came, Results};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

fn scene() -> Scene {
    let scene = Scene::new();
    scene.upstream("refunds");
    scene.registry(&[("refunds", "Refunds", true)]);
    scene.leaderboard(&["letters".to_owned()], &["quill".to_owned()], 3);
    scene.jobs(&[job(1, "letters", &serde_json::json!({"state": "failed", "reason": "no"}))]);
    Results::new("planets").test("mars", &[Came::To(1.0, "red")]).write(&scene.workspace, "runs/nightly");
    scene
}

#[test]
fn pages_load_nothing_from_other_hosts_and_have_no_inline_code() {
    let scene = scene();
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    let door = studio.stranger().get("/studio/login").expect(200);
    let mut pages = vec![("login", door)];
    for path in [
        "/studio/benchmarks",
        "/studio/jobs",
        "/studio/jobs/job-20261117t120001z-00000001",
        "/studio/leaderboard",
        "/studio/leaderboard/skills/letters/index.html",
        "/studio/runs",
    ] {
        pages.push((path, visitor.get(path).expect(200)));
    }
    pages.push(("missing", visitor.get("/studio/nothing").expect(404)));
    for (path, page) in &pages {
        assert_eq!(page.header("content-security-policy"), Some(POLICY), "{path}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(page.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(page.header("referrer-policy"), Some("same-origin"), "{path}");
        for inline in [" style=", "<style", " onclick", " onload", "javascript:", "http://", "https://"] {
            let of_data = inline.starts_with("http")
                && page.body.matches(inline).count() == page.body.matches(&format!("<bdi>{inline}")).count();
            assert!(of_data || !page.body.contains(inline), "{path}: {inline}");
        }
        assert_eq!(
            page.body.matches("<script").count(),
            page.body.matches("<script src=\"/studio/script-").count(),
            "{path}"
        );
        assert!(
            page.body.contains("<html lang=\"en\">") && page.body.contains(" · run-evals studio</title>"),
            "{path}"
        );
        assert!(page.body.len() < 200_000, "{path}: {} bytes", page.body.len());
    }
    let titles: std::collections::BTreeSet<&str> =
        pages.iter().map(|(_, page)| super::visitor::between(&page.body, "<title>", "</title>")).collect();
    assert_eq!(titles.len(), pages.len(), "{titles:?}");

    let page = &pages[0].1.body;
    for (before, kind) in [
        ("<link rel=\"stylesheet\" href=\"", "text/css; charset=utf-8"),
        ("<script src=\"", "text/javascript; charset=utf-8"),
    ] {
        let file = studio.stranger().get(super::visitor::between(page, before, "\"")).expect(200);
        assert_eq!(file.header("content-type"), Some(kind));
        assert_eq!(file.header("cache-control"), Some("public, max-age=31536000, immutable"));
    }
    assert_eq!(
        studio.stranger().get("/studio/icon.svg").expect(200).header("content-type"),
        Some("image/svg+xml")
    );
}

#[test]
fn the_report_of_a_run_is_sandboxed() {
    let scene = scene();
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    let list = visitor.get("/studio/runs").expect(200).body;
    let path = super::visitor::between(&list, "class=\"name\" href=\"", "\"");
    let page = visitor.get(path).expect(200);
    assert_eq!(page.header("content-security-policy"), Some(format!("{POLICY}; frame-src 'self'").as_str()));
    let framed = super::visitor::between(&page.body, "<iframe class=\"report\" src=\"", "\"");
    assert!(page.body.contains("sandbox=\"allow-scripts allow-downloads"), "{}", page.body);
    let report = visitor.get(framed).expect(200);
    let policy = report.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'sha256-")
            && policy.ends_with("; frame-ancestors 'self'; sandbox allow-scripts allow-downloads allow-popups allow-popups-to-escape-sandbox"),
        "{policy}"
    );
    assert!(report.body.contains("<title>planets</title>") && report.body.contains("mars"));
    for path in [
        "/studio/runs/0~..",
        "/studio/runs/0~..%2Fstate",
        "/studio/runs/1~nightly",
        "/studio/runs/nightly",
        "/studio/runs/0~%00",
    ] {
        visitor.get(path).expect(404);
    }
    studio.stranger().get(path).expect(303);
    studio.stranger().get(framed).expect(303);
    visitor.get("/studio/runs/0~../report").expect(404);
}

#[test]
fn the_studio_can_be_disabled() {
    let scene = scene();
    scene.workspace.write_target("http://127.0.0.1:9/v1", "");
    let args = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--auth-token-file",
        "tokens",
        "--state",
        "other",
        "--library",
        "library",
        "--no-publish",
    ];
    let with = super::scene::Studio::spawn(&scene.workspace, &args);
    let visitor = with.visitor();
    let page = visitor.get("/studio/leaderboard").expect(200).body;
    assert!(page.contains("3 entries of 1 skill and 1 model"), "the library's own leaderboard: {page}");
    assert!(
        visitor.get("/studio/jobs").expect(200).body.contains("Name a skill above, or request an evaluation")
    );
    drop(with);
    let without = super::scene::Studio::spawn(&scene.workspace, &[&args[..], &["--no-studio"]].concat());
    for path in ["/", "/studio", "/studio/login", "/studio/icon.svg"] {
        without.stranger().get(path).expect(404);
    }
    let alone = scene.start(&[]);
    alone
        .stranger()
        .send(
            "POST",
            "/evaluate",
            &[
                ("Authorization", &format!("Bearer {}", super::scene::TOKEN)),
                ("Content-Type", "application/json"),
            ],
            "{\"skill_name\":\"letters\"}",
        )
        .expect(404);
}
