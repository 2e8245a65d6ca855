//! Tests that `eval` does not run: the error names the position and a way to run them.

use std::path::Path;

use super::loader::{Loader, key_span};
use crate::config::{Fields, Span};

const USE_AGENTV: &str = "run it with `agentv eval` and `provider: github-actions`";

/// Notes a `workspace`, of a suite or of a test.
pub(super) fn refuse_workspace(fields: &mut Fields, loader: &mut Loader) {
    if fields.get("workspace").is_some() {
        agent_only(key_span(fields.node, "workspace"), "`workspace`", loader);
    }
}

/// Notes a `workspace` directory beside a `case.yaml`, which AgentV takes for the test's workspace.
pub(super) fn refuse_workspace_directory(dir: &Path, at: &Span, loader: &mut Loader) {
    agent_only(at, &format!("the workspace `{}`", loader.lookup.shown(dir).display()), loader);
}

/// Notes `hooks` of a target.
pub(super) fn refuse_hooks(fields: &mut Fields, loader: &mut Loader) {
    if fields.get("hooks").is_some() {
        agent_only(key_span(fields.node, "hooks"), "`hooks`", loader);
    }
}

/// Notes a test of several turns, where each answer leads to the next question. Returns whether it is one.
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
