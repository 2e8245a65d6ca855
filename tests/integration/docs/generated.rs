//! Pages that are generated from the program. `docs/update` writes them again.

use std::fmt::Write as _;

use clap::CommandFactory as _;
use run_evals::testing::Cli;

use super::root;
use crate::support::Workspace;

fn check(name: &str, text: &str) {
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
        An input that is not set leaves the command its default. Pass API keys as `env` of the step, under the names that `targets.yaml` refers to.\n"
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

#[test]
fn the_recording_is_what_the_program_prints() {
    let workspace = Workspace::new();
    let mut lines = Vec::new();
    for (args, code) in [(["init"], 0), (["eval"], 4)] {
        let output = workspace.run(&[&args[..], &["--color", "always"]].concat()).expect(code);
        lines.push(format!("\u{1b}[1m$ run-evals {}\u{1b}[0m", args[0]));
        lines.extend((output.stderr + &output.stdout).lines().map(str::to_owned));
        lines.push(String::new());
    }
    let lines: Vec<String> = lines.iter().map(|line| with_a_fixed_time(line)).collect();
    check("recording.svg", &svg(&lines));
}

/// The line with 12 ms as the time of the run, and as wide as before.
fn with_a_fixed_time(line: &str) -> String {
    let Some((before, rest)) = line.split_once(" ms ").or_else(|| line.split_once(" s ")) else {
        return line.to_owned();
    };
    let start = before.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    format!("{start}12 ms    {}", rest.trim_start())
}

/// A terminal with these lines, drawn with the colors of their escape sequences.
fn svg(lines: &[String]) -> String {
    let height = lines.len() * 20 + 40;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 920 {height}\" role=\"img\" font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\">\n\
        <title>run-evals init and run-evals eval in a terminal</title>\n\
        <style>.g {{ fill: #7ee787 }} .r {{ fill: #ff7b72 }} .y {{ fill: #e3b341 }} .c {{ fill: #79c0ff }} .d {{ fill: #9da7b3 }} .b {{ font-weight: 700 }} text {{ fill: #e6edf3; white-space: pre }}</style>\n\
        <rect width=\"920\" height=\"{height}\" rx=\"10\" fill=\"#0d1117\"/>\n"
    );
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let _ = writeln!(
            svg,
            "<text x=\"20\" y=\"{}\" xml:space=\"preserve\">{}</text>",
            number * 20 + 35,
            spans(line)
        );
    }
    svg + "</svg>\n"
}

fn spans(line: &str) -> String {
    let mut out = String::new();
    let mut classes: Vec<&str> = Vec::new();
    for (number, part) in line.split("\u{1b}[").enumerate() {
        let text = if number == 0 {
            part
        } else {
            let (codes, text) = part.split_once('m').expect("only colors are written");
            for code in codes.split(';') {
                match code {
                    "1" => classes.push("b"),
                    "2" | "90" => classes.push("d"),
                    "31" | "91" => classes.push("r"),
                    "32" | "92" => classes.push("g"),
                    "33" | "93" => classes.push("y"),
                    "34" | "36" | "94" | "96" => classes.push("c"),
                    "" | "0" => classes.clear(),
                    other => panic!("add the color {other} to the recording"),
                }
            }
            text
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        if classes.is_empty() || text.is_empty() {
            out += &text;
        } else {
            let _ = write!(out, "<tspan class=\"{}\">{text}</tspan>", classes.join(" "));
        }
    }
    out
}
