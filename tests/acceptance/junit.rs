//! `JUnit` XML against its schema, by xmllint.

use std::path::Path;
use std::process::Command;

use crate::support::{Came, Results, Workspace};

#[test]
fn the_file_is_valid() {
    use Came::{Nothing, Skipped, To};
    let every: String = (0..0x3000).chain([0xfffe, 0xffff, 0x1_f600]).filter_map(char::from_u32).collect();
    let workspace = Workspace::new();
    Results::new("<suite> & \"more\"")
        .test("good", &[To(1.0, "yes"), To(0.0, &every)])
        .test("]]> \u{202e}", &[Nothing { retryable: true }, Skipped("well")])
        .test_on("claude", "good", &[To(0.2, "<b>no</b>")])
        .write(&workspace, "now");
    workspace.run(&["report", "now", "--junit", "junit.xml"]).expect(5);
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/reports/junit.xsd");
    let mut xmllint = Command::new("xmllint");
    xmllint.arg("--noout").arg("--schema").arg(schema).arg(workspace.path("junit.xml"));
    let output = xmllint.output().expect("`xmllint` is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
