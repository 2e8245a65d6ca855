//! `code-grader`, and the rules for all commands of a suite.

use std::path::PathBuf;

use super::entry::GraderEntry;
use super::kinds::GraderReader;
use crate::config::{Fields, Span};
use crate::model::{CodeGrader, Grader, GraderKind};
use crate::suite::loader::{Loader, key_span};

/// The one kind of this family.
pub(super) const KINDS: &[GraderReader] = &[GraderReader { name: "code-grader", read }];

const OWN: [&str; 5] = ["command", "script", "cwd", "target", "config"];

/// Reads it.
fn read(mut entry: GraderEntry, loader: &mut Loader) -> Option<Grader> {
    let argv = command(&mut entry.fields, &entry.word, loader);
    let cwd = cwd(&mut entry, loader);
    if entry.fields.get("target").is_some() {
        let message = "`target` of a `code-grader` is not used: the command cannot call a model".to_owned();
        let hint = "AgentV 4 does not support it either; an `llm-grader` calls a model".to_owned();
        loader.warn_once(key_span(entry.fields.node, "target"), message, Some(hint));
    }
    let config = entry.command_config(&OWN);
    let name = entry.word.clone();
    Some(
        entry
            .grader(name, GraderKind::Code(CodeGrader { argv: argv?, cwd: cwd?, config, custom_type: None })),
    )
}

/// The command of a grader or a prompt; a text is run by a shell.
pub(super) fn command(fields: &mut Fields, what: &str, loader: &mut Loader) -> Option<Vec<String>> {
    const HINT: &str = "`command` is a list of words, or a text for `sh`";
    if fields.get("command").is_none() && fields.get("script").is_some() {
        loader.warn_once(
            key_span(fields.node, "script"),
            "`script` is the old name of `command`".to_owned(),
            None,
        );
    }
    let old = fields.get("script");
    let Some(node) = fields.get("command").or(old) else {
        loader.problems.error_with_hint(&fields.node.span, format!("`{what}`: `command` is missing"), HINT);
        return None;
    };
    let argv = match (node.as_str(), node.items()) {
        (Some(text), _) if !text.trim().is_empty() => {
            Some(["sh", "-lc", text.trim()].map(ToOwned::to_owned).to_vec())
        }
        (_, Some(items)) if !items.is_empty() => items
            .iter()
            .map(|item| item.as_str().filter(|word| !word.trim().is_empty()).map(ToOwned::to_owned))
            .collect(),
        _ => None,
    };
    if argv.is_none() {
        loader.problems.error_with_hint(&node.span, format!("`{what}`: no command"), HINT);
    }
    if argv.is_some() && !may_run(&node.span, loader) {
        return None;
    }
    argv
}

/// Whether commands may run; otherwise an error is recorded.
pub(super) fn may_run(at: &Span, loader: &mut Loader) -> bool {
    let allowed = loader.grader_options.allow_commands;
    if !allowed {
        loader.problems.error_with_hint(
            at,
            "the suite runs a command, and this container can reach the Docker engine of its host",
            "run `run-evals` in a `run:` step instead, or trust the suite and add `--allow-commands`",
        );
    }
    allowed
}

/// The working directory of the command: the suite's directory, or the one it names.
fn cwd(entry: &mut GraderEntry, loader: &mut Loader) -> Option<PathBuf> {
    if entry.fields.get("cwd").is_none() {
        return Some(loader.lookup.dir.clone());
    }
    let name = entry.fields.string("cwd", &mut loader.problems)?;
    let found = loader.lookup.find(name).filter(|path| path.is_dir());
    if found.is_none() {
        let hint = format!("looked in {}", loader.lookup.listed());
        entry.error("cwd", &format!("no directory `{name}`"), &hint, loader);
    }
    found
}
