//! Commands: the files of the repository that they name, and their working directory.
//!
//! A command is not rewritten. The files that it names are in `scripts/` with the same layout as in the repository, and it runs in
//! the image of its working directory. Only absolute paths into the repository are replaced by relative ones.

use std::path::{Path, PathBuf};

use super::compiler::Compiler;
use super::files::{Area, relative_path};
use super::needs::{LONGEST_SCRIPT, without_repeats};
use super::script_text::Script;
use super::tree;
use crate::config::{Node, NodeValue, Span, interpolate, normalized};
use crate::util::regular_file;

/// Programs that run a script.
const INTERPRETERS: [&str; 14] = [
    "bash", "sh", "zsh", "dash", "python", "python3", "node", "bun", "deno", "tsx", "ts-node", "ruby",
    "perl", "pwsh",
];

/// Directories whose programs exist on every machine.
const SYSTEM: [&str; 6] = ["/bin", "/usr/bin", "/sbin", "/usr/sbin", "/dev", "/proc"];

/// The most directories that a command enters with `cd`. The latest ones count.
const MOST_BASES: usize = 32;

/// The link to the scripts in the templates of tests.
pub(super) const SCRIPTS_LINK: &str = ".bundle-scripts";

/// How a command is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// A text is run by a shell.
    Shell,
    /// A text is split at blanks.
    Words,
}

/// The severity of a missing script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// The command cannot run anywhere.
    Error,
    /// It may exist where the command runs.
    Fine,
}

/// A word of a command, and its position in the text.
#[derive(Debug, PartialEq, Eq)]
struct Word<'t> {
    text: &'t str,
    start: usize,
    quoted: bool,
}

impl Compiler<'_> {
    /// Takes along the files named by a command that runs in `base`, and keeps that directory. Returns its path in the bundle.
    pub(super) fn command(
        &mut self,
        command: &mut Node,
        style: Style,
        base: &Path,
        missing: Missing,
    ) -> Option<String> {
        let at = command.span.clone();
        let place = self.files.keep_directory(Area::Scripts, base, &at, &mut self.problems)?;
        match &mut command.value {
            NodeValue::String(text) => {
                let written = text.clone();
                let words = if style == Style::Shell { shell_words(text) } else { blank_words(text) };
                let replaced = self.words(&words, base, &at, missing);
                self.inline_script(&written, base, &at);
                for (start, length, with) in replaced.into_iter().rev() {
                    text.replace_range(start..start + length, &with);
                }
            }
            NodeValue::List(items) => {
                let texts: Vec<String> =
                    items.iter().map(|item| item.as_str().unwrap_or_default().to_owned()).collect();
                let words: Vec<Word> =
                    texts.iter().map(|text| Word { text, start: 0, quoted: true }).collect();
                let mut bases = vec![base.to_owned()];
                for (i, word) in words.iter().enumerate() {
                    let at = items[i].span.clone();
                    if let Some((with, _)) = self.word(&words, i, &mut bases, &at, missing) {
                        items[i] = tree::text(with, &at);
                    } else if word.text.contains(char::is_whitespace) {
                        // `sh -c "…"`
                        let inner = shell_words(word.text);
                        self.words(&inner, base, &at, Missing::Fine);
                        self.inline_script(word.text, base, &at);
                    }
                }
                if texts.first().is_some_and(|program| program == "git") {
                    self.inline_script(&texts.join(" "), base, &at);
                }
            }
            _ => {}
        }
        Some(place)
    }

    /// Checks the text of a command like a script.
    fn inline_script(&mut self, text: &str, base: &Path, at: &Span) {
        let path = base.join("command");
        let script = Script { path: &path, text, inline: Some(at) };
        for path in without_repeats(self.shell_script(script, &[base.to_owned()])) {
            self.take_named(&path, &[base.to_owned()], at);
        }
    }

    /// Checks each word; returns the replacements: position, length and text.
    fn words(
        &mut self,
        words: &[Word<'_>],
        base: &Path,
        at: &Span,
        missing: Missing,
    ) -> Vec<(usize, usize, String)> {
        let mut bases = vec![base.to_owned()];
        let mut replaced = Vec::new();
        for i in 0..words.len() {
            let word = &words[i];
            if let Some((with, cut)) = self.word(words, i, &mut bases, at, missing) {
                replaced.push((word.start + cut, word.text.len() - cut, with));
            } else if word.quoted && word.text.contains(char::is_whitespace) {
                let inner = shell_words(word.text);
                self.words(&inner, base, at, Missing::Fine);
            }
        }
        replaced
    }

    /// Takes along the file that a word names. If it is an absolute path into the repository, returns its replacement, and how much
    /// of the word stays before it.
    fn word(
        &mut self,
        words: &[Word<'_>],
        i: usize,
        bases: &mut Vec<PathBuf>,
        at: &Span,
        missing: Missing,
    ) -> Option<(String, usize)> {
        let whole = words[i].text;
        let previous = i.checked_sub(1).map(|i| words[i].text);
        // `--config=x` and `NAME=x`
        let cut = cut_of(whole);
        let mut unset = false;
        let text = interpolate(&whole[cut..], self.env, |_| unset = true);
        if unset || text.is_empty() || text.len() > 4096 || text.contains(['\n', '*']) || text.contains("{{")
        {
            return None;
        }
        if (i == 0 || previous == Some("run"))
            && let Some(module) = self.entry_point(&text, &bases[0])
        {
            self.module(&module, &bases.clone(), at);
        }
        if previous == Some("-m") && words.iter().any(|word| word.text.contains("python")) {
            self.module(&text, &bases.clone(), at);
            return None;
        }
        if previous.is_some_and(runs_script) {
            self.package_script(&text, &bases[0].clone(), at);
        }
        let path = Path::new(&text);
        if path.is_absolute() {
            return self.absolute(path, i == 0 || previous == Some("env"), bases, at).map(|with| (with, cut));
        }
        if text.starts_with(['-', '{', '$', '~', '(']) || text.contains("://") {
            return None;
        }
        let found = bases.iter().rev().map(|base| normalized(&base.join(path))).find(|path| path.exists());
        let Some(found) = found else {
            let script = i == 0 && text.contains('/')
                || previous.is_some_and(is_interpreter) && is_script_name(path) && text.contains('/');
            let leads = words.get(i.wrapping_sub(1)).is_none_or(|word| word.text != "cd");
            if script && leads && missing == Missing::Error && cut == 0 && !text.contains(['$', '`', '{']) {
                let dir = self.lookup.shown_dir(&bases[0]);
                self.problems.error_with_hint(
                    at,
                    format!("no such script: `{text}`"),
                    format!("the command runs in `{dir}`"),
                );
            }
            return None;
        };
        if previous == Some("cd") && found.is_dir() {
            enter(bases, found);
            return None;
        }
        // A program in `PATH` may have the name of a directory.
        if i == 0 && !text.contains('/') {
            return None;
        }
        // The repository is never included as a whole; `inline_script` reports copies of it.
        if found == self.places.root {
            return None;
        }
        self.files.add(Area::Scripts, &found, at, &mut self.problems)?;
        if !self.lookup.dir.starts_with(&found) {
            self.needs_of(&found, &bases.clone(), at);
        }
        None
    }

    /// An absolute path: one into the repository becomes relative, any other must exist on every machine.
    fn absolute(&mut self, path: &Path, runs: bool, bases: &[PathBuf], at: &Span) -> Option<String> {
        let path = normalized(path);
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        if real.starts_with(&self.places.root) && path.exists() {
            let base = bases.last()?;
            self.files.add(Area::Scripts, &real, at, &mut self.problems)?;
            if real.is_file() {
                self.needs(&real, bases, at);
            }
            if self.in_workspace {
                // The directory of a test is created for each run; only a link in its template points to the bundle.
                self.linked.get_or_insert_default();
                return self.files.relative(&real).map(|path| format!("./{SCRIPTS_LINK}/{path}"));
            }
            let way = relative_path(base, &real);
            return Some(if way.contains('/') { way } else { format!("./{way}") });
        }
        let system = SYSTEM.iter().any(|dir| path.starts_with(dir));
        if !system && (path.exists() || runs) {
            let name = path.display().to_string();
            let message = format!("`{name}` is not in the repository: it must be on every machine");
            self.warn(at, message, "use a program from `PATH`, or put it into the repository");
            self.files
                .leave(name, "used by a command, but not in the repository: it must be on every machine");
        }
        None
    }

    /// `python -m a.b`
    fn module(&mut self, name: &str, bases: &[PathBuf], at: &Span) {
        let first = name.split('.').next().unwrap_or(name);
        let roots = bases.iter().flat_map(|base| self.module_roots(base)).map(|(dir, _)| dir);
        let dirs: Vec<PathBuf> = bases.iter().cloned().chain(roots).collect();
        for base in &dirs {
            for candidate in [base.join(format!("{first}.py")), base.join(first)] {
                if candidate.exists() {
                    let path = normalized(&candidate);
                    self.files.add(Area::Scripts, &path, at, &mut self.problems);
                    self.needs_of(&path, bases, at);
                }
            }
        }
    }

    /// `bun run NAME`: a script in `package.json` may name files, too.
    fn package_script(&mut self, name: &str, base: &Path, at: &Span) {
        let root = self.places.root.clone();
        let dirs = base.ancestors().take_while(|dir| dir.starts_with(&root));
        let Some(package) = dirs.map(|dir| dir.join("package.json")).find(|path| path.is_file()) else {
            return;
        };
        if self.looked_at.contains(&package_key(&package, name)) {
            return;
        }
        let text = regular_file::read(&package, LONGEST_SCRIPT).unwrap_or_default();
        let json = serde_json::from_slice(&text).ok();
        let json: serde_json::Value = json.unwrap_or_default();
        let Some(script) = json["scripts"][name].as_str() else { return };
        // A script may run itself, or others in a long chain.
        let mut scripts = vec![script];
        let mut texts = Vec::new();
        self.looked_at.insert(package_key(&package, name));
        while let Some(script) = scripts.pop() {
            texts.push(script.to_owned());
            for name in self.names_run(&shell_words(script)) {
                if let Some(script) = json["scripts"][&name].as_str()
                    && self.looked_at.insert(package_key(&package, &name))
                {
                    scripts.push(script);
                }
            }
        }
        self.files.add(Area::Scripts, &package, at, &mut self.problems);
        self.packages(&package, at);
        let dir = package.parent().unwrap_or(base).to_owned();
        let source = String::from_utf8_lossy(&text).into_owned();
        for text in texts {
            self.words(&shell_words(&text), &dir, at, Missing::Fine);
            let quoted = serde_json::to_string(&text).unwrap_or_default();
            let line = source.lines().position(|line| line.contains(&quoted)).map_or(1, |at| at + 1);
            let at = self.span_in(&package, &source, line);
            self.inline_script(&text, &dir, &at);
        }
    }

    /// The names of package scripts that a command may run.
    fn names_run(&self, words: &[Word<'_>]) -> Vec<String> {
        let mut names = Vec::new();
        for (i, word) in words.iter().enumerate() {
            if i > 0 && runs_script(words[i - 1].text) {
                let cut = cut_of(word.text);
                names.push(interpolate(&word.text[cut..], self.env, |_| ()));
            }
            if word.quoted && word.text.contains(char::is_whitespace) {
                names.extend(self.names_run(&shell_words(word.text)));
            }
        }
        names
    }
}

/// A shell command that runs in another directory, for a target hook or an aggregator.
pub(super) fn run_in(place: &str, command: &str) -> String {
    format!("cd {} && {command}", quoted(place))
}

/// A word quoted for a shell.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./-+@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

pub(super) fn is_script_name(path: &Path) -> bool {
    const ENDINGS: [&str; 16] = [
        "py", "sh", "bash", "zsh", "js", "mjs", "cjs", "ts", "mts", "cts", "tsx", "jsx", "rb", "pl", "ps1",
        "lua",
    ];
    path.extension().and_then(|end| end.to_str()).is_some_and(|end| ENDINGS.contains(&end))
}

/// The start of the value in `--config=x` or `NAME=x`.
fn cut_of(word: &str) -> usize {
    word.find('=').filter(|_| !word.starts_with(['.', '/'])).map_or(0, |at| at + 1)
}

/// Whether the name of a `package.json` script may follow: `bun run NAME`, `npm test`.
fn runs_script(word: &str) -> bool {
    matches!(word, "run" | "exec" | "x" | "npm" | "pnpm" | "yarn" | "bun")
}

/// Marks a script of a `package.json` as checked.
fn package_key(package: &Path, name: &str) -> (PathBuf, PathBuf) {
    (package.to_owned(), PathBuf::from(format!("scripts/{name}")))
}

/// Adds the directory of a `cd` as the last one. The first one stays: the command starts there.
fn enter(bases: &mut Vec<PathBuf>, dir: PathBuf) {
    let again = bases.iter().skip(1).position(|base| *base == dir);
    if let Some(at) = again.map(|at| at + 1).or_else(|| (bases.len() >= MOST_BASES).then_some(1)) {
        bases.remove(at);
    }
    bases.push(dir);
}

fn is_interpreter(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    INTERPRETERS.contains(&name) || name == "run"
}

fn blank_words(text: &str) -> Vec<Word<'_>> {
    let start_of = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split_whitespace().map(|word| Word { text: word, start: start_of(word), quoted: false }).collect()
}

/// The words of a shell command, approximately: respects quotes; all other syntax separates words.
fn shell_words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some(&(start, c)) = chars.peek() {
        if c.is_whitespace() || ";|&()<>`".contains(c) {
            chars.next();
        } else if c == '"' || c == '\'' {
            chars.next();
            let mut end = text.len();
            for (at, inner) in chars.by_ref() {
                if inner == c {
                    end = at;
                    break;
                }
            }
            words.push(Word { text: &text[start + 1..end], start: start + 1, quoted: true });
        } else {
            let mut end = text.len();
            while let Some(&(at, inner)) = chars.peek() {
                if inner.is_whitespace() || ";|&()<>`\"'".contains(inner) {
                    end = at;
                    break;
                }
                chars.next();
            }
            words.push(Word { text: &text[start..end], start, quoted: false });
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_words_are_split() {
        let words: Vec<_> = shell_words("cd x && ./a.sh \"b c\" 'd' e>f $(g) h='i j'")
            .into_iter()
            .map(|word| word.text)
            .collect();
        assert_eq!(words, ["cd", "x", "./a.sh", "b c", "d", "e", "f", "$", "g", "h=", "i j"]);
        assert!(shell_words("'open").iter().any(|word| word.text == "open"));
    }

    #[test]
    fn quoted_words_stay_together() {
        assert_eq!(run_in("scripts/a", "./x.sh"), "cd scripts/a && ./x.sh");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
