//! Phrases that make a reader stop, in the docs, the help, the action, the workflows, the pages and the messages.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::CommandFactory as _;
use regress::Regex;
use run_evals::testing::Cli;

use super::{pages, root};

/// A phrase, and what to write instead. A space matches a line break too.
const PHRASES: [(&str, &str); 25] = [
    (r"\b(is|are|was|were|be) told\b", "name who does what: reports, prints, warns"),
    (r"\b(tell|tells|told) (what|of|how|that|whether|where|apart)\b", "shows, reports, says"),
    (r"\btells (its|the|their) \w+ to\b", "requests"),
    (r"\b(goes|go|went|going) on\b", "continues"),
    (r"\bone an? (line|request|model|row|answer|test|case|run|shard|skill)\b", "one per …"),
    (r"\b(a|the) \w+ an? (line|row)\b", "one … per line"),
    (r"(?<!\bthere )\b(is|are|was) no (?!longer\b|more\b)[a-z]+", "is not a …, has no …"),
    (r"\bwhoever\b", "name the actor"),
    (r"\b(nobody|somebody)\b", "name the actor, or use the passive"),
    (r"\bstands?\b(?!-| for\b)", "is"),
    (r"\b(lies|lie|lay) (in|on|at|beside|there|with|below|above|under|outside)\b", "is"),
    (r"\bask(s|ed)? (nobody|nothing)\b", "contacts no remote, calls nothing"),
    (r"\bmend(s|ed|ing)?\b", "fix, repair"),
    (r"\brose\b", "increased, was raised"),
    (r"\bholes?\b", "missing"),
    (r"\bfor a passing reason\b", "retryable"),
    (r"\bmay pass\b", "retryable"),
    (r"\bcomes? to\b(?! you\b)", "results in, is"),
    (r"\b(come|comes) and go(es)?\b", "name the event"),
    (r"\bwithout a word\b", "silently"),
    (r"\bgives? (it|them) away\b", "is not accessible with this token"),
    (r"\bwhat came of\b", "the result of"),
    (r"\bin plain sight\b", "visible"),
    (r"\bof no use\b", "unusable"),
    (
        r"\b\w*(favour|honour|colour|neighbour|labour|behaviour|organis|recognis|serialis|normalis|initialis|summaris|catalogue)\w*",
        "American spelling",
    ),
];

/// Their text is generated from sources that are checked here.
const GENERATED: [&str; 3] = ["cli.md", "action.md", "targets.md"];

static REGEXES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let regex = |phrase: &str| Regex::with_flags(&phrase.replace(' ', r"\s+"), "i").unwrap();
    PHRASES.iter().map(|(phrase, _)| regex(phrase)).collect()
});

/// Adds `name:line: phrase → what to write` for each phrase in a text whose first line has this number.
fn find(name: &str, first_line: usize, text: &str, found: &mut Vec<String>) {
    for (regex, (_, instead)) in REGEXES.iter().zip(PHRASES) {
        for hit in regex.find_iter(text) {
            let line = first_line + text[..hit.start()].matches('\n').count();
            let words = text[hit.range()].split_whitespace().collect::<Vec<_>>().join(" ");
            found.push(format!("{name}:{line}: `{words}` → {instead}"));
        }
    }
}

fn find_in_files(files: impl Iterator<Item = PathBuf>) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = 0;
    for path in files {
        seen += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        find(&path.strip_prefix(root()).unwrap().display().to_string(), 1, &text, &mut found);
    }
    assert!(seen > 0, "the test no longer sees the files");
    found
}

/// The files below a folder of the repository with this extension.
fn files(folder: &str, extension: &'static str) -> impl Iterator<Item = PathBuf> {
    let entries = walkdir::WalkDir::new(root().join(folder)).sort_by_file_name();
    let paths = entries.into_iter().map(|entry| entry.unwrap().into_path());
    paths.filter(move |path| path.extension().is_some_and(|found| found == extension))
}

/// The string literals of Rust code, each with its line. Continued lines are joined.
fn literals(code: &str) -> Vec<(usize, String)> {
    let chars: Vec<char> = code.chars().collect();
    let is = |at: usize, text: &str| text.chars().enumerate().all(|(n, c)| chars.get(at + n) == Some(&c));
    let (mut at, mut line, mut found) = (0, 1, Vec::new());
    while at < chars.len() {
        if is(at, "//") {
            while at < chars.len() && chars[at] != '\n' {
                at += 1;
            }
        } else if chars[at] == '\'' {
            // A character, or a lifetime.
            let escaped = chars.get(at + 1) == Some(&'\\');
            at += if escaped { 2 } else { 1 };
            if escaped {
                while chars.get(at + 1).is_some_and(|c| *c != '\'') {
                    at += 1;
                }
                at += 2;
            } else if chars.get(at + 1) == Some(&'\'') {
                at += 2;
            }
        } else if chars[at] == '"' {
            let hashes = chars[..at].iter().rev().take_while(|c| **c == '#').count();
            let is_raw = at > hashes && chars[at - hashes - 1] == 'r';
            let end = format!("\"{}", "#".repeat(if is_raw { hashes } else { 0 }));
            let (start, mut text) = (line, String::new());
            at += 1;
            while at < chars.len() && !is(at, &end) {
                if !is_raw && chars[at] == '\\' {
                    at += 1;
                    if chars[at] == '\n' {
                        while chars[at].is_whitespace() {
                            line += usize::from(chars[at] == '\n');
                            at += 1;
                        }
                    } else {
                        text.push(if chars[at] == 'n' { '\n' } else { chars[at] });
                        at += 1;
                    }
                    continue;
                }
                line += usize::from(chars[at] == '\n');
                text.push(chars[at]);
                at += 1;
            }
            at += end.chars().count();
            found.push((start, text.replace('\n', " ")));
        } else {
            line += usize::from(chars[at] == '\n');
            at += 1;
        }
    }
    found
}

fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "{} phrases to replace:\n{}", found.len(), found.join("\n"));
}

#[test]
fn phrases_are_found_across_lines_and_in_literals() {
    let mut found = Vec::new();
    find("page.md", 1, "one\ntwo goes\non, three\nStands", &mut found);
    assert_eq!(found, ["page.md:2: `goes on` → continues", "page.md:4: `Stands` → is"]);
    let code =
        "let a = '\"'; // \"no\"\nf(\"x \\\n   y\", r#\"z \"q\" \"#, '\\'', b'\\\\');\n&'a str; \"w\\n\"";
    let expected = [(2, "x y"), (3, "z \"q\" "), (4, "w ")].map(|(line, text)| (line, text.to_owned()));
    assert_eq!(literals(code), expected);
}

#[test]
fn the_docs_use_plain_words() {
    let is_written = |path: &Path| !GENERATED.iter().any(|name| path.ends_with(name));
    assert_none(&find_in_files(pages().into_iter().filter(|path| is_written(path))));
}

#[test]
fn the_action_and_the_workflows_use_plain_words() {
    let mut paths = vec![root().join("action.yml"), root().join("docs/openapi.yaml")];
    paths.extend(files("workflows", "yml"));
    paths.extend(files(".github/workflows", "yml"));
    assert_none(&find_in_files(paths.into_iter()));
}

#[test]
fn the_help_uses_plain_words() {
    let mut found = Vec::new();
    let mut root = Cli::command();
    root.build();
    let mut queue = vec![root];
    while let Some(mut command) = queue.pop() {
        let name = format!("{} --help", command.get_bin_name().unwrap_or("run-evals"));
        find(&name, 1, &command.render_long_help().to_string(), &mut found);
        queue.extend(command.get_subcommands().cloned());
    }
    assert_none(&found);
}

#[test]
fn the_messages_use_plain_words() {
    let mut found = find_in_files(files("src", "html"));
    for path in files("src", "rs") {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let is_test = name.split('/').any(|part| part.starts_with("tests"));
        let text = std::fs::read_to_string(&path).unwrap();
        let code = if is_test { "" } else { text.split("#[cfg(test)]\nmod ").next().unwrap() };
        for (line, literal) in literals(code) {
            find(&name, line, &literal, &mut found);
        }
    }
    assert_none(&found);
}
