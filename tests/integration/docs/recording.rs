//! `docs/recording.svg`: a terminal with what the program prints. `docs/update` writes it again.

use std::fmt::Write as _;
use std::process::Command;

use super::generated::check;
use crate::setup::scene::{Account, KEY, with_stdin};
use crate::support::MockLlm;

/// Width of the terminal, in characters.
const COLUMNS: usize = 80;

#[test]
fn the_recording_is_what_the_program_prints() {
    let account = Account::new();
    let llm = MockLlm::start(&[]);
    account.workspace.run(&["init"]).expect(0);
    // The provider's API is the mock; all else is as shown.
    let hidden = format!("--base-url {}", llm.base_url());
    let mut lines = Vec::new();
    for (shown, hidden, code) in [
        ("run-evals init runner myorg/eval-runner --provider openai", hidden.as_str(), 0),
        ("run-evals eval --target cloud-eval-runner", "", 4),
    ] {
        let command = shown.replace("run-evals ", concat!(env!("CARGO_BIN_EXE_run-evals"), " "));
        let command = command.replace("myorg/", "mona/");
        let mut shell = Command::new("sh");
        account.workspace.like(shell.args(["-c", &format!("{command} {hidden} --color always 2>&1")]));
        let output = with_stdin(shell.env("COLUMNS", COLUMNS.to_string()), KEY);
        assert_eq!(output.code, Some(code), "{shown}\n{}", output.stdout);
        let text = output.stdout.replace(&account.github.urls().server_url, "https://github.com");
        lines.push(format!("\u{1b}[1m$ {shown}\u{1b}[0m"));
        let text = text.replace("mona/", "myorg/");
        // A slow machine reports progress, once every ten seconds.
        let results = text.lines().filter(|line| !line.contains(" done after "));
        lines.extend(results.map(without_chance).flat_map(|line| wrapped(&line)));
        lines.push(String::new());
    }
    lines.pop();
    check("recording.svg", &svg(&lines));
}

/// The line with a fixed date, run id and duration. The simulated GitHub has no queue: a run on GitHub takes longer.
fn without_chance(line: &str) -> String {
    if let Some((before, id)) = line.split_once("/actions/runs/") {
        let after = id.trim_start_matches(|c: char| c.is_ascii_digit());
        let line = format!("{before}/actions/runs/17000000001{after}");
        let (before, id) = line.split_once("batch `").expect("the line names the batch");
        return format!("{before}batch `20261118-093000{}", &id["20261118-093000".len()..]);
    }
    let Some((figures, report)) = line.split_once("report: ") else {
        return line.to_owned();
    };
    let is_time = |part: &&str| part.ends_with(" s") || part.ends_with(" ms");
    let parts = figures.trim_end().split(" · ");
    let figures: Vec<&str> = parts.map(|part| if is_time(&part) { "40 s" } else { part }).collect();
    let report = format!("report: {report}");
    format!("{:<1$}{report}", figures.join(" · "), line.chars().count() - report.len())
}

/// The line as a terminal breaks it.
fn wrapped(line: &str) -> Vec<String> {
    let characters: Vec<char> = line.chars().collect();
    if line.contains('\u{1b}') || line.is_empty() {
        return vec![line.to_owned()];
    }
    characters.chunks(COLUMNS).map(|chunk| chunk.iter().collect()).collect()
}

/// A terminal in which these lines appear one after the other, with the colors of their escape sequences. A viewer without
/// animations shows them all.
fn svg(lines: &[String]) -> String {
    let (width, height) = (COLUMNS * 17 / 2 + 40, lines.len() * 20 + 32);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\">\n\
        <title>run-evals init runner and run-evals eval in a terminal</title>\n\
        <style>\n\
        .g {{ fill: #7ee787 }} .r {{ fill: #ff7b72 }} .y {{ fill: #e3b341 }} .c {{ fill: #79c0ff }} .d {{ fill: #9da7b3 }} .b {{ font-weight: 700 }}\n\
        text {{ fill: #e6edf3; white-space: pre; animation: wait 0s }}\n\
        @keyframes wait {{ from, to {{ opacity: 0 }} }}\n\
        @media (prefers-reduced-motion: reduce) {{ text {{ animation: none }} }}\n\
        </style>\n\
        <rect width=\"{width}\" height=\"{height}\" rx=\"10\" fill=\"#0d1117\" stroke=\"#30363d\"/>\n"
    );
    let mut tenths = 0;
    for (number, line) in lines.iter().enumerate() {
        if line.is_empty() {
            continue;
        }
        let _ = writeln!(
            svg,
            "<text x=\"20\" y=\"{}\" xml:space=\"preserve\" style=\"animation-duration: {}.{}s\">{}</text>",
            number * 20 + 30,
            tenths / 10,
            tenths % 10,
            spans(line)
        );
        // After a command, and while the workflow runs.
        let is_pause = line.contains("$ run-evals") || line.contains("/actions/runs/");
        let is_next_a_command = lines.get(number + 1).is_some_and(String::is_empty)
            && lines.get(number + 2).is_some_and(|next| next.contains("$ run-evals"));
        tenths += if is_pause || is_next_a_command { 12 } else { 2 };
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
