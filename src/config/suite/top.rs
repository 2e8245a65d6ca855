//! The keys of a suite itself.

use std::path::Path;
use std::sync::Arc;

use super::case::Cases;
use super::files;
use super::grading::SuiteGrading;
use super::input::SuiteInput;
use super::loader::{Loader, key_span};
use super::{execution, refuse, tests_field};
use crate::config::{Document, Fields, Node, Source, Span};
use crate::model::Suite;

const KEYS: [&str; 19] = [
    "name",
    "description",
    "category",
    "version",
    "author",
    "tags",
    "license",
    "requires",
    "metadata",
    "governance",
    "input",
    "input_files",
    "tests",
    "target",
    "execution",
    "assertions",
    "preprocessors",
    "workspace",
    "$schema",
];

/// Keys that change nothing about what is asked, and two old names that AgentV still reads.
const NOT_USED: [&str; 13] = [
    "$schema",
    "description",
    "category",
    "version",
    "author",
    "tags",
    "license",
    "requires",
    "metadata",
    "governance",
    "preprocessors",
    "evaluator",
    "evaluators",
];

/// Old names of `tests`, newest first.
const OLD_TESTS: [&str; 2] = ["eval_cases", "evalcases"];

/// What AgentV reads from the YAML file beside a `.jsonl` suite.
const SIDECAR_KEYS: [&str; 4] = ["name", "description", "execution", "evaluator"];

/// Reads a YAML suite.
pub(super) fn read_yaml(path: &Path, bytes: Vec<u8>, suite: &mut Suite, loader: &mut Loader) {
    let Some(source) = files::text(path, bytes, loader) else { return };
    let Some(root) = parse(source, loader) else { return };
    if let Some(key) = refuse::version_5(&root) {
        return refuse::refuse_version_5(key, loader);
    }
    let Some(mut fields) = root.fields("suite", &mut loader.problems) else { return };
    read_name(&mut fields, suite, loader);
    let of_execution = execution::read_suite(&mut fields, suite, loader);
    let grading = SuiteGrading::read(&mut fields, of_execution, loader);
    refuse::refuse_workspace(&mut fields, loader);
    for key in NOT_USED {
        fields.get(key);
    }
    let input = SuiteInput::read(&mut fields, loader);
    let tests = find_tests(&mut fields, loader);
    loader.warn_unknown(&fields, "a suite", &KEYS);

    let Some(tests) = tests else {
        loader.problems.error_with_hint(
            &Span::of_line(&root.span.source, root.span.line),
            "the suite has no `tests`",
            "`tests` is a list of tests, or the path of a `.yaml` or `.jsonl` file or of a directory",
        );
        return;
    };
    let mut cases = Cases::new(input, grading, suite.replicates, loader);
    tests_field::read(tests, &mut cases);
    suite.tests = cases.finish(&tests.span);
}

/// Reads a `.jsonl` suite and the YAML file beside it, where there is one.
pub(super) fn read_jsonl(path: &Path, bytes: Vec<u8>, suite: &mut Suite, loader: &mut Loader) {
    let Some(source) = files::text(path, bytes, loader).map(Arc::new) else { return };
    let start = Span { source: Arc::clone(&source), line: 1, column: 1, width: 1 };
    let sidecar = path.with_extension("yaml");
    let mut grading = SuiteGrading::default();
    if sidecar.is_file()
        && let Some(text) = files::read_text(&sidecar, &start, loader)
        && let Some(root) = parse(text, loader)
    {
        grading = read_sidecar(&root, suite, loader).unwrap_or_default();
    }
    let mut cases = Cases::new(SuiteInput::default(), grading, suite.replicates, loader);
    tests_field::read_lines(&source, &mut cases);
    suite.tests = cases.finish(&start);
}

fn read_sidecar(root: &Node, suite: &mut Suite, loader: &mut Loader) -> Option<SuiteGrading> {
    let mut fields = root.fields("the settings of a `.jsonl` suite", &mut loader.problems)?;
    read_name(&mut fields, suite, loader);
    let of_execution = execution::read_suite(&mut fields, suite, loader);
    refuse::refuse_workspace(&mut fields, loader);
    for key in ["description", "evaluator"] {
        fields.get(key);
    }
    // `input` or `tests` here look as if they were used, so silence would mislead.
    for key in KEYS.iter().filter(|key| !SIDECAR_KEYS.contains(key) && **key != "$schema") {
        if fields.get(key).is_some() && !matches!(*key, "workspace" | "target") {
            let message = format!("`{key}` is not read from the YAML file beside a `.jsonl` suite");
            let hint = "run the YAML file itself, with `tests` naming the `.jsonl` file".to_owned();
            loader.warn_once(key_span(root, key), message, Some(hint));
        }
    }
    fields.get("$schema");
    loader.warn_unknown(&fields, "the settings of a `.jsonl` suite", &SIDECAR_KEYS);
    Some(SuiteGrading::of_list(of_execution, loader))
}

/// A YAML file with its environment references resolved; what is wrong with it is noted.
pub(super) fn parse(source: Source, loader: &mut Loader) -> Option<Node> {
    match Document::parse(source.path, source.text) {
        Ok(mut document) => {
            loader.interpolate(&mut document.root);
            Some(document.root)
        }
        Err(invalid) => {
            loader.problems.absorb(invalid);
            None
        }
    }
}

fn read_name(fields: &mut Fields, suite: &mut Suite, loader: &mut Loader) {
    let Some(name) = fields.string("name", &mut loader.problems).map(str::trim) else { return };
    if name.is_empty() {
        return;
    }
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.len() > 64 || !name.bytes().all(legal) {
        let span = key_span(fields.node, "name");
        let message = format!("AgentV refuses the name `{name}`");
        let hint = "it accepts up to 64 characters of `a-z`, `0-9` and `-`".to_owned();
        loader.warn_once(span, message, Some(hint));
    }
    name.clone_into(&mut suite.name);
}

fn find_tests<'n>(fields: &mut Fields<'n>, loader: &mut Loader) -> Option<&'n Node> {
    let mut tests = fields.get("tests");
    for old in OLD_TESTS {
        let Some(node) = fields.get(old) else { continue };
        let span = key_span(fields.node, old);
        if tests.is_none() {
            loader.warn_once(span, format!("`{old}` is the old name of `tests`"), None);
            tests = Some(node);
        } else {
            loader.warn_once(span, format!("`{old}` is ignored: the suite has its tests already"), None);
        }
    }
    tests
}
