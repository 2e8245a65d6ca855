//! 300 tests, three targets, three trials: what fits a terminal, and what a page shows. `RUN_EVALS_REPORTS=DIR` keeps the files.

use super::{Came, Results, Workspace};

const TARGETS: [&str; 3] = ["gpt-6-luna", "claude-5-sonnet", "gemini-4-flash"];
const TESTS: usize = 300;

fn results() -> Results {
    let topics = ["refund", "shipping", "invoice", "warranty", "login"];
    let mut results = Results::new("support");
    for (place, target) in TARGETS.iter().enumerate() {
        for test in 0..TESTS {
            let trial = |trial: usize| match (test * 7 + trial * 11 + place * 5) % 40 {
                0 => Came::Nothing { retryable: true },
                n if n <= 2 * place + 1 => {
                    Came::To(0.25, "You can send it back whenever you like, we are happy to help.")
                }
                _ => Came::To(1.0, "Within 30 days you can return it: print the label in your account."),
            };
            results =
                results.test_on(target, &format!("{}-{test:03}", topics[test % 5]), &[0, 1, 2].map(trial));
        }
    }
    results
}

fn written() -> Workspace {
    let workspace = Workspace::new();
    results().write(&workspace, "now");
    if let Some(dir) = std::env::var_os("RUN_EVALS_REPORTS") {
        workspace.run(&["report", "now", "--html", "report.html", "--fail-on", "never"]).expect(0);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::copy(workspace.path("report.html"), std::path::Path::new(&dir).join("report.html")).unwrap();
    }
    workspace
}

#[test]
fn every_line_fits_the_terminal() {
    let workspace = written();
    for columns in ["60", "80", "120"] {
        let workspace_args = ["report", "now", "--baseline-target", TARGETS[0]];
        for args in [&workspace_args[..2], &workspace_args] {
            let mut command = workspace.command(args);
            let output = command.env("COLUMNS", columns).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= columns.parse().unwrap(), "{columns} columns, a line has {longest}:\n{text}");
            assert!(text.lines().count() < 80, "{text}");
            for target in TARGETS {
                assert!(text.lines().any(|line| line == target), "tests of every target: {text}");
            }
        }
    }
}

#[test]
fn verbose_lists_every_test_that_did_not_pass() {
    let workspace = written();
    let brief = workspace.run(&["report", "now"]).expect(5).stdout;
    let all = workspace.run(&["report", "now", "-v"]).expect(5).stdout;
    let listed = |text: &str| text.lines().filter(|line| line.starts_with(['✗', '~', '!'])).count();
    assert_eq!(listed(&brief), 18, "{brief}");
    let json = workspace.run(&["report", "now", "--format", "json"]).expect(5).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let count = |name: &str| json["tests"][name].as_u64().unwrap();
    assert_eq!(listed(&all) as u64, count("flaky") + count("failed") + count("errors"));
}

#[test]
fn color_is_for_terminals_unless_asked_for() {
    let workspace = written();
    let colored =
        |args: &[&str]| workspace.run(&[&["report", "now"], args].concat()).stdout.contains('\u{1b}');
    assert!(!colored(&[]) && !colored(&["--color", "never"]) && colored(&["--color", "always"]));
}

#[test]
fn rival_targets_are_never_averaged() {
    let workspace = written();
    workspace.run(&["report", "now", "--html", "r.html", "--json", "r.json", "--fail-on", "never"]).expect(0);
    let json: serde_json::Value = serde_json::from_str(&workspace.read("r.json")).unwrap();
    assert!(json.get("score").is_none() && json.get("pass_rate").is_none(), "{json}");
    let page = workspace.read("r.html");
    let before_tests = &page[..page.find("<h2>Charts</h2>").unwrap()];
    assert!(before_tests.contains("id=\"table\" class=\"several\""), "the matrix comes first");
    for target in TARGETS {
        assert!(before_tests.contains(&format!("<th scope=\"col\">{target}</th>")));
    }
    assert!(!page.contains("class=\"tiles\""));
}
