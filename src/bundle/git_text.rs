//! Git calls in Python and JavaScript: `["git", "log"]`, `"git log"`, and libraries that read repositories.

use std::collections::BTreeSet;

use super::git_call::{Argument, Dir, Repositories, below};

/// Git subcommands. A text like `git is fast` contains none.
const COMMANDS: &str = " add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore checkout \
    checkout-index cherry cherry-pick clean clone commit commit-tree config count-objects describe diff diff-files diff-index \
    diff-tree fast-export fast-import fetch filter-branch filter-repo for-each-ref format-patch fsck gc grep hash-object help init \
    lfs log ls-files ls-remote ls-tree maintenance merge merge-base merge-tree mktree mv name-rev notes pack-objects prune pull \
    push read-tree rebase reflog remote repack replace reset restore rev-list rev-parse revert rm shortlog show show-ref \
    sparse-checkout stash status submodule subtree switch symbolic-ref tag unpack-objects update-index update-ref \
    verify-commit version whatchanged worktree write-tree ";
/// The import names of libraries that read repositories.
const LIBRARIES: [&str; 5] = ["pygit2", "dulwich", "simple-git", "isomorphic-git", "nodegit"];
/// Starts of lines that run nothing.
const NO_CODE: [&str; 6] = ["#", "//", "*", "echo", "print", "console."];
/// Text before `git` in messages and paths.
const TALKS: [&str; 9] =
    ["Error(", "raise ", "throw ", "logger.", "logging.", "log.", ".error(", ".warn(", "help="];
const PATHS: [&str; 3] = ["join(", "Path(", "resolve("];
/// How long a call may be, and how much of its line before it is checked.
const LONGEST_CALL: usize = 1000;

/// The commands with which a text uses the repository, with line numbers from 1. `dir` is its working directory.
pub(super) fn git_in_text(
    text: &str,
    dir: &Dir,
    repositories: &mut Repositories<'_>,
) -> Vec<(usize, String)> {
    let mut found = imports(text);
    let has_library = text.contains("import git") || text.contains("from git import");
    let makes_one = text.contains("\"init\"") || text.contains("'init'");
    let places: BTreeSet<usize> =
        text.match_indices("git").chain(text.match_indices("Repo")).map(|(at, _)| at).collect();
    let (mut line, mut counted) = (1, 0);
    for at in places {
        line += text[counted..at].matches('\n').count();
        counted = at;
        let head = head(text, at);
        if NO_CODE.iter().any(|start| head.starts_with(start)) {
            continue;
        }
        let rest = &text[at..text.floor_char_boundary(at + LONGEST_CALL)];
        let used = if rest.starts_with("Repo") {
            has_library.then(|| repo_object(rest, head, dir, repositories)).flatten()
        } else {
            arguments(rest, head).and_then(|arguments| {
                let dir = working_dir(rest).map_or_else(|| dir.clone(), |place| below(dir, &place));
                // `def git(*args)`, which the script also calls with `init`.
                let is_helper = makes_one && arguments.first().is_some_and(|first| first.known.is_none());
                if is_helper { None } else { repositories.call(&arguments, &dir) }
            })
        };
        found.extend(used.map(|call| (line, call)));
    }
    found.sort();
    found
}

/// The part of a line before a position that a git call can depend on.
fn head(text: &str, at: usize) -> &str {
    let from = text.ceil_char_boundary(at.saturating_sub(LONGEST_CALL));
    let before = &text[from..at];
    before.rsplit('\n').next().unwrap_or(before).trim_start()
}

fn imports(text: &str) -> Vec<(usize, String)> {
    let is_import = |line: &&str| line.contains("import") || line.contains("require(");
    let mut found = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, line)| is_import(line)) {
        let mut words = line.split(|c: char| c.is_whitespace() || "\"'`().;".contains(c));
        found.extend(words.find(|word| LIBRARIES.contains(word)).map(|name| (i + 1, name.to_owned())));
    }
    found
}

/// `GitPython`: `Repo(…)`, unless the script created that repository.
fn repo_object(rest: &str, head: &str, dir: &Dir, repositories: &mut Repositories<'_>) -> Option<String> {
    if head.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    let (call, inner) = rest.split_once('(')?;
    let arguments = list(inner);
    let place = |at: usize| arguments.get(at).map_or_else(|| dir.clone(), |place| below(dir, place));
    match call {
        "Repo.init" => repositories.made(place(0)),
        "Repo.clone_from" => repositories.made(place(1)),
        "Repo" if repositories.is_repository(&place(0)) => return Some("git.Repo".to_owned()),
        _ => {}
    }
    None
}

/// The arguments of a call, if the `git` at the start of a text is one.
fn arguments(rest: &str, head: &str) -> Option<Vec<Argument>> {
    // `/usr/bin/git`.
    let path = head.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let head = if head.ends_with('/') && head[path.len()..].starts_with('/') { path } else { head };
    let (before, after) = (head.chars().next_back(), rest[3..].chars().next()?);
    let quote = before.filter(|c| "\"'`".contains(*c));
    let arguments = if quote == Some(after) {
        if PATHS.iter().any(|function| head.contains(function)) {
            return None;
        }
        let inner = rest[4..].trim_start();
        if inner.starts_with(']') && (inner[1..].trim_start().starts_with('+') || grows(head, inner)) {
            vec![Argument { text: "?".to_owned(), known: None }]
        } else {
            list(inner.strip_prefix(',')?)
        }
    } else if after == ' ' {
        let is_sentence =
            before == Some(' ') && !head.trim_end().ends_with(['&', ';', '|', '"', '\'', '`', '(']);
        let starts = before.is_none_or(|c| "\"'`( ".contains(c));
        if !starts || is_sentence || TALKS.iter().any(|word| head.contains(word)) {
            return None;
        }
        command_line(&rest[3..], quote)
    } else {
        return None;
    };
    let takes_value = |argument: &Argument| matches!(argument.text.as_str(), "-C" | "-c");
    let verb = (0..arguments.len())
        .find(|i| !(arguments[*i].text.starts_with('-') || *i > 0 && takes_value(&arguments[i - 1])))?;
    let is_call = match &arguments[verb].known {
        Some(verb) => COMMANDS.contains(&format!(" {verb} ")),
        None => true,
    };
    is_call.then_some(arguments)
}

/// Whether `name = ["git"]` begins a list that the next lines extend.
fn grows(head: &str, after: &str) -> bool {
    let Some((name, _)) = head.split_once('=') else { return false };
    let name = name.trim().rsplit(' ').next().unwrap_or_default();
    let ways = [" +=", ".append(", ".extend(", ".push(", ".concat("].map(|way| format!("{name}{way}"));
    let spread = [format!("*{name}"), format!("...{name}")];
    !name.is_empty() && ways.iter().chain(&spread).any(|way| after.contains(way.as_str()))
}

/// The words of a command line.
fn command_line(text: &str, quote: Option<char>) -> Vec<Argument> {
    let end = text.find(|c: char| quote == Some(c) || ";|&)\n".contains(c)).unwrap_or(text.len());
    text[..end].split_whitespace().map(|word| literal(word.trim_matches(['"', '\'', '`']))).collect()
}

/// The elements of a list or a call, up to its end or its first named argument.
fn list(text: &str) -> Vec<Argument> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',' || c == '[');
        let end = expression_end(rest);
        let expression = rest[..end].trim();
        let is_named = expression.split_once('=').is_some_and(|(name, _)| !name.contains(['"', '\'', '`']));
        if expression.is_empty() || is_named {
            return found;
        }
        found.push(value(expression));
        rest = &rest[end..];
        if !rest.starts_with(',') {
            return found;
        }
    }
}

/// The end of an element: a comma or closing bracket outside of quotes and brackets.
fn expression_end(text: &str) -> usize {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '"' | '\'' | '`') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') if depth > 0 => depth -= 1,
            (None, ')' | ']' | '}' | ',' | ';') if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

/// The value of an expression: a literal, or the expression itself.
fn value(expression: &str) -> Argument {
    let mut inner = expression.trim();
    for function in ["str(", "String(", "os.fspath("] {
        inner = inner.strip_prefix(function).and_then(|rest| rest.strip_suffix(')')).unwrap_or(inner);
    }
    let text = inner.strip_prefix(['f', 'r']).unwrap_or(inner);
    let quoted = ['"', '\'', '`'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    quoted.map_or_else(|| Argument { text: inner.to_owned(), known: None }, literal)
}

/// A text that may contain variables: `{name}`, `${name}`, `$NAME`.
fn literal(text: &str) -> Argument {
    let name = text.replace(['$', '{', '}', '"', '\''], "");
    let is_open = text.contains(['{', '$']);
    Argument { known: (!is_open).then(|| text.to_owned()), text: name }
}

/// The directory in a call: `cwd=dir`, `{ cwd: dir }`, `{ cwd }`.
fn working_dir(call: &str) -> Option<Argument> {
    let mut depth = 0_i32;
    let end = call.char_indices().find_map(|(at, c)| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        (depth < 0).then_some(at)
    });
    let call = &call[..end.unwrap_or(call.len())];
    let at = call.find("cwd")?;
    let rest = call[at + 3..].trim_start();
    match rest.strip_prefix(['=', ':']) {
        Some(rest) => {
            let rest = rest.trim_start();
            Some(value(&rest[..expression_end(rest)]))
        }
        None => Some(value("cwd")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn calls(text: &str) -> Vec<(usize, String)> {
        git_in_text(text, &"/repo/evals".to_owned(), &mut Repositories::new(Path::new("/repo")))
    }

    #[test]
    fn calls_on_the_repository_are_found() {
        for (text, call) in [
            ("subprocess.run([\"git\", \"rev-parse\", \"HEAD\"])", "git rev-parse"),
            ("execSync('git log -1')", "git log"),
            ("execSync(`git checkout ${branch}`)", "git checkout"),
            ("await $`git pull`", "git pull"),
            ("execFileSync('git', ['fetch', 'origin'])", "git fetch"),
            ("spawn(\"/usr/bin/git\", [\"status\"])", "git status"),
            ("os.system('cd x && git commit -m y')", "git commit"),
            ("run(['git', '-C', path, 'log'])", "git log"),
            ("run(f'git -C {path} tag v1')", "git tag"),
            ("run(['git', *args])", "git"),
            ("run(['git'] + args)", "git"),
            ("cmd = ['git']\ncmd += args", "git"),
            ("spawnSync('git', args)", "git"),
            ("import git\nrepo = git.Repo(search_parent_directories=True)", "git.Repo"),
            ("from git import Repo\nrepo = Repo('..')", "git.Repo"),
            ("import pygit2", "pygit2"),
            ("import simpleGit from 'simple-git';", "simple-git"),
            ("run(['git', 'init', a])\nrun(['git', 'log'])", "git log"),
            ("run(['git', 'clone', '..', dest])", "git clone"),
        ] {
            let found: Vec<String> = calls(text).into_iter().map(|(_, call)| call).collect();
            assert_eq!(found, [call], "{text}");
        }
    }

    #[test]
    fn other_calls_and_sentences_are_not() {
        for text in [
            "// execSync('git log -1')",
            "x = 'we use git to show things'",
            "raise RuntimeError('git commit failed')",
            "title = 'git is fast'",
            "digit = legit(log)",
            "TOOLS = ['git']\nprint(TOOLS)",
            "shutil.which('git')",
            "path = os.path.join(home, 'git', name)",
            "run(['git', '--version'])",
            "run(['git', 'config', '--global', 'user.name', 'x'])",
            "run(['git', 'clone', '--depth', '1', 'https://example.com/x', d])\nrun(['git', 'log'], cwd=d)",
            "run(['git', 'init', str(ws)])\nrun(['git', '-C', ws, 'commit'])\nrun(f'git -C {ws} log')",
            "run(\n    ['git', 'init'],\n    cwd=ws,\n)\nrun(\n    ['git', 'add', '-A'],\n    cwd=str(ws),\n)",
            "spawnSync('git', ['init'], { cwd: dir });\nspawnSync('git', ['add', '.'], { cwd: dir });",
            "def git(*args):\n    run(['git', *args], cwd=ws)\ngit('init')\ngit('commit')",
            "from git import Repo\nRepo.clone_from(url, ws)\nrepo = Repo(ws)",
        ] {
            assert_eq!(calls(text), [], "{text}");
        }
    }

    #[test]
    fn arguments_may_be_on_several_lines() {
        let text = "x = 1\nout = subprocess.run(\n    [\n        \"git\",\n        \"-C\",\n        root,\n        \"reset\",\n    ]\n)\n";
        assert_eq!(calls(text), [(4, "git reset".to_owned())]);
    }

    #[test]
    fn unfinished_text_does_not_panic() {
        for text in [
            "\"git\"",
            "\"git\",",
            "'git', [",
            "git ",
            "`git é",
            "Repo(",
            "import git\nRepo(",
            "é\"git\", \"é",
        ] {
            calls(text);
        }
    }
}
