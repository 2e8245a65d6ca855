//! Workspaces: templates, workspace files, hooks, and cloned repositories.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::command::{Missing, SCRIPTS_LINK, Style, quoted, run_in};
use super::compiler::Compiler;
use super::files::{Area, BundleEntry, relative_path};
use super::tree::{self, get, get_mut, items_mut, parts_mut, remove, set};
use crate::config::{Node, NodeValue, Source, Span, normalized};
use crate::git::resolve_ref;
use crate::suite::{Part, Reader as _};
use crate::util::secrets::has_credentials;

/// The template for a workspace without one that needs a link.
const OWN_TEMPLATE: &str = "workspace/.bundle-template";

const HOOKS: [&str; 4] = ["before_all", "before_each", "after_each", "after_all"];

/// The effect of the suite's workspace on the hooks of its tests.
#[derive(Debug, Default)]
pub(super) struct SuiteWorkspace {
    /// The directory of the workspace file, where hooks without `cwd` run.
    dir: Option<PathBuf>,
    /// The directories that hooks name themselves.
    named: BTreeMap<&'static str, PathBuf>,
    /// The hooks as written.
    hooks: Option<Node>,
}

impl Compiler<'_> {
    /// Rewrites the suite's workspace, and the hooks of its targets, which run in the same directory.
    pub(super) fn suite_workspace(&mut self, root: &mut Node) -> SuiteWorkspace {
        let mut suite = SuiteWorkspace::default();
        let dialect = self.dialect;
        for workspace in parts_mut(root, dialect.suite, Part::Workspace) {
            suite = self.workspace(workspace, None);
        }
        let targets = parts_mut(root, dialect.suite, Part::Execution)
            .flat_map(|execution| parts_mut(execution, dialect.execution, Part::Targets));
        for target in targets.filter_map(items_mut).flatten() {
            let Some(name) = tree::get_str(target, "name").map(ToOwned::to_owned) else { continue };
            let at = target.span.clone();
            self.ask(&name, &at);
            if let Some(link) = remove(target, "use_target") {
                self.synthetic.push((name.trim().to_owned(), link));
            }
            for hook in HOOKS {
                if let Some(hook) = get_mut(target, "hooks").and_then(|hooks| get_mut(hooks, hook)) {
                    self.target_hook(hook, suite.dir.as_deref());
                }
            }
        }
        suite
    }

    /// Rewrites a workspace; `suite` is the suite's, for a test's workspace.
    pub(super) fn workspace(&mut self, node: &mut Node, suite: Option<&SuiteWorkspace>) -> SuiteWorkspace {
        let mut base = self.lookup.dir.clone();
        let mut own_file = None;
        if node.as_str().is_some() {
            let Some(file) = self.workspace_file(node) else { return SuiteWorkspace::default() };
            if let Some(dir) = file {
                base.clone_from(&dir);
                own_file = Some(dir);
            }
        }
        let mut found = SuiteWorkspace {
            dir: own_file.clone(),
            hooks: get(node, "hooks").cloned(),
            ..SuiteWorkspace::default()
        };
        if let Some(template) = get_mut(node, "template") {
            self.template(template, &base);
        }
        self.static_path(node);
        if let Some(image) = get(node, "docker").and_then(|docker| tree::get_str(docker, "image")) {
            let image = image.to_owned();
            self.files.leave(format!("the Docker image `{image}`"), "Docker pulls it where the bundle runs");
        }
        if let Some(repos) = get_mut(node, "repos").and_then(items_mut) {
            for repo in repos {
                self.repository(repo);
            }
        }
        let default = own_file.clone().or_else(|| suite.and_then(|suite| suite.dir.clone()));
        let default = default.unwrap_or_else(|| self.lookup.dir.clone());
        for name in HOOKS {
            let inherited = suite.and_then(|suite| suite.named.get(name)).cloned();
            if let Some(hook) = get_mut(node, "hooks").and_then(|hooks| get_mut(hooks, name)) {
                if let Some(dir) = self.hook(hook, &base, &default, inherited) {
                    found.named.insert(name, dir);
                }
            } else if let (Some(dir), Some(suite)) = (&own_file, suite) {
                self.inherit(node, name, suite, dir);
            }
        }
        found
    }

    /// Adds a link to the scripts to every directory in which a target's command runs. AgentV copies a template with its links, and
    /// makes them absolute, so they point to the bundle wherever it is.
    pub(super) fn link_scripts(&mut self, root: &mut Node) {
        let Some(mut places) = self.linked.take() else { return };
        let dialect = self.dialect;
        let has_template =
            dialect.suite.get(root, Part::Workspace).is_some_and(|node| get(node, "template").is_some());
        for node in parts_mut(root, dialect.suite, Part::Workspace) {
            places.extend(self.template_place(node));
        }
        for case in get_mut(root, "tests").and_then(items_mut).into_iter().flatten() {
            for node in parts_mut(case, dialect.test, Part::Workspace) {
                if get(node, "template").is_some() || !has_template {
                    places.extend(self.template_place(node));
                }
            }
        }
        for place in places {
            let link = format!("{place}/{SCRIPTS_LINK}");
            let target = relative_path(&Path::new("/").join(&place), Path::new("/scripts"));
            self.files.entries.insert(link, BundleEntry::Link { target, source: None });
        }
    }

    /// The directory of a template; creates one for a workspace without.
    fn template_place(&mut self, node: &mut Node) -> Option<String> {
        let at = node.span.clone();
        if get(node, "path").is_some() || get(node, "docker").is_some() {
            let message = "a command of a target has an absolute path, which this workspace cannot reach";
            self.warn(&at, message, "use the program's name without a directory, and put it into `PATH`");
            let why = "the workspace is not a copy of a template, so nothing in it leads to the bundle";
            self.files.leave("the script of a target, for a workspace with `path` or `docker`", why);
            return None;
        }
        if let Some(text) = tree::get_str(node, "template") {
            let is_file = matches!(self.files.entries.get(text), Some(BundleEntry::Copy { .. }));
            let dir = if is_file { Path::new(text).parent()?.to_str()? } else { text };
            return Some(dir.to_owned());
        }
        node.entries()?;
        set(node, "template", tree::text(OWN_TEMPLATE, &at));
        Some(OWN_TEMPLATE.to_owned())
    }

    /// A path to a workspace file, whose content replaces it, or to a template. Returns the file's directory.
    #[expect(clippy::option_option, reason = "no directory, and no workspace")]
    fn workspace_file(&mut self, node: &mut Node) -> Option<Option<PathBuf>> {
        let at = node.span.clone();
        let text = self.choice(node, "`workspace`")?;
        let path = normalized(&self.lookup.dir.join(&text));
        if path.is_dir() {
            let hint = format!("write `workspace: {{ template: {text} }}`; the bundle uses this form");
            self.warn(&at, "AgentV expects a file here; the directory is used as a template", hint);
            *node = tree::map([("template", tree::text(text, &at))], &at);
            return Some(None);
        }
        let mut root = self.read_yaml(&path, &at)?;
        if let Some(wrapped) = get(&root, "workspace").filter(|inner| inner.entries().is_some()) {
            self.problems.error_with_hint(
                &wrapped.span,
                "a workspace file holds the workspace itself",
                "remove the key `workspace:` around it",
            );
            return None;
        }
        if root.entries().is_none() {
            self.problems.error(&root.span, format!("a workspace is a mapping, found {}", root.kind()));
            return None;
        }
        std::mem::swap(node, &mut root);
        Some(path.parent().map(Path::to_owned))
    }

    fn template(&mut self, node: &mut Node, base: &Path) {
        let at = node.span.clone();
        let Some(text) = self.choice(node, "the template") else { return };
        let path = normalized(&base.join(&text));
        // VS Code opens the file; its directory is the template.
        let dir = if path.is_file() { path.parent().unwrap_or(&path) } else { &path };
        if self.files.add(Area::Workspace, dir, &at, &mut self.problems).is_some()
            && let Some(place) = self.files.place(Area::Workspace, &path)
        {
            *node = tree::text(place, &at);
        }
    }

    /// `path` names a directory that tests use directly. One in the repository becomes a template.
    fn static_path(&mut self, node: &mut Node) {
        let Some(path) = get(node, "path").cloned() else { return };
        let Some(text) = self.choice(&path, "`path`") else { return };
        let cwd = self.lookup.cwd.join(&text);
        let dirs = [cwd, self.lookup.dir.join(&text)].map(|dir| normalized(&dir));
        let inside = dirs.into_iter().find(|dir| dir.is_dir() && dir.starts_with(&self.places.root));
        let mode = tree::get_str(node, "mode");
        if mode.is_some_and(|mode| mode != "static") {
            return;
        }
        match inside {
            Some(dir) if get(node, "template").is_none() => {
                let Some(place) = self.files.add(Area::Workspace, &dir, &path.span, &mut self.problems)
                else {
                    return;
                };
                self.warn(
                    &path.span,
                    format!("`{text}` becomes a template: the bundle's tests work in a copy of it"),
                    "write `template` instead of `path`, which means the same everywhere",
                );
                remove(node, "path");
                remove(node, "mode");
                set(node, "template", tree::text(place, &path.span));
            }
            _ if Path::new(&text).is_absolute() => {
                let why = "`workspace.path` is a directory on the machine: it must exist, or is created";
                self.files.leave(text.clone(), why);
                let message = format!("`{text}` is a directory on this machine, and is left behind");
                self.warn(&path.span, message, "write `template` with a directory of the repository");
            }
            _ => {}
        }
    }

    /// A hook of a workspace. Returns the directory that it names.
    fn hook(
        &mut self,
        hook: &mut Node,
        base: &Path,
        default: &Path,
        inherited: Option<PathBuf>,
    ) -> Option<PathBuf> {
        let named = match get(hook, "cwd").cloned() {
            None => None,
            Some(cwd) => {
                let text = self.choice(&cwd, "`cwd`")?;
                let dir = normalized(&base.join(&text));
                if !dir.is_dir() {
                    self.problems.error(&cwd.span, format!("no such directory: `{text}`"));
                    return None;
                }
                Some(dir)
            }
        };
        let dir = named.clone().or(inherited).unwrap_or_else(|| default.to_owned());
        self.run_in_image(hook, &dir, Style::Words, "cwd");
        named
    }

    /// A hook that a test inherits from the suite runs in the directory of the test's workspace file.
    fn inherit(&mut self, node: &mut Node, name: &'static str, suite: &SuiteWorkspace, dir: &Path) {
        if suite.named.contains_key(name) {
            return;
        }
        let Some(mut hook) = suite.hooks.as_ref().and_then(|hooks| get(hooks, name)).cloned() else { return };
        self.run_in_image(&mut hook, dir, Style::Words, "cwd");
        let span = node.span.clone();
        if get(node, "hooks").is_none() {
            set(node, "hooks", tree::map([], &span));
        }
        if let Some(hooks) = get_mut(node, "hooks") {
            set(hooks, name, hook);
        }
    }

    /// A hook of a target: AgentV resolves `cwd` from its own working directory, so the command changes to its directory itself.
    fn target_hook(&mut self, hook: &mut Node, workspace_dir: Option<&Path>) {
        let key = if get(hook, "command").is_some() { "command" } else { "script" };
        if get(hook, key).is_none() {
            return;
        }
        let dir = match remove(hook, "cwd") {
            None => workspace_dir.unwrap_or(&self.lookup.dir).to_owned(),
            Some(cwd) => {
                let Some(text) = self.choice(&cwd, "`cwd`") else { return };
                let candidates = [self.lookup.cwd.join(&text), self.lookup.dir.join(&text)];
                let Some(dir) = candidates.map(|dir| normalized(&dir)).into_iter().find(|dir| dir.is_dir())
                else {
                    self.problems.error(&cwd.span, format!("no such directory: `{text}`"));
                    return;
                };
                dir
            }
        };
        let Some(command) = get_mut(hook, key) else { return };
        let span = command.span.clone();
        let Some(place) = self.command(command, Style::Shell, &dir, Missing::Error) else { return };
        match &mut command.value {
            NodeValue::String(text) => *text = run_in(&place, text),
            NodeValue::List(items) => {
                let go = format!("cd {} && exec \"$@\"", quoted(&place));
                let before = ["sh", "-c", go.as_str(), "hook"].map(|word| tree::text(word, &span));
                items.splice(0..0, before);
            }
            _ => {}
        }
    }

    /// A repository that AgentV clones: it is not included, but pinned to its current commit.
    fn repository(&mut self, node: &mut Node) {
        let Some(repo) = get(node, "repo").cloned() else { return };
        let Some(url) = repo.as_str().map(ToOwned::to_owned) else { return };
        if has_credentials(&url) {
            let hint = "let git find the credentials where the bundle runs";
            // Do not show the line: it contains the password.
            let source = Source { path: repo.span.source.path.clone(), text: String::new() };
            let at = Span { source: Arc::new(source), ..repo.span.clone() };
            self.problems.error_with_hint(&at, "the URL of the repository contains a password", hint);
            return;
        }
        if url.contains("${{") {
            self.files.leave(
                format!("the repository `{url}`"),
                "AgentV clones it where the bundle runs; a variable chooses it",
            );
            return;
        }
        let key = if get(node, "base_commit").is_some() && get(node, "commit").is_none() {
            "base_commit"
        } else {
            "commit"
        };
        let wanted = tree::get_str(node, key).unwrap_or("HEAD").to_owned();
        let commit =
            if is_commit(&wanted) { Some(wanted.clone()) } else { self.resolve(&url, &wanted, &repo.span) };
        let at = commit
            .as_deref()
            .map_or_else(|| format!("at `{wanted}`, which may move"), |commit| format!("at {commit}"));
        self.files.leave(
            format!("the repository `{url}`"),
            format!("AgentV clones it where the bundle runs, {at}"),
        );
        if let Some(commit) = commit.filter(|commit| *commit != wanted) {
            set(node, key, tree::text(commit, &repo.span));
        }
    }

    fn resolve(&mut self, url: &str, wanted: &str, at: &Span) -> Option<String> {
        let short = url.split('/').count() == 2 && !url.contains(':') && !url.starts_with('.');
        let address = if short { format!("https://github.com/{url}.git") } else { url.to_owned() };
        let local = Path::new(&address);
        if !address.contains(':') && (local.is_absolute() || local.exists()) {
            let message =
                format!("the repository `{url}` is a directory on this machine, and is left behind");
            self.warn(at, message, "use a repository that every machine can reach");
        }
        match resolve_ref(&address, wanted, &self.lookup.dir) {
            Ok(Some(commit)) => Some(commit),
            Ok(None) => {
                let message = format!("the repository `{url}` has no `{wanted}`, so it is not pinned");
                self.warn(at, message, "use a commit, a branch or a tag");
                None
            }
            Err(error) => {
                let message = format!("cannot resolve `{wanted}` of `{url}`, so it is not pinned");
                self.warn(at, message, format!("{error:#}"));
                None
            }
        }
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
