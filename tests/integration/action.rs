//! `action.yml` against the command line: every input is an option, every option is an input, and the defaults are equal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::CommandFactory as _;
use run_evals::testing::Cli;
use serde_json::Value;

/// The commands that a step can name as its `mode`.
const MODES: [&str; 13] = [
    "eval",
    "dispatch",
    "collect",
    "run",
    "report",
    "grade",
    "bundle",
    "evaluate",
    "trigger",
    "sweep",
    "sync",
    "rollout-run",
    "rollout-dispatch",
];
/// Commands that are not modes, and why.
const NO_MODES: [(&str, &str); 14] = [
    ("leaderboard-merge", "works on files; a `run:` step or git itself runs it"),
    ("leaderboard-export", "works on files; a `run:` step runs it"),
    ("leaderboard-site", "works on files; `pages.yml` runs it in the image"),
    ("skills-lint", "works on files; a `run:` step runs it"),
    ("runs", "lists what a person ran"),
    ("open", "opens a browser"),
    ("clean", "deletes what a person has looked at"),
    ("cancel", "for a person who waits"),
    ("init", "writes files for a person, and sets up a repository with a person's token"),
    ("doctor", "for a person who sets up targets; a dispatch checks the same before it starts anything"),
    ("completions", "for a shell that a person types in"),
    ("adapter", "AgentV starts it"),
    ("serve", "runs for months on a machine of its own; a step ends"),
    ("targets", "prints a schema for editors"),
];
/// Inputs that are not options.
const OWN_INPUTS: [&str; 2] = ["mode", "token"];
/// Options that are not inputs, and why.
const NO_INPUTS: [(&str, &str); 8] = [
    ("help", "a step has no reader"),
    ("version", "the release of the action says it"),
    ("token-file", "the input `token` comes without a file"),
    ("agentv-batch", "AgentV calls it, which a step starts itself"),
    ("output-file", "AgentV names it"),
    ("id", "AgentV names it"),
    ("auth-token-file", "a secret comes as the variable `RUN_EVALS_SERVE_TOKEN`"),
    (
        "app-key-file",
        "a secret comes as the variable `RUN_EVALS_APP_KEY`, never through a file of the workspace",
    ),
];
/// Options whose default is chosen at run time, so clap does not know it.
const CHOSEN_LATER: [&str; 9] = [
    "targets",
    "github-api-url",
    "registry",
    "commit-as",
    "experiment-id",
    "git-sha",
    "pr",
    "repo",
    "trials",
];

/// An option as clap knows it: the modes that take it, and its default.
#[derive(Debug, Default)]
struct CommandOption {
    modes: BTreeSet<&'static str>,
    default: Option<String>,
}

#[test]
fn every_input_is_an_option_of_the_modes_it_names() {
    let options = options();
    for (name, input) in inputs() {
        if OWN_INPUTS.contains(&name.as_str()) {
            continue;
        }
        let option = options.get(&name).unwrap_or_else(|| panic!("no command has `--{name}`"));
        assert_eq!(named_modes(&input), option.modes, "the modes of input `{name}`");
    }
}

#[test]
fn every_option_is_an_input() {
    let options: BTreeSet<String> = options().into_keys().collect();
    let inputs: BTreeSet<String> = inputs().into_keys().collect();
    let excused: BTreeSet<String> = NO_INPUTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let missing: Vec<_> = options.difference(&inputs).filter(|name| !excused.contains(*name)).collect();
    assert!(missing.is_empty(), "no inputs: {missing:?}");
    let needless: Vec<_> =
        excused.iter().filter(|name| inputs.contains(*name) || !options.contains(*name)).collect();
    assert!(needless.is_empty(), "excused for nothing: {needless:?}");
}

#[test]
fn the_defaults_are_those_of_the_command_line() {
    let options = options();
    for (name, input) in inputs() {
        // An input with a `default` would reach every mode, including those that do not accept it.
        let own_default = (name == "token").then_some("${{ github.token }}");
        assert_eq!(input["default"].as_str(), own_default, "the `default` of input `{name}`");
        let Some(option) = options.get(&name) else { continue };
        let told = description(&input)
            .split_once("Default: ")
            .map(|(_, told)| told.trim_end_matches('.').to_owned());
        if CHOSEN_LATER.contains(&name.as_str()) {
            assert!(told.is_some(), "input `{name}` tells its default");
        } else {
            assert_eq!(told, option.default, "the default that input `{name}` tells");
        }
    }
}

#[test]
fn the_mode_lists_every_command() {
    let told = description(&inputs()["mode"]);
    assert_eq!(
        told,
        "The command: eval, dispatch, collect, run, report, grade, bundle, evaluate, trigger, sweep, sync, rollout-run or rollout-dispatch."
    );
    let mut root = Cli::command();
    root.build();
    let commands: BTreeSet<String> = root
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
        .flat_map(|command| {
            let name = command.get_name();
            let is_group =
                command.is_subcommand_required_set() && !NO_MODES.iter().any(|(no, _)| *no == name);
            let inner = command.get_subcommands().filter(|inner| is_group && inner.get_name() != "help");
            let inner: Vec<String> = inner.map(|inner| format!("{name}-{}", inner.get_name())).collect();
            if is_group { inner } else { vec![name.to_owned()] }
        })
        .collect();
    let excused = NO_MODES.map(|(name, _)| name);
    assert_eq!(commands, MODES.iter().chain(&excused).map(|name| (*name).to_owned()).collect());
}

#[test]
fn the_outputs_are_the_promised_ones() {
    let action = action();
    let outputs: Vec<_> = action["outputs"].as_object().unwrap().keys().collect();
    let promised = "batch-id run-id run-url results-branch results-path answered verdict tests passed flaky failed errors skipped score cost-usd pull-request job-id fired bundle-path bundle-sha256 synced unsynced benchmarks";
    assert_eq!(outputs, promised.split(' ').collect::<Vec<_>>());
}

/// What clap knows, by name. Positionals have their name in lower case and hyphens, as the action reads them.
fn options() -> BTreeMap<String, CommandOption> {
    let mut root = Cli::command();
    root.build();
    let mut options: BTreeMap<String, CommandOption> = BTreeMap::new();
    for mode in MODES {
        // A command of two words has a hyphen.
        let two = || {
            let (outer, inner) = mode.split_once('-')?;
            root.find_subcommand(outer)?.find_subcommand(inner)
        };
        let command = root.find_subcommand(mode).or_else(two).unwrap();
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let name = arg.get_long().map_or_else(|| arg.get_id().as_str().replace('_', "-"), str::to_owned);
            let option = options.entry(name).or_default();
            option.modes.insert(mode);
            if arg.get_action().takes_values()
                && let [default] = arg.get_default_values()
            {
                option.default = Some(default.to_str().unwrap().to_owned());
            }
        }
    }
    options
}

fn inputs() -> BTreeMap<String, Value> {
    let inputs = action()["inputs"].as_object().unwrap().clone();
    inputs.into_iter().collect()
}

fn action() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("action.yml");
    serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn description(input: &Value) -> String {
    input["description"].as_str().unwrap().to_owned()
}

/// The modes in brackets that a description starts with.
fn named_modes(input: &Value) -> BTreeSet<&'static str> {
    let description = description(input);
    let named =
        description.strip_prefix('[').and_then(|rest| rest.split_once(']')).expect("[modes] …").0.to_owned();
    let mode =
        |name: &str| *MODES.iter().find(|mode| **mode == name).unwrap_or_else(|| panic!("no mode `{name}`"));
    named.split(", ").map(mode).collect()
}
