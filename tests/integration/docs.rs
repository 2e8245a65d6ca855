//! The docs against the program: what they name exists.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::Workspace;

const COMMANDS: [&str; 15] = [
    "eval", "grade", "clean", "dispatch", "collect", "run", "adapter", "doctor", "report", "bundle",
    "evaluate", "serve", "trigger", "sweep", "sync",
];

#[test]
fn options_named_in_the_readme_tables_exist() {
    let workspace = Workspace::new();
    let help = |command: &&str| {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        workspace.run(&words).expect(0).stdout
    };
    let help: String = COMMANDS.iter().map(help).collect();
    let known: BTreeSet<&str> =
        help.lines().filter(|line| line.trim_start().starts_with('-')).flat_map(flags).collect();
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let named: BTreeSet<&str> = readme.lines().filter(|line| line.starts_with('|')).flat_map(flags).collect();
    assert!(named.len() > 10, "the test no longer sees the options: {named:?}");
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(unknown.is_empty(), "README.md names {unknown:?}, which no command has");
}

/// The long options in a text.
fn flags(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .filter(|word| word.strip_prefix("--").is_some_and(|name| name.starts_with(char::is_alphabetic)))
}

#[test]
fn the_documented_caller_of_the_reusable_workflow_is_the_file_that_users_copy() {
    let page = include_str!("../../docs/reusable-workflow.md");
    let (_, block) = page.split_once("```yaml\n").unwrap();
    let (block, _) = block.split_once("```\n").unwrap();
    let file = include_str!("../../workflows/run-evals-caller.yml");
    assert!(
        file.ends_with(&format!("\n{block}")),
        "docs/reusable-workflow.md shows other jobs than the file"
    );
    let runner = include_str!("../../.github/workflows/runner.yml");
    let (_, declared) = runner.split_once("    secrets:\n").unwrap();
    let (declared, _) = declared.split_once("\npermissions:").unwrap();
    let names = declared.lines().filter_map(|line| line.strip_prefix("      ")?.strip_suffix(':'));
    let names: Vec<&str> = names.filter(|name| !name.starts_with(' ')).collect();
    assert!(names.len() > 3, "the test no longer sees the names: {names:?}");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "docs/reusable-workflow.md does not name `{name}`");
    }
}
