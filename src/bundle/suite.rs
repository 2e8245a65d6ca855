//! Turns a suite into the tree of `eval.yaml`: tests inlined, references rewritten, everything else unchanged.

use std::path::Path;
use std::sync::Arc;

use super::compiler::{Compiler, start_of};
use super::tree::{self, get, get_mut, parts_mut, remove, set};
use crate::config::{Node, NodeValue};
use crate::suite::{Dialect, Format, Keys, Part, Reader as _, Test, Tree, suite_name};

/// AgentV's name of the suite format.
const SCHEMA: &str = "agentv-eval-v2";

/// AgentV's limits for the name of a suite, and for the description of a suite with a name.
const LONGEST_NAME: usize = 64;
const LONGEST_DESCRIPTION: usize = 1024;

impl Compiler<'_> {
    /// Reads the suite and everything it refers to; `None` if that is not possible.
    pub(super) fn suite(&mut self, format: Format) -> Option<Node> {
        let path = self.places.suite.clone();
        let name = crate::config::shown(&path, &self.lookup.cwd);
        let at = start_of(crate::config::Source { path: name, text: String::new() });
        let source = self.read(&path, &at)?;
        let Tree { dialect, mut root, tests, .. } = Tree::read(&path, format, source, self)?;
        self.dialect = dialect;
        let mut cases: Vec<Node> = tests.into_iter().map(|test| with_workspace(test, dialect)).collect();
        if self.names_variables_as_version_5(&root, &cases) {
            return None;
        }
        if format == Format::Jsonl {
            self.settings_of_lines(&mut root, &mut cases, &path);
        }
        self.has_workspace = dialect.suite.get(&root, Part::Workspace).is_some()
            || cases.iter().any(|case| dialect.test.get(case, Part::Workspace).is_some());
        self.name_suite(&mut root, &path);
        self.targets_of(&root);
        let suite_workspace = self.suite_workspace(&mut root);
        self.suite_files(&mut root, &cases);
        for list in parts_mut(&mut root, dialect.suite, Part::Preprocessors) {
            self.preprocessors(Some(list));
        }
        self.lists(&mut root, dialect.suite);
        for execution in parts_mut(&mut root, dialect.suite, Part::Execution) {
            self.lists(execution, dialect.execution);
            let cache = dialect.execution.get(execution, Part::Cache).and_then(Node::as_str);
            if let Some(path) = cache.filter(|path| Path::new(path).is_absolute()) {
                self.files.leave(path.to_owned(), "the cache of answers is recreated");
            }
        }
        for case in &mut cases {
            self.case(case, &suite_workspace);
        }
        let span = root.span.clone();
        set(&mut root, "tests", Node { value: NodeValue::List(cases), span });
        self.custom_types();
        // AgentV recognizes a suite by its file name or by this key, and `eval.yaml` does not match.
        if get(&root, "$schema").is_none()
            && let Some(entries) = tree::entries_mut(&mut root)
        {
            let key = crate::config::Key { text: "$schema".to_owned(), span: at.clone() };
            entries.insert(0, (key, tree::text(SCHEMA, &at)));
        }
        Some(root)
    }

    /// The assertions in every list of a mapping.
    pub(super) fn lists(&mut self, node: &mut Node, keys: Keys) {
        for list in parts_mut(node, keys, Part::Assertions) {
            self.assertions(list);
        }
    }

    /// A suite without a name is named after its file, which has another name in the bundle.
    fn name_suite(&mut self, root: &mut Node, path: &Path) {
        if get(root, "name").and_then(Node::as_str).is_some_and(|name| !name.trim().is_empty()) {
            return;
        }
        self.unnamed = true;
        let stem = suite_name(path);
        let legal =
            |c: char| if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '-' };
        let name: String = stem.chars().map(legal).take(LONGEST_NAME).collect();
        // With a name, AgentV also checks the description.
        let long = tree::get_str(root, "description").is_some_and(|text| text.len() > LONGEST_DESCRIPTION);
        if !long {
            let at = root.span.clone();
            remove(root, "name");
            if let Some(entries) = tree::entries_mut(root) {
                let key = crate::config::Key { text: "name".to_owned(), span: at.clone() };
                entries.insert(0, (key, tree::text(name, &at)));
            }
        }
    }

    /// Rejects a suite that uses AgentV 5's variable syntax, because it would be bundled incompletely.
    fn names_variables_as_version_5(&mut self, root: &Node, cases: &[Node]) -> bool {
        // A test may have a variable named `env`.
        let keys = self.dialect.test;
        let has_own = |case: &Node| keys.get(case, Part::Vars).is_some_and(|vars| get(vars, "env").is_some());
        let inline = cases.iter().filter(|case| Arc::ptr_eq(&case.span.source, &root.span.source));
        let Some(node) = [root].into_iter().chain(inline).find_map(find_env) else { return false };
        if cases.iter().any(has_own) {
            return false;
        }
        self.problems.error_with_hint(
            &node.span,
            "`{{ env.NAME }}` is AgentV 5's variable syntax: such suites cannot be bundled yet",
            "AgentV 4 writes `${{ NAME }}`",
        );
        true
    }

    /// Makes a YAML suite of a `.jsonl` file and its settings.
    fn settings_of_lines(&mut self, root: &mut Node, cases: &mut [Node], path: &Path) {
        let start = root.span.clone();
        if let Some(entries) = tree::entries_mut(root) {
            entries.retain(|(key, _)| self.dialect.beside_lines.contains(&key.text.as_str()));
        }
        if get(root, "name").is_none() {
            let name = tree::text(suite_name(path), &start);
            let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name.as_str().is_some_and(|name| name.chars().all(legal)) {
                set(root, "name", name);
            }
        }
        let dialect = self.dialect;
        let defaults = dialect
            .suite
            .get(root, Part::Execution)
            .is_some_and(|execution| dialect.execution.get(execution, Part::Assertions).is_some());
        for case in cases {
            own_settings(case, defaults, dialect);
            let told = [("vars", "fills in"), ("assertions", "grades by")];
            for (key, does) in told {
                if get(case, key).is_some() {
                    let span = tree::key_span(case, key);
                    self.warn(
                        &span,
                        format!("in the bundle AgentV {does} `{key}`, which it ignores in a `.jsonl` suite"),
                        "the bundle is a YAML suite",
                    );
                }
            }
        }
    }
}

/// A test with the workspace that AgentV finds next to its file.
fn with_workspace(test: Test, dialect: &Dialect) -> Node {
    let Test { node: mut case, workspace } = test;
    let span = case.span.clone();
    if let Some(dir) = workspace
        && dialect.test.get(&case, Part::Workspace).is_none()
        && let Some(key) = dialect.test.names(Part::Workspace).next()
    {
        let template = tree::text(dir.to_string_lossy(), &span);
        set(&mut case, key, tree::map([("template", template)], &span));
    }
    case
}

/// In a `.jsonl` suite, the settings of a test replace those of the suite, including graders.
fn own_settings(case: &mut Node, defaults: bool, dialect: &Dialect) {
    let Some(execution) = get_mut(case, "execution") else { return };
    let span = execution.span.clone();
    let skips = get(execution, "skip_defaults").is_some_and(|flag| flag.value == NodeValue::Bool(true));
    let graders = ["assertions", "assert"].into_iter().find_map(|list| remove(execution, list));
    if defaults {
        set(execution, "skip_defaults", Node { value: NodeValue::Bool(true), span: span.clone() });
    }
    let Some(NodeValue::List(more)) = graders.filter(|_| !skips).map(|graders| graders.value) else { return };
    let mut keys = dialect.test.names(Part::Assertions).peekable();
    let Some(first) = keys.peek().copied() else { return };
    let key = keys.find(|key| get(case, key).is_some()).unwrap_or(first);
    let mut list = remove(case, key).unwrap_or(Node { value: NodeValue::List(Vec::new()), span });
    if let Some(items) = tree::items_mut(&mut list) {
        items.extend(more);
    }
    set(case, key, list);
}

fn find_env(node: &Node) -> Option<&Node> {
    match &node.value {
        NodeValue::String(text) => {
            let mut rest = text.as_str();
            while let Some(at) = rest.find("{{") {
                let before = rest[..at].ends_with('$');
                rest = &rest[at + 2..];
                if !before && rest.trim_start().starts_with("env.") {
                    return Some(node);
                }
            }
            None
        }
        NodeValue::List(items) => items.iter().find_map(find_env),
        NodeValue::Map(entries) => entries.iter().find_map(|(_, value)| find_env(value)),
        _ => None,
    }
}
