//! `JUnit` XML read by a real parser: valid against `fixtures/reports/junit.xsd`, and with consistent counts.

use roxmltree::{Document, Node};

use super::{planets, workspace};
use crate::support::{Came, Results};

fn count(node: Node<'_, '_>, name: &str) -> usize {
    node.descendants().filter(|node| node.has_tag_name(name)).count()
}

fn number(node: Node<'_, '_>, name: &str) -> usize {
    node.attribute(name).unwrap_or_else(|| panic!("no `{name}`")).parse().unwrap()
}

#[test]
fn counts_match_the_tests_of_each_target() {
    let other = planets().test_on("claude", "mercury", &[Came::To(0.0, "no")]);
    let workspace = workspace(&other, &planets());
    workspace.run(&["report", "now", "--junit", "junit.xml", "--fail-on", "never"]).expect(0);
    let text = workspace.read("junit.xml");
    let document = Document::parse(&text).unwrap();
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "testsuites");
    assert_eq!((number(root, "tests"), number(root, "failures"), number(root, "errors")), (7, 3, 1));
    let suites: Vec<_> = root.children().filter(Node::is_element).collect();
    assert_eq!(
        suites.iter().map(|suite| suite.attribute("name").unwrap()).collect::<Vec<_>>(),
        ["planets (gpt)", "planets (claude)"]
    );
    for suite in suites {
        assert_eq!(number(suite, "tests"), count(suite, "testcase"));
        assert_eq!(number(suite, "failures"), count(suite, "failure"));
        assert_eq!(number(suite, "errors"), count(suite, "error"));
        assert_eq!(number(suite, "skipped"), count(suite, "skipped"));
    }
    let venus = root.descendants().find(|node| node.attribute("name") == Some("venus")).unwrap();
    assert_eq!(
        (venus.attribute("classname"), venus.attribute("file"), venus.attribute("line")),
        (Some("planets.gpt"), Some("suite.eval.yaml"), Some("11"))
    );
    assert_eq!(venus.attribute("time"), Some("0.700"), "both trials");
    let failure = venus.first_element_child().unwrap();
    assert_eq!(
        failure.attribute("message"),
        Some("1 of 2 trials passed; mentions: does not contain `venus`: \"No idea.\"")
    );
    assert_eq!(failure.text(), Some("1 of 2 trials passed\nscore 0.200, threshold 0.500\nNo idea."));
}

#[test]
fn no_character_breaks_the_file() {
    let every: String = (0..0x3000).chain([0xfffe, 0xffff, 0x1_f600]).filter_map(char::from_u32).collect();
    let results = Results::new("<&\"'>]]>").test("<&\"'>\u{202e}", &[Came::To(0.0, &every)]);
    let workspace = workspace(&results, &results);
    workspace.run(&["report", "now", "--junit", "junit.xml"]).expect(4);
    let text = workspace.read("junit.xml");
    let document = Document::parse(&text).unwrap();
    assert_eq!(count(document.root_element(), "failure"), 1);
    assert_eq!(document.root_element().attribute("name"), Some("<&\"'>]]>"));
}
