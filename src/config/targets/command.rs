//! The `command` of a `github-actions` target: what AgentV runs to reach it.
//!
//! AgentV does not know this provider, so it treats the target as a command line with placeholders. It reports a mistake there
//! only in the middle of a run, or never: an output file that is never written is an empty answer.

use std::path::Path;

use super::entry::TargetEntry;
use crate::config::{Env, Node, NodeValue, Problems, Reference, Span, did_you_mean};
use crate::model::{Finding, Level};

/// The placeholders of AgentV.
const PLACEHOLDERS: [&str; 6] = ["PROMPT", "PROMPT_FILE", "EVAL_ID", "ATTEMPT", "FILES", "OUTPUT_FILE"];

/// The start of a command that joins AgentV's calls into one batch.
const EXAMPLE: &str = "/usr/local/bin/run-evals adapter";

/// Characters with which a shell does more than split words.
const SHELL: [char; 9] = ['|', '&', ';', '<', '>', '$', '`', '*', '\n'];

/// The options that the adapter requires.
const OPTIONS: [(&str, &str); 2] = [("{PROMPT_FILE}", "--prompt-file"), ("{EVAL_ID}", "--id")];

/// How a command reaches the runner repository.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandKind {
    /// Called once per test case.
    Adapter,
    /// Called once for all.
    Batch,
}

/// The result of checking a command.
#[derive(Default)]
pub(super) struct CommandCheck {
    pub(super) findings: Vec<Finding>,
    /// The words of a plain call of this program, which the command-line parser can check.
    pub(super) call: Option<Vec<String>>,
}

impl From<Vec<Finding>> for CommandCheck {
    fn from(findings: Vec<Finding>) -> Self {
        Self { findings, call: None }
    }
}

/// How AgentV would run the command; `names` are those that lead to the target, its own first.
pub(super) fn check<'f>(
    entry: &TargetEntry,
    env: &Env,
    names: &[String],
    known: impl Iterator<Item = &'f str>,
) -> CommandCheck {
    let Some(node) = entry.get("command").filter(|node| !node.is_null()) else {
        let text = "`agentv eval` cannot use this target: it has no `command`";
        let hint = format!(
            "for `agentv eval` add `command: {EXAMPLE} --target {} --prompt-file {{PROMPT_FILE}} --output-file {{OUTPUT_FILE}} \
             --id {{EVAL_ID}} --attempt {{ATTEMPT}} --files {{FILES}}`, with the path of your run-evals",
            entry.name
        );
        return vec![Finding::new(Level::Note, text).hint(hint)].into();
    };
    let mut problems = Problems::default();
    let Some(text) = node.as_str() else {
        problems.error(&node.span, format!("`command`: expected a string, found {}", node.kind()));
        return problems.findings().into();
    };
    if text.contains("${{") {
        return from_environment(node, text, env).into();
    }
    let words = words(text);
    let way = way(&words);
    // `NAME=value` before it is for the shell.
    let call: Vec<String> = words.iter().skip_while(|word| is_assignment(word)).cloned().collect();
    program(node, call.first().map_or("", String::as_str), &mut problems);
    placeholders(node, text, way, &mut problems);
    if way.is_none() {
        problems.warning(
            &node.span,
            "`command` calls neither `run-evals adapter` nor `run-evals dispatch --agentv-batch`",
            Some("that is fine for a script of your own that does".to_owned()),
        );
    }
    target(node, &words, way, (names, known), &mut problems);
    batching(entry, node, way, &mut problems);
    let is_plain = way.is_some() && !text.contains(SHELL) && !problems.has_errors();
    CommandCheck { findings: problems.findings(), call: is_plain.then_some(call) }
}

/// A command that comes from a variable. Its value is not checked, because a message could show it.
fn from_environment(node: &Node, text: &str, env: &Env) -> Vec<Finding> {
    let mut problems = Problems::default();
    match Reference::whole(text) {
        None => problems.error_with_hint(
            &node.span,
            "AgentV does not replace a reference inside a `command`",
            "let the whole `command` be one reference, or write it out",
        ),
        Some(reference) if reference.value(env).is_none() => problems.warning(
            &node.span,
            format!("`agentv eval` needs the environment variable `{}`, which is not set", reference.name),
            Some(format!("`export {}=…`", reference.name)),
        ),
        Some(reference) => {
            let text = format!("`command` comes from the variable `{}`: it was not checked", reference.name);
            return vec![Finding::new(Level::Note, text)];
        }
    }
    problems.findings()
}

/// The program itself: AgentV's shell may have another `PATH` and working directory.
fn program(node: &Node, word: &str, problems: &mut Problems) {
    let path = Path::new(word);
    let span = part(node, word);
    if !path.is_absolute() {
        problems.warning(
            &span,
            "`command` does not begin with an absolute path",
            Some(format!(
                "AgentV runs it in the suite's directory with a shell's `PATH`: write `{EXAMPLE} …`, with the path of your \
                 run-evals"
            )),
        );
    } else if !path.exists() {
        problems.error_with_hint(
            &span,
            format!("program `{word}` not found"),
            "`command -v run-evals` prints the path of yours",
        );
    } else if !is_executable(path) {
        problems.error_with_hint(
            &span,
            format!("`{word}` cannot be executed"),
            format!("`chmod +x {word}`, or name another program"),
        );
    }
}

fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && is_name(name))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

fn placeholders(node: &Node, text: &str, way: Option<CommandKind>, problems: &mut Problems) {
    let found = found_placeholders(text);
    let legal = PLACEHOLDERS.map(|word| format!("`{{{word}}}`")).join(", ");
    for word in found.iter().filter(|word| !PLACEHOLDERS.contains(word)) {
        let near = did_you_mean(word, PLACEHOLDERS).map(|near| format!("did you mean `{{{near}}}`? "));
        problems.error_with_hint(
            &part(node, &format!("{{{word}}}")),
            format!("AgentV has no placeholder `{{{word}}}`"),
            format!("{}it replaces {legal}", near.unwrap_or_default()),
        );
    }
    if !found.contains(&"OUTPUT_FILE") {
        problems.error_with_hint(
            &node.span,
            "`command` has no `{OUTPUT_FILE}`: AgentV would get no response",
            "AgentV reads the response only from that file: `--output-file {OUTPUT_FILE}`",
        );
    }
    for (placeholder, option) in OPTIONS {
        if way == Some(CommandKind::Adapter) && !text.contains(placeholder) {
            problems.error_with_hint(
                &node.span,
                format!("`adapter` needs `{placeholder}`"),
                format!("add `{option} {placeholder}`"),
            );
        }
    }
}

/// The words in capitals between braces, each once.
fn found_placeholders(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (before, rest) in text.match_indices('{').map(|(at, _)| (&text[..at], &text[at + 1..])) {
        // `${HOME}` is the shell's.
        if before.ends_with('$') {
            continue;
        }
        let Some((word, _)) = rest.split_once('}') else { continue };
        let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        if is_word && !found.contains(&word) {
            found.push(word);
        }
    }
    found
}

fn way(words: &[String]) -> Option<CommandKind> {
    let has = |wanted: &str| words.iter().skip(1).any(|word| word == wanted);
    if has("adapter") {
        Some(CommandKind::Adapter)
    } else if has("dispatch")
        && words.iter().any(|word| word == "--agentv-batch" || word.starts_with("--agentv-batch="))
    {
        Some(CommandKind::Batch)
    } else {
        None
    }
}

/// Which target the command itself names.
fn target<'f>(
    node: &Node,
    words: &[String],
    way: Option<CommandKind>,
    (names, mut known): (&[String], impl Iterator<Item = &'f str>),
    problems: &mut Problems,
) {
    let own = &names[0];
    let named = words.iter().enumerate().find_map(|(at, word)| match word.strip_prefix("--target") {
        Some("") => Some(words.get(at + 1).map_or("", String::as_str)),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    });
    let Some(named) = named else {
        // A custom script may know the target itself.
        if way.is_some() {
            let message = "`command` does not say which target it is for";
            problems.error_with_hint(&node.span, message, format!("add `--target {own}`"));
        }
        return;
    };
    if names.iter().any(|name| name == named) {
        return;
    }
    if known.any(|name| name == named) {
        problems.warning(
            &part(node, named),
            format!("`command` names another target, `{named}`"),
            Some(format!("write `--target {own}`")),
        );
    } else {
        problems.error_with_hint(
            &part(node, named),
            format!("`command` names a target that does not exist: `{named}`"),
            format!("write `--target {own}`"),
        );
    }
}

/// Whether `provider_batching` matches the command.
fn batching(entry: &TargetEntry, node: &Node, way: Option<CommandKind>, problems: &mut Problems) {
    let batched = entry.get("provider_batching");
    let is_on = batched.is_some_and(|node| node.value == NodeValue::Bool(true));
    match way {
        Some(CommandKind::Adapter) if is_on => problems.warning(
            &batched.unwrap_or(node).span,
            "`provider_batching: true` beside `adapter`: AgentV would call it once, with an empty prompt",
            Some("leave `provider_batching` out: the adapter joins the calls itself".to_owned()),
        ),
        Some(CommandKind::Batch) if !is_on => problems.warning(
            &node.span,
            "`--agentv-batch` without `provider_batching: true`: AgentV would call it once per test case",
            Some("add `provider_batching: true`".to_owned()),
        ),
        _ => {}
    }
}

/// The position of a part of the command, if it is visible on its line; else the whole command.
fn part(node: &Node, word: &str) -> Span {
    let span = &node.span;
    let line = span.source.line(span.line).unwrap_or_default();
    let before = span.column as usize - 1;
    let seen = line.char_indices().nth(before).and_then(|(from, _)| Some((from, line[from..].find(word)?)));
    match seen {
        Some((from, at)) if !word.is_empty() => {
            let skipped = line[from..from + at].chars().count();
            let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            let (column, width) = (small(before + skipped + 1), small(word.chars().count()));
            Span { column, width, ..span.clone() }
        }
        _ => span.clone(),
    }
}

/// The words of a command line without quotes, as a shell would split a simple one.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_in_a_shell() {
        let split = |text| words(text).join("|");
        assert_eq!(
            split("/a/b  adapter\n--target 'x y' {OUTPUT_FILE}"),
            "/a/b|adapter|--target|x y|{OUTPUT_FILE}"
        );
        assert_eq!(split(r#""/with space/x" --a="b c" d\ e '' "\"" "#), "/with space/x|--a=b c|d e||\"");
        assert_eq!(split("'never closed"), "never closed");
    }

    #[test]
    fn placeholders_are_capitalized_words() {
        assert_eq!(found_placeholders("{A} {{B}} {c} {} {A} ${D} {E_F} {G1} {"), ["A", "B", "E_F"]);
    }
}
