//! A skill of a skill library: its folder `components/<name>`, with the catalog and the data sets.
//!
//! `library` opens files and never leaves the clone. `prompt` reads `prompt.md`, `catalog` the skill's entry in
//! `component_catalog.json`, `schema` bundles its schema with those it refers to, `cases` reads the cases with the files they name
//! (`pointer`, `message`), `rules` reads `evals/scoring.yaml`, and `read` puts it together. `models` reads `.evaluator/models.yaml`,
//! and `settings` `.evaluator/config.yaml`.

mod cases;
mod catalog;
mod expansion;
mod library;
mod message;
mod models;
mod pointer;
mod prompt;
mod read;
mod rules;
mod schema;
mod settings;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::model::{Digest, FieldRules, SemVersion, SkillName, Skipped, StructuredOutput};

pub use self::library::{ReadData, ReadRefusal};
pub use self::models::{ModelSettings, Models};
pub use self::prompt::skill_version;
pub use self::read::SkillError;
pub use self::settings::{Layout, LibrarySettings};

/// A skill, ready to evaluate.
#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    /// The folder of its component; the skill's name everywhere.
    pub name: SkillName,
    /// The `version` of its prompt.
    pub version: SemVersion,
    /// The digest of the whole `prompt.md`.
    pub prompt_sha256: Digest,
    /// The digest of `system`.
    pub prompt_body_sha256: Digest,
    /// The system message: the text after `## Prompt`, trimmed.
    pub system: String,
    /// The format of its answers.
    pub format: OutputFormat,
    /// The self-contained schema of its answers.
    pub schema: Option<Value>,
    /// How answers are compared.
    pub rules: FieldRules,
    /// The cases that can be run, by name.
    pub cases: Vec<SkillCase>,
    /// The cases that cannot, by name.
    pub skipped: Vec<Skipped>,
    /// The digest of the cases' inputs and expected answers.
    pub cases_sha256: Digest,
    /// Warnings, each with its source line.
    pub warnings: Vec<String>,
}

/// The format of a skill's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// One JSON object.
    JsonObject,
    /// One JSON array.
    JsonArray,
    /// Markdown.
    Markdown,
}

/// A case that can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillCase {
    /// The folder of the case.
    pub id: String,
    /// The user message: the input, then the runtime inputs.
    pub message: String,
    /// The expected answer.
    pub expected: Expected,
    /// The data-set file it was read from.
    pub dataset_file: Option<String>,
}

/// The expected answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// `expected.json`.
    Json(Value),
    /// `expected.md`.
    Markdown(String),
}

impl Skill {
    /// Whether a case reads a data-set file, so that the commit of the data sets belongs to the result.
    pub fn reads_datasets(&self) -> bool {
        self.cases.iter().any(|case| case.dataset_file.is_some())
    }

    /// How the answer's format is requested: the model's setting, as far as the skill supports it.
    pub fn structured_output(&self, asked: Option<StructuredOutput>) -> StructuredOutput {
        match (self.format, asked, &self.schema) {
            (OutputFormat::Markdown, ..) | (_, Some(StructuredOutput::None), _) => StructuredOutput::None,
            (_, Some(StructuredOutput::JsonSchemaStrict), Some(_)) => StructuredOutput::JsonSchemaStrict,
            (_, None | Some(StructuredOutput::JsonSchema), Some(_)) => StructuredOutput::JsonSchema,
            // No schema to send, or none wanted; a server that must return an object cannot return an array.
            (OutputFormat::JsonObject, ..) => StructuredOutput::JsonObject,
            (OutputFormat::JsonArray, ..) => StructuredOutput::None,
        }
    }
}
