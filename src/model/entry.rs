//! One entry of `leaderboard.json`: what a model made of a skill. Nothing in it depends on where or when it was run.

use serde::{Deserialize, Serialize};

use super::{CommitSha, Digest, Ratio, Replicates, SkillName, printable};

/// The format of `leaderboard.json`.
pub const ENTRY_FORMAT: u32 = 1;

/// What a model made of the cases of a skill. The order of the fields is the order in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The skill: the folder of its component.
    pub skill: SkillName,
    /// The version in the front matter of its prompt.
    pub skill_version: String,
    /// The commit of the skill library that was checked out.
    pub prompt_commit: CommitSha,
    /// The digest of the whole `prompt.md`.
    pub prompt_sha256: Digest,
    /// The digest of what the model gets of it: the text after `## Prompt`, without white space around it.
    pub prompt_body_sha256: Digest,
    /// The commit of the data sets; nothing where no case reads one of them.
    pub dataset_commit: Option<CommitSha>,
    /// The digest of what the cases ask and expect.
    pub cases_sha256: Digest,
    /// The model by the name that it is asked for.
    pub model: String,
    /// The model that the name stood for, where the name is an alias.
    pub alias_target: Option<String>,
    /// The settings.
    pub params: ModelParams,
    /// How often each case was asked.
    pub replicates: Replicates,
    /// Which rules of scoring these figures follow.
    pub scorer_version: u32,
    /// The cases.
    pub cases: CaseCounts,
    /// The calls.
    pub calls: Calls,
    /// How many answers fit the schema.
    pub schema_valid: SchemaFit,
    /// How right the answers are.
    pub accuracy: Accuracy,
    /// How alike the answers are.
    pub reproducibility: Reproducibility,
    /// What was read and written.
    pub tokens: TokenSums,
    /// Each case that was run, by name.
    pub per_case: Vec<CaseFigures>,
}

/// The settings of a model that change its answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelParams {
    /// Sampling temperature; nothing leaves it to the server.
    pub temperature: Option<f64>,
    /// The most tokens of an answer.
    pub max_tokens: Option<u64>,
    /// The seed that the server is asked to use.
    pub seed: Option<i64>,
    /// How the shape of the answer is asked for.
    pub structured_output: StructuredOutput,
}

/// How the shape of the answer is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// The server gets the schema.
    JsonSchema,
    /// The server gets the schema and must enforce it.
    JsonSchemaStrict,
    /// The server is asked for some JSON object.
    JsonObject,
    /// Only the prompt says it.
    None,
}

/// How many cases there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseCounts {
    /// All of them.
    pub total: u64,
    /// Those that were run.
    pub run: u64,
    /// Those that were not, by name.
    pub skipped: Vec<Skipped>,
}

/// A case that cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skipped {
    /// The case.
    pub case: String,
    /// Why.
    pub reason: SkipReason,
}

/// Why a case cannot be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// Neither an input nor a pointer to one.
    NoInput,
    /// No expected answer.
    NoExpected,
    /// The expected answer is of the other kind than the skill's answers: markdown for JSON or the other way around.
    ExpectedOfOtherFormat,
    /// The input is in the data sets, and there is no clone of them.
    NoDatasets,
    /// The file is not in the data sets.
    DatasetFileMissing,
    /// The file in the data sets is no text.
    DatasetFileNotText,
    /// The commit has a pointer of git-lfs instead of the input.
    InputInLfs,
}

impl SkipReason {
    /// For people.
    pub fn explain(self) -> &'static str {
        match self {
            Self::NoInput => "it has no input",
            Self::NoExpected => "it has no expected answer",
            Self::ExpectedOfOtherFormat => {
                "its expected answer is of another format than the skill's answers"
            }
            Self::NoDatasets => "its input is in the data sets, and there is no clone of them",
            Self::DatasetFileMissing => "its file is not in the data sets",
            Self::DatasetFileNotText => "its file in the data sets is no text",
            Self::InputInLfs => "its input is kept by git-lfs, and the commit has only a pointer to it",
        }
    }
}

/// How the calls ended; `ok`, `api_error` and `parse_error` sum up to `attempted`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// All of them: cases times replicates.
    pub attempted: u64,
    /// With an answer that can be read.
    pub ok: u64,
    /// Without an answer.
    pub api_error: u64,
    /// With an answer that is not of the skill's format.
    pub parse_error: u64,
    /// Whose answer was cut off at the token limit; some of them can be read, most not.
    pub truncated: u64,
}

/// How many answers fit the schema.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaFit {
    /// Those that do.
    pub n: u64,
    /// All that came; 0 where the skill has no schema.
    pub of: u64,
    /// `n` of `of`.
    pub rate: Option<Ratio>,
}

/// How right the answers are: the fields of all cases and replicates, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accuracy {
    /// Correct of all but the correctly absent; nothing where there is none of these.
    pub score: Option<Ratio>,
    /// The 95 % interval over cases; nothing with fewer than two.
    pub interval: Option<[Ratio; 2]>,
    /// Expected and equal.
    pub n_correct: u64,
    /// Expected and different.
    pub n_incorrect: u64,
    /// Expected and not there.
    pub n_missing: u64,
    /// Not expected and there.
    pub n_hallucinated: u64,
    /// Expected to be empty, and empty.
    pub n_correct_absent: u64,
}

/// How alike the answers of the replicates are; nothing with one replicate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reproducibility {
    /// The share of fields on which all replicates agree.
    pub score: Option<Ratio>,
    /// The 95 % interval over cases.
    pub interval: Option<[Ratio; 2]>,
    /// All fields.
    pub fields_probed: u64,
    /// Those on which all replicates agree.
    pub fields_full_agreement: u64,
    /// The share of cases whose answers are the same to the letter.
    pub exact_output_rate: Option<Ratio>,
}

/// Tokens of all calls, as the server counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSums {
    /// Read.
    pub prompt: u64,
    /// Written.
    pub completion: u64,
}

/// The figures of one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFigures {
    /// The case.
    pub case: String,
    /// As for the whole.
    pub accuracy: Option<Ratio>,
    /// As for the whole.
    pub reproducibility: Option<Ratio>,
    /// Calls with an answer that can be read.
    pub ok: u64,
    /// The others.
    pub errors: u64,
}

/// What makes an entry another entry. Sorted by the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey {
    skill: SkillName,
    prompt_commit: CommitSha,
    dataset_commit: Option<CommitSha>,
    model: String,
    alias_target: Option<String>,
    params: String,
    replicates: Replicates,
    cases_sha256: Digest,
    scorer_version: u32,
}

impl Entry {
    /// Which entry it is: one with the same key takes its place.
    pub fn key(&self) -> EntryKey {
        EntryKey {
            skill: self.skill.clone(),
            prompt_commit: self.prompt_commit.clone(),
            dataset_commit: self.dataset_commit.clone(),
            model: self.model.clone(),
            alias_target: self.alias_target.clone(),
            params: self.params.text(),
            replicates: self.replicates,
            cases_sha256: self.cases_sha256,
            scorer_version: self.scorer_version,
        }
    }

    /// The model for a table, with what its name stood for.
    pub fn model_shown(&self) -> String {
        match &self.alias_target {
            None => printable(&self.model),
            Some(target) => format!("{} → {}", printable(&self.model), printable(target)),
        }
    }
}

impl EntryKey {
    /// A number that only the key decides, for whatever is drawn at random.
    pub fn seed(&self) -> u64 {
        let Self { skill, prompt_commit, model, params, replicates, cases_sha256, scorer_version, .. } = self;
        let [dataset, alias] =
            [self.dataset_commit.as_ref().map(CommitSha::as_str), self.alias_target.as_deref()]
                .map(|text| text.unwrap_or("-"));
        let text = format!(
            "{skill}\n{prompt_commit}\n{dataset}\n{model}\n{alias}\n{params}\n{replicates}\n{cases_sha256}\n{scorer_version}"
        );
        #[expect(clippy::cast_possible_truncation, reason = "any 64 bits will do")]
        let seed = Digest::of(text.as_bytes()).half() as u64;
        seed
    }
}

impl ModelParams {
    /// The settings as text, in a fixed order.
    pub fn text(&self) -> String {
        fn shown<T: ToString>(value: Option<T>) -> String {
            value.map_or_else(|| "null".to_owned(), |value| value.to_string())
        }
        format!(
            "temperature={} max_tokens={} seed={} structured_output={}",
            shown(self.temperature),
            shown(self.max_tokens),
            shown(self.seed),
            self.structured_output.as_str()
        )
    }
}

impl StructuredOutput {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::JsonSchema, Self::JsonSchemaStrict, Self::JsonObject, Self::None];

    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::JsonSchemaStrict => "json_schema_strict",
            Self::JsonObject => "json_object",
            Self::None => "none",
        }
    }
}

impl Accuracy {
    /// All but the correctly absent: what the score is a share of.
    pub fn counted(&self) -> u64 {
        self.n_correct + self.n_incorrect + self.n_missing + self.n_hallucinated
    }
}
