//! Inputs of a workflow dispatch, which GitHub passes as strings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::names::{is_ref_name, reserved_folder};
use super::{Handover, MOST_SHARDS};
use crate::model::{BatchId, Digest, Failure, RemoteResults, is_text, json_is_text, printable};

const BATCH_ID: &str = "batch_id";
const DISPATCH_ID: &str = "dispatch_id";
const HANDOVER: &str = "prompts_artifact";
const BATCH_SHA256: &str = "batch_sha256";
const SHARDS: &str = "shards";
const RESULTS: &str = "results";
const RUNNER_OPTIONS: &str = "runner_options";

/// The names of the inputs, as the workflow declares them.
pub const DISPATCH_INPUTS: [&str; 7] =
    [BATCH_ID, DISPATCH_ID, HANDOVER, BATCH_SHA256, SHARDS, RESULTS, RUNNER_OPTIONS];

/// GitHub's limit for a workflow run is 35 days.
const LONGEST_DEADLINE_S: u64 = 35 * 24 * 3600;

const HINT: &str = "`run-evals dispatch` and `run-evals eval` send these inputs; use the same version of run-evals here and there";

/// All inputs of a dispatch.
#[derive(Debug, Clone, PartialEq)]
pub struct DispatchInputs {
    /// The batch to run.
    pub batch_id: BatchId,
    /// Unique per dispatch, also among dispatches of the same batch.
    pub dispatch_id: DispatchId,
    /// Where the batch is.
    pub handover: Handover,
    /// Expected digest of the batch archive.
    pub batch_sha256: Digest,
    /// Shards that this workflow run serves, one workflow job each.
    pub shards: Vec<u32>,
    /// Where the results go.
    pub results: RemoteResults,
    /// Limits of the run.
    pub runner_options: RunnerOptions,
}

/// Random id of one dispatch: 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DispatchId(String);

is_text!(DispatchId);

impl From<u64> for DispatchId {
    fn from(bits: u64) -> Self {
        Self(format!("{bits:016x}"))
    }
}

impl FromStr for DispatchId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 16 && text.bytes().all(legal) {
            Ok(Self(text.to_owned()))
        } else {
            Err("expected 16 lower-case hexadecimal digits".to_owned())
        }
    }
}

impl fmt::Display for RemoteResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Branch(prefix) => write!(f, "branch:{prefix}"),
            Self::Artifact => f.write_str("artifact"),
        }
    }
}

json_is_text!(RemoteResults);

impl FromStr for RemoteResults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "artifact" => Ok(Self::Artifact),
            Some(("branch", prefix)) => {
                if reserved_folder(prefix).is_some() || !is_ref_name(prefix) {
                    return Err(format!("results cannot be on branches `{}/…`", printable(prefix)));
                }
                Ok(Self::Branch(prefix.to_owned()))
            }
            _ => Err("expected `branch:<prefix>` or `artifact`".to_owned()),
        }
    }
}

/// Limits of a run that the dispatcher asks for; the runner's policy may be stricter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunnerOptions {
    /// Spending limit over all shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    /// Limit of called requests over all shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u64>,
    /// Concurrent calls over all shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<NonZeroU32>,
    /// Call identical requests once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dedupe: bool,
    /// Keep the provider's whole response in each row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_raw: bool,
    /// Stop each shard after this many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<u64>,
    /// Earlier workflow runs of this batch whose results are artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resume_from: Vec<u64>,
}

impl RunnerOptions {
    fn check(self) -> Result<Self, String> {
        if self.budget_usd.is_some_and(|budget| !budget.is_finite() || budget <= 0.0) {
            return Err("`budget_usd` is an amount above 0".to_owned());
        }
        if self.deadline_s.is_some_and(|seconds| !(1..=LONGEST_DEADLINE_S).contains(&seconds)) {
            return Err(format!(
                "`deadline_s` is a number of seconds from 1 to {LONGEST_DEADLINE_S} (35 days)"
            ));
        }
        Ok(self)
    }
}

impl DispatchInputs {
    /// The inputs as GitHub expects them.
    pub fn to_inputs(&self) -> BTreeMap<String, String> {
        let options = serde_json::to_string(&self.runner_options).expect("plain values become JSON");
        let inputs = [
            (BATCH_ID, self.batch_id.to_string()),
            (DISPATCH_ID, self.dispatch_id.to_string()),
            (HANDOVER, self.handover.to_string()),
            (BATCH_SHA256, self.batch_sha256.to_string()),
            (SHARDS, Value::from(self.shards.clone()).to_string()),
            (RESULTS, self.results.to_string()),
            (RUNNER_OPTIONS, options),
        ];
        inputs.map(|(name, value)| (name.to_owned(), value)).into()
    }

    /// Parses the inputs of a `workflow_dispatch` event. They are untrusted: every name is validated, and
    /// unknown ones are rejected.
    pub fn from_event(event: &Value) -> Result<Self, Failure> {
        let Some(inputs) = event.get("inputs").and_then(Value::as_object) else {
            return Err(Failure::config(
                "the event has no inputs: this run was not started by `workflow_dispatch`",
            )
            .hint(
                "start it with `run-evals dispatch`, or name a batch of the local exchange with `--batch-id`",
            ));
        };
        if let Some(unknown) = inputs.keys().find(|name| !DISPATCH_INPUTS.contains(&name.as_str())) {
            let message = format!("unknown dispatch input `{}`", printable(unknown));
            return Err(Failure::config(message).hint(HINT));
        }
        let text = |name: &str| match inputs.get(name) {
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.as_str())),
            None | Some(Value::Null | Value::String(_)) => Ok(None),
            Some(_) => Err(invalid(name, "it is not a string")),
        };
        let needed = |name: &str| text(name)?.ok_or_else(|| invalid(name, "it is missing"));
        Ok(Self {
            batch_id: parsed(BATCH_ID, needed(BATCH_ID)?)?,
            dispatch_id: parsed(DISPATCH_ID, needed(DISPATCH_ID)?)?,
            handover: parsed(HANDOVER, needed(HANDOVER)?)?,
            batch_sha256: parsed(BATCH_SHA256, needed(BATCH_SHA256)?)?,
            shards: shards(needed(SHARDS)?).map_err(|problem| invalid(SHARDS, problem))?,
            results: parsed(RESULTS, needed(RESULTS)?)?,
            runner_options: match text(RUNNER_OPTIONS)? {
                None => RunnerOptions::default(),
                Some(json) => serde_json::from_str::<RunnerOptions>(json)
                    .map_err(|error| error.to_string())
                    .and_then(RunnerOptions::check)
                    .map_err(|problem| invalid(RUNNER_OPTIONS, printable(&problem)))?,
            },
        })
    }
}

fn parsed<T: FromStr<Err: fmt::Display>>(name: &str, text: &str) -> Result<T, Failure> {
    text.parse().map_err(|error: T::Err| invalid(name, error))
}

fn invalid(name: &str, problem: impl fmt::Display) -> Failure {
    Failure::config(format!("invalid dispatch input `{name}`: {problem}")).hint(HINT)
}

fn shards(text: &str) -> Result<Vec<u32>, String> {
    let legal = || format!("expected a JSON array of different numbers from 0 to {}", MOST_SHARDS - 1);
    let shards: Vec<u32> = serde_json::from_str(text).map_err(|_| legal())?;
    let different: BTreeSet<u32> = shards.iter().copied().collect();
    let legal_numbers = shards.iter().all(|shard| *shard < MOST_SHARDS);
    if shards.is_empty() || different.len() != shards.len() || !legal_numbers {
        return Err(legal());
    }
    Ok(shards)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::handover::tests::handovers;
    use super::*;

    fn inputs() -> impl Strategy<Value = DispatchInputs> {
        let results = prop_oneof![
            Just(RemoteResults::Artifact),
            "r[a-z]{0,5}(/[a-z0-9]{1,5}){0,2}".prop_map(RemoteResults::Branch)
        ];
        let options = (
            proptest::option::of(0.01_f64..1e6),
            any::<Option<u64>>(),
            any::<Option<NonZeroU32>>(),
            any::<(bool, bool)>(),
            proptest::option::of(1..=LONGEST_DEADLINE_S),
            any::<Vec<u64>>(),
        )
            .prop_map(
                |(budget_usd, max_requests, max_concurrency, (dedupe, keep_raw), deadline_s, resume_from)| {
                    RunnerOptions {
                        budget_usd,
                        max_requests,
                        max_concurrency,
                        dedupe,
                        keep_raw,
                        deadline_s,
                        resume_from,
                    }
                },
            );
        let shards = proptest::collection::btree_set(0..MOST_SHARDS, 1..20);
        ("[a-z0-9-]{1,60}", any::<u64>(), handovers(), any::<[u8; 4]>(), shards, results, options).prop_map(
            |(batch_id, dispatch_id, handover, bytes, shards, results, runner_options)| DispatchInputs {
                batch_id: batch_id.parse().unwrap(),
                dispatch_id: dispatch_id.into(),
                handover,
                batch_sha256: Digest::of(&bytes),
                shards: shards.into_iter().rev().collect(),
                results,
                runner_options,
            },
        )
    }

    proptest! {
        #[test]
        fn inputs_round_trip(inputs in inputs()) {
            let mut names = DISPATCH_INPUTS;
            names.sort_unstable();
            prop_assert!(inputs.to_inputs().keys().eq(names));
            let event = json!({"inputs": inputs.to_inputs(), "sender": {"login": "x"}});
            prop_assert_eq!(DispatchInputs::from_event(&event).unwrap(), inputs);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}", name in proptest::sample::select(&DISPATCH_INPUTS)) {
            let _ = DispatchInputs::from_event(&with(name, &text));
        }
    }

    fn with(name: &str, value: &str) -> Value {
        let mut inputs = json!({
            "batch_id": "b1",
            "dispatch_id": "0123456789abcdef",
            "prompts_artifact": "branch:o/r/eval-batch/b1",
            "batch_sha256": Digest::of(b"x"),
            "shards": "[0,1]",
            "results": "branch:eval-results",
            "runner_options": "",
        });
        inputs[name] = value.into();
        json!({"inputs": inputs})
    }

    fn problem(name: &str, value: &str) -> String {
        DispatchInputs::from_event(&with(name, value)).unwrap_err().to_string()
    }

    #[test]
    fn empty_options_are_none() {
        let inputs = DispatchInputs::from_event(&with("runner_options", "")).unwrap();
        assert_eq!(inputs.runner_options, RunnerOptions::default());
    }

    #[test]
    fn every_name_is_checked() {
        insta::assert_snapshot!(problem("batch_id", "../../main"), @"invalid dispatch input `batch_id`: a batch id has 1 to 60 characters of `a-z`, `0-9` and `-`");
        insta::assert_snapshot!(problem("batch_id", ""), @"invalid dispatch input `batch_id`: it is missing");
        insta::assert_snapshot!(problem("dispatch_id", "x"), @"invalid dispatch input `dispatch_id`: expected 16 lower-case hexadecimal digits");
        insta::assert_snapshot!(problem("batch_sha256", "00"), @"invalid dispatch input `batch_sha256`: a SHA-256 has 64 lower-case hexadecimal digits");
        insta::assert_snapshot!(problem("base_url", "https://evil.example"), @"unknown dispatch input `base_url`");
        insta::assert_snapshot!(problem("runner_options", r#"{"base_url":"x"}"#), @r#"invalid dispatch input `runner_options`: unknown field `base_url`, expected one of `budget_usd`, `max_requests`, `max_concurrency`, `dedupe`, `keep_raw`, `deadline_s`, `resume_from` at line 1 column 11"#);
        insta::assert_snapshot!(problem("runner_options", r#"{"budget_usd":-1}"#), @"invalid dispatch input `runner_options`: `budget_usd` is an amount above 0");
        for deadline in ["0", "3024001", "18446744073709551615"] {
            let told = problem("runner_options", &format!("{{\"deadline_s\":{deadline}}}"));
            assert!(
                told.ends_with("`deadline_s` is a number of seconds from 1 to 3024000 (35 days)"),
                "{told}"
            );
        }
        insta::assert_snapshot!(problem("results", "branch:eval-batch"), @"invalid dispatch input `results`: results cannot be on branches `eval-batch/…`");
        for reserved in ["incoming", "incoming/x", "artifact-results", "eval-batch/x"] {
            let told = problem("results", &format!("branch:{reserved}"));
            assert!(told.ends_with(&format!("results cannot be on branches `{reserved}/…`")), "{told}");
        }
        insta::assert_snapshot!(problem("results", "branch"), @"invalid dispatch input `results`: expected `branch:<prefix>` or `artifact`");
        for shards in ["[]", "[0,0]", "[256]", "[-1]", "0", "[1.5]", "{}", "[\"0\"]"] {
            assert!(problem("shards", shards).contains("from 0 to 255"), "{shards}");
        }
        assert!(
            problem("prompts_artifact", "x")
                .starts_with("invalid dispatch input `prompts_artifact`: expected")
        );
    }

    #[test]
    fn an_event_without_inputs_is_not_a_dispatch() {
        let failure = DispatchInputs::from_event(&json!({"ref": "main"})).unwrap_err();
        insta::assert_snapshot!(failure, @"the event has no inputs: this run was not started by `workflow_dispatch`");
    }
}
