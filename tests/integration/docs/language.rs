//! Phrases that make a reader stop, in everything that is written: docs, help, action, workflows, scripts, pages, messages,
//! comments, and the names of functions and tests.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::CommandFactory as _;
use regress::Regex;
use run_evals::testing::Cli;

use super::rust_text::{RustText, function_names};
use super::{pages, root};

/// A phrase, and what to write instead. A space matches a line break too.
const PHRASES: [(&str, &str); 34] = [
    (r"\b(is|are|was|were|be) told\b", "name who does what: reports, prints, warns"),
    (r"\b(tell|tells|told) (what|of|how|that|whether|where|apart)\b", "shows, reports, says"),
    (r"\btold (on|about|to)\b", "name who does what: reports, prints, warns"),
    (r"\btells (its|the|their) \w+ to\b", "requests"),
    (r"\bhears? of\b", "is notified of, is reported to"),
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
    (r"\b(is|are) tried again\b", "is retried"),
    (r"\bmay pass\b", "retryable"),
    (r"\bcomes? to\b(?! you\b)", "results in, is"),
    (r"\b(come|comes) and go(es)?\b", "name the event"),
    (r"\bwithout a word\b", "silently"),
    (r"\bgives? (it|them) away\b", "is not accessible with this token"),
    (r"\bwhat came of\b", "the result of"),
    (r"\bin plain sight\b", "visible"),
    (r"\bof no use\b", "unusable"),
    (r"\b(is|are|be) taken for\b", "is mistaken for, counts as"),
    (r"\basks (every|each) (case|test|model)\b", "runs every …"),
    (r"\bhangs? up\b", "disconnects"),
    (r"\bonly those are\b", "only … is, only … are"),
    (r"\b(is|are) \w+ed since …", "is being …"),
    (
        r"\b\w*(favour|honour|colour|neighbour|labour|behaviour|organis|recognis|serialis|normalis|initialis|summaris|catalogue)\w*",
        "American spelling",
    ),
    (
        r"\b\w*(optimis|minimis|maximis|prioritis|synchronis|authoris|analysing|licence|judgement|artefact|defence|labelled(?!by)|modelling|travell)\w*",
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

fn assert_none(found: &[String]) {
    assert!(found.is_empty(), "{} phrases to replace:\n{}", found.len(), found.join("\n"));
}

#[test]
fn phrases_are_found_across_lines_and_in_literals() {
    let mut found = Vec::new();
    find("page.md", 1, "one\ntwo goes\non, three\nStands", &mut found);
    assert_eq!(found, ["page.md:2: `goes on` → continues", "page.md:4: `Stands` → is"]);
}

#[test]
fn every_phrase_that_is_replaced_is_found() {
    // One sentence per phrase, so that a phrase that no longer matches is noticed.
    for text in [
        "Limits are obeyed where they are told.",
        "a page that asks nobody for anything",
        "a result with holes is no verdict",
        "how often two equal systems may be taken for a regression",
        "asks every case of a skill",
        "what failed for a passing reason",
        "Tell of each target whether it can be used",
        "Where those hear of a failed job",
        "Whoever disconnects",
        "whoever hangs up",
        "only those are read that the suite attaches",
        "mend the key",
        "or does not give it away",
        "the batch comes and goes",
        "`x` is evaluated since …",
        "started clean, and told on when it fails",
        "before somebody looked",
        "one a line",
        "it is tried again",
        "the optimised build",
    ] {
        let mut found = Vec::new();
        find("page.md", 1, text, &mut found);
        assert!(!found.is_empty(), "no phrase matches: {text}");
    }
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
fn the_changelog_and_the_scripts_use_plain_words() {
    let mut paths: Vec<PathBuf> =
        ["CHANGELOG.md", "Dockerfile", "install.sh"].map(|name| root().join(name)).to_vec();
    for folder in [".ci", "docs/serve"] {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        paths.extend(entries.map(|entry| entry.unwrap().path()));
    }
    assert_none(&find_in_files(paths.into_iter()));
}

#[test]
fn the_messages_use_plain_words() {
    let texts = ["html", "js", "css", "md"];
    let mut found = find_in_files(texts.into_iter().flat_map(|extension| files("src", extension)));
    for path in files("src", "rs") {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let is_test = name.split('/').any(|part| part.starts_with("tests"));
        let text = std::fs::read_to_string(&path).unwrap();
        let code = if is_test { "" } else { text.split("#[cfg(test)]\nmod ").next().unwrap() };
        for (line, literal) in RustText::of(code).literals {
            find(&name, line, &literal, &mut found);
        }
    }
    assert_none(&found);
}

#[test]
fn the_comments_and_the_names_of_functions_use_plain_words() {
    let mut found = Vec::new();
    for path in ["src", "tests", "benches", "examples"].into_iter().flat_map(|folder| files(folder, "rs")) {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let code = std::fs::read_to_string(&path).unwrap();
        for (line, comment) in RustText::of(&code).comments {
            find(&name, line, &comment, &mut found);
        }
        for (line, function) in function_names(&code) {
            find(&name, line, &function, &mut found);
        }
    }
    assert_none(&found);
}
