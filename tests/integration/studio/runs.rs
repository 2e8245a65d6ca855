//! The runs: filtered, as a trend, and two of them compared. All of them are real runs of `eval`.

use super::scene::Scene;
use super::visitor::Visitor;

const TARGETS: &str = "targets:\n  - { name: echo, provider: mock, response: Capital city }\n  \
                       - { name: parrot, provider: mock, response: Capital of birds }\n";

/// A run of eight tests, of which the first `wrong` fail on each target.
fn run(scene: &Scene, folder: &str, suite: &str, wrong: usize, targets: &[&str]) {
    let test = |number: usize| {
        let expected = if number < wrong { "River" } else { "Capital" };
        format!(
            "  - {{ id: t{number}, criteria: says it, input: Say it, assertions: [{{ type: contains, value: {expected} }}] }}\n"
        )
    };
    let tests: String = (0..8).map(test).collect();
    scene.workspace.write("suite.eval.yaml", format!("name: {suite}\ntests:\n{tests}"));
    scene.workspace.write("targets.yaml", TARGETS);
    let output = format!("runs/{folder}");
    let mut args =
        vec!["eval", "suite.eval.yaml", "--targets", "targets.yaml", "--new", "--output", &output, "-q"];
    args.extend(targets.iter().flat_map(|target| ["--target", target]));
    scene.workspace.run(&args).expect(if wrong == 0 { 0 } else { 4 });
}

/// Three runs of `capitals`, one of `rivers`.
fn four_runs(scene: &Scene) {
    run(scene, "a-first", "capitals", 3, &["echo"]);
    run(scene, "b-second", "capitals", 4, &["echo", "parrot"]);
    run(scene, "c-other", "rivers", 1, &["parrot"]);
    run(scene, "d-third", "capitals", 1, &["echo", "parrot"]);
}

/// The folders that a page lists, in its order.
fn listed(visitor: &Visitor, query: &str) -> Vec<String> {
    let page = visitor.get(&format!("/studio/runs{query}")).expect(200).body;
    let rows = page.split("<li class=\"row run\">").skip(1);
    rows.map(|row| row.split("<code>").nth(1).unwrap().split('<').next().unwrap().to_owned()).collect()
}

#[test]
fn runs_are_filtered_by_suite_name_target_and_result() {
    let scene = Scene::new();
    four_runs(&scene);
    run(&scene, "e-fine", "rivers", 0, &["parrot"]);
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    assert_eq!(listed(&visitor, ""), ["e-fine", "d-third", "c-other", "b-second", "a-first"]);
    assert_eq!(listed(&visitor, "?suite=capitals"), ["d-third", "b-second", "a-first"]);
    assert_eq!(listed(&visitor, "?result=Passed"), ["e-fine"]);
    assert_eq!(listed(&visitor, "?q=PARROT&suite=capitals"), ["d-third", "b-second"]);
    assert_eq!(listed(&visitor, "?q=second"), ["b-second"]);
    let page = visitor.get("/studio/runs?suite=rivers&q=%22%3E%3Cb%3E&result=Nothing").expect(200).body;
    assert!(
        page.contains("No run fits this filter.") && page.contains("value=\"&quot;&gt;&lt;b&gt;\""),
        "{page}"
    );
    assert!(page.contains("href=\"/studio/runs\">Show all runs</a>"), "{page}");
    let page = visitor.get("/studio/runs").expect(200).body;
    assert!(page.contains("<bdi>parrot</bdi> <span>7 of 8 passed, score 0.88</span>"), "{page}");
    assert!(page.contains("href=\"/studio/runs?suite=capitals\""), "{page}");
}

#[test]
fn a_suite_has_a_trend_with_the_numbers_of_its_runs() {
    let scene = Scene::new();
    four_runs(&scene);
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    let page = visitor.get("/studio/runs?suite=capitals").expect(200).body;
    // One line per target: three points of `echo`, two of `parrot`.
    assert_eq!(
        (page.matches("<polyline").count(), page.matches("class=\"point\"").count()),
        (2, 5),
        "{page}"
    );
    for told in [
        "echo, a-first: 5 of 8 (62.5 %)",
        "parrot, b-second: 4 of 8 (50.0 %)",
        "parrot, d-third: 7 of 8 (87.5 %)",
    ] {
        assert!(page.contains(&format!("<title>{told}</title>")), "{told}: {page}");
    }
    for suite in ["?suite=rivers", "", "?suite=unknown"] {
        let page = visitor.get(&format!("/studio/runs{suite}")).expect(200).body;
        assert!(!page.contains("id=\"trend\""), "{suite}: one run is no trend, and two suites are no line");
    }
}

#[test]
fn two_runs_are_compared_and_every_report_leads_back() {
    let scene = Scene::new();
    four_runs(&scene);
    let studio = scene.start(&[]);
    let visitor = studio.visitor();
    // Whatever the order, the older run is the baseline.
    for query in ["run=0~b-second&run=0~d-third", "run=0~d-third&run=0~b-second"] {
        let answer = visitor.get(&format!("/studio/runs/compare?{query}")).expect(303);
        assert_eq!(answer.header("location"), Some("/studio/runs/0~d-third?baseline=0~b-second"));
    }
    let page = visitor.get("/studio/runs/0~d-third?baseline=0~b-second").expect(200).body;
    assert!(page.contains("<td>4 of 8 passed, score 0.50</td><td>7 of 8 passed, score 0.88</td><td class=\"number\">+37.5 points</td>"), "{page}");
    assert!(page.contains("href=\"/studio/runs/0~b-second?baseline=0~d-third\">Swap the runs"), "{page}");
    assert!(page.contains("<p class=\"crumbs\"><a href=\"/studio/runs\">Runs</a>"), "{page}");
    let report = visitor.get("/studio/runs/0~d-third/report?baseline=0~b-second").expect(200).body;
    let alone = visitor.get("/studio/runs/0~d-third/report").expect(200).body;
    assert!(report.contains("b-second") && !alone.contains("b-second"), "{report}");
    let swapped = visitor.get("/studio/runs/0~b-second?baseline=0~d-third").expect(200).body;
    assert!(swapped.contains("−37.5 points"), "{swapped}");
    // A target that one of them lacks.
    let page = visitor.get("/studio/runs/0~b-second?baseline=0~a-first").expect(200).body;
    assert!(
        page.contains("<td>–</td><td>4 of 8 passed, score 0.50</td><td class=\"number\">–</td>"),
        "{page}"
    );
    let page = visitor.get("/studio/runs/0~d-third?baseline=0~c-other").expect(200).body;
    assert!(page.contains("runs of two suites"), "{page}");
    // The page of a run offers the run before it, and the suite.
    let page = visitor.get("/studio/runs/0~d-third").expect(200).body;
    assert!(
        page.contains("href=\"/studio/runs/0~d-third?baseline=0~b-second\">Compare with the run before"),
        "{page}"
    );
    assert!(page.contains("href=\"/studio/runs?suite=capitals\">All runs of"), "{page}");

    for (query, reason) in [
        ("", "select exactly two runs (0 selected)"),
        ("run=0~a-first", "(1 selected)"),
        ("run=0~a-first&run=0~b-second&run=0~c-other", "(3 selected)"),
        ("run=0~a-first&run=0~..", "one of the runs is no longer there"),
    ] {
        let page = visitor.get(&format!("/studio/runs/compare?{query}")).expect(422).body;
        assert!(page.contains("<b>Not compared:</b>") && page.contains(reason), "{query}: {page}");
    }
    for path in
        ["0~d-third?baseline=0~..%2F..", "0~d-third/report?baseline=nothing", "nothing?baseline=0~d-third"]
    {
        visitor.get(&format!("/studio/runs/{path}")).expect(404);
    }
}
