//! The forms of `tests`, each becoming a list of tests.

use std::path::Path;
use std::sync::Arc;

use super::compiler::Compiler;
use super::tree::{self, get, set};
use crate::config::{
    Node, NodeValue, Source, Span, expand_pattern, is_pattern, normalized, parse_line, shown,
};

const FILE: &str = "file://";

impl Compiler<'_> {
    /// Every test, in the order in which AgentV reads them.
    pub(super) fn expand_tests(&mut self, tests: Node) -> Vec<Node> {
        let span = tests.span.clone();
        match tests.value {
            NodeValue::List(items) => {
                let mut cases = Vec::with_capacity(items.len());
                for item in items {
                    if item.as_str().and_then(|text| text.strip_prefix(FILE)).is_some() {
                        cases.extend(self.referenced(&item));
                    } else {
                        if item.as_str().is_some() {
                            let hint = "a reference to a file begins with `file://`";
                            self.warn(&item.span, "a text is no test: AgentV leaves it out", hint);
                        }
                        cases.push(item);
                    }
                }
                cases
            }
            NodeValue::String(_) => self.referenced(&tests),
            _ => {
                let message = format!("`tests`: expected a list or a path, found {}", tests.kind());
                self.problems.error(&span, message);
                Vec::new()
            }
        }
    }

    /// The tests of a `.jsonl` file.
    pub(super) fn jsonl_cases(&mut self, source: &Arc<Source>) -> Vec<Node> {
        let mut cases = Vec::new();
        for (number, line) in (1..).zip(source.text.split('\n')) {
            match parse_line(source, number, line) {
                Ok(Some(case)) => cases.push(case),
                Ok(None) => {}
                Err((span, message)) => self.problems.error(&span, message),
            }
        }
        cases
    }

    fn referenced(&mut self, node: &Node) -> Vec<Node> {
        let Some(text) = self.chosen_text(node, "`tests`") else { return Vec::new() };
        let at = node.span.clone();
        let name = text.strip_prefix(FILE).unwrap_or(&text);
        let path = normalized(&self.places.dir.join(name));
        if path.is_dir() {
            return self.directory(&path, &at);
        }
        if !is_pattern(name) || path.exists() {
            return self.case_file(&path, &at);
        }
        match expand_pattern(name, &self.places.dir) {
            Ok(files) if files.is_empty() => {
                self.problems.error(&at, format!("no file matches `{name}`"));
                Vec::new()
            }
            Ok(files) => files.iter().flat_map(|file| self.case_file(file, &at)).collect(),
            Err(error) => {
                self.problems.error(&at, format!("cannot use the pattern `{name}`: {error}"));
                Vec::new()
            }
        }
    }

    fn case_file(&mut self, path: &Path, at: &Span) -> Vec<Node> {
        let ending = path.extension().and_then(|end| end.to_str()).unwrap_or_default().to_ascii_lowercase();
        match ending.as_str() {
            "jsonl" => {
                let Some(source) = self.read_text(path, at) else { return Vec::new() };
                self.jsonl_cases(&Arc::new(source))
            }
            "yaml" | "yml" => {
                let Some(root) = self.read_yaml(path, at) else { return Vec::new() };
                match root.value {
                    NodeValue::List(cases) => cases,
                    NodeValue::Null => Vec::new(),
                    _ => {
                        let message = format!("a test file is a list of tests, found {}", root.kind());
                        let hint = "put `- ` before each test, without a `tests:` around them";
                        self.problems.error_with_hint(&root.span, message, hint);
                        Vec::new()
                    }
                }
            }
            _ => {
                let name = shown(path, &self.places.cwd);
                let what = if path.exists() { "unknown format of a test file" } else { "no such file" };
                let hint = "a test file ends in `.yaml`, `.yml` or `.jsonl`";
                self.problems.error_with_hint(at, format!("{what}: `{}`", name.display()), hint);
                Vec::new()
            }
        }
    }

    /// Each directory in it with a `case.yaml` is a test, in the order of their names.
    fn directory(&mut self, dir: &Path, at: &Span) -> Vec<Node> {
        let entries = std::fs::read_dir(dir).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                let name = shown(dir, &self.places.cwd);
                self.problems.error(at, format!("cannot read `{}`: {error}", name.display()));
                return Vec::new();
            }
        };
        entries.retain(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        entries.sort_by_key(std::fs::DirEntry::file_name);
        let mut cases = Vec::new();
        for entry in entries {
            let dir = entry.path();
            let file =
                ["case.yaml", "case.yml"].map(|name| dir.join(name)).into_iter().find(|path| path.is_file());
            let Some(file) = file else { continue };
            let Some(mut case) = self.read_yaml(&file, at) else { continue };
            if case.entries().is_none() {
                self.problems.error(&case.span, format!("a test is a mapping, found {}", case.kind()));
                continue;
            }
            let span = case.span.clone();
            if get(&case, "id").is_none() {
                set(&mut case, "id", tree::text(entry.file_name().to_string_lossy(), &span));
            }
            let workspace = dir.join("workspace");
            if get(&case, "workspace").is_none() && workspace.is_dir() {
                let template = tree::text(workspace.to_string_lossy(), &span);
                set(&mut case, "workspace", tree::map([("template", template)], &span));
            }
            cases.push(case);
        }
        cases
    }
}
