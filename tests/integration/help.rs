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
        .map(|line| line.split(['#', '>']).next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_short_help_of_every_command_fits_one_screen() {
    for words in commands() {
        let help = help(&words, "-h");
        let lines = help.lines().count();
        assert!(lines <= MOST_LINES, "`{} -h` has {lines} lines:\n{help}", words.join(" "));
        // The usage is never wrapped.
        let mut lines = help.lines().filter(|line| !line.starts_with("Usage: "));
        assert!(lines.all(|line| line.chars().count() <= 80), "wider than 80 columns:\n{help}");
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
    assert_snapshot!(help(&[], "-h"), @"
    GitHub Actions as the compute backend of LLM evaluations

    Usage: run-evals [OPTIONS] <COMMAND>

    Commands:
      init         Write a first suite and a mock target, or set up a runner
                   repository
      doctor       Check targets and runner repositories; each finding names its fix
      eval         Run a suite and grade the responses
      dispatch     Get the responses of a suite or a requests file, without grading
      collect      Collect the responses of a running or finished batch
      run          Run one shard of a batch: the runner role
      report       Report results, and compare them with a baseline
      grade        Score the responses of an earlier run again, without calling the
                   model
      runs         List earlier runs
      open         Open the HTML report of a run
      clean        List old results, batches and branches, or delete them
      cancel       Cancel the workflow run of a batch
      bundle       Compile a suite into a self-contained directory
      evaluate     Evaluate a skill and update its leaderboard
      trigger      Ask the service to evaluate a skill, or a push
      sweep        Ask the service for missing evaluations
      leaderboard  Join, repair, export and publish leaderboards
      skills       Check the skills of a skill library
      sync         Update benchmarks from their git repositories
      rollout      Run and dispatch rollouts of Eval Protocol
      adapter      Serve one AgentV call; concurrent calls become one batch
      serve        Serve the webhook API and the web page
      targets      Print the schema of targets files
      completions  Print shell completions
      help         Print this message or the help of the given subcommand(s)

    Options:
      -v, --verbose...  Print more on stderr; twice for everything
      -q, --quiet       Hide progress and warnings
      -h, --help        Print help (see more with '--help')
      -V, --version     Print version

    Examples:
      run-evals init                                 # write a first project
      run-evals eval suite.eval.yaml --target gpt    # run a suite

    `run-evals COMMAND -h` shows the usual options, `--help` all of them.
    ");
}

#[test]
fn the_short_help_of_eval() {
    assert_snapshot!(help(&["eval".to_owned()], "-h"), @"
    Run a suite and grade the responses

    Usage: run-evals eval [OPTIONS] [SUITE]...

    Arguments:
      [SUITE]...  Suites, bundles, or directories with suites [default: the only
                  suite in the current directory]

    Options:
      -v, --verbose...  Print more on stderr; twice for everything
      -q, --quiet       Hide progress and warnings
      -h, --help        Print help (see more with '--help')
      -V, --version     Print version

    Tests:
          --filter <GLOB>  Run only the tests whose id matches, as in `refund-*`
          --trials <N>     Run each test this many times [default: the suite's]

    Grading:
          --threshold <SCORE>  Minimum score of a trial [default: the suite's, else
                               0.8]

    Targets:
          --targets <FILE>  Targets file [default: the nearest targets.yaml]
      -t, --target <NAME>   Target to call; repeatable [default: the suite's]

    Batch:
          --new  Start over instead of continuing an interrupted run

    Limits:
          --budget-usd <USD>  Spending limit in USD; needs the target's `price`

    Output:
      -o, --output <DIR>     Directory for responses, scores and summary
          --format <FORMAT>  Output format, `text` or `json` [default: text]

    Report:
          --baseline <BASELINE>  Earlier results: directory, run or git ref
          --html <FILE>          Write a self-contained HTML report
          --junit <FILE>         Write JUnit XML
          --pr-comment           Post or update a comment on the pull request

    Examples:
      run-evals eval suite.eval.yaml --target gpt
      run-evals eval suite.eval.yaml --target gpt --threshold 0.9 --html report.html
    ");
}

#[test]
fn the_long_help_has_every_option_and_the_exit_codes() {
    let long = help(&["eval".to_owned()], "--help");
    for option in ["--grader-target", "--handover", "--token-file", "--fail-on", "--keep-raw"] {
        assert!(long.contains(option), "{option} is missing:\n{long}");
    }
    assert!(help(&[], "--help").contains("Exit codes:\n  0  success\n"));
}
