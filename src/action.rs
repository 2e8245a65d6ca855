//! The GitHub Actions adapter: turns the inputs of a step into a command line, so that every option is defined once.

use std::ffi::OsString;

use clap::{CommandFactory as _, error::ErrorKind};

use crate::cli::Cli;
use crate::config::did_you_mean;

/// The input that names the command; a command of two words has a hyphen (`rollout-run`).
const MODE: &str = "mode";
/// Commands that are not modes: AgentV, users, and `run:` steps run them.
const NO_MODES: &str =
    "init doctor adapter serve leaderboard skills targets completions runs open clean cancel help";
/// Read by the program itself: a secret must never be an argument.
const NOT_ARGUMENTS: [&str; 2] = [MODE, "token"];

/// The arguments as given, or made from the non-empty `INPUT_*` variables of an Actions step that names a `mode`.
pub fn argv(
    args: impl Iterator<Item = OsString>,
    vars: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<OsString>, clap::Error> {
    let args: Vec<OsString> = args.collect();
    let inputs = inputs(vars);
    let Some((_, mode)) = inputs.iter().find(|(name, _)| name == MODE).filter(|_| args.len() <= 1) else {
        return Ok(args);
    };
    let mut root = Cli::command();
    root.build();
    let mut argv: Vec<OsString> = vec![args.into_iter().next().unwrap_or_else(|| "run-evals".into())];
    let Some((words, command)) = modes(&root).into_iter().find(|(words, _)| words.join("-") == *mode) else {
        let legal: Vec<String> = modes(&root).into_iter().map(|(words, _)| words.join("-")).collect();
        let message = format!("unknown `mode: {mode}`, expected one of `{}`\n", legal.join("`, `"));
        return Err(clap::Error::raw(ErrorKind::InvalidSubcommand, message));
    };
    argv.extend(words.into_iter().map(OsString::from));
    let mut positionals = Vec::new();
    for (name, value) in &inputs {
        if NOT_ARGUMENTS.contains(&name.as_str()) {
            continue;
        }
        let Some(arg) = command.get_arguments().find(|arg| is_named(arg, name)) else {
            let message = format!(
                "`mode: {mode}` has no input `{name}`\n\nhint: {}\n",
                other_input(&root, command, name)
            );
            return Err(clap::Error::raw(ErrorKind::UnknownArgument, message));
        };
        if arg.is_positional() {
            // Repeated values are one per line.
            let is_list = matches!(arg.get_action(), clap::ArgAction::Append);
            let values = value.lines().map(str::trim).filter(|line| is_list && !line.is_empty());
            positionals.extend(values.map(|line| (arg.get_index(), line)));
            if !is_list {
                positionals.push((arg.get_index(), value.as_str()));
            }
        } else if arg.get_num_args().is_some_and(|count| count.min_values() == 0) && value == "true" {
            // An option whose value is optional.
            argv.push(format!("--{name}").into());
        } else if matches!(arg.get_action(), clap::ArgAction::Append) {
            let values = value.lines().map(str::trim).filter(|value| !value.is_empty());
            argv.extend(values.map(|value| OsString::from(format!("--{name}={value}"))));
        } else if arg.get_action().takes_values() {
            // As one argument, so that a value with a leading hyphen stays a value.
            argv.push(format!("--{name}={value}").into());
        } else if value == "true" {
            argv.push(format!("--{name}").into());
        } else if value != "false" {
            let message = format!("input `{name}`: expected `true` or `false`, found `{value}`\n");
            return Err(clap::Error::raw(ErrorKind::InvalidValue, message));
        }
    }
    if let Some(missing) = command.get_arguments().find(|arg| is_missing(arg, &inputs)) {
        let message = format!(
            "`mode: {mode}` needs the input `{}`\n\nhint: set it under `with:` of the step\n",
            input_name(missing)
        );
        return Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, message));
    }
    if !positionals.is_empty() {
        positionals.sort_by_key(|(index, _)| *index);
        argv.push("--".into());
        argv.extend(positionals.into_iter().map(|(_, value)| OsString::from(value)));
    }
    Ok(argv)
}

/// The commands that are modes, as words; a command with subcommands is represented by these.
fn modes(root: &clap::Command) -> Vec<(Vec<String>, &clap::Command)> {
    let own =
        root.get_subcommands().filter(|command| !NO_MODES.split(' ').any(|name| name == command.get_name()));
    own.flat_map(|command| {
        let name = command.get_name().to_owned();
        if !command.is_subcommand_required_set() {
            return vec![(vec![name], command)];
        }
        let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help");
        inner.map(|inner| (vec![name.clone(), inner.get_name().to_owned()], inner)).collect()
    })
    .collect()
}

/// The inputs with a value, sorted by name. An unset optional input is an empty variable.
fn inputs(vars: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let mut inputs: Vec<(String, String)> = vars
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter_map(|(name, value)| {
            Some((name.strip_prefix("INPUT_")?.to_lowercase(), value.trim().to_owned()))
        })
        .filter(|(_, value)| !value.is_empty())
        .collect();
    inputs.sort();
    inputs
}

/// The name of an option's input.
fn input_name(arg: &clap::Arg) -> String {
    arg.get_long().map_or_else(|| arg.get_id().as_str().replace('_', "-"), ToOwned::to_owned)
}

fn is_named(arg: &clap::Arg, name: &str) -> bool {
    (arg.is_positional() || arg.get_long().is_some()) && input_name(arg) == name
}

/// Whether an option is required that neither an input nor a variable sets.
fn is_missing(arg: &clap::Arg, inputs: &[(String, String)]) -> bool {
    let has_env = arg.get_env().is_some_and(|name| std::env::var_os(name).is_some());
    arg.is_required_set() && !has_env && !inputs.iter().any(|(name, _)| is_named(arg, name))
}

/// The input that was probably meant, or the modes that have it.
fn other_input(root: &clap::Command, command: &clap::Command, name: &str) -> String {
    let takers =
        modes(root).into_iter().filter(|(_, other)| other.get_arguments().any(|arg| is_named(arg, name)));
    let takers: Vec<String> = takers.map(|(words, _)| format!("`mode: {}`", words.join("-"))).collect();
    if !takers.is_empty() {
        return format!("it is an input of {}", takers.join(", "));
    }
    let inputs: Vec<String> = command.get_arguments().map(input_name).collect();
    match did_you_mean(name, inputs.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`action.yml` lists the inputs of each mode".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv_of(vars: &[(&str, &str)]) -> Result<String, String> {
        let vars = vars.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        match argv(["run-evals".into()].into_iter(), vars) {
            Ok(argv) => Ok(argv.join(&OsString::from(" ")).into_string().unwrap()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn inputs_become_arguments() {
        let argv = |vars: &[(&str, &str)]| argv_of(vars).unwrap();
        let inputs = [
            ("INPUT_MODE", "eval"),
            ("INPUT_SUITE", "-odd name.yaml"),
            ("INPUT_MAX-CONCURRENCY", "8"),
            ("INPUT_KEEP-RAW", "true"),
            ("INPUT_DEDUPE", "false"),
            ("INPUT_DEADLINE", ""),
            ("INPUT_TOKEN", "ghs_secret"),
            ("HOME", "/root"),
        ];
        assert_eq!(argv(&inputs), "run-evals eval --keep-raw --max-concurrency=8 -- -odd name.yaml");
        // A command of two words has a hyphen.
        let inputs = [("INPUT_MODE", "rollout-run"), ("INPUT_DATASET", "rows.jsonl")];
        assert_eq!(argv(&inputs), "run-evals rollout run --dataset=rows.jsonl");
        // A batch id is positional where the command says so.
        let inputs = |mode| [("INPUT_MODE", mode), ("INPUT_BATCH-ID", "b1")];
        assert_eq!(argv(&inputs("collect")), "run-evals collect -- b1");
        assert_eq!(argv(&inputs("run")), "run-evals run --batch-id=b1");
        // Repeated values are one per line.
        let inputs =
            [("INPUT_MODE", "eval"), ("INPUT_SUITE", "s.yaml"), ("INPUT_TARGET", "gpt\n  claude\n\n")];
        assert_eq!(argv(&inputs), "run-evals eval --target=gpt --target=claude -- s.yaml");
        let inputs = [("INPUT_MODE", "sync"), ("INPUT_IDS", "refunds\n  -odd\n\n")];
        assert_eq!(argv(&inputs), "run-evals sync -- refunds -odd");
        // An option can omit its value.
        let of = |value| [("INPUT_MODE", "bundle"), ("INPUT_SUITE", "s.yaml"), ("INPUT_CAPTURE-ENV", value)];
        assert_eq!(argv(&of("true")), "run-evals bundle --capture-env -- s.yaml");
        assert_eq!(argv(&of("A,B")), "run-evals bundle --capture-env=A,B -- s.yaml");
        // Without a mode, the command line applies.
        assert_eq!(argv(&[("INPUT_SUITE", "x")]), "run-evals");
    }

    #[test]
    fn mistakes_are_reported() {
        let alone = argv_of(&[("INPUT_MODE", "rollout")]).unwrap_err();
        assert!(alone.contains("unknown `mode: rollout`") && alone.contains("`rollout-dispatch`"), "{alone}");
        let unknown_mode = argv_of(&[("INPUT_MODE", "evla")]).unwrap_err();
        assert!(
            unknown_mode.contains("expected one of `eval`, `dispatch`, `collect`, `run`, `report`"),
            "{unknown_mode}"
        );
        let no_mode = argv_of(&[("INPUT_MODE", "targets")]).unwrap_err();
        assert!(no_mode.starts_with("error: unknown `mode: targets`, expected one of `eval`"), "{no_mode}");
        assert!(!no_mode.contains("`help`") && !no_mode.contains("`targets`"), "{no_mode}");
        let unknown_input = argv_of(&[("INPUT_MODE", "collect"), ("INPUT_SUITE", "x")]).unwrap_err();
        assert!(unknown_input.contains("`mode: collect` has no input `suite`"), "{unknown_input}");
        let not_boolean = argv_of(&[("INPUT_MODE", "run"), ("INPUT_DEDUPE", "yes")]).unwrap_err();
        assert!(
            not_boolean.contains("input `dedupe`: expected `true` or `false`, found `yes`"),
            "{not_boolean}"
        );
    }
}
