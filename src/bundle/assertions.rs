//! Assertions: includes, graders that run a command, prompts, preprocessors, and types that `.agentv` defines.

use std::path::{Path, PathBuf};

use super::command::{Missing, Style, run_in};
use super::compiler::Compiler;
use super::files::{Area, Entry};
use super::tree::{self, get, get_mut, get_str, items_mut, set};
use crate::config::Node;

/// As deep as AgentV follows includes.
const DEEPEST_INCLUDE: usize = 3;

/// The types that need nothing but AgentV, and those that it leaves out with a warning.
const BUILT_IN: [&str; 26] = [
    "code-grader",
    "llm-grader",
    "rubric",
    "composite",
    "tool-trajectory",
    "field-accuracy",
    "latency",
    "cost",
    "token-usage",
    "execution-metrics",
    "skill-trigger",
    "contains",
    "contains-any",
    "contains-all",
    "icontains",
    "icontains-any",
    "icontains-all",
    "starts-with",
    "ends-with",
    "regex",
    "is-json",
    "equals",
    "rubrics",
    "inline-assert",
    "code-judge",
    "llm-judge",
];

impl Compiler<'_> {
    /// Rewrites a list of assertions.
    pub(super) fn assertions(&mut self, list: &mut Node) {
        let Some(items) = items_mut(list) else { return };
        let taken = std::mem::take(items);
        let dirs: Vec<PathBuf> = self.roots.iter().map(Path::to_owned).collect();
        let mut expanded = self.expand_includes(taken, &dirs, &mut Vec::new());
        for item in &mut expanded {
            self.assertion(item);
        }
        if let Some(items) = items_mut(list) {
            *items = expanded;
        }
    }

    /// Puts the assertions of included files in the place of the includes.
    fn expand_includes(&mut self, items: Vec<Node>, dirs: &[PathBuf], chain: &mut Vec<PathBuf>) -> Vec<Node> {
        let mut expanded = Vec::with_capacity(items.len());
        for item in items {
            let alone = item.entries().is_some_and(|entries| entries.len() == 1);
            let Some(include) = get(&item, "include").filter(|include| alone && include.as_str().is_some())
            else {
                expanded.push(item);
                continue;
            };
            let at = include.span.clone();
            let Some(name) = self.chosen_text(include, "the include") else { continue };
            let Some(path) = find_include(&name, dirs) else {
                let hint =
                    "a name is looked for as `.agentv/templates/NAME.yaml`, from the suite's directory up";
                self.problems.error_with_hint(&at, format!("no such assertion template: `{name}`"), hint);
                continue;
            };
            if chain.contains(&path) {
                let names: Vec<String> = chain.iter().chain([&path]).map(|path| file_name(path)).collect();
                let message = format!("the includes go in a circle: {}", names.join(" → "));
                self.problems.error_with_hint(&at, message, "leave one of them out");
                continue;
            }
            if chain.len() == DEEPEST_INCLUDE {
                let message = format!("includes are followed {DEEPEST_INCLUDE} deep at most");
                self.problems.error(&at, message);
                continue;
            }
            let Some(mut root) = self.read_yaml(&path, &at) else { continue };
            let Some(inner) = get_mut(&mut root, "assertions").and_then(items_mut).map(std::mem::take) else {
                let message = format!("`{}` has no list `assertions`", file_name(&path));
                self.problems.error(&root.span, message);
                continue;
            };
            let mut nested: Vec<PathBuf> = path.parent().into_iter().map(Path::to_owned).collect();
            nested.extend(dirs.iter().filter(|dir| Some(dir.as_path()) != path.parent()).cloned());
            chain.push(path);
            expanded.extend(self.expand_includes(inner, &nested, chain));
            chain.pop();
        }
        expanded
    }

    /// Rewrites one assertion.
    fn assertion(&mut self, node: &mut Node) {
        let Some(kind) = self.kind(node) else { return };
        if let Some(target) = get(node, "target").filter(|target| target.as_str().is_some()).cloned()
            && let Some(name) = self.chosen_text(&target, "the target")
        {
            self.ask(&name, &target.span);
        }
        self.preprocessors(get_mut(node, "preprocessors"));
        match kind.as_str() {
            "code-grader" => self.code_grader(node),
            "composite" => {
                self.lists(node);
                if let Some(aggregator) = get_mut(node, "aggregator") {
                    self.aggregator(aggregator);
                }
            }
            _ => self.prompt(node),
        }
    }

    /// The type of an assertion; one that is not built in is noted.
    fn kind(&mut self, node: &Node) -> Option<String> {
        let kind = get(node, "type")?;
        let name = kind.as_str()?.replace('_', "-");
        if !BUILT_IN.contains(&name.as_str()) && !name.contains("${{") {
            self.types.entry(name.clone()).or_insert_with(|| kind.span.clone());
        }
        Some(name)
    }

    fn code_grader(&mut self, node: &mut Node) {
        let dir = self.places.dir.clone();
        let base = match get(node, "cwd").cloned() {
            None => dir,
            Some(cwd) => {
                let Some(text) = self.chosen_text(&cwd, "`cwd`") else { return };
                let Some(found) = self.found(&text, &cwd.span) else { return };
                found
            }
        };
        self.run_in_image(node, &base, Style::Shell, "cwd");
    }

    /// Takes along what the command of a mapping names, and lets it be run in the image of its directory.
    pub(super) fn run_in_image(&mut self, node: &mut Node, base: &Path, style: Style, cwd: &str) {
        let key = if get(node, "command").is_some() { "command" } else { "script" };
        let Some(command) = get_mut(node, key) else { return };
        let span = command.span.clone();
        if let Some(place) = self.command(command, style, base, Missing::Error) {
            set(node, cwd, tree::text(place, &span));
        }
    }

    /// AgentV runs it in the suite's directory, and looks at no `cwd`.
    fn aggregator(&mut self, node: &mut Node) {
        let kind = get_str(node, "type").unwrap_or_default().replace('_', "-");
        match kind.as_str() {
            "code-grader" => {
                let dir = self.places.dir.clone();
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
                && self.find(written).is_some_and(|path| path.is_file())
            {
                let message = format!("`{written}` is sent as it stands: it does not begin with `file://`");
                let hint = format!("write `file://{written}`");
                self.warn(&at, message, hint);
            }
            return;
        };
        let Some(name) = self.chosen_text(&tree::text(name, &at), "the prompt") else { return };
        if let Some(place) = self.take(Area::Data, &name, &at)
            && let Some(prompt) = get_mut(node, "prompt")
        {
            *prompt = tree::text(format!("file://{place}"), &at);
        }
    }

    /// Rewrites preprocessors.
    pub(super) fn preprocessors(&mut self, list: Option<&mut Node>) {
        let Some(items) = list.and_then(items_mut) else { return };
        let cwd = self.places.cwd.clone();
        for item in items {
            self.last_is_script(get_mut(item, "command"), Some(&cwd));
        }
    }

    /// A command whose last word AgentV looks up itself. The others are relative to `base`, or to the script's directory.
    fn last_is_script(&mut self, command: Option<&mut Node>, base: Option<&Path>) {
        let Some(items) = command.and_then(items_mut) else { return };
        let Some(last) = items.last().filter(|last| last.as_str().is_some()).cloned() else { return };
        let Some(text) = self.chosen_text(&last, "the command") else { return };
        let Some(path) = self.found(&text, &last.span) else { return };
        let Some(place) = self.files.add(Area::Scripts, &path, &last.span, &mut self.problems) else {
            return;
        };
        let dir = path.parent().unwrap_or(&path).to_owned();
        self.needs(&path, &[base.unwrap_or(&dir).to_owned()], &last.span);
        if let Some(item) = items.last_mut() {
            *item = tree::text(place, &last.span);
        }
    }

    /// The assertions of a turn, which AgentV takes as they stand: a command is run where AgentV was started.
    pub(super) fn turn_assertions(&mut self, list: &mut Node) {
        let Some(items) = items_mut(list) else { return };
        for item in items {
            if self.kind(item).is_none_or(|kind| kind != "code-grader") {
                continue;
            }
            let cwd = self.places.cwd.clone();
            let base = match get(item, "cwd").cloned() {
                None => cwd,
                Some(dir) => {
                    let Some(text) = self.chosen_text(&dir, "`cwd`") else { continue };
                    cwd.join(text)
                }
            };
            self.run_in_image(item, &base, Style::Shell, "cwd");
        }
    }

    /// Finds the files of the types that are no built-in ones. AgentV looks for them in `.agentv`, where a link then leads to
    /// the image of the file, beside what it needs.
    pub(super) fn custom_types(&mut self) {
        let types = std::mem::take(&mut self.types);
        let root = self.places.root.clone();
        let dirs: Vec<PathBuf> = self
            .places
            .dir
            .ancestors()
            .take_while(|dir| dir.starts_with(&root))
            .map(|dir| dir.join(".agentv"))
            .collect();
        for (name, at) in types {
            let Some((folder, path)) = find_type(&name, &dirs) else {
                let hint = "a type that is not built in is a file `.agentv/assertions/TYPE.ts`";
                self.problems.error_with_hint(&at, format!("no such type of assertion: `{name}`"), hint);
                continue;
            };
            let Some(place) = self.files.add(Area::Scripts, &path, &at, &mut self.problems) else { continue };
            let cwd = self.places.cwd.clone();
            self.needs(&path, std::slice::from_ref(&cwd), &at);
            let link = format!(".agentv/{folder}/{}", file_name(&path));
            let target = format!("../../{place}");
            self.files.entries.insert(link, Entry::Link { target, source: None });
        }
    }

    /// Targets that a suite or a test names.
    pub(super) fn ask_in(&mut self, execution: &Node) {
        let names = get(execution, "targets").and_then(Node::items).unwrap_or_default().iter();
        let named: Vec<Node> =
            names.chain(get(execution, "target")).filter(|node| node.as_str().is_some()).cloned().collect();
        for node in named {
            if let Some(name) = self.chosen_text(&node, "the target") {
                self.ask(&name, &node.span);
            }
        }
    }

    /// Targets that the suite names, and the hooks that run with them.
    pub(super) fn targets_of(&mut self, root: &mut Node) {
        if let Some(target) = get(root, "target").filter(|node| node.as_str().is_some()).cloned()
            && let Some(name) = self.chosen_text(&target, "the target")
        {
            self.names_target = true;
            self.ask(&name, &target.span);
        }
        let Some(execution) = get(root, "execution").cloned() else { return };
        self.names_target |= ["target", "targets"].iter().any(|key| get(&execution, key).is_some());
        self.ask_in(&execution);
    }
}

/// The type's folder and file. AgentV reads all of `assertions` before `graders`, and the nearest directory first.
fn find_type(name: &str, dirs: &[PathBuf]) -> Option<(&'static str, PathBuf)> {
    let folders = [vec!["assertions"], vec!["graders", "judges"]];
    for group in folders {
        for dir in dirs {
            for folder in &group {
                let file =
                    ["ts", "js", "mts", "mjs"].map(|end| dir.join(folder).join(format!("{name}.{end}")));
                if let Some(path) = file.into_iter().find(|path| path.is_file()) {
                    return Some((folder, path));
                }
            }
        }
    }
    None
}

fn find_include(name: &str, dirs: &[PathBuf]) -> Option<PathBuf> {
    let is_name = !name.starts_with('.') && !name.contains(['/', '\\']);
    let names = if is_name {
        vec![format!(".agentv/templates/{name}.yaml"), format!(".agentv/templates/{name}.yml")]
    } else {
        vec![name.trim_start_matches(['/', '\\']).to_owned()]
    };
    let found = names.iter().find_map(|name| {
        dirs.iter().map(|dir| crate::config::normalized(&dir.join(name))).find(|path| path.is_file())
    });
    found.or_else(|| Some(PathBuf::from(name)).filter(|path| path.is_absolute() && path.is_file()))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
