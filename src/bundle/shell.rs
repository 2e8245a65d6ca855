//! Paths that a shell script builds from its own location and variables: `"$SCRIPT_DIR/../x/$VAR"`.
//!
//! Nothing is run. Assignments are followed from top to bottom; unknown values stay unknown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::normalized;

/// How deep substitutions are followed.
const DEEPEST: usize = 8;
/// The longest value that is kept; paths are far shorter.
const LONGEST_VALUE: usize = 4096;

/// Words that precede a command.
const GO_ON: [&str; 16] = [
    "!", "command", "do", "elif", "else", "env", "exec", "flock", "if", "nice", "sudo", "then", "time",
    "until", "while", "xargs",
];

/// A path in a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mention {
    /// The line, from 1.
    pub(super) line: usize,
    /// Its known prefix; absolute if it starts at a known place.
    pub(super) known: String,
    /// Whether something unknown follows.
    pub(super) open: bool,
}

impl Mention {
    /// Whether it starts at the script, the working directory or the repository.
    pub(super) fn is_anchored(&self) -> bool {
        self.known.starts_with('/')
    }
}

/// The state of a script.
#[derive(Debug)]
pub(super) struct Shell<'s> {
    script: &'s Path,
    /// The working directory; `None` if the script chose it at run time.
    cwd: Option<PathBuf>,
    root: &'s Path,
    variables: BTreeMap<String, Value>,
}

/// A text whose end may be unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Value {
    known: String,
    open: bool,
}

impl Value {
    fn unknown() -> Self {
        Self { known: String::new(), open: true }
    }

    fn of(path: &Path) -> Self {
        Self { known: path.to_string_lossy().into_owned(), open: false }
    }

    fn push(&mut self, more: &Self) {
        if !self.open {
            self.known.push_str(&more.known);
            self.open = more.open;
            self.limit();
        }
    }

    fn push_char(&mut self, c: char) {
        if !self.open {
            self.known.push(c);
            self.limit();
        }
    }

    /// A longer value is not a path; `x=$x$x` doubles it with every line.
    fn limit(&mut self) {
        if self.known.len() > LONGEST_VALUE {
            *self = Self::unknown();
        }
    }

    fn parent(&self) -> Self {
        match Path::new(&self.known).parent() {
            Some(parent) if !self.open => Self::of(parent),
            _ => Self::unknown(),
        }
    }
}

/// A word of a script, as written and expanded.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) text: String,
    value: Value,
    /// Whether it starts a command.
    pub(super) leads: bool,
}

impl Word {
    /// Its value, if completely known.
    pub(super) fn known(&self) -> Option<&str> {
        (!self.value.open).then_some(self.value.known.as_str())
    }
}

impl<'s> Shell<'s> {
    pub(super) fn new(script: &'s Path, cwd: &Path, root: &'s Path) -> Self {
        Self { script, cwd: Some(cwd.to_owned()), root, variables: BTreeMap::new() }
    }

    /// The working directory of the next line, if it is known.
    pub(super) fn cwd(&self) -> Option<&Path> {
        self.cwd.as_deref()
    }

    /// Sets the working directory of the next line.
    pub(super) fn enter(&mut self, dir: Option<&Path>) {
        self.cwd = dir.map(Path::to_owned);
    }

    /// The words of the next line. Records assignments, and follows `cd` to the end of the line.
    pub(super) fn line(&mut self, line: &str) -> Vec<Word> {
        if line.trim_start().starts_with('#') {
            return Vec::new();
        }
        let mut words: Vec<Word> = Vec::new();
        let (mut rest, mut leads) = (line, true);
        while let Some((word, after)) = self.next_word(rest, &mut leads, 0) {
            rest = after;
            if let Some((name, _)) = word.text.split_once('=').filter(|(name, _)| is_name(name)) {
                let mut value = word.value.clone();
                value.known.drain(..(name.len() + 1).min(value.known.len()));
                self.variables.insert(name.to_owned(), value);
            }
            let is_entered =
                words.last().is_some_and(|last| last.leads && ["cd", "pushd"].contains(&&*last.text));
            if is_entered && !word.leads && !word.text.starts_with('-') {
                let known = word.known().map(Path::new);
                self.cwd = match (self.cwd.take(), known) {
                    (_, Some(dir)) if dir.is_absolute() => Some(normalized(dir)),
                    (Some(cwd), Some(dir)) => Some(normalized(&cwd.join(dir))),
                    _ => None,
                };
            }
            words.push(word);
        }
        words
    }

    /// The paths among the words of a line. After a `cd`, also names with a dot: files there.
    pub(super) fn mentions(words: &[Word], line: usize, has_moved: bool) -> Vec<Mention> {
        let path_of = |(i, word): (usize, &Word)| {
            let name = word.text.split_once('=').map_or("", |(name, _)| name);
            let skip = if is_name(name) { name.len() + 1 } else { 0 };
            let known = word.value.known.get(skip..)?.to_owned();
            let is_path = if ["..", "."].contains(&&*known) {
                is_copied(words, i)
            } else {
                known.contains('/') || has_moved && known.contains('.') && !word.value.open
            };
            let is_plain = !known.contains("://") && known.len() < 1024;
            (is_path && is_plain).then_some(Mention { line, known, open: word.value.open })
        };
        words.iter().enumerate().filter_map(path_of).collect()
    }

    fn words(&self, text: &str, depth: usize) -> Vec<Word> {
        let mut words = Vec::new();
        let (mut rest, mut leads) = (text, true);
        while let Some((word, after)) = self.next_word(rest, &mut leads, depth) {
            rest = after;
            words.push(word);
        }
        words
    }

    /// The first word of a text, and the text after it. `leads` is whether a command starts there.
    fn next_word<'t>(&self, text: &'t str, leads: &mut bool, depth: usize) -> Option<(Word, &'t str)> {
        let mut rest = text;
        loop {
            let trimmed = rest.trim_start();
            let c = trimmed.chars().next()?;
            if ";|&()<>{}\n".contains(c) {
                *leads = !"<>".contains(c);
                rest = &trimmed[c.len_utf8()..];
                continue;
            }
            if c == '#' && rest.len() != trimmed.len() {
                return None;
            }
            let (value, length) = self.word(trimmed, depth);
            let word = Word { text: trimmed[..length].to_owned(), value, leads: *leads };
            let is_assignment = word.text.split_once('=').is_some_and(|(name, _)| is_name(name));
            let goes_on = word.text.starts_with('-') || GO_ON.contains(&word.text.as_str());
            *leads &= is_assignment || goes_on;
            return Some((word, &trimmed[length..]));
        }
    }

    /// The value and length of the word at the start of a text.
    fn word(&self, text: &str, depth: usize) -> (Value, usize) {
        let mut value = Value::default();
        let mut quoted = false;
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let rest = &text[at..];
            match c {
                '"' => {
                    quoted = !quoted;
                    at += 1;
                }
                '\'' if !quoted => {
                    let end = rest[1..].find('\'').map_or(rest.len(), |end| end + 2);
                    value.push(&Value { known: rest[1..end].trim_end_matches('\'').to_owned(), open: false });
                    at += end;
                }
                '\\' => {
                    let next = rest[1..].chars().next();
                    if let Some(c) = next {
                        value.push_char(c);
                    }
                    at += 1 + next.map_or(0, char::len_utf8);
                }
                '$' => {
                    let (more, length) = self.expansion(rest, depth);
                    value.push(&more);
                    at += length;
                }
                '`' => {
                    let end = rest[1..].find('`').map_or(rest.len(), |end| end + 1);
                    value.push(&self.output_of(&rest[1..end], depth));
                    at += (end + 1).min(rest.len());
                }
                '*' | '?' | '[' | '{' => {
                    value.open = true;
                    at += 1;
                }
                c if !quoted && (c.is_whitespace() || ";|&()<>".contains(c)) => break,
                c => {
                    value.push_char(c);
                    at += c.len_utf8();
                }
            }
        }
        (value, at)
    }

    /// The value and length of `$NAME`, `${NAME}` or `$(command)` at the start of a text.
    fn expansion(&self, text: &str, depth: usize) -> (Value, usize) {
        let rest = &text[1..];
        if rest.starts_with('(') {
            let length = balanced(rest, '(', ')');
            return (self.output_of(rest.get(1..length - 1).unwrap_or_default(), depth), 1 + length);
        }
        if rest.starts_with('{') {
            let length = balanced(rest, '{', '}');
            return (self.parameter(rest.get(1..length - 1).unwrap_or_default(), depth), 1 + length);
        }
        let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        // `$10` is `$1` followed by a zero.
        let name = if name.starts_with(|c: char| c.is_ascii_digit()) { &name[..1] } else { &name };
        // `$@` and the like: one character.
        let length = if name.is_empty() { rest.chars().next().map_or(0, char::len_utf8) } else { name.len() };
        (self.variable(name), 1 + length)
    }

    fn parameter(&self, inner: &str, depth: usize) -> Value {
        let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inner.len());
        let (name, rest) = inner.split_at(end);
        let rest = rest.strip_prefix("[0]").unwrap_or(rest);
        let value = self.variable(name);
        if rest == "%/*" {
            return value.parent();
        }
        match rest.strip_prefix(":-").or_else(|| rest.strip_prefix('-')) {
            Some(default) if value.open && depth < DEEPEST => self.word(default, depth + 1).0,
            _ if rest.is_empty() || rest.starts_with(":?") => value,
            _ => Value::unknown(),
        }
    }

    fn variable(&self, name: &str) -> Value {
        match name {
            "0" | "BASH_SOURCE" => Value::of(self.script),
            "PWD" => self.pwd(),
            _ => self.variables.get(name).cloned().unwrap_or_else(Value::unknown),
        }
    }

    fn pwd(&self) -> Value {
        self.cwd.as_deref().map_or_else(Value::unknown, Value::of)
    }

    /// The output of a command that prints a directory.
    fn output_of(&self, command: &str, depth: usize) -> Value {
        if depth >= DEEPEST {
            return Value::unknown();
        }
        let words = self.words(command, depth + 1);
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        let argument = |skip: usize| {
            let mut rest = words[skip..].iter().filter(|word| !word.text.starts_with('-'));
            rest.next().map_or_else(Value::unknown, |word| word.value.clone())
        };
        match texts.as_slice() {
            ["pwd", ..] => self.pwd(),
            ["dirname", ..] => argument(1).parent(),
            ["realpath", ..] | ["readlink", "-f" | "-m", ..] => argument(1),
            ["cd", .., "pwd"] | ["cd", .., "pwd", "-P"] => {
                let dir = argument(1);
                let known = Path::new(&dir.known);
                match &self.cwd {
                    _ if dir.open => dir,
                    Some(cwd) => Value::of(&normalized(&cwd.join(known))),
                    None if known.is_absolute() => Value::of(&normalized(known)),
                    None => Value::unknown(),
                }
            }
            ["git", "rev-parse", "--show-toplevel", ..] => Value::of(self.root),
            _ => Value::unknown(),
        }
    }
}

/// Whether a word is what a command copies: `cp -r .. to`, but not `cp -r from .`.
fn is_copied(words: &[Word], at: usize) -> bool {
    let first = words[..at].iter().rposition(|word| word.leads);
    let is_last = words.get(at + 1).is_none_or(|next| next.leads);
    match first.map(|first| (&*words[first].text, &words[first + 1..at])) {
        Some(("cp" | "rsync" | "scp" | "zip", _)) => !is_last,
        Some(("tar", [options, ..])) => {
            options.text.trim_start_matches('-').starts_with('c') && words[at - 1].text == "-C"
        }
        _ => false,
    }
}

/// The directory in which an unknown part chooses a path, and the prefix of the names in it.
pub(super) fn choice(mention: &Mention, base: &Path) -> (PathBuf, String) {
    let (dir, start) = mention.known.rsplit_once('/').unwrap_or(("", &mention.known));
    let dir = if dir.is_empty() && mention.is_anchored() { "/" } else { dir };
    (normalized(&base.join(dir)), start.to_owned())
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The length of a text up to the bracket that closes its first one.
fn balanced(text: &str, open: char, close: char) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return at + close.len_utf8();
            }
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(script: &str) -> Vec<(usize, String, bool)> {
        let mut shell =
            Shell::new(Path::new("/repo/tools/setup.sh"), Path::new("/repo/evals"), Path::new("/repo"));
        let lines = script.lines().enumerate();
        lines
            .flat_map(|(i, line)| Shell::mentions(&shell.line(line), i + 1, false))
            .map(|mention| {
                let known = normalized(Path::new(&mention.known)).display().to_string();
                (mention.line, known, mention.open)
            })
            .collect()
    }

    #[test]
    fn paths_from_the_place_of_the_script() {
        let script = r#"#!/bin/bash
SCRIPT_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
VARIANT_DIR="$SCRIPT_DIR/../variants/$VARIANT"
cp -r "$VARIANT_DIR/settings" "$WORKSPACE/.settings" # "$SCRIPT_DIR/no"
. "$(dirname "$0")/lib.sh"
ROOT=${ROOT:-$(git rev-parse --show-toplevel)}
cat "${ROOT}/data/case-$N.json" ${0%/*}/x.txt
"#;
        let expected = [
            (2, "/repo/tools", false),
            (3, "/repo/variants", true),
            (4, "/repo/variants", true),
            (5, "/repo/tools/lib.sh", false),
            (6, "/repo", false),
            (7, "/repo/data/case-", true),
            (7, "/repo/tools/x.txt", false),
        ];
        assert_eq!(found(script), expected.map(|(line, path, open)| (line, path.to_owned(), open)));
    }

    #[test]
    fn unfinished_text_does_not_panic() {
        for text in [
            "\"$(",
            "${",
            "$",
            "`",
            "'",
            "\\",
            "a=$(dirname",
            "${0%/*",
            "é$é{",
            "$(cd",
            "$(())",
            "echo a \u{a0} b",
            "echo a\rb",
            "\u{c}echo a",
        ] {
            found(text);
        }
    }

    #[test]
    fn a_value_that_doubles_is_given_up() {
        found(&format!("x=aaaaaaaa\n{}cat $x/y\n", "x=$x$x\n".repeat(64)));
    }
}
