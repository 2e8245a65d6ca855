//! The vocabulary: pure data that every other module speaks, without any I/O.
//!
//! `request` and `response` are the two line formats that dispatcher and runner share, `batch` the manifests around
//! them, `target` what a validated target says, `suite` what a loaded suite says, `failure` how anything ends,
//! `finding` what a check found out.
//! `dispatch` is what a dispatcher tells a runner on GitHub, `names` the rules of GitHub's and git's names,
//! `request_line` reads a request, `text` makes foreign text safe to show. `grader` is how an answer is graded, `pattern` and
//! `prompt` are what graders use, `score` is what an answer is worth, `evaluation` what all of them come to. `skill` and `version` have the names of skill
//! evaluations, `field_rules` how the fields of their answers are compared, `entry` what they come to, in `ratio`s.

mod batch;
mod dispatch;
mod entry;
mod evaluation;
mod failure;
mod field_rules;
mod finding;
mod grader;
mod ids;
mod names;
mod pattern;
mod prompt;
mod ratio;
mod request;
mod request_line;
mod response;
mod score;
mod secret;
mod skill;
mod suite;
mod target;
mod text;
mod version;

pub use batch::{
    BATCH_FORMAT, BatchManifest, MOST_REQUESTS, MOST_SHARDS, Provenance, ResultsManifest, Stop, Totals,
};
pub use dispatch::{DISPATCH_INPUTS, DispatchId, DispatchInputs, HandOver, RunnerOptions};
pub use entry::{
    Accuracy, Calls, CaseCounts, CaseFigures, ENTRY_FORMAT, Entry, EntryKey, ModelParams, Reproducibility,
    SchemaFit, SkipReason, Skipped, StructuredOutput, TokenSums,
};
pub use evaluation::{
    Change, ChangeKind, Comparison, Estimate, Evaluation, Figures, Paired, PassAt, Problem, ProblemKind,
    RequestCounts, TargetFigures, TestCounts, TestResult, TestState, Trial, Verdict,
};
pub use failure::{Exit, Failure};
pub use field_rules::{FieldPath, FieldRule, FieldRules, FieldType, InvalidFieldPath, PathStep, Tolerance};
pub use finding::{Finding, Level};
pub use grader::{
    Aggregator, CodeGrader, Field, FieldMatch, Grader, GraderKind, Grading, LlmGrader, MetricLimits, Prompt,
    Rubric, RubricOperator, ScoreRange, TokenLimits, Which,
};
pub use ids::{BatchId, Digest, InvalidBatchId, request_id};
pub use names::{is_ref_name, is_repository, reserved_folder};
pub use pattern::{InvalidPattern, Pattern, TooManySteps};
pub use prompt::{PROMPT_PLACES, fill_prompt, prompt_places};
pub use ratio::Ratio;
pub use request::{
    Attachment, Block, Content, JsonSchema, Message, Metadata, Params, Request, ResponseFormat, Role,
};
pub use request_line::InvalidRequest;
pub use response::{ErrorInfo, ErrorKind, FinishReason, OutputMessage, Response, TokenUsage};
pub use score::{Check, GraderScore, GraderVerdict, ScoreError, ScoreRow, ScoreStatus};
pub use secret::{Redactor, Secret};
pub use skill::{
    CommitSha, InvalidCommitSha, InvalidReplicates, InvalidShaPrefix, InvalidSkillName, Replicates,
    ShaPrefix, SkillName,
};
pub use suite::{Suite, SuiteTarget, TestCase, TestPlace};
pub use target::{
    Endpoint, Limits, MockReply, MockSettings, Price, Provider, RemoteResults, RemoteTarget, RetryPolicy,
    RunnerTarget, Shards, Target,
};
pub use text::{folded, is_obeyed, printable};
pub use version::{InvalidVersion, SemVersion};
