//! The dependencies of a script: its directory, its package, and the files that it names.
//!
//! What a program reads is unknown until it runs. Everything that its text names is included: rather too much than too
//! little.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::command::is_script_name;
use super::compiler::Compiler;
use super::files::Area;
use super::ignore::{ENVIRONMENT, NODE_LOCKS, ignored};
use super::node_packages::Packages;
use super::python::PROJECT_FILES;
use super::script_text::Script;
use crate::config::{Span, normalized};
use crate::util::regular_file;
use crate::util::secrets::{FileName, file_name};

/// Longer files are not handwritten scripts.
pub(super) const LONGEST_SCRIPT: u64 = 1 << 20;
const REQUIREMENTS: &str = "requirements.txt";
const NODE_ENDINGS: [&str; 8] = ["", ".ts", ".js", ".mts", ".mjs", ".tsx", "/index.ts", "/index.js"];

/// A file or directory to check. Scripts can name each other in long chains, so this is a work list instead of recursion.
#[derive(Debug)]
pub(super) enum Task {
    /// A file, or all scripts of a directory.
    All(PathBuf, Bases),
    /// A script and the scripts next to it.
    Script(PathBuf, Bases),
    /// The text of a script.
    Text(PathBuf, Bases),
    /// A path that a script names.
    Named(PathBuf, Bases),
    /// A `package.json`.
    Package(PathBuf),
    /// A `requirements.txt`.
    Requirements(PathBuf),
}

/// The working directories of a script.
pub(super) type Bases = Rc<[PathBuf]>;

impl Compiler<'_> {
    /// Includes the dependencies of a file, or of all files in a directory.
    pub(super) fn needs_of(&mut self, path: &Path, bases: &[PathBuf], at: &Span) {
        self.look_into(vec![Task::All(path.to_owned(), bases.into())], at);
    }

    /// Includes the dependencies of a script that runs in one of these directories.
    pub(super) fn needs(&mut self, script: &Path, bases: &[PathBuf], at: &Span) {
        self.look_into(vec![Task::Script(script.to_owned(), bases.into())], at);
    }

    /// Includes what a script names, with its dependencies.
    pub(super) fn take_named(&mut self, path: &Path, bases: &[PathBuf], at: &Span) {
        self.look_into(vec![Task::Named(path.to_owned(), bases.into())], at);
    }

    /// Includes the package files of a script.
    pub(super) fn packages(&mut self, script: &Path, at: &Span) {
        let tasks = self.packages_of(script, at);
        self.look_into(tasks, at);
    }

    /// Processes the tasks, depth first.
    fn look_into(&mut self, mut tasks: Vec<Task>, at: &Span) {
        let mut packages = Packages::default();
        tasks.reverse();
        while let Some(task) = tasks.pop() {
            let mut more = match task {
                Task::All(path, bases) => self.scripts_of(path, &bases),
                Task::Script(path, bases) => self.script(&path, &bases, at),
                Task::Text(path, bases) => self.text_of(&path, &bases, at),
                Task::Named(path, bases) => self.named(path, &bases, at),
                Task::Package(path) => self.local_packages(&path, &mut packages, at),
                Task::Requirements(path) => self.requirements(&path, at),
            };
            more.reverse();
            tasks.append(&mut more);
        }
    }

    fn scripts_of(&mut self, path: PathBuf, bases: &Bases) -> Vec<Task> {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        if !real.starts_with(&self.places.root) {
            return Vec::new();
        }
        if real.is_file() {
            return vec![Task::Script(path, Rc::clone(bases))];
        }
        // `*` marks a directory that was walked, which `script` does not do.
        if !self.looked_at.insert((real.join("*"), self.base_of(bases))) {
            return Vec::new();
        }
        walkdir::WalkDir::new(path)
            .sort_by_file_name()
            .into_iter()
            .filter_entry(|entry| ignored(entry.path()).is_none())
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_file() && is_script_name(entry.path()))
            .map(|entry| Task::Script(entry.into_path(), Rc::clone(bases)))
            .collect()
    }

    fn script(&mut self, script: &Path, bases: &Bases, at: &Span) -> Vec<Task> {
        // The neighbors of a link are those of its target.
        let script = script.canonicalize().unwrap_or_else(|_| script.to_owned());
        let base = self.base_of(bases);
        if !script.starts_with(&self.places.root) || !self.looked_at.insert((script.clone(), base.clone())) {
            return Vec::new();
        }
        if script_text(&script).is_none() {
            return Vec::new();
        }
        let Some(dir) = script.parent().map(Path::to_owned) else { return Vec::new() };
        let mut tasks = Vec::new();
        // The suite's own directory and its parents contain more than this script's files.
        if !self.lookup.dir.starts_with(&dir) && dir != self.places.root {
            self.files.add(Area::Scripts, &dir, at, &mut self.problems);
            if self.looked_at.insert((dir.clone(), base)) {
                let siblings = scripts_in(&dir).into_iter();
                tasks.extend(siblings.map(|sibling| Task::Script(sibling, Rc::clone(bases))));
            }
        }
        tasks.push(Task::Text(script, Rc::clone(bases)));
        tasks
    }

    fn text_of(&mut self, script: &Path, bases: &Bases, at: &Span) -> Vec<Task> {
        let Some(text) = script_text(script) else { return Vec::new() };
        let Some(dir) = script.parent().map(Path::to_owned) else { return Vec::new() };
        let mut tasks = self.packages_of(script, at);
        let mut from = vec![dir];
        from.extend(bases.iter().cloned());
        let mut names = HashSet::new();
        let mut found: Vec<PathBuf> = named_paths(&text)
            .filter(|name| names.insert(*name))
            .flat_map(|name| from.iter().filter_map(move |dir| named_file(dir, name)))
            .collect();
        let lines = Script { path: script, text: &text, inline: None };
        if is_python(script, &text) {
            found.extend(self.imported(lines, &from, at));
            tasks.extend(self.inline_requirements(lines));
        }
        found.extend(if is_shell(script, &text) {
            self.shell_script(lines, bases)
        } else {
            self.other_script(lines)
        });
        let named = without_repeats(found).into_iter();
        tasks.extend(named.map(|path| Task::Named(path, Rc::clone(bases))));
        tasks
    }

    fn named(&mut self, path: PathBuf, bases: &Bases, at: &Span) -> Vec<Task> {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let holds_suite = self.lookup.dir.starts_with(&real);
        if holds_suite || !real.starts_with(&self.places.root) {
            return Vec::new();
        }
        if on_the_way(&path, &self.places.root) && !self.files.included.has(&path) {
            if file_name(&path) == Some(FileName::Environment)
                && let Some(what) = self.files.relative(&path)
            {
                self.files.leave(what, ENVIRONMENT);
            }
            return Vec::new();
        }
        self.files.add(Area::Scripts, &path, at, &mut self.problems);
        vec![Task::All(path, Rc::clone(bases))]
    }

    /// The working directory of a script.
    fn base_of(&self, bases: &[PathBuf]) -> PathBuf {
        bases.last().unwrap_or(&self.lookup.dir).clone()
    }

    /// The package files of a script, the nearest of each kind.
    fn packages_of(&mut self, script: &Path, at: &Span) -> Vec<Task> {
        let mut tasks = Vec::new();
        let ending = script.extension().and_then(|end| end.to_str()).unwrap_or_default().to_owned();
        let groups: &[&[&str]] = match ending.as_str() {
            "py" => &[&PROJECT_FILES, &[REQUIREMENTS], &["uv.lock", "poetry.lock"]],
            "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" | "tsx" | "jsx" | "json" => {
                &[&["package.json"], &NODE_LOCKS, &["tsconfig.json"], &["bunfig.toml"]]
            }
            _ => return tasks,
        };
        let root = self.places.root.clone();
        let dirs: Vec<PathBuf> =
            script.ancestors().skip(1).take_while(|dir| dir.starts_with(&root)).map(Path::to_owned).collect();
        for group in groups {
            let nearest = dirs.iter().find(|dir| group.iter().any(|name| dir.join(name).is_file()));
            let Some(dir) = nearest else { continue };
            for name in group.iter().filter(|name| dir.join(name).is_file()) {
                self.files.add(Area::Scripts, &dir.join(name), at, &mut self.problems);
            }
            match group[0] {
                "package.json" => tasks.push(Task::Package(dir.join("package.json"))),
                "tsconfig.json" => self.extended(&dir.join("tsconfig.json"), at),
                "pyproject.toml" => self.project_files(dir, at),
                REQUIREMENTS => tasks.push(Task::Requirements(dir.join(REQUIREMENTS))),
                _ => {}
            }
            let packages = dir.join("node_modules");
            if group[0] == "package.json" && packages.is_dir() {
                let why = ignored(&packages).map(|ignored| ignored.why).unwrap_or_default();
                let what = self.files.relative(&packages).unwrap_or_default();
                self.files.leave(what, why);
            }
        }
        tasks
    }
}

impl Compiler<'_> {
    /// The repository's modules that a Python script imports: from its directory and its project.
    fn imported(&mut self, script: Script<'_>, from: &[PathBuf], at: &Span) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let dir = script.path.parent().unwrap_or(script.path);
        let mut roots = self.module_roots(dir);
        let sets_path = script.text.contains("sys.path");
        if sets_path {
            let root = self.places.root.clone();
            let dirs = dir.ancestors().take_while(|dir| dir.starts_with(&root));
            roots
                .extend(dirs.flat_map(|dir| ["", "src", "lib"].map(|name| (dir.join(name), dir.to_owned()))));
        }
        for (line, module) in imports(script.text) {
            let near: Vec<PathBuf> = from.iter().filter_map(|dir| module_in(dir, &module)).collect();
            if !near.is_empty() {
                found.extend(near);
                continue;
            }
            // Relative imports refer to the package itself.
            let mut of_project = roots.iter().filter(|_| module.0 == 0);
            let hit = of_project.find_map(|(dir, project)| Some((module_in(dir, &module)?, project)));
            let Some((path, project)) = hit else { continue };
            found.push(path);
            let (place, file) = (self.files.place(Area::Scripts, project), self.files.relative(script.path));
            if let (Some(place), Some(file), false) =
                (place, file, sets_path || dir.starts_with(project.join("src")))
            {
                self.project_files(&project.clone(), at);
                let what = format!("the installed Python project of `{}`", module.1);
                let why =
                    format!("`uv run` installs it; else run `pip install -e {place}` where the bundle runs");
                self.files.leave_at(what, why, file, u32::try_from(line).unwrap_or(u32::MAX));
            }
        }
        found
    }

    /// The base settings of a `tsconfig.json`.
    fn extended(&mut self, config: &Path, at: &Span) {
        let mut configs = vec![config.to_owned()];
        while let Some(config) = configs.pop() {
            if !self.looked_at.insert((config.clone(), PathBuf::new())) {
                continue;
            }
            let text = regular_file::read_to_string(&config, LONGEST_SCRIPT).unwrap_or_default();
            let Some(dir) = config.parent() else { continue };
            let lines = text.lines().filter(|line| line.contains("\"extends\""));
            let paths = lines.flat_map(named_paths).filter_map(|name| named_json(dir, name)).collect();
            for path in without_repeats(paths) {
                if path.starts_with(&self.places.root) {
                    self.files.add(Area::Scripts, &path, at, &mut self.problems);
                    configs.push(path);
                }
            }
        }
    }
}

/// The paths without duplicates, in order.
pub(super) fn without_repeats(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    paths
}

fn named_json(dir: &Path, name: &str) -> Option<PathBuf> {
    let names = [name.to_owned(), format!("{name}.json")];
    names.map(|name| normalized(&dir.join(name))).into_iter().find(|path| path.is_file())
}

fn is_python(path: &Path, text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    path.extension().is_some_and(|end| end == "py") || first.starts_with("#!") && first.contains("python")
}

fn is_shell(path: &Path, text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let by_name =
        path.extension().and_then(|end| end.to_str()).is_some_and(|end| matches!(end, "sh" | "bash" | "zsh"));
    let by_line = first.starts_with("#!")
        && first.split(['/', ' ']).any(|word| matches!(word, "sh" | "bash" | "zsh" | "dash"));
    by_name || by_line
}

/// The text of a script; `None` for other files.
fn script_text(path: &Path) -> Option<String> {
    let text = regular_file::read_to_string(path, LONGEST_SCRIPT).ok()?;
    (is_script_name(path) || text.starts_with("#!")).then_some(text)
}

fn scripts_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| is_script_name(path)).collect();
    paths.sort();
    paths
}

/// Texts that look like file paths.
fn named_paths(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "_./@+-".contains(c)))
        .map(|word| word.trim_start_matches('/').trim_end_matches(['.', '/']))
        .filter(|word| word.len() > 2 && word.len() < 256 && word.contains(['.', '/']))
}

/// The file of that name, with the extensions that an import omits.
fn named_file(dir: &Path, name: &str) -> Option<PathBuf> {
    let is_import = name.starts_with("./") || name.starts_with("../");
    // TypeScript files are imported under the name of their output.
    let typed = name.strip_suffix(".js").filter(|_| is_import).map(|stem| format!("{stem}.ts"));
    let endings: &[&str] = if is_import { &NODE_ENDINGS } else { &NODE_ENDINGS[..1] };
    let names = endings.iter().map(|ending| format!("{name}{ending}")).chain(typed);
    names.map(|name| normalized(&dir.join(name))).find(|path| path.is_file())
}

/// The imports of a Python file: line, levels up, and name.
fn imports(text: &str) -> impl Iterator<Item = (usize, (usize, String))> {
    let lines = text.lines().enumerate();
    lines.flat_map(|(i, line)| imports_of(line).into_iter().map(move |module| (i + 1, module)))
}

fn imports_of(line: &str) -> Vec<(usize, String)> {
    let line = line.trim_start();
    let names: Vec<&str> = if let Some(rest) = line.strip_prefix("from ") {
        let (module, names) = rest.split_once(" import ").unwrap_or((rest, ""));
        if module.trim_matches('.').is_empty() {
            // `from . import a, b`
            return names.split(',').map(|name| (module.len(), first_word(name))).collect();
        }
        vec![module]
    } else if let Some(rest) = line.strip_prefix("import ") {
        rest.split(',').collect()
    } else {
        Vec::new()
    };
    let module = |name: &str| {
        let name = name.trim();
        let stem = name.trim_start_matches('.');
        (name.len() - stem.len(), first_word(stem))
    };
    names.into_iter().map(module).collect()
}

fn first_word(text: &str) -> String {
    text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn module_in(dir: &Path, (up, name): &(usize, String)) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    let dir = dir.ancestors().nth(up.saturating_sub(1))?;
    [dir.join(format!("{name}.py")), dir.join(name)]
        .into_iter()
        .find(|path| path.is_file() || is_package(path))
}

/// Whether a directory contains modules; a package needs no `__init__.py`.
fn is_package(dir: &Path) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|end| end == "py"))
}

/// Whether a part of the path is always left behind.
fn on_the_way(path: &Path, root: &Path) -> bool {
    path.ancestors().take_while(|path| path.starts_with(root)).any(|path| ignored(path).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_text() {
        let text = "import {a} from './lib/a.js';\n. \"$(dirname \"$0\")/../env.sh\"\nopen('x/y.json')";
        let names: Vec<_> = named_paths(text).collect();
        assert_eq!(names, ["./lib/a.js", "../env.sh", "x/y.json"]);
    }

    #[test]
    fn python_imports_are_found() {
        let text =
            "import os, helper as h\nfrom pkg.sub import x\nfrom . import near\nfrom ..far.y import z\n";
        let found: Vec<_> = imports(text).collect();
        let expected = [(1, 0, "os"), (1, 0, "helper"), (2, 0, "pkg"), (3, 1, "near"), (4, 2, "far")];
        assert_eq!(found, expected.map(|(line, up, name)| (line, (up, name.to_owned()))));
    }
}
