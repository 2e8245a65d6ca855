//! What `eval` keeps for reports: the requests, and the file and line of each test.

use crate::support::Workspace;

const SUITE: &str = "\
name: planets
execution:
  targets: [one, two]
  trials: { count: 2, strategy: mean }
tests:
  - id: mars
    criteria: It is red.
    input: Which planet is red?
  - criteria: It has rings.
    id: saturn
    input:
      - role: system
        content: Be short.
      - role: user
        content: Which planet has rings?
    execution:
      targets: [two]
";

const TARGETS: &str = "\
targets:
  - name: one
    provider: mock
    response: Mars.
  - name: two
    provider: mock
    response: <b>Saturn</b>
";

#[test]
fn requests_and_test_locations_are_written_next_to_the_responses() {
    let workspace = Workspace::new();
    workspace.write("evals/planets.eval.yaml", SUITE);
    workspace.write("targets.yaml", TARGETS);
    workspace.run(&["eval", "evals/planets.eval.yaml", "--output", "out", "-q", "--no-grade"]).expect(0);
    let ids = |name: &str| -> Vec<String> {
        workspace.rows(name).iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids("out/responses.jsonl"), ["mars", "mars#2", "mars", "mars#2", "saturn", "saturn#2"]);
    assert_eq!(ids("out/requests.jsonl"), ["mars", "mars#2", "saturn", "saturn#2"], "each id once");
    insta::assert_snapshot!(workspace.read("out/tests.jsonl"), @r#"
    {"id":"mars","file":"evals/planets.eval.yaml","line":6}
    {"id":"saturn","file":"evals/planets.eval.yaml","line":10}
    "#);

    workspace.run(&["report", "out", "--html", "report.html", "--junit", "junit.xml", "-q"]).expect(5);
    let page = workspace.read("report.html");
    for part in
        ["system: Be short.", "Which planet is red?", "evals/planets.eval.yaml:10", "\\u003cb\\u003eSaturn"]
    {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(workspace.read("junit.xml").contains("file=\"evals/planets.eval.yaml\" line=\"6\""));
}
