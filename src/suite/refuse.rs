//! Tests that `eval` does not run: the error shows the position and how to run them.

use std::path::Path;

use super::loader::{Loader, key_span};
use crate::config::{Fields, Span};

const USE_AGENTV: &str = "run it with `agentv eval` and `provider: github-actions`";

/// Records a `workspace`, of a suite or a test.
pub(super) fn refuse_workspace(fields: &mut Fields, loader: &mut Loader) {
    if fields.get("workspace").is_some() {
        agent_only(key_span(fields.node, "workspace"), "`workspace`", loader);
    }
}

/// Records a `workspace` directory next to a `case.yaml`, which AgentV uses as the test's workspace.
pub(super) fn refuse_workspace_directory(dir: &Path, at: &Span, loader: &mut Loader) {
    agent_only(at, &format!("the workspace `{}`", loader.lookup.shown(dir).display()), loader);
}

/// Records `hooks` of a target.
pub(super) fn refuse_hooks(fields: &mut Fields, loader: &mut Loader) {
    if fields.get("hooks").is_some() {
        agent_only(key_span(fields.node, "hooks"), "`hooks`", loader);
    }
}

/// Records a test with several turns, in which each answer leads to the next message. Returns whether it is one.
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
    let message = format!("{what} cannot run as a batch: the test is not a single model call");
    loader.problems.error_with_hint(at, message, USE_AGENTV);
}
