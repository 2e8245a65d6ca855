//! Plain domain types without I/O.
//!
//! - `request`, `response`, `tool`: one call to a model, its result, and the tools it may call
//! - `target`, `provider`, `auth`: where requests go, and with which credentials
//! - `suite`, `grader`, `trajectory`, `prompt`: a loaded suite, its graders and their prompts
//! - `score`, `evaluation`: the score of a response, and the figures of a whole suite
//! - `skill`, `version`, `field_rules`, `entry`, `case_details`, `ratio`: skill evaluations and leaderboard entries
//! - `failure`, `finding`: exit codes with errors, and findings of checks
//! - `text`: untrusted text, escaped for messages

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
    Change, ChangeKind, Comparison, Estimate, Evaluation, Figures, Paired, PassAt, Problem, ProblemKind,
    RequestCounts, TargetComparison, TargetFigures, TestCounts, TestResult, TestState, Trial, Verdict,
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
