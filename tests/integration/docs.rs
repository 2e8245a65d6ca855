//! The documents against the program: what they name exists.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::Workspace;

const COMMANDS: [&str; 10] = [
    "eval",
    "dispatch",
    "collect",
    "run",
    "adapter",
    "targets check",
    "report",
    "bundle",
    "evaluate",
    "serve",
];

#[test]
fn options_that_the_tables_of_the_readme_name_exist() {
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
