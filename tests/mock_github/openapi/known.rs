//! Responses of GitHub that its description omits. Each line is an observed deviation.

use serde_json::{Value, json};

/// Route, status, and the schema of the body; `*` at the end matches anything.
const ADDITIONS: [(&str, u16, &str); 9] = [
    // A token that is unknown or lacks access. The description names these for few routes.
    ("*", 401, "basic-error"),
    ("*", 403, "basic-error"),
    ("*", 404, "basic-error"),
    ("*", 410, "basic-error"),
    ("*", 429, "basic-error"),
    // A nonexistent API version.
    ("*", 400, "basic-error"),
    // Conditional requests are documented for all reads, and described for few.
    ("GET *", 304, ""),
    // A missing ref, trigger or input, an undeclared input, a disabled workflow.
    ("POST /repos/{owner}/{repo}/actions/workflows/{workflow_id}/dispatches", 422, "basic-error"),
    // A run with nothing to rerun.
    ("POST /repos/{owner}/{repo}/actions/runs/{run_id}/rerun*", 403, "basic-error"),
];

/// The schema of an undocumented status of a route, if it is known; empty for no body.
pub(super) fn addition(route: &str, status: u16) -> Option<&'static str> {
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(beginning) => route.starts_with(beginning),
        None => route == pattern,
    };
    ADDITIONS.iter().find(|(pattern, code, _)| *code == status && fits(pattern)).map(|(.., schema)| *schema)
}

/// The schema of an error that is documented without a body: all of GitHub's errors have one.
pub(super) fn undescribed_error(status: u16) -> Value {
    if status < 400 { Value::Null } else { json!({ "$ref": "#/components/schemas/basic-error" }) }
}

/// Whether a parameter accepts more than its schema says: `created` accepts ranges of dates.
pub(super) fn is_free_text(parameter: &str) -> bool {
    parameter == "created"
}

/// Whether a body has one of GitHub's media types that the description omits: raw contents.
pub(super) fn is_other_media_type(content_type: &str) -> bool {
    content_type.starts_with("application/vnd.github.raw")
        || content_type.starts_with("application/vnd.github.v3.raw")
}
