//! The cases of a skill: `evals/cases/<case>/` with an input, an expected answer, and `metadata.yaml`.

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::library::{Library, ReadData, ReadRefusal, is_inside, json, place};
use super::{Expected, OutputFormat, SkillCase, message, pointer};
use crate::config::{Document, Node, Problems};
use crate::model::{Digest, SkillName, SkipReason, Skipped};

const MOST_CASES: usize = 2_000;
const MOST_BYTES: u64 = 4 << 20;
const MOST_METADATA: u64 = 256 << 10;
/// The beginning of a git-lfs pointer file.
const LFS: &str = "version https://git-lfs.github.com/spec/";

/// All cases, by name.
#[derive(Debug, Default)]
pub(super) struct Cases {
    pub(super) run: Vec<SkillCase>,
    pub(super) skipped: Vec<Skipped>,
    pub(super) digest: Option<Digest>,
}

/// Which kinds of expected answers a case has.
struct ExpectedAnswers {
    json: Option<Value>,
    markdown: Option<String>,
}

/// The folders of the cases.
fn folder(name: &SkillName) -> String {
    format!("components/{name}/evals/cases")
}

/// Whether expected answers are markdown, if nothing else defines the format.
pub(super) fn expect_markdown(library: &Library, name: &SkillName) -> bool {
    let folder = folder(name);
    let has = |file: &str| {
        library.folders(&folder).is_ok_and(|cases| {
            cases.iter().any(|case| {
                matches!(library.read(&format!("{folder}/{case}/{file}"), MOST_BYTES), Ok(Some(_)))
            })
        })
    };
    has("expected.md") && !has("expected.json")
}

pub(super) fn read(
    library: &Library,
    datasets: Option<&ReadData<'_>>,
    name: &SkillName,
    format: OutputFormat,
    problems: &mut Problems,
) -> Cases {
    let folder = folder(name);
    let names = match library.folders(&folder) {
        Ok(names) => names,
        Err(refused) => {
            let message = match refused {
                ReadRefusal::Link => format!("`{folder}` has a link in it; links are not followed"),
                refused => refused.explain(&folder),
            };
            problems.error(&place(&folder), message);
            return Cases::default();
        }
    };
    if names.len() > MOST_CASES {
        problems.error(&place(&folder), format!("more than {MOST_CASES} cases"));
        return Cases::default();
    }
    let mut cases = Cases::default();
    let mut hasher = Sha256::new();
    for id in names {
        if !is_case_id(&id) {
            let hint =
                "1 to 100 characters of `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`, a letter or digit first";
            problems.error_with_hint(&place(&folder), format!("`{id}` cannot be the name of a case"), hint);
            continue;
        }
        let reader = CaseReader { library, datasets, format, base: format!("{folder}/{id}") };
        match reader.case(&id, &mut hasher, problems) {
            Some(Ok(case)) => cases.run.push(case),
            Some(Err(reason)) => cases.skipped.push(Skipped { case: id, reason }),
            None => {}
        }
    }
    cases.digest = Some(Digest::finish(hasher));
    cases
}

fn is_case_id(id: &str) -> bool {
    (1..=100).contains(&id.len())
        && id.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

struct CaseReader<'l> {
    library: &'l Library,
    datasets: Option<&'l ReadData<'l>>,
    format: OutputFormat,
    base: String,
}

impl CaseReader<'_> {
    /// The case, or why it cannot run; `None` if an error was recorded.
    fn case(
        &self,
        id: &str,
        hasher: &mut Sha256,
        problems: &mut Problems,
    ) -> Option<Result<SkillCase, SkipReason>> {
        let before = problems.error_count();
        let metadata = self.metadata(problems);
        let (runtime_inputs, dataset_file) = match &metadata {
            Some(document) => Self::known_metadata(&document.root, problems),
            None => (None, None),
        };
        let answers = self.answers(problems);
        let input = self.input(dataset_file, problems);
        if problems.error_count() > before {
            return None;
        }
        let (input, dataset_file) = match input? {
            Ok(input) => input,
            Err(reason) => return Some(Err(reason)),
        };
        let expected = match (self.format, answers.json, answers.markdown) {
            (OutputFormat::Markdown, _, Some(text)) => Expected::Markdown(text),
            (OutputFormat::JsonObject | OutputFormat::JsonArray, Some(value), _) => Expected::Json(value),
            (_, None, None) => return Some(Err(SkipReason::NoExpected)),
            _ => return Some(Err(SkipReason::ExpectedOfOtherFormat)),
        };
        let message = message::compose(&input, runtime_inputs.as_ref());
        let expected_text = match &expected {
            Expected::Json(value) => value.to_string(),
            Expected::Markdown(text) => text.clone(),
        };
        for part in [id, &message, &expected_text] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        Some(Ok(SkillCase { id: id.to_owned(), message, expected, dataset_file }))
    }

    fn text(&self, file: &str, problems: &mut Problems) -> Option<Arc<crate::config::Source>> {
        self.library.text(&format!("{}/{file}", self.base), MOST_BYTES, problems)
    }

    fn metadata(&self, problems: &mut Problems) -> Option<Document> {
        let source = self.library.text(&format!("{}/metadata.yaml", self.base), MOST_METADATA, problems)?;
        match Document::parse(source.path.clone(), source.text.clone()) {
            Ok(document) => Some(document),
            Err(invalid) => {
                problems.absorb(invalid);
                None
            }
        }
    }

    /// The keys that run-evals reads; authors have many others.
    fn known_metadata(root: &Node, problems: &mut Problems) -> (Option<Value>, Option<String>) {
        if root.is_null() {
            return (None, None);
        }
        let Some(mut fields) = root.fields("the metadata", problems) else { return (None, None) };
        let inputs = fields.get("runtime_inputs");
        if let Some(node) = inputs.filter(|node| node.entries().is_none()) {
            problems
                .error(&node.span, format!("`runtime_inputs`: expected a mapping, found {}", node.kind()));
        }
        let file = fields.get("dataset_file");
        let path = fields.string("dataset_file", problems);
        if let (Some(node), Some(path)) = (file, path)
            && !is_inside(path)
        {
            let hint = "write a path from the top of the data sets, with `/` and without `..`";
            problems.error_with_hint(&node.span, "`dataset_file` points outside the data sets", hint);
            return (None, None);
        }
        (inputs.map(Node::to_json), path.map(str::to_owned))
    }

    fn answers(&self, problems: &mut Problems) -> ExpectedAnswers {
        let json = self.text("expected.json", problems).and_then(|source| json(&source, problems));
        let markdown = self.text("expected.md", problems).map(|source| source.text.clone());
        ExpectedAnswers { json, markdown }
    }

    /// The input, and the data-set file it came from; `None` if an error was recorded.
    fn input(
        &self,
        dataset_file: Option<String>,
        problems: &mut Problems,
    ) -> Option<Result<(String, Option<String>), SkipReason>> {
        let markdown = self.text("input.md", problems);
        let json_file = self.text("input.json", problems);
        if let Some(source) = &json_file {
            json(source, problems)?;
        }
        let given = match (&markdown, &json_file) {
            (Some(_), Some(_)) => {
                problems.error(&place(&self.base), "both `input.md` and `input.json`: which is the input?");
                return None;
            }
            (Some(source), None) => Some(message::of_markdown(&source.text).to_owned()),
            (None, Some(source)) => Some(source.text.clone()),
            (None, None) => None,
        };
        let path = match (given, dataset_file) {
            (Some(_), Some(_)) => {
                let message =
                    "`metadata.yaml` names a `dataset_file`, and there is an input as well: which is it?";
                problems.error(&place(&self.base), message);
                return None;
            }
            (Some(text), None) if text.trim().is_empty() => return Some(Err(SkipReason::NoInput)),
            (Some(text), None) if text.starts_with(LFS) => return Some(Err(SkipReason::InputInLfs)),
            (Some(text), None) => return Some(Ok((text, None))),
            (None, Some(path)) => path,
            (None, None) => {
                let prose = self.text("input-source.md", problems);
                match prose.and_then(|source| pointer::in_prose(&source.text)) {
                    Some(path) => path,
                    None => return Some(Err(SkipReason::NoInput)),
                }
            }
        };
        let Some(datasets) = self.datasets else { return Some(Err(SkipReason::NoDatasets)) };
        let read = if is_inside(&path) { datasets(&path, MOST_BYTES) } else { Err(ReadRefusal::Path) };
        match read {
            Ok(None) => Some(Err(SkipReason::DatasetFileMissing)),
            Ok(Some(bytes)) => match String::from_utf8(bytes) {
                Ok(text) if text.starts_with(LFS) => Some(Err(SkipReason::InputInLfs)),
                Ok(text) if !text.contains('\0') => {
                    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
                    Some(Ok((text, Some(path))))
                }
                _ => Some(Err(SkipReason::DatasetFileNotText)),
            },
            Err(refused) => {
                problems.error(&place(&self.base), format!("data sets: {}", refused.explain(&path)));
                None
            }
        }
    }
}
