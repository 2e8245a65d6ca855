//! The docs against the program: what they name exists.

mod commands;
mod generated;
mod language;
mod links;
mod recording;
mod rust_text;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::Workspace;

const COMMANDS: [&str; 15] = [
    "eval", "grade", "clean", "dispatch", "collect", "run", "adapter", "doctor", "report", "bundle",
    "evaluate", "serve", "trigger", "sweep", "sync",
];

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// README.md, CONTRIBUTING.md and the pages of the book.
fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut pages: Vec<PathBuf> =
        docs.chain(["README.md", "CONTRIBUTING.md"].map(|name| root().join(name))).collect();
    pages.sort();
    assert!(pages.len() > 20, "the test no longer sees the pages: {pages:?}");
    pages
}

/// The code blocks: language, the line before it, text.
fn code_blocks(page: &str) -> Vec<(&str, &str, &str)> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("```") {
        let (block, end) = after.split_once("\n```").expect("every block ends");
        let (language, text) = block.split_once('\n').unwrap_or((block, ""));
        found.push((language, before.trim_end().lines().last().unwrap_or_default(), text));
        rest = end;
    }
    found
}

/// Whether a template that users copy has this step, apart from comments.
fn is_step_of_a_template(step: &str) -> bool {
    let without_comments = |text: &str, indent: &str| -> String {
        text.lines().map(|line| format!("{indent}{}\n", line.split(" #").next().unwrap())).collect()
    };
    let step = without_comments(step, "      ");
    let templates = std::fs::read_dir(root().join("workflows")).unwrap();
    templates
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .any(|file| without_comments(&file, "").contains(&step))
}

#[test]
fn options_in_tables_of_the_docs_exist() {
    let workspace = Workspace::new();
    let help = |command: &&str| {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        workspace.run(&words).expect(0).stdout
    };
    let help: String = COMMANDS.iter().map(help).collect();
    let known: BTreeSet<&str> =
        help.lines().filter(|line| line.trim_start().starts_with('-')).flat_map(flags).collect();
    for page in ["reports.md", "reliability.md", "formats.md", "suites.md", "grading.md"] {
        let text = std::fs::read_to_string(root().join("docs").join(page)).unwrap();
        let named: BTreeSet<&str> =
            text.lines().filter(|line| line.starts_with('|')).flat_map(flags).collect();
        let unknown: Vec<_> = named.difference(&known).collect();
        assert!(unknown.is_empty(), "docs/{page} names {unknown:?}, which no command has");
    }
}

#[test]
fn every_page_is_in_the_summary() {
    let summary = include_str!("../../../docs/SUMMARY.md");
    for page in pages() {
        let name = page.file_name().unwrap().to_str().unwrap();
        let is_page = page.parent() == Some(&root().join("docs")) && name != "SUMMARY.md";
        assert!(!is_page || summary.contains(&format!("]({name})")), "docs/SUMMARY.md does not list {name}");
    }
}

#[test]
fn every_example_uses_the_same_model() {
    // The model that `init` writes is the one that all pages, templates, examples, hints and help texts name.
    let workspace = Workspace::new();
    workspace.run(&["init"]).expect(0);
    let targets = workspace.read("targets.yaml");
    let (_, model) = targets.split_once("model: ").expect("`init` writes an example model");
    let example = model.lines().next().unwrap().trim();
    let mut naming = 0;
    for path in examples() {
        let text = std::fs::read_to_string(&path).unwrap();
        // Tests may name any model.
        let text = text.split("#[cfg(test)]").next().unwrap();
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && !"-.".contains(c)) {
            let word = word.trim_end_matches('.');
            let is_model =
                word.strip_prefix("gpt-").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            naming += usize::from(is_model);
            assert!(!is_model || word == example, "{} names `{word}`, not `{example}`", path.display());
        }
    }
    assert!(naming > 10, "the test no longer sees the examples: {naming}");
}

/// What users read or copy: pages, templates, fixtures without recorded answers, and the code of the program.
fn examples() -> Vec<PathBuf> {
    let files = ["docs", "workflows", "fixtures", "src"].map(|dir| walkdir::WalkDir::new(root().join(dir)));
    let files = files.into_iter().flatten().map(Result::unwrap).filter(|entry| entry.file_type().is_file());
    let is_an_example = |path: &PathBuf| {
        let name = path.strip_prefix(root()).unwrap();
        let is_test =
            name.components().any(|part| ["tests", "tests.rs"].iter().any(|test| part.as_os_str() == *test));
        let is_text = path.extension().is_some_and(|end| {
            ["md", "yaml", "yml", "py", "rs", "json", "jsonl", "txt", "html"].iter().any(|text| end == *text)
        });
        is_text && !is_test && !name.starts_with("fixtures/providers")
    };
    let top = ["README.md", "CONTRIBUTING.md", "action.yml"].map(|name| root().join(name));
    files.map(walkdir::DirEntry::into_path).filter(is_an_example).chain(top).collect()
}

/// The long options in a text.
fn flags(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .filter(|word| word.strip_prefix("--").is_some_and(|name| name.starts_with(char::is_alphabetic)))
}

#[test]
fn the_documented_caller_of_the_reusable_workflow_is_the_file_that_users_copy() {
    let page = include_str!("../../../docs/reusable-workflow.md");
    let (_, block) = page.split_once("```yaml\n").unwrap();
    let (block, _) = block.split_once("```\n").unwrap();
    let file = include_str!("../../../workflows/run-evals-caller.yml");
    assert!(
        file.ends_with(&format!("\n{block}")),
        "docs/reusable-workflow.md shows other jobs than the file"
    );
    let runner = include_str!("../../../.github/workflows/runner.yml");
    let (_, declared) = runner.split_once("    secrets:\n").unwrap();
    let (declared, _) = declared.split_once("\npermissions:").unwrap();
    let names = declared.lines().filter_map(|line| line.strip_prefix("      ")?.strip_suffix(':'));
    let names: Vec<&str> = names.filter(|name| !name.starts_with(' ')).collect();
    assert!(names.len() > 3, "the test no longer sees the names: {names:?}");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "docs/reusable-workflow.md does not name `{name}`");
    }
}

#[test]
fn the_first_change_of_the_contributor_guide_can_be_made() {
    let guide = include_str!("../../../CONTRIBUTING.md");
    let (_, step) = guide.split_once("**Change the message.** In `").unwrap();
    let [file, _, old, _, new] = step.split('`').take(5).collect::<Vec<_>>()[..] else { panic!("{step}") };
    let source = std::fs::read_to_string(root().join(file)).unwrap();
    assert!(source.contains(old), "{file} does not contain `{old}`");
    let line = |mark: &str| guide.split_once(mark).unwrap().1.lines().next().unwrap();
    let (before, after) = (line("│-"), line("│+"));
    assert!(include_str!("../init.rs").contains(before), "no snapshot has the line: {before}");
    assert_eq!(before.replace(old, new), after);
}

#[test]
fn the_messages_of_the_troubleshooting_page_exist() {
    let page = std::fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let files = ["src", "tests"].map(|folder| walkdir::WalkDir::new(root().join(folder)));
    let paths = files.into_iter().flatten().map(|entry| entry.unwrap().into_path());
    let sources = paths.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let sources: String = sources.map(|path| joined(&std::fs::read_to_string(path).unwrap())).collect();
    let mut seen = 0;
    for message in page.lines().filter_map(|line| line.strip_prefix("### ")) {
        seen += 1;
        for part in joined(message).split(['…', '(', ',', ')']).map(|part| part.trim_matches([' ', ':'])) {
            assert!(sources.contains(part), "docs/troubleshooting.md: no message has `{part}`: {message}");
        }
    }
    assert!(seen >= 30, "the test no longer sees the messages: {seen}");
}

/// A text with its continued lines joined, and without backticks.
fn joined(text: &str) -> String {
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |all, line| all + line.trim_start()).replace('`', "")
}
