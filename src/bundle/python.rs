//! Python projects: the directories from which their scripts can import modules.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::compiler::Compiler;
use super::files::Area;
use super::needs::{LONGEST_SCRIPT, Task, without_repeats};
use super::script_text::Script;
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

impl Compiler<'_> {
    /// Includes the repository's projects in a `requirements.txt`, and the requirement files that it names.
    pub(super) fn requirements(&mut self, file: &Path, at: &Span) -> Vec<Task> {
        let mut tasks = Vec::new();
        if !self.looked_at.insert((file.to_owned(), PathBuf::new())) {
            return tasks;
        }
        let text = regular_file::read_to_string(file, LONGEST_SCRIPT).unwrap_or_default();
        let script = Script { path: file, text: &text, inline: None };
        for (i, line) in text.lines().enumerate() {
            match requirement(line) {
                Some(Requirement::Project(path)) => {
                    tasks.extend(self.local_project(script, i + 1, path));
                }
                Some(Requirement::File(name)) => {
                    let path = normalized(&file.with_file_name(name));
                    if path.starts_with(&self.places.root) && path.is_file() {
                        self.files.add(Area::Scripts, &path, at, &mut self.problems);
                        tasks.push(Task::Requirements(path));
                    }
                }
                None => {}
            }
        }
        tasks
    }

    /// The same for the requirements in a comment of a script: `# /// script`.
    pub(super) fn inline_requirements(&mut self, script: Script<'_>) -> Vec<Task> {
        let lines = script.text.lines().enumerate().skip_while(|(_, line)| line.trim_end() != "# /// script");
        let comment =
            lines.skip(1).take_while(|(_, line)| line.starts_with('#') && line.trim_end() != "# ///");
        let paths = comment.filter_map(|(i, line)| {
            let (before, after) = line.split_once("path")?;
            let value = after.trim_start().strip_prefix('=')?.trim_start();
            let quote = value.chars().next().filter(|c| "\"'".contains(*c))?;
            let is_key = before.ends_with(['{', ' ', ',', '.']);
            is_key.then(|| (i + 1, value[1..].split(quote).next().unwrap_or_default()))
        });
        paths.filter_map(|(line, path)| self.local_project(script, line, path)).collect()
    }

    /// A project of the repository that a file with requirements names.
    fn local_project(&mut self, script: Script<'_>, line: usize, path: &str) -> Option<Task> {
        let target = normalized(&script.path.parent()?.join(path));
        let what = format!("the project `{path}`");
        if !target.starts_with(&self.places.root) {
            let hint = "publish it, or move it into the repository";
            self.report(script, line, &what, "it is outside the repository", hint);
        } else if !target.exists() {
            self.report(script, line, &what, "it does not exist", "fix the path");
        } else if self.lookup.dir.starts_with(&target) {
            let hint = "move the suite out of the project, or install the project where the bundle runs";
            self.report(script, line, &what, "the suite is inside it", hint);
        } else {
            let bases = [target.clone()].into();
            return Some(Task::Named(target, bases));
        }
        None
    }
}

/// A line of a `requirements.txt` that names something local.
#[derive(Debug, PartialEq, Eq)]
enum Requirement<'l> {
    /// `-e ../project`, `./project[extra]`, `name @ file:../project`.
    Project(&'l str),
    /// `-r more.txt`.
    File(&'l str),
}

fn requirement(line: &str) -> Option<Requirement<'_>> {
    let line = line.split(" #").next().unwrap_or_default().trim();
    let option = |names: [&str; 2]| {
        let rest = names.iter().find_map(|name| line.strip_prefix(name))?;
        rest.starts_with([' ', '=', '\t']).then(|| rest[1..].trim())
    };
    if let Some(file) = option(["-r", "--requirement"]).or_else(|| option(["-c", "--constraint"])) {
        return (!file.contains("://")).then_some(Requirement::File(file));
    }
    let wanted = option(["-e", "--editable"]).unwrap_or(line);
    let wanted = wanted.split_once(" @ ").map_or(wanted, |(_, wanted)| wanted.trim());
    let is_local = wanted.starts_with('.') || wanted.starts_with("file:") || wanted.len() < line.len();
    let path = wanted.strip_prefix("file:").unwrap_or(wanted).trim_start_matches("//");
    let path = path.split(['[', ';', ' ']).next().unwrap_or_default();
    let is_path = is_local && !path.is_empty() && !path.contains("://") && !path.starts_with("git+");
    is_path.then_some(Requirement::Project(path))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_requirements_are_recognized() {
        for (line, path) in [
            ("-e ../lib", "../lib"),
            ("--editable=../lib # ours", "../lib"),
            ("./lib[extra]; python_version > '3'", "./lib"),
            ("lib @ file:../lib", "../lib"),
            ("file:///srv/lib", "/srv/lib"),
            ("-e .", "."),
        ] {
            assert_eq!(requirement(line), Some(Requirement::Project(path)), "{line}");
        }
        assert_eq!(requirement("-r base.txt"), Some(Requirement::File("base.txt")));
        for line in [
            "",
            "# -e ../lib",
            "requests>=2",
            "lib @ https://example.com/lib.whl",
            "-e git+https://example.com/lib",
            "--index-url https://example.com",
        ] {
            assert_eq!(requirement(line), None, "{line}");
        }
    }
}
