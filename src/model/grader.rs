//! How a response is graded: a suite's `assertions`, parsed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Trajectory;

/// How a test's response is graded.
#[derive(Debug, Clone, Default)]
pub struct Grading {
    /// The test's graders, then the suite's. If there are none, an LLM grades by `criteria`.
    pub graders: Vec<Arc<Grader>>,
    /// What a good answer is.
    pub criteria: String,
    /// Messages of `expected_output`, with the content of their files.
    pub expected: Vec<Value>,
    /// `metadata` of the test, merged with the suite's.
    pub metadata: Option<Value>,
    /// Threshold for the test's score, if the test sets one.
    pub threshold: Option<f64>,
}

impl Grading {
    /// The last expected message, as an LLM grader reads it.
    pub fn reference_answer(&self) -> String {
        let Some(last) = self.expected.last() else { return String::new() };
        match (&last["content"], &last["tool_calls"]) {
            (Value::String(text), _) => text.clone(),
            (Value::Null, Value::Null) => String::new(),
            (Value::Null, calls) => format!("{calls:#}"),
            (content, _) => format!("{content:#}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Grader {
    /// Name in the suite, or AgentV's default name.
    pub name: String,
    /// Weight in the mean.
    pub weight: f64,
    /// Whether the test fails if this grader fails.
    pub required: bool,
    /// Minimum score if `required`; defaults to the test's threshold.
    pub min_score: Option<f64>,
    /// Whether to invert the result.
    pub negate: bool,
    pub kind: GraderKind,
}

/// What a grader checks.
#[derive(Debug, Clone, PartialEq)]
pub enum GraderKind {
    /// `contains`, `contains-any`, `contains-all` and their case-insensitive variants.
    Contains {
        /// How many of the values must occur.
        which: Quantifier,
        ignore_case: bool,
        values: Vec<String>,
    },
    /// `starts-with`.
    StartsWith(String),
    /// `ends-with`.
    EndsWith(String),
    /// `equals`.
    Equals(String),
    /// `regex`, with its flags; both are validated.
    Regex { source: String, flags: String },
    /// `is-json`, with a validated schema.
    IsJson { schema: Option<Value> },
    /// `field-accuracy`.
    FieldAccuracy {
        fields: Vec<Field>,
        /// Whether one wrong field makes the score 0.
        all_or_nothing: bool,
    },
    /// `latency`, in milliseconds.
    Latency(f64),
    /// `cost`, in dollars.
    Cost(f64),
    /// `token-usage`.
    TokenUsage(TokenLimits),
    /// `execution-metrics`.
    ExecutionMetrics(MetricLimits),
    /// `tool-trajectory`.
    ToolTrajectory(Trajectory),
    /// `llm-grader` and `rubrics`.
    Llm(LlmGrader),
    /// `code-grader`, and types that `.agentv` defines.
    Code(CodeGrader),
    /// `composite`.
    Composite {
        members: Vec<Grader>,
        /// How the members' scores are combined.
        aggregator: Aggregator,
    },
    /// A kind that this version does not know, where unknown kinds are ignored.
    Unknown(String),
}

/// Graders whose checks describe what was found. Others' are written by a person or a model, and describe what should hold.
const FINDERS: [&str; 17] = [
    "contains",
    "contains-any",
    "contains-all",
    "icontains",
    "icontains-any",
    "icontains-all",
    "starts-with",
    "ends-with",
    "equals",
    "regex",
    "is-json",
    "field-accuracy",
    "latency",
    "cost",
    "token-usage",
    "execution-metrics",
    "tool-trajectory",
];

/// Whether the checks of graders of this kind describe what was found.
pub fn is_finder(kind: &str) -> bool {
    FINDERS.contains(&kind)
}

impl GraderKind {
    /// AgentV's name for it in results.
    pub fn word(&self) -> &str {
        match self {
            Self::Contains { which, ignore_case, .. } => match (which, ignore_case) {
                (Quantifier::One, false) => "contains",
                (Quantifier::Any, false) => "contains-any",
                (Quantifier::All, false) => "contains-all",
                (Quantifier::One, true) => "icontains",
                (Quantifier::Any, true) => "icontains-any",
                (Quantifier::All, true) => "icontains-all",
            },
            Self::StartsWith(_) => "starts-with",
            Self::EndsWith(_) => "ends-with",
            Self::Equals(_) => "equals",
            Self::Regex { .. } => "regex",
            Self::IsJson { .. } => "is-json",
            Self::FieldAccuracy { .. } => "field-accuracy",
            Self::Latency(_) => "latency",
            Self::Cost(_) => "cost",
            Self::TokenUsage(_) => "token-usage",
            Self::ExecutionMetrics(_) => "execution-metrics",
            Self::ToolTrajectory(_) => "tool-trajectory",
            Self::Llm(_) => "llm-grader",
            Self::Code(code) => code.custom_type.as_deref().unwrap_or("code-grader"),
            Self::Composite { .. } => "composite",
            Self::Unknown(word) => word,
        }
    }
}

impl Grader {
    /// Calls `visit` for this grader and every nested one, this one first.
    pub fn each(&self, visit: &mut impl FnMut(&Self)) {
        visit(self);
        if let GraderKind::Composite { members, .. } = &self.kind {
            for member in members {
                member.each(visit);
            }
        }
    }
}

/// How many of several values must occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantifier {
    /// The only one.
    One,
    /// One of them.
    Any,
    /// Each of them.
    All,
}

/// A field compared by `field-accuracy`.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// For example `invoice.lines[0].amount`.
    pub path: String,
    pub how: FieldMatch,
    /// Whether a response without it is wrong.
    pub required: bool,
    /// Weight in the mean.
    pub weight: f64,
}

/// How a field is compared.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldMatch {
    /// Deep equality.
    Exact,
    /// A number within the tolerance.
    Near {
        tolerance: f64,
        /// Whether the tolerance is a fraction of the expected number.
        relative: bool,
    },
    /// The same date.
    Date {
        /// Formats such as `MM/DD/YYYY`, which decide how `01/02/2025` is read; AgentV's defaults if
        /// absent.
        formats: Option<Vec<String>>,
    },
}

/// The limits of `token-usage`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TokenLimits {
    /// Input and output together.
    pub total: Option<f64>,
    pub input: Option<f64>,
    pub output: Option<f64>,
}

/// The limits of `execution-metrics`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MetricLimits {
    /// Tool calls.
    pub tool_calls: Option<f64>,
    /// Model calls; a batch response has one.
    pub llm_calls: Option<f64>,
    /// Input and output tokens together.
    pub tokens: Option<f64>,
    pub cost_usd: Option<f64>,
    pub duration_ms: Option<f64>,
    /// Share of read-only tool calls, and its tolerance.
    pub exploration: Option<(f64, f64)>,
}

/// An LLM grader.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LlmGrader {
    /// Replaces the default prompt.
    pub prompt: Option<Prompt>,
    /// Outcomes that it checks one by one.
    pub rubrics: Vec<Rubric>,
    /// Target of the grader; overrides the one of the response's target and of the command line.
    pub target: Option<String>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
}

/// Replaces the default prompt of an LLM grader.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// The whole prompt, with `{{ name }}` placeholders.
    Template(String),
    /// Criteria for the default prompt.
    Criteria(String),
    /// Output of a command.
    Command {
        argv: Vec<String>,
        /// Working directory.
        cwd: PathBuf,
        /// Sent to the command with the test and the response.
        config: Option<Value>,
    },
}

/// One outcome that an LLM checks. Its JSON replaces `{{ rubrics }}` in a prompt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rubric {
    /// Id in the LLM's answer.
    pub id: String,
    /// The outcome that must hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<RubricOperator>,
    /// Weight in the mean.
    pub weight: f64,
    /// Whether the verdict fails without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Minimum score, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_score: Option<f64>,
    /// Meaning of the scores 0 to 10, if the rubric is scored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub score_ranges: Vec<ScoreRange>,
}

/// How the outcome of a rubric is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RubricOperator {
    /// The answer must state it.
    Correctness,
    /// The answer must not contradict it.
    Contradiction,
}

impl RubricOperator {
    /// Name in a suite.
    pub fn word(self) -> &'static str {
        match self {
            Self::Correctness => "correctness",
            Self::Contradiction => "contradiction",
        }
    }
}

/// Meaning of a range of scores from 0 to 10.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScoreRange {
    /// First and last score.
    pub score_range: [u8; 2],
    /// What an answer with such a score is like.
    pub outcome: String,
}

/// A command that grades.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeGrader {
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Sent to the command with the test and the response.
    pub config: Map<String, Value>,
    /// The type, where a file in `.agentv` defines it.
    pub custom_type: Option<String>,
}

/// How several scores are combined.
#[derive(Debug, Clone, PartialEq)]
pub enum Aggregator {
    /// Weighted mean, with weights by name.
    WeightedAverage(BTreeMap<String, f64>),
    /// Passes if at least this share of the members passes.
    Threshold(f64),
    Code {
        /// Command line for a shell.
        command: String,
        /// Working directory.
        cwd: PathBuf,
    },
    Llm {
        /// Prompt with `{{EVALUATOR_RESULTS_JSON}}`; the default prompt if absent.
        prompt: Option<String>,
    },
}
