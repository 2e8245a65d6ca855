//! `targets.yaml`: the targets that the suite can use, with their scripts and files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::command::{Missing, Style};
use super::compiler::{Compiler, start_of};
use super::files::Area;
use super::tree::{self, get, get_mut, get_str, remove, set};
use crate::config::{Node, NodeValue, Reference, Source, Span, TargetsFile, did_you_mean, normalized, shown};
use crate::suite::{Reader as _, suite_name};
use crate::util::secrets::is_secret_name;

/// The number of links that AgentV follows.
const MOST_LINKS: usize = 10;
/// The target of a suite that names none.
const DEFAULT: &str = "default";

/// AgentV's name of the targets format.
const SCHEMA: &str = "agentv-targets-v2.2";

/// The end of a `use_target` chain.
enum End {
    /// A target with a provider.
    Target(Node),
    /// An unset variable.
    Unset(String),
    /// An error, already recorded.
    Nowhere,
}

impl Compiler<'_> {
    /// The tree of `targets.yaml`; `None` if there is no targets file.
    pub(super) fn targets(&mut self, named: Option<&Path>, more: &[String]) -> Option<Node> {
        let found = named.map(|path| normalized(&self.lookup.cwd.join(path)));
        let found = found.or_else(|| TargetsFile::discover(&self.lookup.roots));
        let at = start_of(Source { path: shown(&self.places.suite, &self.lookup.cwd), text: String::new() });
        let Some(path) = found else {
            self.no_targets(&at);
            return None;
        };
        let path = path.canonicalize().unwrap_or(path);
        let root = self.read_yaml(&path, &at)?;
        if path.file_stem().is_some_and(|stem| stem == "providers") || root.items().is_some() {
            let hint = "AgentV 4 reads `targets.yaml`";
            self.problems.error_with_hint(
                &root.span,
                "`providers.yaml` of AgentV 5 cannot be bundled yet",
                hint,
            );
            return None;
        }
        let listed = get(&root, "targets").and_then(Node::items).unwrap_or_default().to_vec();
        let name_of = |node: &Node| get_str(node, "name").map(|name| name.trim().to_owned());
        self.names_target |= !more.is_empty();
        for name in more {
            self.ask(name, &root.span.clone());
        }
        let synthetic = std::mem::take(&mut self.synthetic);
        let mut known = listed.clone();
        for (name, link) in synthetic {
            if !listed.iter().any(|node| name_of(node).as_deref() == Some(&name)) {
                let span = link.span.clone();
                known.push(tree::map([("name", tree::text(name, &span)), ("use_target", link)], &span));
            }
        }
        if !self.names_target {
            let default = known.iter().any(|node| name_of(node).as_deref() == Some(DEFAULT));
            // If a suite names no target, the user chooses one.
            let chosen: Vec<String> =
                if default { vec![DEFAULT.to_owned()] } else { known.iter().filter_map(name_of).collect() };
            for name in chosen {
                self.ask(&name, &root.span.clone());
            }
        }
        let mut flat = Vec::new();
        let mut done = BTreeSet::new();
        let mut next = 0;
        while next < self.asked.len() {
            let (name, at) = self.asked[next].clone();
            next += 1;
            if done.insert(name.clone()) {
                self.target(&name, &at, &known, &mut flat);
            }
        }
        flat.sort_by_key(name_of);
        let home = path.parent().unwrap_or(&path).to_owned();
        for target in &mut flat {
            self.settings(target, &home);
        }
        let span = root.span.clone();
        let mut out = tree::map([("$schema", tree::text(SCHEMA, &span))], &span);
        for (key, value) in root.entries().unwrap_or_default() {
            if key.text != "targets" {
                set(&mut out, &key.text, value.clone());
            }
        }
        set(&mut out, "targets", Node { value: NodeValue::List(flat), span });
        Some(out)
    }

    fn no_targets(&mut self, at: &Span) {
        let names: Vec<String> = self.asked.iter().map(|(name, _)| format!("`{name}`")).collect();
        let what =
            if names.is_empty() { "targets".to_owned() } else { format!("the targets {}", names.join(", ")) };
        let why = "no `targets.yaml` from the suite's directory up: add one where the bundle runs";
        self.files.leave(what, why);
        let hint = "`run-evals init` writes one, and `--targets FILE` sets another";
        self.warn(at, "no `targets.yaml`: the bundle has no targets", hint);
    }

    /// Adds a target, or reports why it is left behind.
    fn target(&mut self, name: &str, at: &Span, known: &[Node], flat: &mut Vec<Node>) {
        let find = |name: &str| known.iter().find(|node| get_str(node, "name").map(str::trim) == Some(name));
        let Some(first) = find(name) else {
            let names: Vec<&str> = known.iter().filter_map(|node| get_str(node, "name")).collect();
            let hint = match did_you_mean(name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the targets file has `{}`", names.join("`, `")),
            };
            self.files.leave(format!("the target `{name}`"), "the targets file does not contain it");
            self.warn(
                at,
                format!("no target `{name}`: tests that need it fail, here and in the bundle"),
                hint,
            );
            return;
        };
        let target = match self.follow(first, known) {
            End::Target(target) => target,
            End::Nowhere => return,
            End::Unset(variable) => {
                // The choice is made where the bundle runs, so include every possible target.
                let what = format!("the choice of target `{name}`");
                self.files.leave(what, format!("`{variable}` is not set; set it where the bundle runs"));
                let message =
                    format!("`{variable}` is not set: the bundle includes every target of the file");
                self.warn(
                    &first.span,
                    message,
                    "set it for this command to include only the target that it names",
                );
                for node in known {
                    if let Some(other) = get_str(node, "name") {
                        self.ask(other, at);
                    }
                }
                first.clone()
            }
        };
        // AgentV writes the name of the last target of the chain into its results, so keep the chain.
        let last = get_str(&target, "name").unwrap_or(name).trim().to_owned();
        if last != name {
            let link = [("name", tree::text(name, at)), ("use_target", tree::text(last.clone(), at))];
            flat.push(tree::map(link, at));
            self.ask(&last, at);
            return;
        }
        for key in ["grader_target", "judge_target"] {
            if let Some(grader) = get(&target, key).cloned() {
                self.grader(&grader);
            }
        }
        for fallback in get(&target, "fallback_targets").and_then(Node::items).unwrap_or_default().to_vec() {
            if let Some(name) = fallback.as_str() {
                self.ask(name, &fallback.span);
            }
        }
        flat.push(target);
    }

    fn grader(&mut self, grader: &Node) {
        let Some(text) = grader.as_str() else { return };
        let Some(reference) = Reference::whole(text) else {
            self.ask(text, &grader.span);
            return;
        };
        match self.env.get(reference.name).map(ToOwned::to_owned) {
            Some(name) => {
                self.chosen
                    .entry(reference.name.to_owned())
                    .or_default()
                    .insert(format!("the grader: {text}"));
                self.ask(&name, &grader.span);
            }
            None => self.files.leave(format!("the grader `{text}`"), "the variable is not set"),
        }
    }

    fn follow(&mut self, first: &Node, known: &[Node]) -> End {
        let mut node = first;
        let mut way = vec![get_str(first, "name").unwrap_or_default().to_owned()];
        while let Some(link) = get(node, "use_target") {
            let Some(text) = link.as_str() else { break };
            let wanted = match Reference::whole(text) {
                None => text.trim().to_owned(),
                Some(reference) => match self.env.get(reference.name) {
                    Some(value) => {
                        let what = format!("use_target: {text}");
                        let value = value.trim().to_owned();
                        self.chosen.entry(reference.name.to_owned()).or_default().insert(what);
                        value
                    }
                    None => return End::Unset(reference.name.to_owned()),
                },
            };
            way.push(wanted.clone());
            let circle = way[..way.len() - 1].contains(&wanted);
            let next = known.iter().find(|node| get_str(node, "name").map(str::trim) == Some(&wanted));
            let shown = way.join(" → ");
            let problem = match next {
                _ if circle => format!("`use_target` is circular: {shown}"),
                None => format!("`use_target` does not resolve: {shown}"),
                _ if way.len() > MOST_LINKS => {
                    format!("`use_target` is nested more than {MOST_LINKS} levels deep: {shown}")
                }
                Some(next) => {
                    node = next;
                    continue;
                }
            };
            let names: Vec<&str> = known.iter().filter_map(|node| get_str(node, "name")).collect();
            let hint = format!("the targets file has `{}`", names.join("`, `"));
            self.problems.error_with_hint(&link.span, problem, hint);
            return End::Nowhere;
        }
        End::Target(node.clone())
    }

    /// Includes the files that the settings of a target name.
    fn settings(&mut self, target: &mut Node, home: &Path) {
        if get(target, "use_target").is_some() && get(target, "provider").is_none() {
            return;
        }
        self.literal_secrets(target);
        if let Some(certificates) = get_mut(target, "ca_file") {
            self.data_file(certificates, home);
        }
        let provider = get_str(target, "provider").unwrap_or_default().to_owned();
        match provider.as_str() {
            "replay" => self.replay(target),
            "mock" => {
                if let Some(script) = get_mut(target, "script") {
                    self.data_file(script, home);
                }
            }
            "claude" | "claude-cli" | "claude-sdk" | "codex" | "copilot" | "copilot-cli" | "copilot-sdk"
            | "pi-cli" | "pi-coding-agent" | "vscode" | "vscode-insiders" | "copilot-log" => {
                self.agent(target, &provider);
            }
            _ => self.cli(target, &provider),
        }
    }

    /// Keys must be references, never literal.
    fn literal_secrets(&mut self, target: &Node) {
        for (key, value) in target.entries().unwrap_or_default() {
            let literal = value.as_str().is_some_and(|text| !text.is_empty() && !text.contains("${{"));
            if is_secret_name(&key.text) && literal {
                self.problems.error_with_hint(
                    &key.span,
                    format!("`{}` is a literal value that would be in the bundle", key.text),
                    format!("write `{}: ${{{{ NAME }}}}` and set the variable", key.text),
                );
            }
        }
    }

    /// A target that is a command, under any provider name.
    fn cli(&mut self, target: &mut Node, provider: &str) {
        let Some(base) = self.directory_of(target) else { return };
        let missing = if self.has_workspace { Missing::Fine } else { Missing::Error };
        if let Some(command) = get_mut(target, "command") {
            let span = command.span.clone();
            self.in_workspace = self.has_workspace;
            let place = self.command(command, Style::Shell, &base, missing);
            self.in_workspace = false;
            if let Some(place) = place {
                if let Some(links) = &mut self.linked {
                    links.insert(place.clone());
                }
                set(target, "cwd", tree::text(place, &span));
            }
        } else {
            // AgentV runs an unknown provider as a script of that name.
            let script = base.join(".agentv/providers").join(format!("{provider}.ts"));
            let at = target.span.clone();
            if script.is_file() && self.files.add(Area::Scripts, &script, &at, &mut self.problems).is_some() {
                self.needs(&script, std::slice::from_ref(&base), &at);
                if let Some(place) = self.files.place(Area::Scripts, &base) {
                    set(target, "cwd", tree::text(place, &at));
                }
            }
        }
        if let Some(check) = get_mut(target, "healthcheck").filter(|check| get(check, "command").is_some())
            && let Some(base) = self.directory_of(check)
        {
            self.run_in_image(check, &base, Style::Shell, "cwd");
        }
    }

    /// The working directory of a target's command.
    fn directory_of(&mut self, node: &Node) -> Option<PathBuf> {
        let Some(cwd) = get(node, "cwd").cloned() else { return Some(self.lookup.dir.clone()) };
        let text = self.choice(&cwd, "`cwd`")?;
        let dir = normalized(&self.lookup.dir.join(&text));
        if !dir.is_dir() {
            self.problems.error(&cwd.span, format!("no such directory: `{text}`"));
            return None;
        }
        Some(dir)
    }

    /// A recording is found by the suite that it was made for.
    fn replay(&mut self, target: &mut Node) {
        let dir = self.lookup.dir.clone();
        for key in ["fixtures", "execution_traces"] {
            if let Some(path) = get_mut(target, key) {
                self.data_file(path, &dir);
            }
        }
        let at = target.span.clone();
        if get(target, "eval_path").is_none()
            && let Some(path) = self.files.relative(&self.places.suite)
        {
            set(target, "eval_path", tree::text(path, &at));
        }
        if get(target, "suite").is_none() && self.unnamed {
            set(target, "suite", tree::text(suite_name(&self.places.suite), &at));
        }
    }

    fn data_file(&mut self, node: &mut Node, base: &Path) {
        let at = node.span.clone();
        let Some(text) = self.choice(node, "the file") else { return };
        let path = normalized(&base.join(text));
        if let Some(place) = self.files.add(Area::Data, &path, &at, &mut self.problems) {
            *node = tree::text(place, &at);
        }
    }

    /// An agent must be installed, and its directories are local.
    fn agent(&mut self, target: &mut Node, provider: &str) {
        self.files.leave(format!("the agent `{provider}`"), "it must be installed where the bundle runs");
        for key in
            ["cwd", "log_dir", "log_directory", "session_dir", "session_state_dir", "executable", "cli_path"]
        {
            let Some(node) = get(target, key).cloned() else { continue };
            let absolute = node.as_str().is_some_and(|text| Path::new(text).is_absolute());
            if absolute {
                let text = node.as_str().unwrap_or_default().to_owned();
                self.files.leave(text.clone(), format!("`{key}` of a target is a path on this machine"));
                let message = format!("`{key}` is a path on this machine, and is left behind");
                self.warn(&node.span, message, "set it with a variable: `${{ NAME }}`");
                if key.starts_with("log_") {
                    remove(target, key);
                }
            }
        }
    }
}
