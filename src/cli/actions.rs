//! What a step on GitHub Actions tells its job: masks, annotations, outputs, and the summary on the run's page.
//!
//! GitHub reads commands in whatever a step prints, so that a model's words could give orders. Everything that is printed
//! there goes through `inert`, which only the commands of this file do not.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::model::Secret;
use crate::report::{Summary, render_markdown};

/// GitHub shows ten annotations of each kind in a step.
const MOST_ANNOTATIONS: u32 = 10;
/// GitHub cuts the message of an annotation here.
const LONGEST_ANNOTATION: usize = 4000;
/// What fits on one line.
const LONGEST_TITLE: usize = 200;
/// Shorter values are words; a mask would make the log unreadable.
const SHORTEST_MASKED: usize = 8;

/// How many there were of each kind.
static COUNTS: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];

/// The kinds of annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Annotation {
    /// Red.
    Error,
    /// Yellow.
    Warning,
    /// Grey.
    Notice,
}

static IS_STEP: OnceLock<bool> = OnceLock::new();

/// Nothing of this process is for the step that it runs in: whoever called it reads what it prints, and a mask would only show
/// its secrets to them.
pub(super) fn answer_a_program() {
    let _ = IS_STEP.set(false);
}

/// Whether this process is a step on GitHub Actions.
pub(super) fn is_step() -> bool {
    *IS_STEP.get_or_init(|| std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true"))
}

/// Whether this process runs in the container of our action, from which the Docker engine of the machine can be reached.
pub(super) fn is_our_container() -> bool {
    is_step() && ["RUN_EVALS_IMAGE", "INPUT_MODE"].iter().any(|name| std::env::var_os(name).is_some())
}

/// Tells something on the run's page. Whether it did: elsewhere, and beyond what GitHub shows, it does not.
pub fn annotate(kind: Annotation, text: &str) -> bool {
    if !is_step() || COUNTS[kind as usize].fetch_add(1, Ordering::Relaxed) >= MOST_ANNOTATIONS {
        return false;
    }
    command(&annotation(kind, "", "run-evals", text));
    true
}

/// How many more annotations of a kind GitHub would show; none elsewhere.
pub(super) fn room(kind: Annotation) -> u32 {
    if is_step() { MOST_ANNOTATIONS.saturating_sub(COUNTS[kind as usize].load(Ordering::Relaxed)) } else { 0 }
}

/// Tells something at a line of a file, as far as GitHub shows it.
pub(super) fn annotate_line(kind: Annotation, (file, line): (&str, u32), title: &str, text: &str) {
    if room(kind) > 0 {
        COUNTS[kind as usize].fetch_add(1, Ordering::Relaxed);
        let place = format!("file={},line={line},", escape_property(file));
        command(&annotation(kind, &place, title, text));
    }
}

/// Hides these values, and what they look like when they are encoded, in everything that the job prints from here on.
pub(super) fn mask<'s>(secrets: impl IntoIterator<Item = &'s Secret>) {
    static MASKED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if is_step() {
        let mut masked = MASKED.lock().unwrap_or_else(PoisonError::into_inner);
        for form in secrets.into_iter().flat_map(|secret| forms(secret.expose())) {
            if masked.insert(form.clone()) {
                command(&format!("::add-mask::{}\n", escape(&form)));
            }
        }
    }
}

/// Sets outputs of the step; those without a value are left out.
pub(super) fn outputs(values: &[(&str, String)]) -> anyhow::Result<()> {
    let Some(path) = file("GITHUB_OUTPUT") else { return Ok(()) };
    let mut text = String::new();
    for (name, value) in values.iter().filter(|(_, value)| !value.is_empty()) {
        // Nobody can guess it, so that no value can end itself and begin another output.
        let end = format!("end-{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let _ = write!(text, "{name}<<{end}\n{value}\n{end}\n");
    }
    append(&path, &text)
}

/// Adds a part to the summary of the step.
pub(super) fn step_summary(markdown: &str) -> anyhow::Result<()> {
    match file("GITHUB_STEP_SUMMARY") {
        Some(path) => append(&path, markdown),
        None => Ok(()),
    }
}

/// Tells what a command came to: as outputs, and as a table on the run's page.
pub(super) fn report(title: &str, summary: &Summary) -> anyhow::Result<()> {
    outputs(&summary_outputs(summary))?;
    step_summary(&render_markdown(title, summary))
}

/// The outputs that a summary gives. `failed` counts every request without an answer.
fn summary_outputs(summary: &Summary) -> Vec<(&'static str, String)> {
    let targets = &summary.targets;
    let joined = |values: Vec<String>| values.join(",");
    let answered: u64 = targets.iter().map(|target| target.totals.answered).sum();
    let requests: u64 = targets.iter().map(|target| target.requests).sum();
    let costs: Vec<f64> = targets.iter().filter_map(|target| target.totals.cost_usd).collect();
    let run_urls: Vec<String> = targets.iter().filter_map(|target| target.run_url.clone()).collect();
    let run_ids = run_urls.iter().filter_map(|url| url.rsplit('/').next()).map(ToOwned::to_owned).collect();
    let folder = summary.responses.as_ref().and_then(|path| Path::new(path).parent());
    vec![
        ("batch-id", joined(targets.iter().map(|target| target.batch_id.to_string()).collect())),
        ("run-id", joined(run_ids)),
        ("run-url", joined(run_urls)),
        ("results-branch", joined(targets.iter().map(|target| target.results_branch.clone()).collect())),
        ("results-path", folder.map(|path| path.display().to_string()).unwrap_or_default()),
        ("answered", answered.to_string()),
        ("failed", requests.saturating_sub(answered).to_string()),
        (
            "cost-usd",
            if costs.is_empty() { String::new() } else { format!("{:.6}", costs.iter().sum::<f64>()) },
        ),
        ("passed", summary.passed.map(|passed| passed.to_string()).unwrap_or_default()),
        ("score", summary.score.map(|score| format!("{score:.6}")).unwrap_or_default()),
    ]
}

/// The text as GitHub prints it and obeys nothing in it: a command begins a line, or stands anywhere in its old form.
pub(super) fn inert(text: &str) -> String {
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

/// JSON as GitHub prints it and obeys nothing in it; it means the same. A line of JSON does not begin with a colon.
pub(super) fn inert_json(json: &[u8]) -> Vec<u8> {
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
        Annotation::Notice => "notice",
    };
    // The old form of a command is looked for anywhere in a line.
    let inert = |text: &str| text.replace("##[", "## [");
    let shown: String = inert(text.trim_end()).chars().take(LONGEST_ANNOTATION).collect();
    let title: String = inert(title).chars().take(LONGEST_TITLE).collect();
    format!("::{word} {place}title={}::{}\n", escape_property(&title), escape(&shown))
}

/// The value of a property, which a comma or a colon would end.
fn escape_property(text: &str) -> String {
    escape(text).replace(':', "%3A").replace(',', "%2C")
}

fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A secret in the forms in which it may be printed; of several lines, each on its own. A form that others
/// hide but for a few signs needs none: each mask is a line of the log.
fn forms(value: &str) -> Vec<String> {
    let mut forms: Vec<String> = value.lines().map(|line| line.trim().to_owned()).collect();
    let json = serde_json::Value::from(value).to_string();
    forms.push(json[1..json.len() - 1].to_owned());
    forms.push(percent_encoded(value));
    // As it is, as git sends a token, and as other tools send a key. The user name of git's token has fifteen letters, which
    // base64 encodes on their own; padding says nothing.
    for text in [value.to_owned(), format!("{value}:"), format!(":{value}")] {
        forms.push(STANDARD_NO_PAD.encode(&text));
        forms.push(URL_SAFE_NO_PAD.encode(&text));
    }
    forms.retain(|form| form.len() >= SHORTEST_MASKED);
    let mut needed: Vec<String> = Vec::new();
    for form in forms {
        let open = needed.iter().fold(form.clone(), |rest, known| rest.replace(known.as_str(), ""));
        if open.len() >= SHORTEST_MASKED {
            needed.push(form);
        }
    }
    needed
}

fn percent_encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Prints a command as it is. On stderr, because stdout is for data.
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

    /// Whether GitHub would take a line for a command.
    fn is_obeyed(line: &str) -> bool {
        line.trim_start().starts_with("::") || line.contains("##[")
    }

    proptest! {
        #[test]
        fn nothing_in_inert_text_is_obeyed(text in "[ :#\\[\\]a\r\n]{0,40}") {
            for line in inert(&text).split(['\n', '\r']) {
                prop_assert!(!is_obeyed(line), "{line:?}");
            }
        }

        #[test]
        fn inert_json_means_the_same(text in "\\PC{0,40}") {
            let json = serde_json::json!({"output": format!("##[error]{text}")});
            let printed = inert_json(json.to_string().as_bytes());
            prop_assert!(!String::from_utf8_lossy(&printed).contains("##["));
            prop_assert_eq!(serde_json::from_slice::<serde_json::Value>(&printed).unwrap(), json);
        }
    }

    #[test]
    fn plain_text_is_printed_as_it_is() {
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
        assert_eq!(told, "::warning title=run-evals::50 %25%0D%0A::error::x\n");
        assert!(annotation(Annotation::Error, "", "t", &"x".repeat(9000)).len() < 4096);
        let place = format!("file={},line=3,", escape_property("a,b:c%.yaml"));
        let told = annotation(Annotation::Error, &place, "failed: t,line=9::x", "y\n::add-mask::##[z]");
        assert_eq!(
            told,
            "::error file=a%2Cb%3Ac%25.yaml,line=3,title=failed%3A t%2Cline=9%3A%3Ax::y%0A::add-mask::## [z]\n"
        );
    }

    #[test]
    fn a_secret_is_masked_in_every_form() {
        let forms = forms("sk-\"quoted\"/+1");
        assert_eq!(forms[..3], ["sk-\"quoted\"/+1", "sk-\\\"quoted\\\"/+1", "sk-%22quoted%22%2F%2B1"]);
        let lines = super::forms("-----BEGIN KEY-----\nc2VjcmV0IHZhbHVl\n}\n");
        assert_eq!(lines[..2], ["-----BEGIN KEY-----", "c2VjcmV0IHZhbHVl"]);
        assert!(!lines.contains(&"}".to_owned()));
        let lines = super::forms("c2VjcmV0IHZhbHVl\nc2VjcmV0+/ZhbHVl\n");
        assert!(lines.contains(&"c2VjcmV0IHZhbHVl%0Ac2VjcmV0%2B%2FZhbHVl%0A".to_owned()), "{lines:?}");
    }

    #[test]
    fn no_mask_is_needed_twice() {
        use base64::engine::general_purpose::{STANDARD, URL_SAFE};
        for secret in ["sk-fake-key-0001", "sk-fake-key-00012", "sk-fake-key-000123", "sk~fake?key>0001"] {
            let forms = forms(secret);
            assert!(forms.len() <= if secret.contains('~') { 8 } else { 4 }, "{forms:?}");
            for text in [
                secret.to_owned(),
                format!("x-access-token:{secret}"),
                format!("{secret}:"),
                format!(":{secret}"),
            ] {
                for encoded in [STANDARD.encode(&text), STANDARD_NO_PAD.encode(&text), URL_SAFE.encode(&text)]
                {
                    assert!(forms.iter().any(|form| encoded.contains(form)), "{encoded}: {forms:?}");
                }
            }
        }
    }
}
