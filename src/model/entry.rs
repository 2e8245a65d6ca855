//! One entry of `leaderboard.json`: the result of one model on one skill. Nothing in it depends on where or
//! when it ran.

use serde::{Deserialize, Serialize};

use super::{CommitSha, Digest, Ratio, Replicates, SkillName, printable};

/// The format of `leaderboard.json`.
pub const ENTRY_FORMAT: u32 = 2;

/// The result of one model on all cases of one skill. The fields are in file order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Folder name of the skill's component.
    pub skill: SkillName,
    /// `version` in the front matter of the prompt.
    pub skill_version: String,
    /// Commit of the skill library.
    pub prompt_commit: CommitSha,
    /// Digest of the whole `prompt.md`.
    pub prompt_sha256: Digest,
    /// Digest of the prompt body: the text after `## Prompt`, trimmed.
    pub prompt_body_sha256: Digest,
    /// Commit of the data sets; `None` if no case reads one.
    pub dataset_commit: Option<CommitSha>,
    /// Digest of the inputs and expected outputs of all cases.
    pub cases_sha256: Digest,
    /// Model name as sent in requests.
    pub model: String,
    /// The model behind `model`, if that name is an alias.
    pub alias_target: Option<String>,
    pub params: ModelParams,
    /// Trials per case.
    pub replicates: Replicates,
    /// Version of the scoring rules that produced these figures.
    pub scorer_version: u32,
    /// Digest of the skill's own rules, `evals/scoring.yaml`; `None` in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules_sha256: Option<Digest>,
    pub cases: CaseCounts,
    pub calls: Calls,
    pub schema_valid: SchemaFit,
    pub accuracy: Accuracy,
    /// The fields of `accuracy` where prose is expected; `None` in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prose: Option<Prose>,
    pub reproducibility: Reproducibility,
    pub tokens: TokenSums,
    /// Figures per case that ran, sorted by name.
    pub per_case: Vec<CaseFigures>,
}

/// The model settings that affect its output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelParams {
    /// Sampling temperature; `None` uses the server's default.
    pub temperature: Option<f64>,
    /// Limit on output tokens.
    pub max_tokens: Option<u64>,
    /// Seed sent to the server.
    pub seed: Option<i64>,
    pub structured_output: StructuredOutput,
}

/// How the output format is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// The server gets the schema.
    JsonSchema,
    /// The server gets the schema in strict mode.
    JsonSchemaStrict,
    /// The server must return a JSON object.
    JsonObject,
    /// Only the prompt describes the format.
    None,
}

/// Number of cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseCounts {
    pub total: u64,
    pub run: u64,
    /// Cases that did not run, sorted by name.
    pub skipped: Vec<Skipped>,
}

/// A case that cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skipped {
    pub case: String,
    pub reason: SkipReason,
}

/// Why a case cannot run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// No input and no pointer to one.
    NoInput,
    /// No expected output.
    NoExpected,
    /// The expected output has the wrong format: markdown for a JSON skill or the reverse.
    ExpectedOfOtherFormat,
    /// The input is in the data sets, but they are not cloned.
    NoDatasets,
    /// The file is not in the data sets.
    DatasetFileMissing,
    /// The data set file is not text.
    DatasetFileNotText,
    /// The commit has a Git LFS pointer instead of the input.
    InputInLfs,
}

impl SkipReason {
    /// Explanation for messages.
    pub fn explain(self) -> &'static str {
        match self {
            Self::NoInput => "it has no input",
            Self::NoExpected => "it has no expected answer",
            Self::ExpectedOfOtherFormat => {
                "its expected answer is of another format than the skill's answers"
            }
            Self::NoDatasets => "its input is in the data sets, and there is no clone of them",
            Self::DatasetFileMissing => "its file is not in the data sets",
            Self::DatasetFileNotText => "its file in the data sets is not text",
            Self::InputInLfs => "its input is kept by git-lfs, and the commit has only a pointer to it",
        }
    }
}

/// Calls by outcome; `ok`, `api_error` and `parse_error` add up to `attempted`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// Cases times replicates.
    pub attempted: u64,
    /// The response was parsed.
    pub ok: u64,
    /// No response.
    pub api_error: u64,
    /// The response does not have the skill's format.
    pub parse_error: u64,
    /// The response was truncated at the token limit; it may still parse.
    pub truncated: u64,
}

/// Schema conformance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaFit {
    /// Responses that match the schema.
    pub n: u64,
    /// All responses; 0 if the skill has no schema.
    pub of: u64,
    /// `n` / `of`.
    pub rate: Option<Ratio>,
}

/// Field accuracy over all cases and replicates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accuracy {
    /// Correct fields divided by all fields that count; `None` if none count. Correctly absent fields do
    /// not count.
    pub score: Option<Ratio>,
    /// 95 % confidence interval over cases; `None` with fewer than two cases.
    pub interval: Option<[Ratio; 2]>,
    /// Expected and equal.
    pub n_correct: u64,
    /// Expected and different.
    pub n_incorrect: u64,
    /// Expected but missing.
    pub n_missing: u64,
    /// Present but not expected.
    pub n_hallucinated: u64,
    /// Expected to be absent, and absent.
    pub n_correct_absent: u64,
}

/// Prose, which is right if it shares enough words and all facts with the expected text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prose {
    /// Correct fields divided by all of them; `None` if there are none.
    pub score: Option<Ratio>,
    /// Mean share of words in common; a missing text shares none.
    pub overlap: Option<Ratio>,
    pub n_correct: u64,
    pub n_incorrect: u64,
    pub n_missing: u64,
}

/// Agreement between replicates; `None` with one replicate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reproducibility {
    /// Share of fields on which all replicates agree.
    pub score: Option<Ratio>,
    /// 95 % confidence interval over cases.
    pub interval: Option<[Ratio; 2]>,
    /// All compared fields.
    pub fields_probed: u64,
    /// Fields on which all replicates agree.
    pub fields_full_agreement: u64,
    /// Share of cases whose replicates are identical byte for byte.
    pub exact_output_rate: Option<Ratio>,
}

/// Tokens of all calls, as the server counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenSums {
    pub prompt: u64,
    pub completion: u64,
}

/// Figures of one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFigures {
    pub case: String,
    pub accuracy: Option<Ratio>,
    pub reproducibility: Option<Ratio>,
    /// Calls whose response was parsed.
    pub ok: u64,
    /// All other calls.
    pub errors: u64,
}

/// Identity and sort order of an entry.
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
    rules_sha256: Option<Digest>,
}

impl Entry {
    /// The entry's key. A new entry replaces the one with the same key.
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
            rules_sha256: self.rules_sha256,
        }
    }

    /// How it was scored. Figures of entries that were scored differently are not of the same thing.
    pub fn scoring(&self) -> (u32, Option<Digest>) {
        (self.scorer_version, self.rules_sha256)
    }

    /// The share of the fields that are not prose; all of them in format 1.
    pub fn exact(&self) -> Option<Ratio> {
        let prose = self.prose.unwrap_or_default();
        let of_prose = prose.n_correct + prose.n_incorrect + prose.n_missing;
        Ratio::of(
            self.accuracy.n_correct.saturating_sub(prose.n_correct),
            self.accuracy.counted().saturating_sub(of_prose),
        )
    }

    /// Model name for a table, with the alias target.
    pub fn model_shown(&self) -> String {
        match &self.alias_target {
            None => printable(&self.model),
            Some(target) => format!("{} → {}", printable(&self.model), printable(target)),
        }
    }
}

impl EntryKey {
    /// A random seed derived from the key.
    pub fn seed(&self) -> u64 {
        let Self { skill, prompt_commit, model, params, replicates, cases_sha256, scorer_version, .. } = self;
        let rules = self.rules_sha256.map(|rules| format!("\n{rules}")).unwrap_or_default();
        let [dataset, alias] =
            [self.dataset_commit.as_ref().map(CommitSha::as_str), self.alias_target.as_deref()]
                .map(|text| text.unwrap_or("-"));
        let text = format!(
            "{skill}\n{prompt_commit}\n{dataset}\n{model}\n{alias}\n{params}\n{replicates}\n{cases_sha256}\n{scorer_version}{rules}"
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
    pub const ALL: [Self; 4] = [Self::JsonSchema, Self::JsonSchemaStrict, Self::JsonObject, Self::None];

    /// Name in files.
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
    /// Fields in the denominator of the score.
    pub fn counted(&self) -> u64 {
        self.n_correct + self.n_incorrect + self.n_missing + self.n_hallucinated
    }
}
