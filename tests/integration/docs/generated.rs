//! Pages that are generated from the program. `docs/update` writes them again.

use std::fmt::Write as _;

use clap::CommandFactory as _;
use run_evals::testing::Cli;

use super::root;
use crate::support::Workspace;

/// Fails if a file of `docs` has another text, or writes it if `UPDATE_DOCS` is set.
pub(super) fn check(name: &str, text: &str) {
    let path = root().join("docs").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == text, "docs/{name} is stale: run docs/update");
}

#[test]
fn the_command_reference_is_the_help() {
    let mut page =
        "# Commands\n\nThe output of `run-evals COMMAND --help`. This page is generated.\n".to_owned();
    let mut root = Cli::command().term_width(100);
    root.build();
    let mut queue = vec![root];
    while !queue.is_empty() {
        let mut command = queue.remove(0);
        let name = command.get_bin_name().unwrap_or("run-evals").to_owned();
        let help = command.render_long_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        let _ = write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim_end());
        let children =
            command.get_subcommands().filter(|child| child.get_name() != "help" && !child.is_hide_set());
        let children: Vec<_> = children.cloned().collect();
        queue.splice(0..0, children);
    }
    check("cli.md", &page);
}

#[test]
fn the_action_reference_is_the_action_file() {
    let action: serde_json::Value = serde_yaml::from_str(include_str!("../../../action.yml")).unwrap();
    let mut page = "# Action inputs and outputs\n\nThis page is generated from `action.yml`. Brackets list the modes that take an input.\n\
        An unset input keeps the command's default. Pass API keys as `env` of the step, under the names that `targets.yaml` refers to.\n"
        .to_owned();
    for kind in ["inputs", "outputs"] {
        let title = if kind == "inputs" { "Inputs" } else { "Outputs" };
        let _ = write!(page, "\n## {title}\n\n| name | meaning |\n|---|---|\n");
        for (name, value) in action[kind].as_object().unwrap() {
            let about =
                value["description"].as_str().unwrap().trim().replace('|', "\\|").replace('<', "&lt;");
            let required = if value["required"] == true { " Required." } else { "" };
            let _ = writeln!(page, "| `{name}` | {about}{required} |");
        }
    }
    check("action.md", &page);
}

#[test]
fn the_exit_codes_are_those_of_the_help() {
    let help = Workspace::new().run(&["--help"]).expect(0).stdout;
    let (_, codes) = help.split_once("Exit codes:\n").unwrap();
    let rows: String = codes
        .lines()
        .filter_map(|line| line.trim().split_once("  "))
        .map(|(code, meaning)| format!("| {code} | {meaning} |\n"))
        .collect();
    let page = std::fs::read_to_string(root().join("docs/formats.md")).unwrap();
    let (before, rest) = page.split_once("<!-- generated: exit codes -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end -->").unwrap();
    let table = format!("\n| exit code | meaning |\n|---|---|\n{rows}\n");
    check("formats.md", &format!("{before}<!-- generated: exit codes -->\n{table}<!-- end -->{after}"));
}
