//! Shell scripts that use the repository itself: they call git, or copy all of it. A bundle is not a repository.

use std::path::Path;

use super::git_call::{Argument, Dir, Repositories, below};
use super::git_text::git_in_text;
use super::shell::Word;

/// Programs and functions that read a whole directory.
const COPIES: [&str; 6] = ["cp", "rsync", "tar", "zip", "scp", "find"];
const COPY_CALLS: [&str; 6] = ["copytree(", "cpSync(", "fs.cp(", "copySync(", "make_archive(", "os.walk("];
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "eval"];
/// Programs that run the command in their arguments.
const WRAPPERS: [&str; 13] = [
    "env", "exec", "flock", "ionice", "nice", "nohup", "parallel", "setsid", "stdbuf", "sudo", "timeout",
    "watch", "xargs",
];

/// The git calls in a shell script, top to bottom.
#[derive(Debug)]
pub(super) struct GitCalls<'r> {
    repositories: Repositories<'r>,
    /// The directory of the script.
    dir: Dir,
    /// The directories to return to: of multi-line subshells, and of `pushd`.
    subshells: Vec<Dir>,
    pushed: Vec<Dir>,
}

impl<'r> GitCalls<'r> {
    pub(super) fn new(cwd: &Path, root: &'r Path) -> Self {
        let dir = cwd.to_string_lossy().into_owned();
        Self { repositories: Repositories::new(root), dir, subshells: Vec::new(), pushed: Vec::new() }
    }

    /// The working directory of the next line, if it is known.
    pub(super) fn dir(&self) -> Option<&Path> {
        Some(Path::new(&self.dir)).filter(|dir| dir.is_absolute())
    }

    /// The command with which a line uses the repository.
    pub(super) fn line(&mut self, words: &[Word], line: &str) -> Option<String> {
        let trimmed = line.trim();
        if trimmed.starts_with(')')
            && let Some(dir) = self.subshells.pop()
        {
            self.dir = dir;
        }
        let before = self.dir.clone();
        let mut found = None;
        for (i, word) in words.iter().enumerate() {
            let text = plain(&word.text);
            // `$(git …)` and `sh -c 'git …'` are one word of the line.
            let is_command =
                i > 1 && words[i - 1].text == "-c" && SHELLS.contains(&words[i - 2].text.as_str())
                    || i > 0 && words[i - 1].text == "eval";
            if is_command || word.text.contains("$(") || word.text.contains('`') {
                let inner = git_in_text(&word.text, &self.dir, &mut self.repositories);
                found = found.or_else(|| inner.into_iter().next().map(|(_, call)| call));
            }
            let is_run = || text.rsplit('/').next() == Some("git") && is_wrapped(&words[..i]);
            if !word.leads && !is_run() {
                continue;
            }
            let rest: Vec<Argument> =
                words[i + 1..].iter().take_while(|word| !word.leads).map(argument).collect();
            match text.rsplit('/').next().unwrap_or_default() {
                "git" => {
                    let call = self.repositories.call(&rest, &self.dir);
                    found = found.or(call);
                }
                command @ ("cd" | "pushd") => {
                    let target = rest.iter().find(|argument| !argument.text.starts_with('-'));
                    let dir = target.map_or_else(|| "?~".to_owned(), |target| below(&self.dir, target));
                    let old = std::mem::replace(&mut self.dir, dir);
                    if command == "pushd" {
                        self.pushed.push(old);
                    }
                }
                "popd" => {
                    if let Some(dir) = self.pushed.pop() {
                        self.dir = dir;
                    }
                }
                _ => {}
            }
        }
        // A subshell does not change its parent's directory.
        if trimmed == "(" {
            self.subshells.push(before);
        } else if trimmed.starts_with('(') || trimmed.contains("(cd ") || trimmed.contains("( cd ") {
            let opens = trimmed.matches('(').count() > trimmed.matches(')').count();
            if opens {
                self.subshells.push(before);
            } else {
                self.dir = before;
            }
        }
        found
    }
}

/// Whether the last of these words has a command as its arguments: `timeout 5`, `sudo -u x`, `find … -exec`.
fn is_wrapped(words: &[Word]) -> bool {
    if words.last().is_some_and(|last| last.text.starts_with("-exec")) {
        return true;
    }
    let is_setting = |word: &&Word| word.text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let settings = words.iter().rev().take_while(|word| !word.leads).take_while(is_setting).count();
    let lead = &words[..words.len() - settings];
    lead.last().is_some_and(|last| last.leads)
        && lead.iter().rev().take_while(|word| word.leads).any(|word| WRAPPERS.contains(&&*word.text))
}

fn argument(word: &Word) -> Argument {
    Argument { text: plain(&word.text), known: word.known().map(str::to_owned) }
}

/// A word without redundant syntax: `"${NAME}"` is `$NAME`.
fn plain(text: &str) -> String {
    text.replace(['"', '\'', '{', '}'], "")
}

/// Whether a line of a script copies or searches a directory.
pub(super) fn copies(words: &[Word], line: &str) -> bool {
    words.iter().any(|word| word.leads && COPIES.contains(&word.text.as_str()))
        || COPY_CALLS.iter().any(|call| line.contains(call))
}

/// The lines of a shell script, with continuation lines joined, numbered from 1.
pub(super) fn joined_lines(text: &str) -> Vec<(usize, String)> {
    let mut joined: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (i, line) in text.lines().enumerate() {
        let more = line.strip_suffix('\\').filter(|_| !line.trim_start().starts_with('#'));
        let part = more.unwrap_or(line);
        match joined.last_mut() {
            Some((_, last)) if goes_on => last.push_str(part),
            _ => joined.push((i + 1, part.to_owned())),
        }
        goes_on = more.is_some();
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::super::shell::Shell;
    use super::*;

    fn calls(script: &str) -> Vec<String> {
        let (cwd, root) = (Path::new("/repo/evals"), Path::new("/repo"));
        let mut shell = Shell::new(Path::new("/repo/evals/a.sh"), cwd, root);
        let mut git = GitCalls::new(cwd, root);
        joined_lines(script).iter().filter_map(|(_, line)| git.line(&shell.line(line), line)).collect()
    }

    #[test]
    fn git_on_the_repository_is_reported() {
        for (script, found) in [
            ("git rev-parse HEAD", "git rev-parse"),
            ("ROOT=\"$(git rev-parse --show-toplevel)\"", "git rev-parse"),
            ("cd x && git --no-pager -c a=b diff main", "git diff"),
            ("git -C .. archive HEAD | tar -x", "git archive"),
            ("git -C \"$1\" log", "git log"),
            ("git --git-dir=../.git show", "git show"),
            ("git clone .. \"$1\"", "git clone"),
            ("git clone \"$SOURCE\" x", "git clone"),
            ("git clone https://example.com/x y\ngit log", "git log"),
            ("git init \"$1\"\ngit log", "git log"),
            ("(cd \"$1\" && git init -q)\ngit status", "git status"),
            ("(\n  cd \"$1\"\n  git init\n)\ngit status", "git status"),
            ("pushd \"$1\"\ngit init\npopd\ngit status", "git status"),
            ("git fetch", "git fetch"),
            ("git pull --rebase", "git pull"),
            ("git reset --hard", "git reset"),
            ("git switch main", "git switch"),
            ("git tag", "git tag"),
            ("git config user.name x", "git config"),
            ("git commit -am x", "git commit"),
            ("git merge x", "git merge"),
            ("git apply x.patch", "git apply"),
            ("git clean -fd", "git clean"),
            ("/usr/bin/git log", "git log"),
            ("command git log", "git log"),
            ("sudo -E env A=b git log", "git log"),
            ("timeout 5 git fetch", "git fetch"),
            ("timeout -k 5 30s git fetch", "git fetch"),
            ("sudo -u runner git log", "git log"),
            ("nice -n 10 git gc", "git gc"),
            ("ls | xargs -n 1 -P 4 git add", "git add"),
            ("find . -name x -exec git add {} +", "git add"),
            ("flock /tmp/lock git pull", "git pull"),
            ("bash -c 'cd .. && git log'", "git log"),
            ("X=$(cd \"$1\" && git log)", "git log"),
            ("git \\\n  -C .. \\\n  stash", "git stash"),
            ("git \"$@\"", "git"),
        ] {
            assert_eq!(calls(script), [found], "{script}");
        }
    }

    #[test]
    fn git_elsewhere_is_not() {
        for script in [
            "git clone https://example.com/x y\ncd y\ngit log",
            "git clone --depth 1 https://example.com/x.git\ngit -C x log",
            "git clone git@example.com:o/x.git \"$1\"\ngit -C \"$1\" checkout v1",
            "git init -q\ngit add -A\ngit status",
            "d=$(mktemp -d)\ngit init \"$d\"\ngit -C \"${d}\" commit -m x\n(cd \"$d\" && git log)",
            "cd \"$1\" && git init -q && git add -A && git status",
            "cd /tmp/x && git log",
            "# git log",
            "echo 'git log'",
            "echo git log",
            "timeout 5 echo git log",
            "find . -name git log",
            "git --version",
            "git config --global user.name x",
            "git diff --no-index a b",
            "git ls-remote https://example.com/x",
        ] {
            assert_eq!(calls(script), Vec::<String>::new(), "{script}");
        }
    }

    #[test]
    fn continued_lines_are_joined() {
        let lines = joined_lines("a \\\n b\n# c \\\nd\\\n");
        assert_eq!(lines, [(1, "a  b".to_owned()), (3, "# c \\".to_owned()), (4, "d".to_owned())]);
    }
}
