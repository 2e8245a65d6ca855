//! Plain domain types without I/O.
//!
//! - `request`, `response`, `tool`: one call to a model, its result, and the tools it may call
//! - `target`, `provider`, `auth`: where requests go, and with which credentials
//! - `suite`, `grader`, `trajectory`, `prompt`: a loaded suite, its graders and their prompts
//! - `score`, `evaluation`: the score of a response, and the figures of a whole suite
//! - `skill`, `version`, `field_rules`, `entry`, `case_details`, `ratio`: skill evaluations and leaderboard entries
//! - `failure`, `finding`: exit codes with errors, and findings of checks
//! - `text`: untrusted text, escaped for messages

/// For types whose JSON is their text: `TryFrom<String>` from their `FromStr`, and back from their `Display`.
macro_rules! json_is_text {
    ($($name:ty),+) => {$(
        impl TryFrom<String> for $name {
            type Error = <Self as std::str::FromStr>::Err;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    )+};
}

/// For validated texts, whose JSON is the text.
macro_rules! is_text {
    ($($name:ty),+) => {$(
        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        $crate::model::json_is_text!($name);
    )+};
}

pub(crate) use {is_text, json_is_text};

mod auth;
mod case_details;
mod entry;
mod evaluation;
mod failure;
mod field_rules;
mod finding;
mod grader;
mod ids;
mod prompt;
mod provider;
mod ratio;
mod request;
mod response;
mod score;
mod secret;
mod skill;
mod suite;
mod target;
mod text;
mod tool;
mod trajectory;
mod version;

pub use auth::{AcceptedIdentity, Auth, AwsKeys, Exchange, Federation, JobIdentity};
pub use case_details::{
    CallOutcome, CaseDetails, DETAILS_FORMAT, EntryDetails, FieldAnswer, FieldDetails, FieldVerdict,
};
pub use entry::{
    Accuracy, Calls, CaseCounts, CaseFigures, ENTRY_FORMAT, Entry, ModelParams, Prose, Reproducibility,
    SchemaFit, SkipReason, Skipped, StructuredOutput, TokenSums,
};
pub use evaluation::{
    Change, ChangeKind, Comparison, Estimate, Evaluation, Figures, PairedFigure, PassAt, Problem,
    ProblemKind, RequestCounts, TargetComparison, TargetFigures, TestCounts, TestResult, TestState, Trial,
    Verdict,
};
pub use failure::{Exit, Failure};
pub use field_rules::{FieldPath, FieldRule, FieldRules, FieldType, GraderModel, PathStep, Tolerance};
pub use finding::{Finding, Level};
pub use grader::{
    Aggregator, CodeGrader, Field, FieldMatch, Grader, GraderKind, Grading, LlmGrader, MetricLimits, Prompt,
    Quantifier, Rubric, RubricOperator, ScoreRange, TokenLimits, is_finder,
};
pub use ids::{BatchId, Digest, request_id};
pub use prompt::{PROMPT_PLACES, Placeholder, fill_prompt, placeholders, prompt_places};
pub use provider::{
    Api, Backend, Endpoint, MockReply, MockSettings, ONLY_AGENTV, PROVIDERS, Provider, ProviderKind,
};
pub use ratio::Ratio;
pub use request::{
    Attachment, Block, Content, JsonSchema, Message, Metadata, Params, Request, ResponseFormat, Role,
};
pub use response::{ErrorInfo, ErrorKind, FinishReason, OutputMessage, Response, TokenUsage};
pub use score::{Check, GraderScore, GraderVerdict, ScoreError, ScoreRow, ScoreStatus};
pub use secret::Secret;
pub use skill::{CommitSha, Replicates, ShaPrefix, SkillName};
pub use suite::{Suite, SuiteTarget, TestCase, TestPlace};
pub use target::{Limits, Price, RemoteResults, RemoteTarget, RetryPolicy, RunnerTarget, Shards, Target};
pub use text::{folded, is_obeyed, printable, printable_lines};
pub use tool::{Tool, ToolCall, check_tools};
pub use trajectory::{ArgsMatch, CallOrder, ExpectedCall, Trajectory};
pub use version::SemVersion;
