//! The forms of `tests`: a list, a file, a directory of cases, and `file://` references with patterns.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::case::Cases;
use super::files::{self, Format};
use super::{jsonl, pattern, refuse, top};
use crate::config::{Node, NodeValue, Source, Span};

const FILE: &str = "file://";

/// Reads whatever `tests` says.
pub(super) fn read(tests: &Node, cases: &mut Cases) {
    match &tests.value {
        NodeValue::List(items) => items.iter().for_each(|item| read_item(item, cases)),
        NodeValue::String(text) => match text.strip_prefix(FILE) {
            Some(path) => {
                let message = "AgentV 4 reads `file://` only inside a list".to_owned();
                let hint = if pattern::is_pattern(path) {
                    format!("write `tests: [\"{text}\"]`")
                } else {
                    format!("write `tests: {path}`")
                };
                cases.loader.warn_once(&tests.span, message, Some(hint));
                read_reference(path, &tests.span, cases);
            }
            None => read_path(text, &tests.span, cases),
        },
        _ => cases
            .loader
            .problems
            .error(&tests.span, format!("`tests`: expected a list or a path, found {}", tests.kind())),
    }
}

/// Reads the lines of a `.jsonl` file, each dropped before the next.
pub(super) fn read_lines(source: &Arc<Source>, cases: &mut Cases) {
    for (number, line) in (1..).zip(source.text.split('\n')) {
        if cases.is_full() {
            return;
        }
        match jsonl::parse_line(source, number, line) {
            Ok(Some(mut node)) => {
                cases.loader.interpolate(&mut node);
                cases.push(&node, None);
            }
            Ok(None) => {}
            Err((span, message)) => cases.reject(&span, message),
        }
    }
}

fn read_item(item: &Node, cases: &mut Cases) {
    match item.as_str() {
        None => cases.push(item, None),
        Some(text) => match text.strip_prefix(FILE) {
            Some(path) => read_reference(path, &item.span, cases),
            None => cases.loader.problems.error_with_hint(
                &item.span,
                "a text is no test, so AgentV leaves it out",
                "a reference to a file begins with `file://`",
            ),
        },
    }
}

/// What stands after `file://`: a file or a pattern.
fn read_reference(path: &str, at: &Span, cases: &mut Cases) {
    if !pattern::is_pattern(path) {
        return read_path(path, at, cases);
    }
    match pattern::expand(path, &cases.loader.dir) {
        Ok(files) if files.is_empty() => {
            let dir = cases.loader.shown(&cases.loader.dir);
            let dir = if dir.as_os_str().is_empty() { PathBuf::from(".") } else { dir };
            let hint = format!("it is relative to the suite's directory, `{}`", dir.display());
            cases.loader.problems.error_with_hint(at, format!("no file matches `{path}`"), hint);
        }
        Ok(files) => {
            for file in files {
                read_file(&file, at, cases);
            }
        }
        Err(error) => {
            cases.loader.problems.error(at, format!("cannot use the pattern `{path}`: {error}"));
        }
    }
}

/// A path relative to the suite's directory.
fn read_path(text: &str, at: &Span, cases: &mut Cases) {
    let path = files::normalized(&cases.loader.dir.join(text));
    if path.is_dir() {
        read_directory(&path, at, cases);
    } else if pattern::is_pattern(text) && !path.exists() {
        cases.loader.problems.error_with_hint(
            at,
            format!("`tests`: a pattern stands in a list and begins with `file://`: `{text}`"),
            format!("write `tests: [\"file://{}\"]`", text.trim_start_matches("./")),
        );
    } else {
        read_file(&path, at, cases);
    }
}

fn read_file(path: &Path, at: &Span, cases: &mut Cases) {
    let Some(format) = Format::of(path) else {
        let message = format!("unknown format of a test file: `{}`", cases.loader.shown(path).display());
        let hint = "a test file ends in `.yaml`, `.yml` or `.jsonl`";
        cases.loader.problems.error_with_hint(at, message, hint);
        return;
    };
    let Some(source) = files::read_text(path, at, cases.loader) else { return };
    if source.text.trim().is_empty() {
        let message = format!("`{}` is empty", source.path.display());
        cases.loader.warn_once(at, message, None);
        return;
    }
    match format {
        Format::Jsonl => read_lines(&Arc::new(source), cases),
        Format::Yaml => {
            let Some(root) = top::parse(source, cases.loader) else { return };
            let Some(items) = root.items() else {
                cases.loader.problems.error_with_hint(
                    &root.span,
                    format!("a test file is a list of tests, found {}", root.kind()),
                    "put `- ` before each test, without a `tests:` around them",
                );
                return;
            };
            for item in items {
                cases.push(item, None);
            }
        }
    }
}

/// Each directory in it with a `case.yaml` is a test, in the order of their names.
fn read_directory(dir: &Path, at: &Span, cases: &mut Cases) {
    let shown = |path: &Path, cases: &Cases| cases.loader.shown(path).display().to_string();
    let entries = std::fs::read_dir(dir).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => {
            let message = format!("cannot read `{}`: {error}", shown(dir, cases));
            cases.loader.problems.error(at, message);
            return;
        }
    };
    entries.retain(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let dir = entry.path();
        let case =
            ["case.yaml", "case.yml"].map(|name| dir.join(name)).into_iter().find(|path| path.is_file());
        let Some(case) = case else {
            let message = format!("`{}` has no `case.yaml`: it is no test", shown(&dir, cases));
            cases.loader.warn_once(at, message, None);
            continue;
        };
        let Some(source) = files::read_text(&case, at, cases.loader) else { continue };
        let Some(root) = top::parse(source, cases.loader) else { continue };
        let workspace = dir.join("workspace");
        if workspace.is_dir() {
            refuse::refuse_workspace_directory(&shown(&workspace, cases), &root.span, cases.loader);
        }
        cases.push(&root, Some(&entry.file_name().to_string_lossy()));
    }
}
