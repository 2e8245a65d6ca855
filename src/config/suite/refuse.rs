//! What is not run here, told with its place and the way out.

use super::loader::{Loader, key_span};
use crate::config::{Fields, Key, Node, Span};

const USE_AGENTV: &str = "run it with `agentv eval` and `provider: github-actions`";

/// Keys at the top of a suite that only AgentV 5 knows.
pub const VERSION_5: [&str; 10] = [
    "prompts",
    "providers",
    "scenarios",
    "default_test",
    "defaults",
    "evaluate_options",
    "environment",
    "extensions",
    "derived_metrics",
    "nunjucks_filters",
];

/// Keys at the top of a suite that AgentV 5 rejects.
const VERSION_4: [&str; 8] =
    ["input", "target", "execution", "assertions", "workspace", "preprocessors", "eval_cases", "evalcases"];

/// The key that tells that a suite is written for AgentV 5, if it is.
pub(super) fn version_5(root: &Node) -> Option<&Key> {
    let entries = root.entries()?;
    let is_one_of = |words: &[&str], key: &Key| words.contains(&key.text.as_str());
    if entries.iter().any(|(key, _)| is_one_of(&VERSION_4, key)) {
        return None;
    }
    entries.iter().map(|(key, _)| key).find(|key| is_one_of(&VERSION_5, key))
}

/// Notes that a suite is written for AgentV 5.
pub(super) fn refuse_version_5(key: &Key, loader: &mut Loader) {
    loader.problems.error_with_hint(
        &key.span,
        format!("this suite is written for AgentV 5 (`{}`), and only version 4 is read", key.text),
        "write `input`, `tests` and `assertions` as AgentV 4 reads them",
    );
}

/// Notes a `workspace`, of a suite or of a test.
pub(super) fn refuse_workspace(fields: &mut Fields, loader: &mut Loader) {
    if fields.get("workspace").is_some() {
        agent_only(key_span(fields.node, "workspace"), "`workspace`", loader);
    }
}

/// Notes a `workspace` directory beside a `case.yaml`, which AgentV takes for the test's workspace.
pub(super) fn refuse_workspace_directory(shown: &str, at: &Span, loader: &mut Loader) {
    agent_only(at, &format!("the workspace `{shown}`"), loader);
}

/// Notes `hooks` of a target.
pub(super) fn refuse_hooks(fields: &mut Fields, loader: &mut Loader) {
    if fields.get("hooks").is_some() {
        agent_only(key_span(fields.node, "hooks"), "`hooks`", loader);
    }
}

/// Notes a test of several turns, where each answer leads to the next question; tells whether it is one.
pub(super) fn refuse_conversation(fields: &mut Fields, loader: &mut Loader) -> bool {
    let turns = fields.get("turns").is_some();
    let mode = fields.string("mode", &mut loader.problems);
    let is_conversation = turns || mode == Some("conversation");
    if mode == Some("conversation") {
        agent_only(key_span(fields.node, "mode"), "`mode: conversation`", loader);
    } else if turns {
        agent_only(key_span(fields.node, "turns"), "`turns`", loader);
    } else if let Some(mode) = mode {
        loader.problems.error_with_hint(
            key_span(fields.node, "mode"),
            format!("unknown `mode`: `{mode}`"),
            "leave it out",
        );
    }
    is_conversation
}

fn agent_only(at: &Span, what: &str, loader: &mut Loader) {
    let message = format!("{what} cannot be run as a batch: the test is not one question to a model");
    loader.problems.error_with_hint(at, message, USE_AGENTV);
}
