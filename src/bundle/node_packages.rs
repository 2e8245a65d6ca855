//! Packages that `package.json` takes from the repository: `file:`, `link:` and `workspace:` dependencies, and workspace members.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use globset::GlobBuilder;
use serde_json::Value;
use walkdir::WalkDir;

use super::compiler::Compiler;
use super::files::Area;
use super::ignore::{NODE_LOCKS, ignored};
use super::needs::{Bases, LONGEST_SCRIPT, Task, without_repeats};
use super::script_text::Script;
use crate::config::{Span, normalized};
use crate::util::regular_file;

const PACKAGE: &str = "package.json";
const PNPM: &str = "pnpm-workspace.yaml";
const KINDS: [&str; 4] = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];
/// Keys of the root that replace a package, also inside `pnpm`.
const REPLACEMENTS: [&str; 2] = ["overrides", "resolutions"];
const PATCHES: &str = "patchedDependencies";
/// How deep workspace members are searched.
const DEEPEST: usize = 5;

/// The packages of a workspace, by name.
#[derive(Debug)]
struct NodeWorkspace {
    dir: PathBuf,
    members: BTreeMap<String, PathBuf>,
    /// The directories of the members.
    dirs: HashSet<PathBuf>,
}

/// A cache of packages, so that each file is read once.
#[derive(Debug, Default)]
pub(super) struct Packages {
    /// The workspace with this root directory.
    workspaces: HashMap<PathBuf, Option<Rc<NodeWorkspace>>>,
    /// The entry files of a package.
    entries: HashMap<PathBuf, Rc<EntryFiles>>,
}

#[derive(Debug)]
struct EntryFiles {
    there: Vec<PathBuf>,
    /// Whether entry files are named, but none exists.
    missing: bool,
}

/// The lines of a file by the quoted texts in them.
#[derive(Debug)]
struct QuotedTexts<'t>(HashMap<&'t str, Vec<usize>>);

impl<'t> QuotedTexts<'t> {
    fn new(text: &'t str) -> Self {
        let mut lines: HashMap<&str, Vec<usize>> = HashMap::new();
        for (i, line) in text.lines().enumerate() {
            let (Some(start), Some(end)) = (line.find('"'), line.rfind('"')) else { continue };
            for quoted in line.get(start + 1..end).unwrap_or_default().split('"') {
                let known = lines.entry(quoted).or_default();
                if known.last() != Some(&(i + 1)) {
                    known.push(i + 1);
                }
            }
        }
        Self(lines)
    }

    /// The first line that has both texts.
    fn line_of(&self, name: &str, wanted: &str) -> usize {
        let (Some(names), Some(wanted)) = (self.0.get(name), self.0.get(wanted)) else { return 1 };
        names.iter().copied().find(|line| wanted.binary_search(line).is_ok()).unwrap_or(1)
    }
}

impl Compiler<'_> {
    /// Includes the repository's packages that a `package.json` depends on, and what their installation needs.
    pub(super) fn local_packages(&mut self, package: &Path, packages: &mut Packages, at: &Span) -> Vec<Task> {
        let mut tasks = Vec::new();
        if !self.looked_at.insert((package.to_owned(), PathBuf::new())) {
            return tasks;
        }
        let text = match regular_file::read_to_string(package, LONGEST_SCRIPT) {
            Ok(text) => text,
            Err(error) => {
                let script = Script { path: package, text: "", inline: None };
                let what = "the local dependencies of `package.json`";
                self.report(script, 1, what, &error.to_string(), "make `package.json` smaller");
                return tasks;
            }
        };
        let json = parse(&text);
        let lines = QuotedTexts::new(&text);
        let dir = package.parent().unwrap_or(package).to_owned();
        let workspace = self.workspace_around(&dir, packages);
        let script = Script { path: package, text: &text, inline: None };
        let mut is_member =
            workspace.as_ref().is_some_and(|workspace| workspace.dir != dir && workspace.dirs.contains(&dir));
        for (name, wanted) in dependencies(&json) {
            // `workspace:name@*` is a member under another name.
            let alias = wanted.strip_prefix("workspace:").and_then(|alias| Some(alias.rsplit_once('@')?.0));
            let original = alias.filter(|original| !original.is_empty()).unwrap_or(name);
            let member = workspace.as_ref().and_then(|workspace| workspace.members.get(original));
            let target = match (local_path(wanted), member) {
                (Some(path), _) => normalized(&dir.join(path)),
                (None, Some(member)) => {
                    is_member = true;
                    member.clone()
                }
                (None, None) if wanted.starts_with("workspace:") => {
                    let what = format!("the package `{name}`");
                    let why = "no workspace member has this name";
                    let line = lines.line_of(name, wanted);
                    self.report(
                        script,
                        line,
                        &what,
                        why,
                        "add it to `workspaces` of the root `package.json`",
                    );
                    continue;
                }
                (None, None) => continue,
            };
            let line = lines.line_of(name, wanted);
            tasks.extend(self.local_package(script, line, name, &target, packages, at));
            self.restored_by(script, line, workspace.as_deref());
        }
        for patch in patches(&json).map(|patch| normalized(&dir.join(patch))).filter(|patch| patch.is_file())
        {
            self.files.add(Area::Scripts, &patch, at, &mut self.problems);
        }
        if let Some(workspace) = workspace.filter(|_| is_member) {
            self.workspace_files(&workspace, at);
        }
        tasks
    }

    fn local_package(
        &mut self,
        script: Script<'_>,
        line: usize,
        name: &str,
        target: &Path,
        packages: &mut Packages,
        at: &Span,
    ) -> Vec<Task> {
        let what = format!("the package `{name}`");
        let real = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        if !real.starts_with(&self.places.root) || !target.starts_with(&self.places.root) {
            let why = "it is outside the repository";
            self.report(script, line, &what, why, "publish it, or move it into the repository");
            return Vec::new();
        }
        if !target.exists() {
            self.report(
                script,
                line,
                &what,
                "its directory does not exist",
                "fix the path in `package.json`",
            );
            return Vec::new();
        }
        if self.lookup.dir.starts_with(target) {
            // The suite is inside the package: include only its entry files.
            self.files.add(Area::Scripts, &target.join(PACKAGE), at, &mut self.problems);
        } else {
            self.files.add(Area::Scripts, target, at, &mut self.problems);
        }
        let inner = target.join(PACKAGE);
        if !inner.is_file() {
            return Vec::new();
        }
        let mut tasks = self.entry_files(script, line, name, target, packages, at);
        tasks.push(Task::Package(inner));
        tasks
    }

    /// Includes the entry files of a package. They are often build output, which git ignores.
    fn entry_files(
        &mut self,
        script: Script<'_>,
        line: usize,
        name: &str,
        dir: &Path,
        packages: &mut Packages,
        at: &Span,
    ) -> Vec<Task> {
        let known = packages.entries.get(dir).map(Rc::clone);
        let is_new = known.is_none();
        let entries = known.unwrap_or_else(|| Rc::new(entries_of(dir)));
        if entries.missing {
            let what = format!("the entry files of the package `{name}`");
            let why = "its `package.json` names files that do not exist";
            self.report(script, line, &what, why, "build the package before you bundle the suite");
        }
        if !is_new {
            return Vec::new();
        }
        packages.entries.insert(dir.to_owned(), Rc::clone(&entries));
        let base: Bases = [dir.to_owned()].into();
        for path in &entries.there {
            self.files.add(Area::Scripts, path, at, &mut self.problems);
        }
        entries.there.iter().map(|path| Task::Script(path.clone(), Rc::clone(&base))).collect()
    }

    /// Reports how to install the packages where the bundle runs.
    fn restored_by(&mut self, script: Script<'_>, line: usize, workspace: Option<&NodeWorkspace>) {
        let package = script.path.parent().unwrap_or(script.path);
        let root = self.places.root.clone();
        let mut dirs = package.ancestors().take_while(|dir| dir.starts_with(&root));
        let lock = dirs.find_map(|dir| Some((dir, NODE_LOCKS.iter().find(|lock| dir.join(lock).is_file())?)));
        let around = workspace.map_or(package, |workspace| &workspace.dir);
        let (dir, program) =
            lock.map_or((around, "npm install --no-package-lock"), |(dir, lock)| (dir, install_of(lock)));
        let Some(place) = self.files.place(Area::Scripts, dir) else { return };
        let what = self.files.relative(&package.join("node_modules")).unwrap_or_default();
        let why = format!("packages: run `{program}` in `{place}`");
        let Some(file) = self.files.relative(script.path) else { return };
        self.files.leave_at(what, why, file, u32::try_from(line).unwrap_or(u32::MAX));
    }

    /// The settings of a workspace, and the `package.json` of each member, which installation needs.
    fn workspace_files(&mut self, workspace: &NodeWorkspace, at: &Span) {
        if !self.looked_at.insert((workspace.dir.clone(), PathBuf::new())) {
            return;
        }
        let names = [PACKAGE, PNPM, ".yarnrc.yml"].into_iter().chain(NODE_LOCKS);
        let of_root = names.map(|name| workspace.dir.join(name)).filter(|path| path.is_file());
        let of_members = workspace.members.values().map(|dir| dir.join(PACKAGE));
        for path in of_root.chain(of_members).collect::<Vec<_>>() {
            self.files.add(Area::Scripts, &path, at, &mut self.problems);
        }
    }

    /// The workspace that a directory belongs to.
    fn workspace_around(&self, dir: &Path, packages: &mut Packages) -> Option<Rc<NodeWorkspace>> {
        let root = &self.places.root;
        dir.ancestors().take_while(|dir| dir.starts_with(root)).find_map(|dir| {
            if let Some(known) = packages.workspaces.get(dir) {
                return known.clone();
            }
            let found = patterns_of(dir).map(|patterns| {
                let members = members(dir, &patterns);
                let dirs = members.values().cloned().collect();
                Rc::new(NodeWorkspace { dir: dir.to_owned(), members, dirs })
            });
            packages.workspaces.insert(dir.to_owned(), found.clone());
            found
        })
    }
}

/// The entry files of the package in a directory.
fn entries_of(dir: &Path) -> EntryFiles {
    let json = read(&dir.join(PACKAGE));
    let mut named = Vec::new();
    for key in ["main", "module", "exports", "bin"] {
        strings(&json[key], &mut named);
    }
    let files: Vec<PathBuf> = named
        .iter()
        .filter(|name| !name.contains('*'))
        .map(|name| normalized(&dir.join(name)))
        .filter(|path| path.starts_with(dir))
        .collect();
    let files = without_repeats(files);
    let there: Vec<PathBuf> = files.iter().filter(|path| path.is_file()).cloned().collect();
    EntryFiles { missing: there.is_empty() && !files.is_empty(), there }
}

/// The install command for a lock file. It must not write a lock file, which would change the bundle.
fn install_of(lock: &str) -> &'static str {
    match lock {
        "bun.lock" | "bun.lockb" => "bun install --no-save",
        "pnpm-lock.yaml" => "pnpm install --no-frozen-lockfile --lockfile=false",
        "yarn.lock" => "yarn install --pure-lockfile",
        _ => "npm install --no-package-lock",
    }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap_or_default()
}

fn read(path: &Path) -> Value {
    parse(&regular_file::read_to_string(path, LONGEST_SCRIPT).unwrap_or_default())
}

/// The path of a dependency on a directory or archive. npm takes a path without `file:`, too.
fn local_path(wanted: &str) -> Option<&str> {
    let path = ["file:", "link:", "portal:"].iter().find_map(|kind| wanted.strip_prefix(kind));
    let is_path = |path: &&str| ["./", "../", "/"].iter().any(|start| path.starts_with(start));
    path.map(|path| path.trim_start_matches("//"))
        .or_else(|| Some(wanted.strip_prefix("workspace:").unwrap_or(wanted)).filter(is_path))
}

fn dependencies(json: &Value) -> Vec<(&str, &str)> {
    let wanted = KINDS.into_iter().flat_map(|kind| texts(&json[kind]));
    let replaced = [json, &json["pnpm"]].into_iter().flat_map(|json| REPLACEMENTS.map(|kind| &json[kind]));
    let replaced = replaced.flat_map(texts).filter(|(_, wanted)| local_path(wanted).is_some());
    wanted.chain(replaced).collect()
}

/// The files with changes to packages of a registry.
fn patches(json: &Value) -> impl Iterator<Item = &str> {
    [json, &json["pnpm"]].into_iter().flat_map(|json| texts(&json[PATCHES])).map(|(_, patch)| patch)
}

/// The entries of an object that are texts.
fn texts(json: &Value) -> impl Iterator<Item = (&str, &str)> {
    let entries = json.as_object().into_iter().flatten();
    entries.filter_map(|(name, text)| Some((name.as_str(), text.as_str()?)))
}

fn strings<'j>(json: &'j Value, found: &mut Vec<&'j str>) {
    match json {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(map) => map.values().for_each(|value| strings(value, found)),
        _ => {}
    }
}

/// The member patterns of a workspace root.
fn patterns_of(dir: &Path) -> Option<Vec<String>> {
    let of = |json: &Value| {
        let items = json.as_array()?.iter();
        Some(items.filter_map(|item| Some(item.as_str()?.to_owned())).collect::<Vec<_>>())
    };
    if let Ok(text) = regular_file::read_to_string(&dir.join(PNPM), LONGEST_SCRIPT) {
        let yaml: Value = serde_yaml::from_str(&text).unwrap_or_default();
        return of(&yaml["packages"]);
    }
    let json = read(&dir.join(PACKAGE));
    of(&json["workspaces"]).or_else(|| of(&json["workspaces"]["packages"]))
}

fn members(root: &Path, patterns: &[String]) -> BTreeMap<String, PathBuf> {
    let matcher = |pattern: &str| {
        let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
        GlobBuilder::new(pattern).literal_separator(true).build().ok().map(|glob| glob.compile_matcher())
    };
    let (without, with): (Vec<&String>, Vec<&String>) =
        patterns.iter().partition(|pattern| pattern.starts_with('!'));
    let with: Vec<_> = with.into_iter().filter_map(|pattern| matcher(pattern)).collect();
    let without: Vec<_> = without.into_iter().filter_map(|pattern| matcher(&pattern[1..])).collect();
    let dirs = WalkDir::new(root)
        .min_depth(1)
        .max_depth(DEEPEST)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| entry.file_type().is_dir() && ignored(entry.path()).is_none())
        .filter_map(Result::ok);
    let mut found = BTreeMap::new();
    for dir in dirs.map(walkdir::DirEntry::into_path) {
        let Ok(relative) = dir.strip_prefix(root) else { continue };
        let is_member = with.iter().any(|glob| glob.is_match(relative))
            && !without.iter().any(|glob| glob.is_match(relative))
            && dir.join(PACKAGE).is_file();
        if !is_member {
            continue;
        }
        if let Some(name) = read(&dir.join(PACKAGE))["name"].as_str().map(ToOwned::to_owned) {
            found.entry(name).or_insert(dir);
        }
    }
    found
}
