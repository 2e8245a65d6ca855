//! The full text of each format for a small suite with replicates and a baseline.

use std::path::Path;

use super::{planets, workspace};
use crate::support::{Came, Results};

/// Earlier results: venus passed both times, pluto was still a test, and saturn was not.
fn before() -> Results {
    use Came::{Nothing, Skipped, To};
    Results::new("planets")
        .test("mercury", &[To(1.0, "Mercury."), To(1.0, "Mercury.")])
        .test("venus", &[To(1.0, "Venus."), To(0.9, "Venus, the second planet.")])
        .test("earth", &[To(0.25, "The moon."), To(0.5, "The earth.")])
        .test("mars", &[To(0.8, "Mars."), Nothing { retryable: false }])
        .test("jupiter", &[Skipped("Jupiter."), Skipped("Jupiter.")])
        .test("pluto", &[To(1.0, "Pluto."), To(1.0, "Pluto.")])
}

/// Compares with a file, or writes it with `INSTA_UPDATE=always`.
fn golden(name: &str, found: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/reports");
    insta::with_settings!({ snapshot_path => folder, prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, found);
    });
}

#[test]
fn every_format_matches_its_golden_file() {
    let workspace = workspace(&planets(), &before());
    let args =
        ["report", "now", "--baseline", "before", "--markdown", "out/report.md", "--json", "out/report.json"];
    let text = workspace.run(&args).expect(5);
    assert_eq!(text.stderr, "");
    golden("terminal", &text.stdout);
    golden("markdown", &workspace.read("out/report.md"));
    golden("json", &workspace.read("out/report.json"));
    let json = workspace.run(&["report", "now", "--baseline", "before", "--format", "json"]).expect(5);
    assert_eq!(json.stdout, workspace.read("out/report.json"), "stdout is the same");
}

#[test]
fn the_same_results_give_the_same_bytes() {
    let workspace = workspace(&planets(), &before());
    let forms = |number: u32| {
        let files = ["html", "junit", "markdown", "json"]
            .map(|form| (format!("--{form}"), format!("{number}/{form}")));
        let mut args = vec!["report", "now", "--baseline", "before"];
        args.extend(files.iter().flat_map(|(option, file)| [option.as_str(), file.as_str()]));
        workspace.run(&args).expect(5);
        files.map(|(_, file)| workspace.read(&file))
    };
    assert_eq!(forms(1), forms(2));
}
