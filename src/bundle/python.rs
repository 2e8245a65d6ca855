//! Python projects: the directories from which their scripts can import modules.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::compiler::Compiler;
use super::files::Area;
use super::needs::{LONGEST_SCRIPT, without_repeats};
use crate::config::{Span, normalized};
use crate::util::regular_file;

/// The files that mark a project.
pub(super) const PROJECT_FILES: [&str; 3] = ["pyproject.toml", "setup.py", "setup.cfg"];
/// The module directories of a project.
const LAYOUTS: [&str; 3] = ["", "src", "lib"];

impl Compiler<'_> {
    /// The directories from which a project around `dir` imports modules, nearest first, each with its project.
    pub(super) fn module_roots(&self, dir: &Path) -> Vec<(PathBuf, PathBuf)> {
        let root = &self.places.root;
        let dirs = dir.ancestors().take_while(|dir| dir.starts_with(root));
        let mut projects: Vec<PathBuf> = dirs.filter(|dir| is_project(dir)).map(Path::to_owned).collect();
        let mut known_projects: HashSet<PathBuf> = projects.iter().cloned().collect();
        let mut roots: Vec<(PathBuf, PathBuf)> = Vec::new();
        let mut known_roots: HashSet<PathBuf> = HashSet::new();
        let mut next = 0;
        while next < projects.len() {
            let project = projects[next].clone();
            next += 1;
            let mut dirs: Vec<PathBuf> = LAYOUTS.iter().map(|layout| project.join(layout)).collect();
            for named in named_in(&project).into_iter().filter(|path| path.is_dir() && path.starts_with(root))
            {
                // A workspace project or a path dependency; else `packages = ["source/name"]` or its parent.
                if is_project(&named) && known_projects.insert(named.clone()) {
                    projects.push(named.clone());
                }
                dirs.extend(named.parent().map(Path::to_owned));
                dirs.push(named);
            }
            for dir in dirs.into_iter().map(|dir| normalized(&dir)) {
                if dir.starts_with(root) && known_roots.insert(dir.clone()) && dir.is_dir() {
                    roots.push((dir, project.clone()));
                }
            }
        }
        roots
    }

    /// Includes the files that a project needs for installation: those in its settings.
    pub(super) fn project_files(&mut self, project: &Path, at: &Span) {
        if !self.looked_at.insert((project.join(PROJECT_FILES[0]), PathBuf::new())) {
            return;
        }
        for path in PROJECT_FILES.map(|name| project.join(name)).into_iter().filter(|path| path.is_file()) {
            self.files.add(Area::Scripts, &path, at, &mut self.problems);
        }
        for path in named_in(project) {
            if path.is_file() && path.starts_with(project) && super::ignore::ignored(&path).is_none() {
                self.files.add(Area::Scripts, &path, at, &mut self.problems);
            }
        }
    }

    /// The module of a command that a project defines: `name = "package.module:function"`.
    pub(super) fn entry_point(&self, name: &str, dir: &Path) -> Option<String> {
        let root = &self.places.root;
        let dirs = dir.ancestors().take_while(|dir| dir.starts_with(root));
        dirs.filter(|dir| is_project(dir)).find_map(|dir| {
            let text = settings(dir);
            text.lines().find_map(|line| {
                let (key, value) = line.split_once('=')?;
                let (module, _) = value.trim().trim_matches(['"', '\'']).split_once(':')?;
                let is_module = module.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
                (key.trim().trim_matches('"') == name && is_module).then(|| module.to_owned())
            })
        })
    }
}

fn is_project(dir: &Path) -> bool {
    PROJECT_FILES.iter().any(|name| dir.join(name).is_file())
}

fn settings(project: &Path) -> String {
    let read = |name: &str| regular_file::read_to_string(&project.join(name), LONGEST_SCRIPT);
    PROJECT_FILES.iter().filter_map(|name| read(name).ok()).collect::<Vec<_>>().join("\n")
}

/// Existing paths quoted in the settings of a project; `packages/*` is each directory there.
fn named_in(project: &Path) -> Vec<PathBuf> {
    let text = settings(project);
    let mut found = Vec::new();
    let mut known = HashSet::new();
    for name in
        text.split(['"', '\'', '\n']).map(str::trim).filter(|name| !name.is_empty() && name.len() < 256)
    {
        if name.contains([' ', '=', ',']) || name.starts_with('/') {
            continue;
        }
        let path = normalized(&project.join(name));
        let is_pattern = name.ends_with("/*");
        if !known.insert((is_pattern, path.clone())) {
            continue;
        }
        if is_pattern {
            let entries = path
                .parent()
                .and_then(|dir| fs::read_dir(dir).ok())
                .into_iter()
                .flatten()
                .filter_map(Result::ok);
            let mut dirs: Vec<PathBuf> =
                entries.map(|entry| entry.path()).filter(|dir| is_project(dir)).collect();
            dirs.sort();
            found.extend(dirs);
        } else if path.exists() && path != project {
            found.push(path);
        }
    }
    without_repeats(found)
}
