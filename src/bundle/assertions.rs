//! Assertions: includes, graders that run a command, prompts, preprocessors, and types that `.agentv` defines.

use std::borrow::Cow;
use std::path::Path;

use super::command::{Missing, Style, run_in};
use super::compiler::Compiler;
use super::files::{Area, BundleEntry};
use super::tree::{self, get, get_mut, get_str, items_mut, set};
use crate::config::Node;
use crate::suite::{Part, Reader as _, expand_includes, find_custom_type, included, is_built_in};

impl Compiler<'_> {
    /// Rewrites a list of assertions.
    pub(super) fn assertions(&mut self, list: &mut Node) {
        let Some(items) = items_mut(list) else { return };
        if items.iter().any(|item| included(item).is_some()) {
            let taken = std::mem::take(items);
            *items = expand_includes(&taken, self).into_iter().map(Cow::into_owned).collect();
        }
        for item in items {
            self.assertion(item);
        }
    }

    /// Rewrites one assertion.
    fn assertion(&mut self, node: &mut Node) {
        let Some(kind) = self.kind(node) else { return };
        if let Some(target) = get(node, "target").filter(|target| target.as_str().is_some()).cloned()
            && let Some(name) = self.choice(&target, "the target")
        {
            self.ask(&name, &target.span);
        }
        self.preprocessors(get_mut(node, "preprocessors"));
        match kind.as_str() {
            "code-grader" => self.code_grader(node),
            "composite" => {
                self.lists(node, self.dialect.test);
                if let Some(aggregator) = get_mut(node, "aggregator") {
                    self.aggregator(aggregator);
                }
            }
            _ => self.prompt(node),
        }
    }

    /// The type of an assertion; records one that is not built in.
    fn kind(&mut self, node: &Node) -> Option<String> {
        let kind = get(node, "type")?;
        let name = kind.as_str()?.replace('_', "-");
        if !is_built_in(&name) && !name.contains("${{") {
            self.types.entry(name.clone()).or_insert_with(|| kind.span.clone());
        }
        Some(name)
    }

    fn code_grader(&mut self, node: &mut Node) {
        let dir = self.lookup.dir.clone();
        let base = match get(node, "cwd").cloned() {
            None => dir,
            Some(cwd) => {
                let Some(text) = self.choice(&cwd, "`cwd`") else { return };
                let Some(found) = self.found("directory", &text, &cwd.span) else { return };
                found
            }
        };
        self.run_in_image(node, &base, Style::Shell, "cwd");
    }

    /// Takes along the files that a mapping's command names, and runs it in the image of its directory.
    pub(super) fn run_in_image(&mut self, node: &mut Node, base: &Path, style: Style, cwd: &str) {
        let key = if get(node, "command").is_some() { "command" } else { "script" };
        let Some(command) = get_mut(node, key) else { return };
        let span = command.span.clone();
        if let Some(place) = self.command(command, style, base, Missing::Error) {
            set(node, cwd, tree::text(place, &span));
        }
    }

    /// AgentV runs it in the suite's directory and ignores `cwd`.
    fn aggregator(&mut self, node: &mut Node) {
        let kind = get_str(node, "type").unwrap_or_default().replace('_', "-");
        match kind.as_str() {
            "code-grader" => {
                let dir = self.lookup.dir.clone();
                let Some(path) = get_mut(node, "path") else { return };
                if let Some(place) = self.command(path, Style::Shell, &dir, Missing::Error)
                    && let Some(text) = path.as_str()
                {
                    *path = tree::text(run_in(&place, text), &path.span);
                }
            }
            _ => self.prompt(node),
        }
    }

    /// `prompt: file://…` and `prompt: { command: […] }`.
    fn prompt(&mut self, node: &mut Node) {
        let Some(prompt) = get_mut(node, "prompt") else { return };
        let at = prompt.span.clone();
        if prompt.entries().is_some() {
            let key = if get(prompt, "command").is_some() { "command" } else { "script" };
            self.last_is_script(get_mut(prompt, key), None);
            return;
        }
        let Some(written) = prompt.as_str() else { return };
        let Some(name) = written.strip_prefix("file://") else {
            let one_line = !written.contains(['\n', ' ']);
            if one_line
                && written.contains(['/', '.'])
                && self.lookup.find(written).is_some_and(|path| path.is_file())
            {
                let message = format!("`{written}` is sent as text: it does not begin with `file://`");
                let hint = format!("write `file://{written}`");
                self.warn(&at, message, hint);
            }
            return;
        };
        let Some(name) = self.choice(&tree::text(name, &at), "the prompt") else { return };
        if let Some(place) = self.take(Area::Data, "prompt", &name, &at)
            && let Some(prompt) = get_mut(node, "prompt")
        {
            *prompt = tree::text(format!("file://{place}"), &at);
        }
    }

    /// Rewrites preprocessors.
    pub(super) fn preprocessors(&mut self, list: Option<&mut Node>) {
        let Some(items) = list.and_then(items_mut) else { return };
        let cwd = self.lookup.cwd.clone();
        for item in items {
            self.last_is_script(get_mut(item, "command"), Some(&cwd));
        }
    }

    /// A command whose last word AgentV resolves itself. The others are relative to `base`, or to the script's directory.
    fn last_is_script(&mut self, command: Option<&mut Node>, base: Option<&Path>) {
        let Some(items) = command.and_then(items_mut) else { return };
        let Some(last) = items.last().filter(|last| last.as_str().is_some()).cloned() else { return };
        let Some(text) = self.choice(&last, "the command") else { return };
        let Some(path) = self.found("script", &text, &last.span) else { return };
        let Some(place) = self.files.add(Area::Scripts, &path, &last.span, &mut self.problems) else {
            return;
        };
        let dir = path.parent().unwrap_or(&path).to_owned();
        self.needs(&path, &[base.unwrap_or(&dir).to_owned()], &last.span);
        if let Some(item) = items.last_mut() {
            *item = tree::text(place, &last.span);
        }
    }

    /// The assertions of a turn, which AgentV uses unchanged: a command runs in AgentV's working directory.
    pub(super) fn turn_assertions(&mut self, list: &mut Node) {
        let Some(items) = items_mut(list) else { return };
        for item in items {
            if self.kind(item).is_none_or(|kind| kind != "code-grader") {
                continue;
            }
            let cwd = self.lookup.cwd.clone();
            let base = match get(item, "cwd").cloned() {
                None => cwd,
                Some(dir) => {
                    let Some(text) = self.choice(&dir, "`cwd`") else { continue };
                    cwd.join(text)
                }
            };
            self.run_in_image(item, &base, Style::Shell, "cwd");
        }
    }

    /// Finds the files of custom types. AgentV looks for them in `.agentv`, where a link then points to the image of the file, next
    /// to its dependencies.
    pub(super) fn custom_types(&mut self) {
        let types = std::mem::take(&mut self.types);
        let root = self.places.root.clone();
        let suite_dir = self.lookup.dir.clone();
        let dirs: Vec<&Path> = suite_dir.ancestors().take_while(|dir| dir.starts_with(&root)).collect();
        for (name, at) in types {
            let Some((folder, path)) = find_custom_type(&name, &dirs) else {
                let hint = "a type that is not built in is a file `.agentv/assertions/TYPE.ts`";
                self.problems.error_with_hint(&at, format!("unknown assertion type: `{name}`"), hint);
                continue;
            };
            let Some(place) = self.files.add(Area::Scripts, &path, &at, &mut self.problems) else { continue };
            let cwd = self.lookup.cwd.clone();
            self.needs(&path, std::slice::from_ref(&cwd), &at);
            let link = format!(".agentv/{folder}/{}", file_name(&path));
            let target = format!("../../{place}");
            self.files.entries.insert(link, BundleEntry::Link { target, source: None });
        }
    }

    /// Targets that a suite or a test names.
    pub(super) fn ask_in(&mut self, execution: &Node) {
        let keys = self.dialect.execution;
        let names = keys.get(execution, Part::Targets).and_then(Node::items).unwrap_or_default();
        for node in names.iter().chain(keys.get(execution, Part::Target)) {
            if let Some(name) = self.choice(node, "the target") {
                self.ask(&name, &node.span);
            }
        }
    }

    /// Targets that the suite names.
    pub(super) fn targets_of(&mut self, root: &Node) {
        let dialect = self.dialect;
        if let Some(target) = dialect.suite.get(root, Part::Target)
            && let Some(name) = self.choice(target, "the target")
        {
            self.names_target = true;
            self.ask(&name, &target.span);
        }
        let Some(execution) = dialect.suite.get(root, Part::Execution) else { return };
        let has = |part| dialect.execution.get(execution, part).is_some();
        self.names_target |= has(Part::Target) || has(Part::Targets);
        self.ask_in(execution);
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
