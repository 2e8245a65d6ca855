//! Scripts that use the repository itself, which a bundle is not: they call git, or copy all of it.

use std::path::Path;

use super::shell::Word;

/// What git does with the repository that it is called in. `init`, `add` and `commit` make one, as in a workspace.
const READS: [&str; 30] = [
    "archive",
    "bisect",
    "blame",
    "branch",
    "bundle",
    "cat-file",
    "checkout",
    "checkout-index",
    "describe",
    "diff",
    "diff-index",
    "diff-tree",
    "for-each-ref",
    "format-patch",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "name-rev",
    "remote",
    "restore",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "stash",
    "status",
    "submodule",
    "worktree",
];

/// Programs and functions that read a directory with everything in it.
const COPIES: [&str; 6] = ["cp", "rsync", "tar", "zip", "scp", "find"];
const COPY_CALLS: [&str; 6] = ["copytree(", "cpSync(", "fs.cp(", "copySync(", "make_archive(", "os.walk("];

/// The calls of git in one script, from top to bottom.
#[derive(Debug, Default)]
pub(super) struct GitCalls {
    /// Whether the script has made a repository of its own, which later calls are about.
    own: bool,
}

impl GitCalls {
    /// The command with which a line of a shell script uses the repository.
    pub(super) fn in_shell(&mut self, words: &[Word], cwd: &Path, root: &Path) -> Option<String> {
        let mut found = None;
        // `$(git …)` is one word of the line.
        for word in words.iter().filter(|word| word.text.contains("$(git ") || word.text.contains("`git ")) {
            found = found.or_else(|| self.in_text(&word.text));
        }
        for (i, _) in words.iter().enumerate().filter(|(_, word)| word.leads && word.text == "git") {
            let (mut is_elsewhere, mut skip) = (false, false);
            let mut verb = None;
            let rest: Vec<&Word> = words[i + 1..].iter().take_while(|word| !word.leads).collect();
            let is_here = |word: &Word| {
                word.known().is_some_and(|path| {
                    let path = crate::config::normalized(&cwd.join(path.trim_start_matches("file://")));
                    path.starts_with(root)
                })
            };
            for (j, word) in rest.iter().enumerate() {
                if std::mem::take(&mut skip) {
                    continue;
                }
                match word.text.as_str() {
                    "-C" => {
                        is_elsewhere = !rest.get(j + 1).is_some_and(|dir| is_here(dir));
                        skip = true;
                    }
                    "-c" => skip = true,
                    text if text.starts_with('-') => {}
                    text => {
                        verb = Some((text.to_owned(), j));
                        break;
                    }
                }
            }
            let Some((verb, at)) = verb else { continue };
            if verb == "clone" {
                let source = rest[at + 1..].iter().find(|word| !word.text.starts_with('-'));
                let is_local = source.is_some_and(|word| is_here(word) && !word.text.contains("://"));
                self.own |= !is_local;
                if is_local {
                    found = found.or(Some("git clone".to_owned()));
                }
            } else if verb == "init" {
                self.own = true;
            } else if READS.contains(&verb.as_str()) && !is_elsewhere && !self.own {
                found = found.or(Some(format!("git {verb}")));
            }
        }
        found
    }

    /// The same for a line of another language: `["git", "log"]`, `"git log"`.
    pub(super) fn in_text(&mut self, line: &str) -> Option<String> {
        let trimmed = line.trim_start();
        let is_comment = ["#", "//", "*"].iter().any(|start| trimmed.starts_with(start));
        let prints = ["echo", "print", "console."].iter().any(|start| trimmed.starts_with(start));
        if is_comment || prints {
            return None;
        }
        let word = |c: char| c.is_ascii_alphanumeric() || "-_./$".contains(c);
        for (at, _) in line.match_indices("git") {
            let before = line[..at].chars().next_back();
            let after = line[at + 3..].chars().next();
            let starts = before.is_none_or(|c| "\"'`( ".contains(c));
            if !starts || !after.is_some_and(|c| "\"'` ,".contains(c)) {
                continue;
            }
            // In a sentence it is no command.
            if before == Some(' ') && !line[..at].trim_end().ends_with(['&', ';', '|', '"', '\'', '`', '(']) {
                continue;
            }
            let mut words = line[at + 3..].split(|c: char| !word(c)).filter(|word| !word.is_empty());
            let verb = words.find(|word| !word.starts_with('-'));
            match verb {
                Some("init" | "clone") => self.own = true,
                Some(verb) if READS.contains(&verb) && !line[at..].contains("-C") && !self.own => {
                    return Some(format!("git {verb}"));
                }
                _ => {}
            }
        }
        None
    }
}

/// Whether a line of a script copies or searches what it names.
pub(super) fn copies(words: &[Word], line: &str) -> bool {
    words.iter().any(|word| word.leads && COPIES.contains(&word.text.as_str()))
        || COPY_CALLS.iter().any(|call| line.contains(call))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::shell::Shell;
    use super::*;

    fn calls(script: &str) -> Vec<String> {
        let (cwd, root) = (Path::new("/repo/evals"), Path::new("/repo"));
        let mut shell = Shell::new(Path::new("/repo/evals/a.sh"), cwd, root);
        let mut git = GitCalls::default();
        script.lines().filter_map(|line| git.in_shell(&shell.line(line), cwd, root)).collect()
    }

    #[test]
    fn git_on_the_repository_is_told_from_git_elsewhere() {
        for (script, found) in [
            ("git rev-parse HEAD", Some("git rev-parse")),
            ("ROOT=\"$(git rev-parse --show-toplevel)\"", Some("git rev-parse")),
            ("cd x && git --no-pager -c a=b diff main", Some("git diff")),
            ("git -C \"$1\" log", None),
            ("git -C .. archive HEAD | tar -x", Some("git archive")),
            ("git clone https://example.com/x y\ngit log", None),
            ("git clone .. \"$1\"", Some("git clone")),
            ("git init -q\ngit add -A\ngit status", None),
            ("# git log", None),
            ("echo 'git log'", None),
            ("git --version", None),
        ] {
            assert_eq!(calls(script).first().map(String::as_str), found, "{script}");
        }
    }

    #[test]
    fn git_in_other_languages() {
        for (line, found) in [
            ("subprocess.run([\"git\", \"rev-parse\", \"HEAD\"])", Some("git rev-parse")),
            ("execSync('git log -1')", Some("git log")),
            ("// execSync('git log -1')", None),
            ("x = 'we use git to show things'", None),
            ("run(['git', '-C', path, 'log'])", None),
            ("digit = legit(log)", None),
        ] {
            assert_eq!(GitCalls::default().in_text(line).as_deref(), found, "{line}");
        }
    }
}
