//! Reads a whole skill from a clone of the library.

use std::path::Path;

use serde_json::Value;

use super::catalog::Contract;
use super::library::{Library, ReadData, place};
use super::{Expected, OutputFormat, Skill, cases, catalog, prompt, rules, schema};
use crate::config::{Invalid, Problems, did_you_mean};
use crate::model::{Digest, Exit, Failure, SkillName};
use crate::util::schema_check::SchemaCheck;
use crate::util::truncate::truncate;

const MOST_PROMPT: u64 = 2 << 20;
const MOST_RULES: u64 = 256 << 10;

/// Why a skill cannot be read.
#[derive(Debug)]
pub enum SkillError {
    /// The skill does not exist.
    Unknown {
        /// The name.
        name: SkillName,
        /// The name that was probably meant.
        near: Option<SkillName>,
    },
    /// Its files are wrong.
    Invalid(Invalid),
}

impl std::fmt::Display for SkillError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown { name, .. } => {
                write!(f, "no skill `{name}`: `components/{name}/prompt.md` not found in the library")
            }
            Self::Invalid(invalid) => invalid.fmt(f),
        }
    }
}

impl std::error::Error for SkillError {}

impl From<Invalid> for SkillError {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<SkillError> for Failure {
    fn from(error: SkillError) -> Self {
        let failure = Self::new(Exit::Config, error.to_string());
        match error {
            SkillError::Unknown { near: Some(near), .. } => failure.hint(format!("did you mean `{near}`?")),
            _ => failure,
        }
    }
}

/// The skills of a library, sorted: the folders of `components/` that have a `prompt.md`.
pub fn skill_names(library: &Path) -> Result<Vec<SkillName>, Invalid> {
    let library = Library::new(library);
    let mut problems = Problems::default();
    let folders = library.folders("components").unwrap_or_else(|refused| {
        problems.error(&place("components"), refused.explain("components"));
        Vec::new()
    });
    let folders = problems.check(folders)?;
    let names = folders.iter().filter_map(|folder| folder.parse::<SkillName>().ok());
    Ok(names.filter(|name| has_prompt(&library, name)).collect())
}

fn has_prompt(library: &Library, name: &SkillName) -> bool {
    !matches!(library.read(&format!("components/{name}/prompt.md"), MOST_PROMPT), Ok(None))
}

impl Skill {
    /// Reads a skill from a clone of the library, and the data its cases refer to from a clone of the data sets.
    #[cfg(test)]
    pub fn read(library: &Path, name: &SkillName, datasets: Option<&Path>) -> Result<Self, SkillError> {
        let Some(datasets) = datasets.map(Library::new) else { return Self::read_with(library, name, None) };
        Self::read_with(library, name, Some(&|path, most| datasets.read(path, most)))
    }

    /// The same with data sets that are not in a directory.
    pub fn read_with(
        library: &Path,
        name: &SkillName,
        datasets: Option<&ReadData<'_>>,
    ) -> Result<Self, SkillError> {
        let root = library;
        let library = Library::new(root);
        if !has_prompt(&library, name) {
            let known = skill_names(root)?;
            let near = did_you_mean(name.as_str(), known.iter().map(SkillName::as_str));
            let near = near.and_then(|near| near.parse().ok());
            return Err(SkillError::Unknown { name: name.clone(), near });
        }
        let mut problems = Problems::default();
        let skill = read(&library, datasets, name, &mut problems);
        let warnings = problems.finish()?;
        match skill {
            Some(skill) => Ok(Self { warnings, ..skill }),
            None => Err(SkillError::Unknown { name: name.clone(), near: None }),
        }
    }
}

/// The skill; `None` if an error was recorded.
fn read(
    library: &Library,
    datasets: Option<&ReadData<'_>>,
    name: &SkillName,
    problems: &mut Problems,
) -> Option<Skill> {
    let path = format!("components/{name}/prompt.md");
    let prompt_sha256 = library.read(&path, MOST_PROMPT).ok().flatten().map(|bytes| Digest::of(&bytes));
    let prompt =
        library.text(&path, MOST_PROMPT, problems).and_then(|source| prompt::read(&source, problems));
    let contract = catalog::read(library, name, problems);
    let schema_path = schema_path(library, name, &contract, problems);
    let format = format(library, name, &contract, schema_path.as_deref(), problems);
    let schema = match (format, &schema_path) {
        (OutputFormat::Markdown, _) | (_, None) => None,
        (_, Some(path)) => bundled(library, path, &contract, problems),
    };
    let rules_path = format!("components/{name}/evals/scoring.yaml");
    let rules = library.text(&rules_path, MOST_RULES, problems).map(|source| rules::read(&source, problems));
    let cases = cases::read(library, datasets, name, format, problems);
    if let Some(schema) = &schema {
        check_expected(name, schema, &cases, problems);
    }
    let prompt = prompt?;
    Some(Skill {
        name: name.clone(),
        version: prompt.version,
        prompt_sha256: prompt_sha256?,
        prompt_body_sha256: prompt.body_sha256,
        system: prompt.body,
        format,
        schema,
        rules: rules.unwrap_or_default(),
        cases: cases.run,
        skipped: cases.skipped,
        cases_sha256: cases.digest?,
        warnings: Vec::new(),
    })
}

/// The schema that the catalog names, possibly another component's, or else the skill's own.
fn schema_path(
    library: &Library,
    name: &SkillName,
    contract: &Contract,
    problems: &mut Problems,
) -> Option<String> {
    let own = format!("components/{name}/schema.json");
    let exists = |path: &str| !matches!(library.read(path, 4 << 20), Ok(None));
    let Some(path) = &contract.schema_path else { return exists(&own).then_some(own) };
    if path.starts_with("components/") && exists(path) {
        return Some(path.clone());
    }
    let span = contract.span.clone().unwrap_or_else(|| place(path));
    let hint = "a schema is below `components/`, and its path starts there";
    problems.error_with_hint(
        &span,
        format!("`contracts.output.schema_path`: schema `{path}` not found"),
        hint,
    );
    None
}

/// The format of the answers: from the catalog, else the schema, else the expected answers.
fn format(
    library: &Library,
    name: &SkillName,
    contract: &Contract,
    schema_path: Option<&str>,
    problems: &mut Problems,
) -> OutputFormat {
    if let Some(format) = contract.format {
        return format;
    }
    match schema_path {
        Some(path) => match schema::root_type(library, path, problems).as_deref() {
            Some("array") => OutputFormat::JsonArray,
            _ => OutputFormat::JsonObject,
        },
        None if cases::expect_markdown(library, name) => OutputFormat::Markdown,
        None => OutputFormat::JsonObject,
    }
}

fn bundled(library: &Library, path: &str, contract: &Contract, problems: &mut Problems) -> Option<Value> {
    let before = problems.error_count();
    let entrypoint = match &contract.entrypoint {
        Some(entrypoint) => entrypoint.clone(),
        None => schema::default_entrypoint(library, path, problems)?.to_owned(),
    };
    let schema = schema::bundle(library, path, &entrypoint, contract.span.as_ref(), problems)?;
    if problems.error_count() > before {
        return None;
    }
    if let Err(error) = SchemaCheck::new(&schema) {
        problems.error(&place(path), format!("invalid JSON schema: {error}"));
        return None;
    }
    Some(schema)
}

/// Records an error for each expected answer that does not fit the schema: no model could satisfy both.
fn check_expected(name: &SkillName, schema: &Value, cases: &cases::Cases, problems: &mut Problems) {
    let Ok(check) = SchemaCheck::new(schema) else { return };
    for case in &cases.run {
        let Expected::Json(value) = &case.expected else { continue };
        if let Some(misfit) = check.misfit(value) {
            let path = format!("components/{name}/evals/cases/{}/expected.json", case.id);
            problems.warning(
                &place(&path),
                format!("the expected answer does not fit the schema: {}", truncate(&misfit, 200)),
                None,
            );
        }
    }
}
