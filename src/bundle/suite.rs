//! A suite → the tree of `eval.yaml`: tests inlined, references rewritten, everything else as it stands.

use std::path::Path;
use std::sync::Arc;

use super::compiler::{Compiler, start_of};
use super::tree::{self, get, get_mut, remove, set};
use crate::config::{Node, NodeValue, VERSION_5, suite_name};
use crate::model::Failure;

/// Where assertions may stand.
const LISTS: [&str; 3] = ["assertions", "assert", "evaluators"];

/// Old names of `tests`.
const OLD_TESTS: [&str; 2] = ["eval_cases", "evalcases"];

/// What AgentV calls the format of a suite.
const SCHEMA: &str = "agentv-eval-v2";

/// The longest name that AgentV lets a suite have, and the longest description that a suite with a name may have.
const LONGEST_NAME: usize = 64;
const LONGEST_DESCRIPTION: usize = 1024;

/// The formats of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Yaml,
    Jsonl,
}

impl Format {
    /// The format of a file; those that only AgentV can read are refused by name.
    pub(super) fn of(path: &Path) -> Result<Self, Failure> {
        let ending = path.extension().and_then(|end| end.to_str()).unwrap_or_default().to_ascii_lowercase();
        let what = match ending.as_str() {
            "yaml" | "yml" => return Ok(Self::Yaml),
            "jsonl" => return Ok(Self::Jsonl),
            "ts" | "mts" | "js" | "mjs" => "a TypeScript suite is a program: what it needs cannot be told",
            "json" => "Agent Skills `.json` evaluations have a format of their own",
            _ => "its format is unknown",
        };
        Err(Failure::config(format!("cannot bundle `{}`: {what}", path.display()))
            .hint("write the suite as `.yaml`, `.yml` or `.jsonl`"))
    }
}

impl Compiler<'_> {
    /// Reads the suite and everything that it refers to; nothing if that is not possible.
    pub(super) fn suite(&mut self, format: Format) -> Option<Node> {
        let path = self.places.suite.clone();
        let name = crate::config::shown(&path, &self.places.cwd);
        let at = start_of(crate::config::Source { path: name, text: String::new() });
        let mut root = match format {
            Format::Yaml => self.read_yaml(&path, &at)?,
            Format::Jsonl => self.jsonl_suite(&path, &at)?,
        };
        if root.entries().is_none() {
            self.problems.error(&root.span, format!("a suite is a mapping, found {}", root.kind()));
            return None;
        }
        if self.refuse_version_5(&root) {
            return None;
        }
        let tests = self.tests(&mut root, &path)?;
        let mut cases = self.expand_tests(tests);
        self.has_workspace =
            get(&root, "workspace").is_some() || cases.iter().any(|case| get(case, "workspace").is_some());
        self.name_suite(&mut root, &path);
        self.targets_of(&mut root);
        let suite_workspace = self.suite_workspace(&mut root);
        self.suite_files(&mut root, &cases);
        self.preprocessors(get_mut(&mut root, "preprocessors"));
        self.lists(&mut root);
        if let Some(execution) = get_mut(&mut root, "execution") {
            self.lists(execution);
        }
        if let Some(cache) = get(&root, "execution").and_then(|execution| get(execution, "cache_path")) {
            let path = cache.as_str().unwrap_or_default().to_owned();
            if Path::new(&path).is_absolute() {
                self.files.leave(path, "the cache of answers is made anew");
            }
        }
        for case in &mut cases {
            self.case(case, &suite_workspace);
        }
        let span = root.span.clone();
        set(&mut root, "tests", Node { value: NodeValue::List(cases), span });
        self.custom_types();
        // AgentV tells a suite by the end of its name, which a bundle's has not, or by this.
        if get(&root, "$schema").is_none()
            && let Some(entries) = tree::entries_mut(&mut root)
        {
            let key = crate::config::Key { text: "$schema".to_owned(), span: at.clone() };
            entries.insert(0, (key, tree::text(SCHEMA, &at)));
        }
        Some(root)
    }

    /// The value of `tests`, under whichever name; the key is then `tests`.
    fn tests(&mut self, root: &mut Node, path: &Path) -> Option<Node> {
        let old = OLD_TESTS.into_iter().find(|old| get(root, old).is_some());
        if get(root, "tests").is_none()
            && let Some(old) = old
            && let Some(entries) = tree::entries_mut(root)
            && let Some((key, _)) = entries.iter_mut().find(|(key, _)| key.text == old)
        {
            "tests".clone_into(&mut key.text);
        }
        for old in OLD_TESTS {
            remove(root, old);
        }
        let tests = get(root, "tests").cloned();
        if tests.is_none() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.problems.error(&root.span, format!("`{name}` has no `tests`"));
        }
        tests
    }

    /// The assertions in every list of a mapping.
    pub(super) fn lists(&mut self, node: &mut Node) {
        for list in LISTS {
            if let Some(list) = get_mut(node, list) {
                self.assertions(list);
            }
        }
    }

    /// A suite without a name is called after its file, which has another name in the bundle.
    fn name_suite(&mut self, root: &mut Node, path: &Path) {
        if get(root, "name").and_then(Node::as_str).is_some_and(|name| !name.trim().is_empty()) {
            return;
        }
        self.unnamed = true;
        let stem = suite_name(path);
        let legal =
            |c: char| if c.is_ascii_alphanumeric() || c == '-' { c.to_ascii_lowercase() } else { '-' };
        let name: String = stem.chars().map(legal).take(LONGEST_NAME).collect();
        // With a name AgentV checks the description too, which it does not without.
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

    /// Notes that a suite is written for AgentV 5. It is never bundled by halves.
    fn refuse_version_5(&mut self, root: &Node) -> bool {
        let entries = root.entries().unwrap_or_default();
        let key = entries.iter().map(|(key, _)| key).find(|key| VERSION_5.contains(&key.text.as_str()));
        if let Some(key) = key {
            self.problems.error_with_hint(
                &key.span,
                format!("this suite is written for AgentV 5 (`{}`), which cannot be bundled yet", key.text),
                "bundle it with `agentv eval bundle`, or write it as AgentV 4 reads it",
            );
            return true;
        }
        let vars = get(root, "tests").is_some_and(mentions_env_vars);
        if let Some(node) = find_env(root).filter(|_| !vars) {
            let span = node.span.clone();
            self.problems.error_with_hint(
                &span,
                "`{{ env.NAME }}` is how AgentV 5 names a variable: such suites cannot be bundled yet",
                "AgentV 4 writes `${{ NAME }}`",
            );
            return true;
        }
        false
    }

    /// The suite that a `.jsonl` file and the settings beside it make.
    fn jsonl_suite(&mut self, path: &Path, at: &crate::config::Span) -> Option<Node> {
        let source = self.read_text(path, at)?;
        let start = start_of(crate::config::Source { path: source.path.clone(), text: String::new() });
        let sidecar = path.with_extension("yaml");
        let mut root =
            if sidecar.is_file() { self.read_yaml(&sidecar, &start)? } else { tree::map([], &start) };
        if let Some(entries) = tree::entries_mut(&mut root) {
            entries.retain(|(key, _)| {
                matches!(key.text.as_str(), "name" | "description" | "execution" | "evaluator")
            });
        }
        if get(&root, "name").is_none() {
            let name = tree::text(suite_name(path), &start);
            let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name.as_str().is_some_and(|name| name.chars().all(legal)) {
                set(&mut root, "name", name);
            }
        }
        let defaults = get(&root, "execution")
            .is_some_and(|execution| LISTS.iter().any(|list| get(execution, list).is_some()));
        let mut cases = self.jsonl_cases(&Arc::new(source));
        for case in &mut cases {
            own_settings(case, defaults);
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
        set(&mut root, "tests", Node { value: NodeValue::List(cases), span: start });
        Some(root)
    }
}

/// Beside a `.jsonl` file the settings of a test replace those of the suite, its graders too.
fn own_settings(case: &mut Node, defaults: bool) {
    let Some(execution) = get_mut(case, "execution") else { return };
    let span = execution.span.clone();
    let skips = get(execution, "skip_defaults").is_some_and(|flag| flag.value == NodeValue::Bool(true));
    let graders = ["assertions", "assert"].into_iter().find_map(|list| remove(execution, list));
    if defaults {
        set(execution, "skip_defaults", Node { value: NodeValue::Bool(true), span: span.clone() });
    }
    let Some(NodeValue::List(more)) = graders.filter(|_| !skips).map(|graders| graders.value) else { return };
    let key = LISTS.into_iter().find(|list| get(case, list).is_some()).unwrap_or(LISTS[0]);
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

/// Whether a test has variables of its own that are called `env`.
fn mentions_env_vars(tests: &Node) -> bool {
    let has = |case: &Node| get(case, "vars").is_some_and(|vars| get(vars, "env").is_some());
    tests.items().unwrap_or_default().iter().any(has)
}
