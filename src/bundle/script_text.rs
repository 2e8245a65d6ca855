//! Analyzes the text of a script: paths that it builds, git calls, copies of the repository.
//!
//! What can be determined is included. The rest is reported with file and line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::compiler::Compiler;
use super::git_call::Repositories;
use super::git_text::git_in_text;
use super::ignore::ignored;
use super::repository_use::{GitCalls, copies, joined_lines};
use super::shell::{Mention, Shell, choice};
use crate::config::{Source, Span, normalized, shown};
use crate::util::secrets::{find_secret, has_credentials};

/// The most reports per script.
const MOST_REPORTED: usize = 50;
const MORE: &str = "the script has more such lines";
const GIT: &str = "a bundle has no `.git`: git fails there, or uses a repository around the bundle";
const GIT_HINT: &str =
    "find files relative to the script's own directory, `$(dirname \"$0\")`, and pass commits as arguments";
const COPY: &str = "the bundle has only the files that the suite refers to";
const COPY_HINT: &str = "copy each required file by name";
const CHOICE: &str =
    "the script chooses the file at run time, in a directory that is not completely included";
const CHOICE_HINT: &str = "put the files into a separate directory, or list them in the command";

/// A script, or the text of a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Script<'s> {
    /// Its path; for a command, a file in its working directory.
    pub(super) path: &'s Path,
    pub(super) text: &'s str,
    /// Its position, if it is not a separate file.
    pub(super) inline: Option<&'s Span>,
}

impl Compiler<'_> {
    /// Includes files that a shell script names with variables, and reports what cannot be determined. Returns the files to check next.
    pub(super) fn shell_script(&mut self, script: Script<'_>, bases: &[PathBuf]) -> Vec<PathBuf> {
        let root = self.places.root.clone();
        let cwd = bases.last().unwrap_or(&self.lookup.dir).clone();
        let dir = script.path.parent().unwrap_or(&root).to_owned();
        let mut shell = Shell::new(script.path, &cwd, &root);
        let mut git = GitCalls::new(&cwd, &root);
        let mut found = Vec::new();
        for (number, line) in joined_lines(script.text) {
            let words = shell.line(&line);
            if let Some(call) = git.line(&words, &line) {
                self.report(script, number, &format!("what `{call}` needs"), GIT, GIT_HINT);
            }
            let copies = copies(&words, &line);
            let here = shell.cwd().map(Path::to_owned);
            let entered = here.as_ref().filter(|here| **here != cwd);
            for mention in Shell::mentions(&words, number, entered.is_some()) {
                let bases: Vec<&PathBuf> = if [".", ".."].contains(&&*mention.known) {
                    here.iter().collect()
                } else {
                    entered.into_iter().chain([&cwd, &dir]).collect()
                };
                for base in bases {
                    found.extend(self.mention(script, &mention, base, copies));
                    if mention.is_anchored() {
                        break;
                    }
                }
            }
            shell.enter(git.dir());
        }
        found
    }

    /// The same for Python and JavaScript, where paths start at `__file__`, `__dirname` or `import.meta`.
    pub(super) fn other_script(&mut self, script: Script<'_>) -> Vec<PathBuf> {
        let mut anchors = Anchors::new(script.path);
        let mut found = Vec::new();
        let root = self.places.root.clone();
        let dir = script.path.parent().unwrap_or(&root).to_string_lossy().into_owned();
        for (line, call) in git_in_text(script.text, &dir, &mut Repositories::new(&root)) {
            self.report(script, line, &format!("what `{call}` needs"), GIT, GIT_HINT);
        }
        for (i, line) in script.text.lines().enumerate() {
            if let Some(path) = anchors.line(line) {
                let mention = Mention { line: i + 1, known: path.display().to_string(), open: false };
                found.extend(self.mention(script, &mention, Path::new("/"), copies(&[], line)));
            }
        }
        found
    }

    /// The files that a path in a script can refer to.
    fn mention(&mut self, script: Script<'_>, mention: &Mention, base: &Path, copies: bool) -> Vec<PathBuf> {
        let root = self.places.root.clone();
        let is_wide = |path: &Path| self.lookup.dir.starts_with(path) || *path == root;
        if !mention.open {
            let path = normalized(&base.join(&mention.known));
            if !path.starts_with(&root) || !path.exists() {
                return Vec::new();
            }
            if !is_wide(&path) {
                return vec![path];
            }
            if copies {
                let what =
                    if path == root { "the rest of the repository" } else { "the rest of the directory" };
                self.report(script, mention.line, what, COPY, COPY_HINT);
            }
            return Vec::new();
        }
        let (dir, start) = choice(mention, base);
        if !dir.starts_with(&root) || !dir.is_dir() {
            return Vec::new();
        }
        if !is_wide(&dir) && start.is_empty() {
            return vec![dir];
        }
        if start.is_empty() {
            // A relative one may refer to the directory of a test.
            if mention.is_anchored() {
                let place = self.files.relative(&dir).filter(|place| !place.is_empty());
                let what = place.map_or_else(
                    || "a file of the repository".to_owned(),
                    |dir| format!("a file in `{dir}`"),
                );
                self.report(script, mention.line, &what, CHOICE, CHOICE_HINT);
            }
            return Vec::new();
        }
        let entries = fs::read_dir(&dir).into_iter().flatten().filter_map(Result::ok);
        let mut paths: Vec<PathBuf> = entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(&start))
            .map(|entry| entry.path())
            .filter(|path| !is_wide(path) && ignored(path).is_none())
            .collect();
        paths.sort();
        paths
    }

    /// Reports what is left behind because of a line of a script. Each report shows its line, so their number is limited.
    pub(super) fn report(&mut self, script: Script<'_>, line: usize, what: &str, why: &str, hint: &str) {
        let count = self.reported.entry(script.path.to_owned()).or_default();
        *count += 1;
        let (what, why, hint) = match *count {
            ..MOST_REPORTED => (what, why, hint),
            MOST_REPORTED => ("what later lines of the script need", MORE, hint),
            _ => return,
        };
        let number = u32::try_from(line).unwrap_or(u32::MAX);
        let at = match script.inline {
            Some(span) => span.clone(),
            None => self.span_in(script.path, script.text, line),
        };
        let file = match script.inline {
            Some(_) => {
                let path = normalized(&self.lookup.cwd.join(&at.source.path));
                self.files.relative(&path).unwrap_or_else(|| at.source.path.display().to_string())
            }
            None => self.files.relative(script.path).unwrap_or_default(),
        };
        let number = if script.inline.is_some() { at.line } else { number };
        self.files.leave_at(what, why, file, number);
        self.warn(&at, format!("{what} is left behind: {why}"), hint);
    }

    /// A line of a file. One that contains a secret is not shown.
    pub(super) fn span_in(&self, path: &Path, text: &str, line: usize) -> Span {
        let content = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        let is_secret = find_secret(path, content.as_bytes()).is_some()
            || content.split_whitespace().any(|word| has_credentials(word.trim_matches(['"', '\''])));
        let text = if is_secret { String::new() } else { text.to_owned() };
        let source = Source { path: shown(path, &self.lookup.cwd), text };
        let indent = content.len() - content.trim_start().len();
        let width = content.trim().chars().count().max(1);
        let [line, column, width] = [line, indent + 1, width].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        Span { source: Arc::new(source), line, column, width }
    }
}

/// Names in a Python or JavaScript file that hold a directory.
struct Anchors {
    dir: PathBuf,
    names: BTreeMap<String, PathBuf>,
}

impl Anchors {
    fn new(script: &Path) -> Self {
        Self { dir: script.parent().unwrap_or(script).to_owned(), names: BTreeMap::new() }
    }

    /// The path that a line builds from the script's location, as far as it is literal.
    fn line(&mut self, line: &str) -> Option<PathBuf> {
        let (start, ups, at) = self.anchor(line)?;
        let mut path = start.ancestors().nth(ups)?.to_owned();
        for literal in literals(line) {
            let Some(fixed) = literal.split(['{', '$', '*']).next().filter(|fixed| *fixed == literal) else {
                // `f"../x/{name}"`: the directory is known.
                let dir = literal.split(['{', '$', '*']).next().unwrap_or_default();
                path = path.join(dir.rsplit_once('/').map_or("", |(dir, _)| dir));
                break;
            };
            path = path.join(fixed);
        }
        let path = normalized(&path);
        let (before, _) = line.split_at(at);
        if let Some((name, _)) = before.split_once('=') {
            let name = name.split_whitespace().last().unwrap_or_default().trim_end_matches(':');
            if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty() {
                self.names.insert(name.to_owned(), path.clone());
            }
        }
        Some(path)
    }

    /// The anchor of a path on a line: the directory, levels up, and the position in the line.
    fn anchor(&self, line: &str) -> Option<(PathBuf, usize, usize)> {
        let dirnames = line.matches("dirname(").count();
        if let Some(at) = line.find("__file__") {
            let indexed =
                line.split_once(".parents[").and_then(|(_, rest)| rest.split(']').next()?.parse().ok());
            let parents = indexed.map_or_else(|| line.matches(".parent").count(), |n: usize| n + 1);
            return Some((self.dir.clone(), (dirnames + parents).saturating_sub(1), at));
        }
        if let Some(at) = line.find("__dirname").or_else(|| line.find("import.meta.dir")) {
            return Some((self.dir.clone(), dirnames, at));
        }
        if let Some(at) = line.find("import.meta.url") {
            return Some((self.dir.clone(), dirnames.saturating_sub(1), at));
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        // A script can have thousands of names: check only those on the line.
        let named: BTreeMap<&str, &PathBuf> =
            line.split(|c| !is_part(c)).filter_map(|word| Some((word, self.names.get(word)?))).collect();
        named.into_iter().find_map(|(name, path)| {
            let at = line.find(name)?;
            let is_quoted = line[..at].ends_with(['"', '\'', '/']);
            let whole =
                !is_quoted && !line[..at].ends_with(is_part) && !line[at + name.len()..].starts_with(is_part);
            whole.then(|| (path.clone(), 0, at))
        })
    }
}

/// The quoted texts of a line that may be paths.
fn literals(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find(['"', '\'', '`']) {
        let quote = rest[start..].chars().next().unwrap_or('"');
        let Some(end) = rest[start + 1..].find(quote) else { break };
        let text = &rest[start + 1..start + 1 + end];
        let legal = |c: char| c.is_ascii_alphanumeric() || "_./@+-{}$*".contains(c);
        if !text.is_empty() && text.chars().all(legal) && !text.starts_with('/') {
            found.push(text);
        } else {
            break;
        }
        rest = &rest[start + end + 2..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_from_the_place_of_a_file() {
        let mut anchors = Anchors::new(Path::new("/repo/a/b/check.py"));
        for (line, path) in [
            ("HERE = Path(__file__).resolve().parent", "/repo/a/b"),
            ("ROOT = Path(__file__).parents[2]", "/repo"),
            ("x = os.path.join(os.path.dirname(__file__), '..', 'data')", "/repo/a/data"),
            ("open(HERE / 'rules' / f'{name}.json')", "/repo/a/b/rules"),
            ("text = (HERE / f'cases/{name}.txt').read_text()", "/repo/a/b/cases"),
            ("const dir = path.join(__dirname, '../fixtures', name)", "/repo/a/fixtures"),
            ("readFile(new URL('../x/y.json', import.meta.url))", "/repo/a/x/y.json"),
            ("shutil.copytree(ROOT, target)", "/repo"),
        ] {
            assert_eq!(anchors.line(line), Some(PathBuf::from(path)), "{line}");
        }
        for line in ["THERE = 1", "print('x/y')", "\"HERE", "parents[", "__file"] {
            assert_eq!(anchors.line(line), None, "{line}");
        }
    }
}
