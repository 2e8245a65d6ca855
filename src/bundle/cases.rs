//! Tests: the files that they show to a model, and what they expect.

use super::compiler::Compiler;
use super::files::Area;
use super::tree::{self, get, get_mut, items_mut, set};
use super::workspace::SuiteWorkspace;
use crate::config::{Node, NodeValue, fill_vars, mentions_vars, normalized};

impl Compiler<'_> {
    /// Rewrites a test.
    pub(super) fn case(&mut self, case: &mut Node, suite: &SuiteWorkspace) {
        if case.entries().is_none() {
            return;
        }
        let vars = get(case, "vars").cloned();
        if let Some(files) = get_mut(case, "input_files") {
            self.input_files(files, vars.as_ref());
        }
        if let Some(input) = get_mut(case, "input") {
            self.messages(input, vars.as_ref(), false);
        }
        if let Some(expected) = get_mut(case, "expected_output") {
            self.messages(expected, vars.as_ref(), true);
        }
        if let Some(mut workspace) = tree::remove(case, "workspace") {
            self.workspace(&mut workspace, Some(suite));
            set(case, "workspace", workspace);
        }
        self.lists(case);
        if let Some(execution) = get_mut(case, "execution") {
            self.lists(execution);
        }
        if let Some(turns) = get_mut(case, "turns").and_then(items_mut) {
            for turn in turns {
                self.turn(turn);
            }
        }
        if let Some(execution) = get(case, "execution").cloned() {
            self.ask_in(&execution);
        }
    }

    /// Rewrites what every test begins with. Its files may be named by variables of the tests.
    pub(super) fn suite_files(&mut self, root: &mut Node, cases: &[Node]) {
        for key in ["input", "input_files"] {
            let Some(node) = get_mut(root, key) else { continue };
            if !mentions_vars(node) {
                match key {
                    "input" => self.messages(node, None, false),
                    _ => self.input_files(node, None),
                }
                continue;
            }
            // Each test's variables name their own files; the text itself must suit them all.
            let before = node.clone();
            let mut after: Option<Node> = None;
            for case in cases {
                let mut copy = before.clone();
                let vars = get(case, "vars").cloned();
                match key {
                    "input" => self.messages(&mut copy, vars.as_ref(), false),
                    _ => self.input_files(&mut copy, vars.as_ref()),
                }
                match &after {
                    Some(first) if first.to_json() != copy.to_json() => {
                        self.problems.error_with_hint(
                            &before.span,
                            format!("`{key}` names files that lie in several places, by the variables of the tests"),
                            "keep them in one directory, or name them in the tests",
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

    fn input_files(&mut self, node: &mut Node, vars: Option<&Node>) {
        if node.as_str().is_some() && mentions_vars(node) {
            // `input_files: "{{ docs }}"`, a list in the variables.
            *node = fill_vars(node, vars, &mut |_, _| {}).into_owned();
        }
        let Some(items) = items_mut(node) else { return };
        for item in items {
            self.file(item, vars);
        }
    }

    /// A text, a message, a list of messages or, for what is expected, a list of content.
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

    /// Takes a file along that a model is shown.
    fn file(&mut self, node: &mut Node, vars: Option<&Node>) {
        if node.as_str().is_none_or(str::is_empty) {
            return;
        }
        let templated = mentions_vars(node);
        let mut missing = None;
        let filled = if templated {
            fill_vars(node, vars, &mut |_, name| missing = Some(name.to_owned())).into_owned()
        } else {
            node.clone()
        };
        if let Some(name) = missing {
            self.problems.error_with_hint(
                &node.span,
                format!("the test has no variable `{name}`, which names its file"),
                "add it to `vars`",
            );
            return;
        }
        let Some(text) = self.chosen_text(&filled, "the file") else { return };
        let at = node.span.clone();
        let Some(path) = self.found(&text, &at) else { return };
        let Some(place) = self.files.add(Area::Data, &path, &at, &mut self.problems) else { return };
        let written = node.as_str().unwrap_or_default();
        let new = if templated && !written.contains("${{") {
            self.prefixed(written, &text, &path).unwrap_or(place)
        } else {
            place
        };
        *node = tree::text(new, &at);
    }

    /// The place of a file whose name has variables in it: the same text below the image of the directory that it is in.
    fn prefixed(&self, written: &str, text: &str, path: &std::path::Path) -> Option<String> {
        let name = text.trim_start_matches(['/', '\\']);
        let root = self.roots.iter().find(|root| normalized(&root.join(name)) == path)?;
        let place = self.files.place(Area::Data, root)?;
        Some(format!("{place}/{}", written.trim_start_matches(['/', '\\'])))
    }

    /// A turn of a conversation: AgentV reads no files for it, and runs its graders where it was started.
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

fn first_file(node: &Node) -> Option<&crate::config::Span> {
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
