//! How an error reaches the user: `error:`, what it was caused by, and a `hint:`.

use std::fmt::Write as _;

use crate::cli::{Annotation, annotate, stderr};
use crate::model::{Exit, Failure};

/// Tells the error on stderr and gives the exit code that it means.
pub fn report(error: &anyhow::Error) -> Exit {
    let (exit, text) = render(error);
    stderr(&text);
    annotate(Annotation::Error, text.strip_prefix("error: ").unwrap_or(&text));
    exit
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
    fn a_failure_keeps_its_exit_code_and_hint_under_context() {
        let failure: anyhow::Result<()> = Err(Failure::config("no such key").hint("add it").into());
        let (exit, text) = render(&failure.context("cannot read the file").unwrap_err());
        assert_eq!(exit, Exit::Config);
        assert_eq!(text, "error: cannot read the file\n  caused by: no such key\n\nhint: add it\n");
    }
}
