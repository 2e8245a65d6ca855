//! Reports an error to the user: `error:`, its causes, and a `hint:`.

use std::fmt::Write as _;

use crate::console::{Annotation, annotate, stderr};
use crate::model::{Exit, Failure, printable};

/// Prints the error on stderr and returns its exit code.
pub fn report(error: &anyhow::Error) -> Exit {
    let (exit, text) = render(error);
    stderr(&text);
    annotate(Annotation::Error, text.strip_prefix("error: ").unwrap_or(&text));
    exit
}

/// The error in one line, for a program that shows only one, and its exit code.
pub fn one_line(error: &anyhow::Error) -> (Exit, String) {
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    // Source lines are below the first line.
    let causes = error.chain().map(|cause| {
        let text = cause.to_string();
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default().to_owned();
        match lines.find_map(|line| line.trim_start().strip_prefix("--> ")) {
            Some(place) => format!("{first} ({place})"),
            None => first,
        }
    });
    let mut line = causes.collect::<Vec<_>>().join(": ");
    let drawn = error.chain().last().map(ToString::to_string).unwrap_or_default();
    let hint = failure.and_then(Failure::hint_text);
    if let Some(hint) = hint.or_else(|| drawn.lines().find_map(|line| line.strip_prefix("hint: "))) {
        let _ = write!(line, " (hint: {hint})");
    }
    (failure.map_or(Exit::Failure, Failure::exit), printable(&line))
}

fn render(error: &anyhow::Error) -> (Exit, String) {
    let mut text = format!("error: {error}\n");
    for cause in error.chain().skip(1) {
        let _ = writeln!(text, "  caused by: {cause}");
    }
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    if let Some(hint) = failure.and_then(Failure::hint_text) {
        let _ = write!(text, "\nhint: {hint}\n");
    }
    (failure.map_or(Exit::Failure, Failure::exit), text)
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn one_line_has_the_problem_the_location_and_the_hint() {
        let drawn = "unknown key `repoo`\n  --> targets.yaml:4:5\n   |\n 4 |     repoo: x\n\nhint: did you mean `repo`?";
        let (exit, line) = one_line(&Failure::config(drawn).into());
        assert_eq!(exit, Exit::Config);
        assert_eq!(line, "unknown key `repoo` (targets.yaml:4:5) (hint: did you mean `repo`?)");
        let failure: anyhow::Result<()> = Err(Failure::config("no such key").hint("add it").into());
        let (_, line) = one_line(&failure.context("cannot read the file").unwrap_err());
        assert_eq!(line, "cannot read the file: no such key (hint: add it)");
    }

    #[test]
    fn a_failure_keeps_its_exit_code_and_hint_under_context() {
        let failure: anyhow::Result<()> = Err(Failure::config("no such key").hint("add it").into());
        let (exit, text) = render(&failure.context("cannot read the file").unwrap_err());
        assert_eq!(exit, Exit::Config);
        assert_eq!(text, "error: cannot read the file\n  caused by: no such key\n\nhint: add it\n");
    }
}
