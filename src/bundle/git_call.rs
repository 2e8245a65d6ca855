//! Decides whether a git call in a script needs the suite's own repository, which a bundle does not have.
//!
//! Nothing is run. A call counts as using the repository unless it is known to work anywhere, or in a repository that the script
//! has created before.

use std::collections::HashSet;
use std::path::Path;

use crate::config::normalized;

/// Commands that work without a repository.
const ANYWHERE: [&str; 6] = ["check-ref-format", "hash-object", "help", "ls-remote", "stripspace", "version"];
/// Options of `git clone` and `git init` that are followed by a value.
const WITH_VALUE: [&str; 17] = [
    "-b",
    "-c",
    "-j",
    "-o",
    "-u",
    "--branch",
    "--config",
    "--depth",
    "--filter",
    "--initial-branch",
    "--jobs",
    "--object-format",
    "--origin",
    "--reference",
    "--separate-git-dir",
    "--template",
    "--upload-pack",
];

/// An argument of `git`.
#[derive(Debug, Clone)]
pub(super) struct Argument {
    /// As written, without quotes.
    pub(super) text: String,
    /// Its value, if known.
    pub(super) known: Option<String>,
}

impl Argument {
    fn is_option(&self) -> bool {
        self.text.starts_with('-')
    }
}

/// A directory: a normalized path, or `?` and the script's expression for it.
pub(super) type Dir = String;

/// The repositories that a script creates, and the suite's.
#[derive(Debug)]
pub(super) struct Repositories<'r> {
    root: &'r Path,
    own: HashSet<Dir>,
}

impl<'r> Repositories<'r> {
    pub(super) fn new(root: &'r Path) -> Self {
        Self { root, own: HashSet::new() }
    }

    /// The command that uses the suite's repository, if this call does. `dir` is its working directory.
    pub(super) fn call(&mut self, arguments: &[Argument], dir: &Dir) -> Option<String> {
        let (mut dir, mut rest) = (dir.clone(), arguments.iter());
        let verb = loop {
            let argument = rest.next()?;
            match argument.text.as_str() {
                "-C" | "--git-dir" | "--work-tree" => dir = below(&dir, rest.next()?),
                "-c" => drop(rest.next()),
                "--version" | "--help" | "--exec-path" => return None,
                text => match text.split_once('=').filter(|_| argument.is_option()) {
                    Some(("--git-dir" | "--work-tree", _)) => dir = below(&dir, &value(argument)),
                    _ if argument.is_option() => {}
                    _ => break argument,
                },
            }
        };
        let rest = rest.as_slice();
        let is_name =
            |text: &&str| text.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !text.is_empty();
        // Do not repeat the content of a variable.
        let Some(verb) = verb.known.as_deref().filter(is_name) else {
            return self.is_repository(&dir).then(|| "git".to_owned());
        };
        let has = |option: &[&str]| rest.iter().any(|argument| option.contains(&argument.text.as_str()));
        let needs = match verb {
            "init" => {
                let place = positional(rest).first().map_or_else(|| dir.clone(), |place| below(&dir, place));
                self.own.insert(place);
                false
            }
            "clone" => self.clone_needs(&positional(rest), &dir),
            "config" if has(&["--global", "--system", "-f", "--file"]) => false,
            "diff" | "grep" if has(&["--no-index"]) => false,
            verb => !ANYWHERE.contains(&verb) && self.is_repository(&dir),
        };
        needs.then(|| format!("git {verb}"))
    }

    /// Records that a script creates a repository there.
    pub(super) fn made(&mut self, dir: Dir) {
        self.own.insert(dir);
    }

    /// Whether git in this directory may find the suite's repository.
    pub(super) fn is_repository(&self, dir: &Dir) -> bool {
        let is_own = |end: usize| self.own.contains(&dir[..end]);
        let ends = dir.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0).chain([dir.len()]);
        let is_elsewhere = dir.starts_with('/') && !Path::new(dir).starts_with(self.root);
        !is_elsewhere && !ends.into_iter().any(is_own)
    }

    fn clone_needs(&mut self, words: &[&Argument], dir: &Dir) -> bool {
        let Some(source) = words.first() else { return false };
        let name = source.text.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
        let name = name.trim_end_matches(".git").to_owned();
        let named = Argument { known: source.known.as_ref().map(|_| name.clone()), text: name };
        self.own.insert(below(dir, words.get(1).copied().unwrap_or(&named)));
        if is_url(&source.text) || source.known.as_deref().is_some_and(is_url) {
            return false;
        }
        match &source.known {
            Some(path) => {
                let path = Argument {
                    text: source.text.clone(),
                    known: Some(path.trim_start_matches("file://").to_owned()),
                };
                self.is_repository(&below(dir, &path))
            }
            None => true,
        }
    }
}

/// A directory relative to another.
pub(super) fn below(dir: &Dir, place: &Argument) -> Dir {
    match (&place.known, dir.strip_prefix('?')) {
        (Some(path), None) => normalized(&Path::new(dir).join(path)).to_string_lossy().into_owned(),
        (Some(path), Some(_)) if path.starts_with('/') => {
            normalized(Path::new(path)).to_string_lossy().into_owned()
        }
        (Some(path), Some(_)) if path == "." => dir.clone(),
        (Some(path), Some(_)) if !path.contains("..") => format!("{dir}/{}", path.trim_end_matches('/')),
        _ => format!("?{}", place.text.trim_end_matches('/')),
    }
}

fn value(argument: &Argument) -> Argument {
    let after = |text: &str| text.split_once('=').map_or_else(String::new, |(_, value)| value.to_owned());
    Argument { text: after(&argument.text), known: argument.known.as_deref().map(after) }
}

/// The arguments that are neither options nor their values.
fn positional(words: &[Argument]) -> Vec<&Argument> {
    let mut found = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word.text.as_str()) {
            words.next();
        } else if !word.is_option() {
            found.push(word);
        }
    }
    found
}

/// `https://host/x`, `git@host:x`; not `file://`, and not a path.
fn is_url(text: &str) -> bool {
    let has_scheme =
        text.split_once("://").is_some_and(|(scheme, _)| scheme != "file" && !scheme.contains('/'));
    let has_host = text.split_once(':').is_some_and(|(host, rest)| {
        !host.is_empty() && !host.contains(['/', '$', '{']) && !rest.starts_with("//")
    });
    has_scheme || has_host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_distinguished_from_paths() {
        for url in ["https://h/x", "ssh://git@h/x", "git@h:o/x.git", "https://h/$REPO", "host:x"] {
            assert!(is_url(url), "{url}");
        }
        for path in ["file:///repo", "../x", "/repo", "$URL", "./a:b", "x", "${REPO:-.}"] {
            assert!(!is_url(path), "{path}");
        }
    }
}
