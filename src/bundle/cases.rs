//! Tests: their attached files and expected outputs.

use super::compiler::Compiler;
use super::files::Area;
use super::tree::{self, get, get_mut, items_mut, parts_mut, set};
use super::workspace::SuiteWorkspace;
use crate::config::{Node, NodeValue, Span, normalized};
use crate::suite::{Part, Reader as _, fill_vars, mentions_vars};

impl Compiler<'_> {
    /// Rewrites a test.
    pub(super) fn case(&mut self, case: &mut Node, suite: &SuiteWorkspace) {
        if case.entries().is_none() {
            return;
        }
        let dialect = self.dialect;
        let keys = dialect.test;
        let vars = keys.get(case, Part::Vars).cloned();
        for files in parts_mut(case, keys, Part::InputFiles) {
            self.input_files(files, vars.as_ref());
        }
        for input in parts_mut(case, keys, Part::Input) {
            self.messages(input, vars.as_ref(), false);
        }
        for expected in parts_mut(case, keys, Part::Expected) {
            self.messages(expected, vars.as_ref(), true);
        }
        for key in keys.names(Part::Workspace) {
            if let Some(mut workspace) = tree::remove(case, key) {
                self.workspace(&mut workspace, Some(suite));
                set(case, key, workspace);
            }
        }
        self.lists(case, keys);
        for execution in parts_mut(case, keys, Part::Execution) {
            self.lists(execution, dialect.execution);
        }
        for turn in parts_mut(case, keys, Part::Turns).filter_map(items_mut).flatten() {
            self.turn(turn);
        }
        if let Some(execution) = keys.get(case, Part::Execution) {
            self.ask_in(execution);
        }
    }

    /// Rewrites the suite's `input`. Its files may depend on variables of the tests.
    pub(super) fn suite_files(&mut self, root: &mut Node, cases: &[Node]) {
        let keys = self.dialect.suite;
        let named = |part| keys.names(part).map(move |key| (part, key));
        for (part, key) in named(Part::Input).chain(named(Part::InputFiles)) {
            let Some(node) = get_mut(root, key) else { continue };
            if !mentions_vars(node) {
                self.shown(part, node, None);
                continue;
            }
            // Each test's variables name their own files, but the text itself must work for all of them.
            let before = node.clone();
            let mut after: Option<Node> = None;
            for case in cases {
                let mut copy = before.clone();
                self.shown(part, &mut copy, self.dialect.test.get(case, Part::Vars));
                match &after {
                    Some(first) if first.to_json() != copy.to_json() => {
                        self.problems.error_with_hint(
                            &before.span,
                            format!(
                                "`{key}` names files in several places, depending on the tests' variables"
                            ),
                            "keep them in one directory, or list them in the tests",
                        );
                        break;
                    }
                    _ => after = Some(copy),
                }
            }
            if let (Some(after), Some(node)) = (after, get_mut(root, key)) {
                *node = after;
            }
        }
    }

    /// Takes along attached files.
    fn shown(&mut self, part: Part, node: &mut Node, vars: Option<&Node>) {
        match part {
            Part::InputFiles => self.input_files(node, vars),
            _ => self.messages(node, vars, false),
        }
    }

    fn input_files(&mut self, node: &mut Node, vars: Option<&Node>) {
        if node.as_str().is_some() && mentions_vars(node) {
            // `input_files: "{{ docs }}"`, a list in the variables.
            match fill_vars(node, vars, &mut self.text, &mut |_, _| {}) {
                Ok(filled) => *node = filled.into_owned(),
                Err(too_large) => {
                    self.problems.error_with_hint(&node.span, too_large.message, too_large.hint);
                }
            }
        }
        let Some(items) = items_mut(node) else { return };
        for item in items {
            self.file(item, vars);
        }
    }

    /// A text, a message, a list of messages or, for the expected output, a list of content.
    fn messages(&mut self, node: &mut Node, vars: Option<&Node>, content_counts: bool) {
        let is_message = |node: &Node| get(node, "role").is_some();
        if is_message(node) {
            self.content(get_mut(node, "content"), vars);
            return;
        }
        let messages = node.items().unwrap_or_default().iter().any(is_message);
        if messages {
            for item in items_mut(node).into_iter().flatten() {
                self.content(get_mut(item, "content"), vars);
            }
        } else if content_counts {
            self.content(Some(node), vars);
        }
    }

    fn content(&mut self, content: Option<&mut Node>, vars: Option<&Node>) {
        let Some(items) = content.and_then(items_mut) else { return };
        for item in items {
            if matches!(tree::get_str(item, "type"), Some("file" | "image"))
                && let Some(value) = get_mut(item, "value")
            {
                self.file(value, vars);
            }
        }
    }

    /// Takes along an attached file.
    fn file(&mut self, node: &mut Node, vars: Option<&Node>) {
        if node.as_str().is_none_or(str::is_empty) {
            return;
        }
        let templated = mentions_vars(node);
        let mut missing = None;
        let mut note = |_: &Span, name: &str| missing = Some(name.to_owned());
        let filled = match fill_vars(node, vars, &mut self.text, &mut note) {
            Ok(filled) => filled.into_owned(),
            Err(too_large) => {
                self.problems.error_with_hint(&node.span, too_large.message, too_large.hint);
                return;
            }
        };
        if let Some(name) = missing {
            self.problems.error_with_hint(
                &node.span,
                format!("the test has no variable `{name}`, which names its file"),
                "add it to `vars`",
            );
            return;
        }
        let Some(text) = self.choice(&filled, "the file") else { return };
        let at = node.span.clone();
        let Some(path) = self.found("attachment", &text, &at) else { return };
        let Some(place) = self.files.add(Area::Data, &path, &at, &mut self.problems) else { return };
        let written = node.as_str().unwrap_or_default();
        let new = if templated && !written.contains("${{") {
            self.prefixed(written, &text, &path).unwrap_or(place)
        } else {
            place
        };
        *node = tree::text(new, &at);
    }

    /// The path of a file whose name contains variables: the same text below the image of its directory.
    fn prefixed(&self, written: &str, text: &str, path: &std::path::Path) -> Option<String> {
        let name = text.trim_start_matches(['/', '\\']);
        let root = self.lookup.roots.iter().find(|root| normalized(&root.join(name)) == path)?;
        let place = self.files.place(Area::Data, root)?;
        Some(format!("{place}/{}", written.trim_start_matches(['/', '\\'])))
    }

    /// A turn of a conversation: AgentV attaches no files to it, and runs its graders in its own working directory.
    fn turn(&mut self, turn: &mut Node) {
        for key in ["input", "expected_output"] {
            if let Some(file) = get(turn, key).and_then(first_file) {
                let at = file.clone();
                self.warn(
                    &at,
                    "AgentV reads no files of a turn: the model gets this as text",
                    "name the file in the `input` of the test",
                );
            }
        }
        if let Some(list) = get_mut(turn, "assertions") {
            self.turn_assertions(list);
        }
    }
}

fn first_file(node: &Node) -> Option<&Span> {
    match &node.value {
        NodeValue::List(items) => items.iter().find_map(first_file),
        NodeValue::Map(entries) => {
            if matches!(tree::get_str(node, "type"), Some("file" | "image")) {
                return Some(&node.span);
            }
            entries.iter().find_map(|(_, value)| first_file(value))
        }
        _ => None,
    }
}
