//! The help of every command.

use clap::{CommandFactory as _, Parser as _};
use insta::assert_snapshot;
use run_evals::testing::Cli;

use crate::support::{Output, Workspace};

/// One screen.
const MOST_LINES: usize = 45;

/// The words of every command, the program itself first.
fn commands() -> Vec<Vec<String>> {
    let mut found = Vec::new();
    collect(&Cli::command(), Vec::new(), &mut found);
    found
}

fn collect(command: &clap::Command, words: Vec<String>, found: &mut Vec<Vec<String>>) {
    for inner in command.get_subcommands() {
        collect(inner, [words.clone(), vec![inner.get_name().to_owned()]].concat(), found);
    }
    found.push(words);
}

fn help(words: &[String], option: &str) -> String {
    let words: Vec<&str> = words.iter().map(String::as_str).chain([option]).collect();
    Output::of(Workspace::new().command(&words).env("COLUMNS", "80")).expect(0).stdout
}

/// The commands in the `Examples:` of a help text, with continued lines joined and comments and redirections removed.
fn examples(help: &str) -> Vec<String> {
    let (_, examples) = help.split_once("Examples:\n").unwrap();
    let examples = examples.replace("\\\n", " ");
    let lines = examples.lines().filter_map(|line| line.strip_prefix("  "));
    lines
        .filter(|line| line.starts_with("run-evals "))
        .map(|line| line.split([('#'), ('>')]).next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_short_help_of_every_command_fits_one_screen() {
    for words in commands() {
        let help = help(&words, "-h");
        let lines = help.lines().count();
        assert!(lines <= MOST_LINES, "`{} -h` has {lines} lines:\n{help}", words.join(" "));
        assert!(help.lines().all(|line| line.chars().count() <= 80), "wider than 80 columns:\n{help}");
    }
}

#[test]
fn every_example_is_a_valid_command_line() {
    for words in commands() {
        let help = help(&words, "-h");
        assert!(help.contains("Examples:\n"), "`{} -h` has no examples", words.join(" "));
        let examples = examples(&help);
        let is_adapter = words == ["adapter"];
        assert!(examples.len() >= if is_adapter { 1 } else { 2 }, "`{}`: {examples:?}", words.join(" "));
        for example in examples {
            let words = example.split_whitespace().map(|word| word.trim_matches('\''));
            // The quotes of a value with spaces are not resolved here.
            if !example.contains('\'')
                && let Err(error) = Cli::try_parse_from(words)
            {
                panic!("{example}: {error}");
            }
        }
    }
}

#[test]
fn the_short_help_of_the_program() {
    assert_snapshot!(help(&[], "-h"), @"");
}

#[test]
fn the_short_help_of_eval() {
    assert_snapshot!(help(&["eval".to_owned()], "-h"), @"");
}

#[test]
fn the_long_help_has_every_option_and_the_exit_codes() {
    let long = help(&["eval".to_owned()], "--help");
    for option in ["--grader-target", "--handover", "--token-file", "--fail-on", "--keep-raw"] {
        assert!(long.contains(option), "{option} is missing:\n{long}");
    }
    assert!(help(&[], "--help").contains("Exit codes:\n  0  success\n"));
}
