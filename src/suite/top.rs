//! The top-level keys of a suite.

use std::collections::HashMap;

use super::case::Cases;
use super::dialect::Dialect;
use super::files::Format;
use super::grading::SuiteGrading;
use super::input::SuiteInput;
use super::loader::{Loader, key_span};
use super::tree::{Tree, stop_at_too_many_errors};
use super::{execution, refuse, tools};
use crate::config::{Fields, Node};
use crate::model::{Suite, Tool};

/// Reads a suite from its tree.
pub(super) fn read(format: Format, tree: Tree, suite: &mut Suite, loader: &mut Loader) {
    let Tree { dialect, root, tests_at, tests, is_cut } = tree;
    let settings = match format {
        Format::Yaml => read_settings(&root, dialect, suite, loader),
        Format::Jsonl => read_sidecar(&root, dialect, suite, loader)
            .map(|grading| (SuiteInput::default(), grading, Vec::new())),
    };
    let Some((input, grading, tools)) = settings else { return };
    let bytes = tools::bytes(&tools);
    let tools = (tools, bytes);
    let mut cases =
        Cases { dialect, input, grading, tools, replicates: suite.replicates, ids: HashMap::new() };
    let mut is_full = is_cut;
    for test in tests.into_iter().filter(|test| test.node.entries().is_some()) {
        if is_full {
            break;
        }
        suite.tests.extend(cases.read(&test, loader));
        is_full = stop_at_too_many_errors(&test.node.span, &mut loader.problems) || loader.is_stopped;
    }
    if suite.tests.is_empty() && !loader.problems.has_errors() {
        let hint = match format {
            Format::Yaml => "list them in `tests`, each with `id`, `input` and `assertions`",
            Format::Jsonl => {
                r#"write one test per line: {"id":"greeting","input":"Hello","criteria":"is polite"}"#
            }
        };
        loader.problems.error_with_hint(&tests_at, "the suite has no tests", hint);
    }
}

fn read_settings<'n>(
    root: &'n Node,
    dialect: &Dialect,
    suite: &mut Suite,
    loader: &mut Loader,
) -> Option<(SuiteInput<'n>, SuiteGrading, Vec<Tool>)> {
    let mut fields = root.fields("suite", &mut loader.problems)?;
    read_name(&mut fields, suite, loader);
    let of_execution = execution::read_suite(&mut fields, dialect, suite, loader);
    let grading = SuiteGrading::read(&mut fields, of_execution, loader);
    refuse::refuse_workspace(&mut fields, loader);
    let input = SuiteInput::read(&mut fields, loader);
    let tools = tools::read(&mut fields, loader).unwrap_or_default();
    loader.warn_foreign(root, "a suite", dialect.suite);
    Some((input, grading, tools))
}

fn read_sidecar(
    root: &Node,
    dialect: &Dialect,
    suite: &mut Suite,
    loader: &mut Loader,
) -> Option<SuiteGrading> {
    const WHAT: &str = "the settings of a `.jsonl` suite";
    let mut fields = root.fields(WHAT, &mut loader.problems)?;
    read_name(&mut fields, suite, loader);
    let of_execution = execution::read_suite(&mut fields, dialect, suite, loader);
    refuse::refuse_workspace(&mut fields, loader);
    for (key, value) in root.entries().unwrap_or_default() {
        let name = key.text.as_str();
        if dialect.suite.part(name).is_none() {
            loader.unknown(key, WHAT, dialect.beside_lines);
        } else if !dialect.beside_lines.contains(&name)
            && !matches!(name, "workspace" | "target" | "$schema")
            && !value.is_null()
        {
            // `input` or `tests` here would look as if they had an effect.
            let message = format!("`{name}` is not read from the YAML file beside a `.jsonl` suite");
            let hint = "run the YAML file itself, with `tests` naming the `.jsonl` file".to_owned();
            loader.warn_once(&key.span, message, Some(hint));
        }
    }
    Some(SuiteGrading::of_list(of_execution, loader))
}

fn read_name(fields: &mut Fields, suite: &mut Suite, loader: &mut Loader) {
    let Some(name) = fields.string("name", &mut loader.problems).map(str::trim) else { return };
    if name.is_empty() {
        return;
    }
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.len() > 64 || !name.bytes().all(legal) {
        let span = key_span(fields.node, "name");
        let message = format!("AgentV rejects the name `{name}`");
        let hint = "it accepts up to 64 characters of `a-z`, `0-9` and `-`".to_owned();
        loader.warn_once(span, message, Some(hint));
    }
    name.clone_into(&mut suite.name);
}
