//! How an answer is graded: what a suite's `assertions` say, once they are read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

/// What a test says about its answer.
#[derive(Debug, Clone, Default)]
pub struct Grading {
    /// Its own graders, then the suite's; where there are none, a model grades by `criteria`.
    pub graders: Vec<Arc<Grader>>,
    /// What a good answer is.
    pub criteria: String,
    /// The messages of `expected_output`, files in them read.
    pub expected: Vec<Value>,
    /// The test's `metadata`, with the suite's.
    pub metadata: Option<Value>,
    /// What the test's score must reach, where the test says so itself.
    pub threshold: Option<f64>,
}

impl Grading {
    /// The last expected message, as a model that grades reads it.
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

/// A grader.
#[derive(Debug, Clone, PartialEq)]
pub struct Grader {
    /// Its name in the suite, or what AgentV would call it.
    pub name: String,
    /// Its part of the mean.
    pub weight: f64,
    /// Whether the whole test fails with it.
    pub required: bool,
    /// What it must reach where it is required; otherwise that is the test's threshold.
    pub min_score: Option<f64>,
    /// Whether the opposite is wanted.
    pub negate: bool,
    /// What it does.
    pub kind: GraderKind,
}

/// What a grader does.
#[derive(Debug, Clone, PartialEq)]
pub enum GraderKind {
    /// `contains`, `contains-any`, `contains-all`, and the same without regard to case.
    Contains {
        /// How many of the values must be there.
        which: Which,
        /// Whether case does not matter.
        ignore_case: bool,
        /// What to look for.
        values: Vec<String>,
    },
    /// `starts-with`.
    StartsWith(String),
    /// `ends-with`.
    EndsWith(String),
    /// `equals`.
    Equals(String),
    /// `regex`, with its flags; both are checked.
    Regex {
        /// The pattern.
        source: String,
        /// The letters after it.
        flags: String,
    },
    /// `is-json`, with a schema that is checked.
    IsJson {
        /// What the JSON must fit.
        schema: Option<Value>,
    },
    /// `field-accuracy`.
    FieldAccuracy {
        /// The fields that are compared.
        fields: Vec<Field>,
        /// Whether one wrong field is all wrong.
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
    /// `llm-grader` and `rubrics`.
    Llm(LlmGrader),
    /// `code-grader`.
    Code(CodeGrader),
    /// `composite`.
    Composite {
        /// The graders in it.
        members: Vec<Grader>,
        /// What makes one score of theirs.
        aggregator: Aggregator,
    },
    /// One that this version does not have, where these are ignored.
    Unknown(String),
}

impl GraderKind {
    /// The word that AgentV has for it in its results.
    pub fn word(&self) -> &str {
        match self {
            Self::Contains { which, ignore_case, .. } => match (which, ignore_case) {
                (Which::One, false) => "contains",
                (Which::Any, false) => "contains-any",
                (Which::All, false) => "contains-all",
                (Which::One, true) => "icontains",
                (Which::Any, true) => "icontains-any",
                (Which::All, true) => "icontains-all",
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
            Self::Llm(_) => "llm-grader",
            Self::Code(_) => "code-grader",
            Self::Composite { .. } => "composite",
            Self::Unknown(word) => word,
        }
    }
}

impl Grader {
    /// Hears every grader in it, itself first.
    pub fn each(&self, hear: &mut impl FnMut(&Self)) {
        hear(self);
        if let GraderKind::Composite { members, .. } = &self.kind {
            for member in members {
                member.each(hear);
            }
        }
    }
}

/// How many of several values must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The only one.
    One,
    /// One of them.
    Any,
    /// Each of them.
    All,
}

/// A field that `field-accuracy` compares.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Where it is: `invoice.lines[0].amount`.
    pub path: String,
    /// How it is compared.
    pub how: FieldMatch,
    /// Whether an answer without it is wrong.
    pub required: bool,
    /// Its part of the mean.
    pub weight: f64,
}

/// How a field is compared.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldMatch {
    /// Equal, also deep inside.
    Exact,
    /// A number that is near enough.
    Near {
        /// How far off it may be.
        tolerance: f64,
        /// Whether that is a part of the expected number.
        relative: bool,
    },
    /// The same day.
    Date {
        /// `MM/DD/YYYY` and the like, which tell how `01/02/2025` is read; AgentV's own where there are none.
        formats: Option<Vec<String>>,
    },
}

/// The limits of `token-usage`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TokenLimits {
    /// Input and output together.
    pub total: Option<f64>,
    /// Input alone.
    pub input: Option<f64>,
    /// Output alone.
    pub output: Option<f64>,
}

/// The limits of `execution-metrics`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MetricLimits {
    /// Calls of tools; an answer of a batch has none.
    pub tool_calls: Option<f64>,
    /// Calls of the model; an answer of a batch has one.
    pub llm_calls: Option<f64>,
    /// Input and output tokens together.
    pub tokens: Option<f64>,
    /// Dollars.
    pub cost_usd: Option<f64>,
    /// Milliseconds.
    pub duration_ms: Option<f64>,
    /// The share of tools that look; an answer of a batch has none.
    pub exploration_ratio: Option<f64>,
}

/// A model that grades.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LlmGrader {
    /// What it is asked, instead of the usual.
    pub prompt: Option<Prompt>,
    /// What it checks one by one.
    pub rubrics: Vec<Rubric>,
    /// The target that grades, over that of the answer's target and of the command line.
    pub target: Option<String>,
    /// How much its words may vary.
    pub temperature: Option<f64>,
}

/// What a model that grades is asked, instead of the usual.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// The whole prompt, with places to fill.
    Template(String),
    /// What the usual prompt has for criteria.
    Criteria(String),
    /// What a command prints.
    Command {
        /// The command and its arguments.
        argv: Vec<String>,
        /// Where it runs.
        cwd: PathBuf,
        /// What it gets beside the test and the answer.
        config: Option<Value>,
    },
}

/// One thing that a model checks. As JSON it is what a prompt's `{{ rubrics }}` stands for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rubric {
    /// Its name in the answer.
    pub id: String,
    /// What is to hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// `correctness` or `contradiction`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<RubricOperator>,
    /// Its part of the mean.
    pub weight: f64,
    /// Whether the verdict is bad without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// What it must reach, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_score: Option<f64>,
    /// What the scores from 0 to 10 mean, where it has scores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub score_ranges: Vec<ScoreRange>,
}

/// How a rubric's outcome is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RubricOperator {
    /// The answer must say it.
    Correctness,
    /// The answer must not say the contrary.
    Contradiction,
}

impl RubricOperator {
    /// The word in a suite.
    pub fn word(self) -> &'static str {
        match self {
            Self::Correctness => "correctness",
            Self::Contradiction => "contradiction",
        }
    }
}

/// What some of the scores from 0 to 10 mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScoreRange {
    /// From and to.
    pub score_range: [u8; 2],
    /// What an answer with such a score is like.
    pub outcome: String,
}

/// A command that grades.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeGrader {
    /// The command and its arguments.
    pub argv: Vec<String>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// What it gets beside the test and the answer.
    pub config: Map<String, Value>,
}

/// What makes one score of several.
#[derive(Debug, Clone, PartialEq)]
pub enum Aggregator {
    /// The mean, with weights by name.
    WeightedAverage(BTreeMap<String, f64>),
    /// The share of members that pass must reach this.
    Threshold(f64),
    /// A command.
    Code {
        /// The command line, for a shell.
        command: String,
        /// Where it runs.
        cwd: PathBuf,
    },
    /// A model.
    Llm {
        /// What it is asked, with `{{EVALUATOR_RESULTS_JSON}}` to fill; otherwise the usual.
        prompt: Option<String>,
    },
}
