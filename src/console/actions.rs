//! Workflow commands of a step on GitHub Actions: masks, annotations, outputs and the step summary.
//!
//! GitHub interprets commands in everything that a step prints, so model output could inject them. All
//! output goes through `inert`, except the commands of this file.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::Context as _;

use super::runner_log;
use crate::model::{Secret, printable, printable_lines};
use crate::util::process_env::ProcessEnv;
use crate::util::redact::needed_forms;
use crate::util::truncate::truncate;

/// GitHub shows at most ten annotations of each kind per step.
const MOST_ANNOTATIONS: u32 = 10;
/// GitHub truncates annotations here.
const LONGEST_ANNOTATION: usize = 4000;
const LONGEST_TITLE: usize = 200;

/// Number of annotations of each kind.
static COUNTS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Annotation {
    Error,
    Warning,
}

static IS_STEP: OnceLock<bool> = OnceLock::new();

/// Disables workflow commands for this process, because another program reads its output. A mask would only
/// reveal the secrets to it.
pub fn answer_a_program() {
    let _ = IS_STEP.set(false);
}

/// Whether this process is a step on GitHub Actions.
pub fn is_step() -> bool {
    *IS_STEP.get_or_init(|| std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true"))
}

/// Whether this process runs in our action's container, which can reach the Docker engine.
pub fn is_our_container() -> bool {
    is_step() && ["RUN_EVALS_IMAGE", "INPUT_MODE"].iter().any(|name| std::env::var_os(name).is_some())
}

/// Adds an annotation. Returns `false` outside of Actions and beyond GitHub's limit.
pub fn annotate(kind: Annotation, text: &str) -> bool {
    if !is_step() || COUNTS[kind as usize].fetch_add(1, Ordering::Relaxed) >= MOST_ANNOTATIONS {
        return false;
    }
    command(&annotation(kind, "", "run-evals", text));
    true
}

/// How many more annotations of a kind GitHub would show; 0 outside of Actions.
pub fn room(kind: Annotation) -> u32 {
    if is_step() { MOST_ANNOTATIONS.saturating_sub(COUNTS[kind as usize].load(Ordering::Relaxed)) } else { 0 }
}

/// Adds an annotation to a line of a file, within GitHub's limit.
pub fn annotate_line(kind: Annotation, (file, line): (&str, u32), title: &str, text: &str) {
    if room(kind) > 0 {
        COUNTS[kind as usize].fetch_add(1, Ordering::Relaxed);
        let place = format!("file={},line={line},", escape_property(file));
        command(&annotation(kind, &place, title, text));
    }
}

/// Masks these values and their encodings in the rest of the job's log. Only the runner reads the mask
/// commands; nothing is written if stderr goes elsewhere.
pub fn mask<'s>(secrets: impl IntoIterator<Item = &'s Secret>) {
    static MASKED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if is_step() && runner_log::is_stderr() {
        let mut masked = MASKED.lock().unwrap_or_else(PoisonError::into_inner);
        for form in secrets.into_iter().flat_map(|secret| needed_forms(secret.expose())) {
            if masked.insert(form.clone()) {
                command(&format!("::add-mask::{}\n", escape(&form)));
            }
        }
    }
}

/// Sets step outputs; empty values are left out.
pub fn outputs(values: &[(&str, String)]) -> anyhow::Result<()> {
    let Some(path) = file("GITHUB_OUTPUT") else { return Ok(()) };
    let mut text = String::new();
    for (name, value) in values.iter().filter(|(_, value)| !value.is_empty()) {
        // Unguessable, so that no value can end itself and start another output.
        let end = format!("end-{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let _ = write!(text, "{name}<<{end}\n{value}\n{end}\n");
    }
    append(&path, &text)
}

/// Appends to the step summary.
pub fn step_summary(markdown: &str) -> anyhow::Result<()> {
    match file("GITHUB_STEP_SUMMARY") {
        Some(path) => append(&path, markdown),
        None => Ok(()),
    }
}

/// URL of the workflow run of this step.
pub fn run_url(env: &ProcessEnv) -> Option<String> {
    let get = |name: &str| env.get(name).unwrap_or_default();
    let (server, repo, run) = (get("GITHUB_SERVER_URL"), get("GITHUB_REPOSITORY"), get("GITHUB_RUN_ID"));
    is_step().then(|| format!("{server}/{repo}/actions/runs/{run}"))
}

/// Escapes text so that GitHub interprets no command in it: one starts a line, or is anywhere in its old
/// form.
pub fn inert(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive(['\n', '\r']) {
        let begin = line.len() - line.trim_start().len();
        let (space, rest) = line.split_at(begin);
        out.push_str(space);
        let rest = rest.replace("##[", "## [");
        match rest.strip_prefix("::") {
            Some(command) => {
                out.push_str(": :");
                out.push_str(command);
            }
            None => out.push_str(&rest),
        }
    }
    out
}

/// Escapes JSON so that GitHub interprets no command in it; its meaning is unchanged. A line of JSON never
/// starts with a colon.
pub fn inert_json(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    for byte in json {
        match byte {
            b'#' => out.extend_from_slice(b"\\u0023"),
            byte => out.push(*byte),
        }
    }
    out
}

fn annotation(kind: Annotation, place: &str, title: &str, text: &str) -> String {
    let word = match kind {
        Annotation::Error => "error",
        Annotation::Warning => "warning",
    };
    // The old form of a command works anywhere in a line.
    let inert = |text: String| text.replace("##[", "## [");
    let shown = truncate(&inert(printable_lines(text.trim_end())), LONGEST_ANNOTATION);
    let title = truncate(&inert(printable(title)), LONGEST_TITLE);
    format!("::{word} {place}title={}::{}\n", escape_property(&title), escape(&shown))
}

/// Escapes a property value, which a comma or a colon would end.
fn escape_property(text: &str) -> String {
    escape(text).replace(':', "%3A").replace(',', "%2C")
}

fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Prints a command to stderr, because stdout is for data.
fn command(line: &str) {
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

fn file(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|path| is_step() && !path.is_empty()).map(PathBuf::from)
}

fn append(path: &PathBuf, text: &str) -> anyhow::Result<()> {
    let written = OpenOptions::new().create(true).append(true).open(path);
    written
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write to `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether GitHub would interpret a line as a command.
    fn is_obeyed(line: &str) -> bool {
        line.trim_start().starts_with("::") || line.contains("##[")
    }

    proptest! {
        #[test]
        fn inert_text_has_no_commands(text in "[ :#\\[\\]a\r\n]{0,40}") {
            for line in inert(&text).split(['\n', '\r']) {
                prop_assert!(!is_obeyed(line), "{line:?}");
            }
        }

        #[test]
        fn inert_json_has_the_same_value(text in "\\PC{0,40}") {
            let json = serde_json::json!({"output": format!("##[error]{text}")});
            let printed = inert_json(json.to_string().as_bytes());
            prop_assert!(!String::from_utf8_lossy(&printed).contains("##["));
            prop_assert_eq!(serde_json::from_slice::<serde_json::Value>(&printed).unwrap(), json);
        }
    }

    #[test]
    fn plain_text_is_printed_unchanged() {
        let text = "error: a::b `x`\n  --> f.yaml:1:2\n\nhint: #1 [x]\n";
        assert_eq!(inert(text), text);
        assert_eq!(
            inert("  ::error::x\r::add-mask::y\na ##[group]z"),
            "  : :error::x\r: :add-mask::y\na ## [group]z"
        );
    }

    #[test]
    fn an_annotation_is_one_line() {
        let told = annotation(Annotation::Warning, "", "run-evals", "50 %\r\n::error::x\n");
        assert_eq!(told, "::warning title=run-evals::50 %25\\r%0A::error::x\n");
        assert!(annotation(Annotation::Error, "", "t", &"x".repeat(9000)).len() < 4096);
        let place = format!("file={},line=3,", escape_property("a,b:c%.yaml"));
        let told = annotation(Annotation::Error, &place, "failed: t,line=9::x", "y\n::add-mask::##[z]");
        assert_eq!(
            told,
            "::error file=a%2Cb%3Ac%25.yaml,line=3,title=failed%3A t%2Cline=9%3A%3Ax::y%0A::add-mask::## [z]\n"
        );
    }
}
