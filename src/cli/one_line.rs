//! An error on one line, for a program that puts all of stderr into its own result.

use crate::model::{Exit, Failure, printable};

/// More than this nobody reads in a table.
const LONGEST: usize = 1000;

/// The error with its causes and the way out, and the exit code that it means. Of a drawn line of a file, where it stands.
pub(super) fn one_line(error: &anyhow::Error) -> (String, Exit) {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    let mut text = error.chain().map(|cause| joined(&cause.to_string())).collect::<Vec<_>>().join(": ");
    if let Some(hint) = failure.and_then(Failure::hint_text) {
        text.push_str("; hint: ");
        text.push_str(&joined(hint));
    }
    (cut(&printable(&text)), failure.map_or(Exit::Failure, Failure::exit))
}

fn joined(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines().map(str::trim).filter(|line| !is_drawing(line)) {
        let (between, line) = match line.split_once(' ') {
            Some(("-->", place)) => (" in ", place),
            Some(("hint:", _)) => ("; ", line),
            Some(("error:", further)) => ("; ", further),
            _ => (" ", line),
        };
        if !out.is_empty() {
            out.push_str(between);
        }
        out.push_str(line);
    }
    out
}

/// Whether a line shows a part of a file, or what is wrong there.
fn is_drawing(line: &str) -> bool {
    let after_number = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    line.is_empty() || after_number.starts_with('|')
}

fn cut(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn everything_is_on_one_line() {
        let drawn = "unknown provider `opnai`\n  --> targets.yaml:4:15\n   |\n 4 |     provider: opnai\n   |               ^^^^^\n\n\
                     hint: did you mean `openai`?\n\nerror: `model` is missing\n  --> targets.yaml:2:5\n   |\n 2 |   - name: x\n   |   ^";
        let error: anyhow::Result<()> = Err(Failure::config(drawn).into());
        let (line, exit) = one_line(&error.context("cannot begin\u{1b}[2J").unwrap_err());
        assert_eq!(exit, Exit::Config);
        insta::assert_snapshot!(line, @"");
        let (line, exit) = one_line(&anyhow::anyhow!("x".repeat(5000)));
        assert_eq!((line.chars().count(), exit), (1001, Exit::Failure));
    }

    #[test]
    fn the_way_out_comes_last() {
        let failure = Failure::config("GitHub refuses the token").hint("make a new one\nand set `GH_TOKEN`");
        let (line, _) = one_line(&failure.into());
        insta::assert_snapshot!(line, @"");
    }
}
