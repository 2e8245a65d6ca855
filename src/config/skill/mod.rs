//! A skill of a skill library: what its folder `components/<name>` says, with the catalog and the data sets beside it.
//!
//! `library` opens files and never leaves the clone. `prompt` reads `prompt.md`, `catalog` what `component_catalog.json` says of
//! the skill's answers, `schema` bundles its schema with those it refers to, `cases` reads the cases with what they point at
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

pub use self::library::{ReadData, Refused};
pub use self::models::{ModelSettings, Models};
pub use self::prompt::skill_version;
pub use self::read::SkillError;
pub use self::settings::{Layout, LibrarySettings};

/// A skill, ready to be evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    /// The folder of its component, which is its name everywhere.
    pub name: SkillName,
    /// The `version` of its prompt.
    pub version: SemVersion,
    /// The digest of the whole `prompt.md`.
    pub prompt_sha256: Digest,
    /// The digest of `system`.
    pub prompt_body_sha256: Digest,
    /// The system message: what stands after `## Prompt`, without white space around it.
    pub system: String,
    /// What its answers are.
    pub format: OutputFormat,
    /// The schema of its answers, which needs no other file.
    pub schema: Option<Value>,
    /// How answers are compared.
    pub rules: FieldRules,
    /// The cases that can be run, by name.
    pub cases: Vec<SkillCase>,
    /// Those that cannot, by name.
    pub skipped: Vec<Skipped>,
    /// The digest of what the cases ask and expect.
    pub cases_sha256: Digest,
    /// What works but is probably not meant, each with its line drawn.
    pub warnings: Vec<String>,
}

/// What the answers of a skill are.
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
    /// The user message: the input, with what the runtime adds.
    pub message: String,
    /// The right answer.
    pub expected: Expected,
    /// The file of the data sets that was read for it.
    pub dataset_file: Option<String>,
}

/// The right answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// `expected.json`.
    Json(Value),
    /// `expected.md`.
    Markdown(String),
}

impl Skill {
    /// Whether a case reads a file of the data sets, so that their commit belongs to the result.
    pub fn reads_datasets(&self) -> bool {
        self.cases.iter().any(|case| case.dataset_file.is_some())
    }

    /// How the shape of an answer is asked for: what the model's settings say, as far as the skill has it.
    pub fn structured_output(&self, asked: Option<StructuredOutput>) -> StructuredOutput {
        match (self.format, asked, &self.schema) {
            (OutputFormat::Markdown, ..) | (_, Some(StructuredOutput::None), _) => StructuredOutput::None,
            (_, Some(StructuredOutput::JsonSchemaStrict), Some(_)) => StructuredOutput::JsonSchemaStrict,
            (_, None | Some(StructuredOutput::JsonSchema), Some(_)) => StructuredOutput::JsonSchema,
            // No schema to send, or none wanted; a server that must answer with an object cannot answer with an array.
            (OutputFormat::JsonObject, ..) => StructuredOutput::JsonObject,
            (OutputFormat::JsonArray, ..) => StructuredOutput::None,
        }
    }
}
