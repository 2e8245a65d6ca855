//! What a script needs beside it: its directory, its package, and the files that it names.
//!
//! Nobody can tell what a program reads without running it. What is taken is what can be told from its text, and rather too
//! much than too little.

use std::fs;
use std::path::{Path, PathBuf};

use super::command::is_script_name;
use super::compiler::Compiler;
use super::files::Area;
use super::ignore::{NODE_LOCKS, ignored};
use crate::config::{Span, normalized};

/// Longer files are no scripts that somebody wrote.
const LONGEST_SCRIPT: u64 = 1 << 20;
const NODE_ENDINGS: [&str; 8] = ["", ".ts", ".js", ".mts", ".mjs", ".tsx", "/index.ts", "/index.js"];

impl Compiler<'_> {
    /// Takes along what a file or all files of a directory need.
    pub(super) fn needs_of(&mut self, path: &Path, bases: &[PathBuf], at: &Span) {
        if path.is_file() {
            self.needs(path, bases, at);
            return;
        }
        let files: Vec<PathBuf> = walkdir::WalkDir::new(path)
            .sort_by_file_name()
            .into_iter()
            .filter_entry(|entry| ignored(entry.path()).is_none())
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_file() && is_script_name(entry.path()))
            .map(walkdir::DirEntry::into_path)
            .collect();
        for file in files {
            self.needs(&file, bases, at);
        }
    }

    /// Takes along what a script needs that is run in one of these directories.
    pub(super) fn needs(&mut self, script: &Path, bases: &[PathBuf], at: &Span) {
        // A link's neighbours are those of the file that it leads to.
        let script = script.canonicalize().unwrap_or_else(|_| script.to_owned());
        let base = bases.last().unwrap_or(&self.places.dir).clone();
        if !script.starts_with(&self.places.root) || !self.looked_at.insert((script.clone(), base)) {
            return;
        }
        let Some(text) = script_text(&script) else { return };
        let Some(dir) = script.parent().map(Path::to_owned) else { return };
        // The suite's own directory and those above it hold more than this script's things.
        if !self.places.dir.starts_with(&dir) && dir != self.places.root {
            self.files.add(Area::Scripts, &dir, at, &mut self.problems);
            for sibling in scripts_in(&dir) {
                self.needs(&sibling, bases, at);
            }
        }
        self.packages(&script, at);
        let mut from = vec![dir];
        from.extend(bases.iter().cloned());
        let mut found: Vec<PathBuf> = named_paths(&text)
            .flat_map(|name| from.iter().filter_map(move |dir| named_file(dir, name)))
            .collect();
        if script.extension().is_some_and(|end| end == "py") {
            found.extend(
                imports(&text).flat_map(|module| from.iter().filter_map(move |dir| module_in(dir, &module))),
            );
        }
        for path in found {
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            let holds_suite = self.places.dir.starts_with(&real);
            if holds_suite || !real.starts_with(&self.places.root) || on_the_way(&path, &self.places.root) {
                continue;
            }
            self.files.add(Area::Scripts, &path, at, &mut self.problems);
            self.needs_of(&path, bases, at);
        }
    }

    /// The files that say which packages a script may use, the nearest of each kind.
    pub(super) fn packages(&mut self, script: &Path, at: &Span) {
        let ending = script.extension().and_then(|end| end.to_str()).unwrap_or_default().to_owned();
        let groups: &[&[&str]] = match ending.as_str() {
            "py" => &[&["pyproject.toml", "setup.py"], &["uv.lock", "poetry.lock", "requirements.txt"]],
            "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" | "tsx" | "jsx" | "json" => {
                &[&["package.json"], &NODE_LOCKS, &["tsconfig.json"], &["bunfig.toml"]]
            }
            _ => return,
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
            let packages = dir.join("node_modules");
            if group[0] == "package.json" && packages.is_dir() {
                let why = ignored(&packages).map(|ignored| ignored.why).unwrap_or_default();
                let what = self.files.relative(&packages).unwrap_or_default();
                self.files.leave(what, why);
            }
        }
    }
}

/// The text of a script; nothing for other files.
fn script_text(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST_SCRIPT {
        return None;
    }
    let text = String::from_utf8(fs::read(path).ok()?).ok()?;
    (is_script_name(path) || text.starts_with("#!")).then_some(text)
}

fn scripts_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| is_script_name(path)).collect();
    paths.sort();
    paths
}

/// What looks like the path of a file in a text.
fn named_paths(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "_./@+-".contains(c)))
        .map(|word| word.trim_start_matches('/').trim_end_matches(['.', '/']))
        .filter(|word| word.len() > 2 && word.len() < 256 && word.contains(['.', '/']))
}

/// The file of that name, with the endings that an import leaves out.
fn named_file(dir: &Path, name: &str) -> Option<PathBuf> {
    let is_import = name.starts_with("./") || name.starts_with("../");
    // A TypeScript file is imported under the name that it will have.
    let typed = name.strip_suffix(".js").filter(|_| is_import).map(|stem| format!("{stem}.ts"));
    let endings: &[&str] = if is_import { &NODE_ENDINGS } else { &NODE_ENDINGS[..1] };
    let names = endings.iter().map(|ending| format!("{name}{ending}")).chain(typed);
    names.map(|name| normalized(&dir.join(name))).find(|path| path.is_file())
}

/// The modules that a Python file imports: how many levels up, and the name.
fn imports(text: &str) -> impl Iterator<Item = (usize, String)> {
    text.lines().flat_map(|line| {
        let line = line.trim_start();
        let names: Vec<&str> = if let Some(rest) = line.strip_prefix("from ") {
            let (module, names) = rest.split_once(" import ").unwrap_or((rest, ""));
            if module.trim_matches('.').is_empty() {
                // `from . import a, b`
                return names.split(',').map(|name| (module.len(), first_word(name))).collect::<Vec<_>>();
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
    })
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
        .find(|path| path.is_file() || path.join("__init__.py").is_file())
}

/// Whether a part of the path is one that stays behind.
fn on_the_way(path: &Path, root: &Path) -> bool {
    path.ancestors().take_while(|path| path.starts_with(root)).any(|path| ignored(path).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_texts() {
        let text = "import {a} from './lib/a.js';\n. \"$(dirname \"$0\")/../env.sh\"\nopen('x/y.json')";
        let names: Vec<_> = named_paths(text).collect();
        assert_eq!(names, ["./lib/a.js", "../env.sh", "x/y.json"]);
    }

    #[test]
    fn imports_of_python() {
        let text =
            "import os, helper as h\nfrom pkg.sub import x\nfrom . import near\nfrom ..far.y import z\n";
        let found: Vec<_> = imports(text).collect();
        let expected = [(0, "os"), (0, "helper"), (0, "pkg"), (1, "near"), (2, "far")];
        assert_eq!(found, expected.map(|(up, name)| (up, name.to_owned())));
    }
}
