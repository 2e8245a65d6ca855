//! The inputs of a dispatch: what the dispatcher tells the runner's workflow, as GitHub carries it, all strings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::names::{is_artifact_name, is_ref_name, is_repository, reserved_folder};
use super::{BatchId, Digest, Failure, MOST_SHARDS, RemoteResults, printable};

/// The names of the inputs, as the workflow declares them.
pub const DISPATCH_INPUTS: [&str; 7] =
    ["batch_id", "dispatch_id", "prompts_artifact", "batch_sha256", "shards", "results", "runner_options"];

const HINT: &str = "`run-evals dispatch` and `run-evals eval` send these inputs; use the same version of run-evals here and there";

/// Everything that a dispatch says.
#[derive(Debug, Clone, PartialEq)]
pub struct DispatchInputs {
    /// The batch to run.
    pub batch_id: BatchId,
    /// Tells this dispatch from every other one, of this batch too.
    pub dispatch_id: DispatchId,
    /// Where the batch is.
    pub prompts_artifact: HandOver,
    /// The digest that the batch archive must have.
    pub batch_sha256: Digest,
    /// The shards that this run serves, one leg each.
    pub shards: Vec<u32>,
    /// Where the results go.
    pub results: RemoteResults,
    /// How far the run may go.
    pub runner_options: RunnerOptions,
}

/// A random name of one dispatch: 16 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DispatchId(String);

impl DispatchId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

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

impl TryFrom<String> for DispatchId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<DispatchId> for String {
    fn from(id: DispatchId) -> Self {
        id.0
    }
}

impl fmt::Display for DispatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a batch comes to the runner.
#[derive(Clone, PartialEq, Eq)]
pub enum HandOver {
    /// In the dispatch itself: the base64 of the archive.
    Inline(String),
    /// As an artifact of a workflow run, a zip with the archive in it.
    Artifact {
        /// `owner/name`.
        repo: String,
        /// The run that has it.
        run_id: u64,
        /// Its name.
        name: String,
    },
    /// As a branch with the archive on it.
    Branch {
        /// `owner/name`.
        repo: String,
        /// The branch.
        branch: String,
    },
}

impl fmt::Display for HandOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(base64) => write!(f, "inline:{base64}"),
            Self::Artifact { repo, run_id, name } => write!(f, "artifact:{repo}/{run_id}/{name}"),
            Self::Branch { repo, branch } => write!(f, "branch:{repo}/{branch}"),
        }
    }
}

// By hand: prompts, encoded or not, must not come into a log.
impl fmt::Debug for HandOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(base64) => write!(f, "inline:({} characters)", base64.len()),
            other => write!(f, "{other}"),
        }
    }
}

impl FromStr for HandOver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = || {
            "expected `inline:<base64>`, `artifact:<owner>/<repo>/<run id>/<name>` or \
             `branch:<owner>/<repo>/<branch>`"
                .to_owned()
        };
        let (kind, rest) = text.split_once(':').ok_or_else(legal)?;
        match kind {
            "inline" => {
                let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
                if rest.is_empty() || !rest.bytes().all(is_base64) {
                    return Err("expected base64 after `inline:`".to_owned());
                }
                Ok(Self::Inline(rest.to_owned()))
            }
            "artifact" => {
                let (repo, rest) = split_repository(rest).ok_or_else(legal)?;
                let (run_id, name) = rest.split_once('/').ok_or_else(legal)?;
                if !is_artifact_name(name) {
                    return Err(format!("`{}` is no name of an artifact", printable(name)));
                }
                Ok(Self::Artifact { repo, run_id: plain_number(run_id)?, name: name.to_owned() })
            }
            "branch" => {
                let (repo, branch) = split_repository(rest).ok_or_else(legal)?;
                if !is_ref_name(branch) {
                    return Err(format!("`{}` is no name that git allows for a branch", printable(branch)));
                }
                Ok(Self::Branch { repo, branch: branch.to_owned() })
            }
            _ => Err(legal()),
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

impl TryFrom<String> for RemoteResults {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<RemoteResults> for String {
    fn from(results: RemoteResults) -> Self {
        results.to_string()
    }
}

/// How far a run on the runner may go, as its dispatcher asks; the runner's policy may allow less.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunnerOptions {
    /// Stop before spending more than this, over all legs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    /// Stop after calling this many requests, over all legs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u64>,
    /// Calls in flight at once, over all legs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<NonZeroU32>,
    /// Call identical requests once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dedupe: bool,
    /// Keep the vendor's whole answer in each row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_raw: bool,
    /// Stop each leg after this many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<u64>,
    /// Earlier runs of this batch whose results are artifacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resume_from: Vec<u64>,
}

impl RunnerOptions {
    fn check(self) -> Result<Self, String> {
        if self.budget_usd.is_some_and(|budget| !budget.is_finite() || budget <= 0.0) {
            return Err("`budget_usd` is an amount above 0".to_owned());
        }
        Ok(self)
    }
}

impl DispatchInputs {
    /// The inputs as GitHub takes them.
    pub fn to_inputs(&self) -> BTreeMap<String, String> {
        let options = serde_json::to_string(&self.runner_options).expect("plain values become JSON");
        let values = [
            self.batch_id.to_string(),
            self.dispatch_id.to_string(),
            self.prompts_artifact.to_string(),
            self.batch_sha256.to_string(),
            Value::from(self.shards.clone()).to_string(),
            self.results.to_string(),
            options,
        ];
        DISPATCH_INPUTS.map(ToOwned::to_owned).into_iter().zip(values).collect()
    }

    /// Reads the inputs of a `workflow_dispatch` event. Nothing in them is trusted: every name is checked, and what is not
    /// known is refused.
    pub fn from_event(event: &Value) -> Result<Self, Failure> {
        let Some(inputs) = event.get("inputs").and_then(Value::as_object) else {
            return Err(Failure::config("the event has no inputs: this run was not started by a dispatch")
                .hint("start it with `run-evals dispatch`, or name a batch of the local exchange with `--batch-id`"));
        };
        if let Some(unknown) = inputs.keys().find(|name| !DISPATCH_INPUTS.contains(&name.as_str())) {
            let message = format!("unknown dispatch input `{}`", printable(unknown));
            return Err(Failure::config(message).hint(HINT));
        }
        let text = |name: &str| match inputs.get(name) {
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.as_str())),
            None | Some(Value::Null | Value::String(_)) => Ok(None),
            Some(_) => Err(invalid(name, "it is no string")),
        };
        let needed = |name: &str| text(name)?.ok_or_else(|| invalid(name, "it is missing"));
        Ok(Self {
            batch_id: parsed("batch_id", needed("batch_id")?)?,
            dispatch_id: parsed("dispatch_id", needed("dispatch_id")?)?,
            prompts_artifact: parsed("prompts_artifact", needed("prompts_artifact")?)?,
            batch_sha256: parsed("batch_sha256", needed("batch_sha256")?)?,
            shards: shards(needed("shards")?).map_err(|problem| invalid("shards", problem))?,
            results: parsed("results", needed("results")?)?,
            runner_options: match text("runner_options")? {
                None => RunnerOptions::default(),
                Some(json) => serde_json::from_str::<RunnerOptions>(json)
                    .map_err(|error| error.to_string())
                    .and_then(RunnerOptions::check)
                    .map_err(|problem| invalid("runner_options", printable(&problem)))?,
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

/// `owner/name/rest` → the repository and the rest.
fn split_repository(text: &str) -> Option<(String, &str)> {
    let owner = text.find('/')?;
    let name = owner + 1 + text[owner + 1..].find('/')?;
    let repo = &text[..name];
    is_repository(repo).then(|| (repo.to_owned(), &text[name + 1..]))
}

/// A number as it prints, so that one run has one name.
fn plain_number(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if number > 0 && number.to_string() == text => Ok(number),
        _ => Err(format!("`{}` is no id of a run", printable(text))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn inputs() -> impl Strategy<Value = DispatchInputs> {
        let repo = "[a-z][a-z0-9-]{0,10}/[a-z][a-z0-9._-]{0,8}x";
        let handover = prop_oneof![
            "[A-Za-z0-9+/]{1,40}={0,2}".prop_map(HandOver::Inline),
            (repo, 1_u64.., "[a-z0-9][A-Za-z0-9._-]{0,20}")
                .prop_map(|(repo, run_id, name)| HandOver::Artifact { repo, run_id, name }),
            (repo, "[a-z0-9-]{0,5}[a-z](/[a-z0-9]{1,5}){0,2}")
                .prop_filter("no option", |(_, branch)| !branch.starts_with('-'))
                .prop_map(|(repo, branch)| HandOver::Branch { repo, branch }),
        ];
        let results = prop_oneof![
            Just(RemoteResults::Artifact),
            "r[a-z]{0,5}(/[a-z0-9]{1,5}){0,2}".prop_map(RemoteResults::Branch)
        ];
        let options = (
            proptest::option::of(0.01_f64..1e6),
            any::<Option<u64>>(),
            any::<Option<NonZeroU32>>(),
            any::<(bool, bool)>(),
            any::<Option<u64>>(),
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
        ("[a-z0-9-]{1,60}", any::<u64>(), handover, any::<[u8; 4]>(), shards, results, options).prop_map(
            |(batch_id, dispatch_id, prompts_artifact, bytes, shards, results, runner_options)| {
                DispatchInputs {
                    batch_id: batch_id.parse().unwrap(),
                    dispatch_id: dispatch_id.into(),
                    prompts_artifact,
                    batch_sha256: Digest::of(&bytes),
                    shards: shards.into_iter().rev().collect(),
                    results,
                    runner_options,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_sent_is_what_is_read(inputs in inputs()) {
            let event = json!({"inputs": inputs.to_inputs(), "sender": {"login": "x"}});
            prop_assert_eq!(DispatchInputs::from_event(&event).unwrap(), inputs);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}", name in proptest::sample::select(&DISPATCH_INPUTS)) {
            let _ = DispatchInputs::from_event(&with(name, &text));
            let _ = text.parse::<HandOver>();
            let _ = format!("branch:{text}").parse::<HandOver>();
            let _ = format!("artifact:{text}").parse::<HandOver>();
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
        insta::assert_snapshot!(problem("results", "branch:eval-batch"), @"invalid dispatch input `results`: results cannot be on branches `eval-batch/…`");
        for reserved in ["incoming", "incoming/x", "artifact-results", "eval-batch/x"] {
            let told = problem("results", &format!("branch:{reserved}"));
            assert!(told.ends_with(&format!("results cannot be on branches `{reserved}/…`")), "{told}");
        }
        insta::assert_snapshot!(problem("results", "branch"), @"invalid dispatch input `results`: expected `branch:<prefix>` or `artifact`");
        for shards in ["[]", "[0,0]", "[256]", "[-1]", "0", "[1.5]", "{}", "[\"0\"]"] {
            assert!(problem("shards", shards).contains("from 0 to 255"), "{shards}");
        }
        for handover in [
            "inline:",
            "inline:a b",
            "inline:$(x)",
            "branch:o/r",
            "branch:o/r/",
            "branch:o/r/a..b",
            "branch:o/../x",
            "branch:o/r/--upload-pack=x:y",
            "branch:https://evil.example/x",
            "artifact:o/r/1",
            "artifact:o/r/x/n",
            "artifact:o/r/01/n",
            "artifact:o/r/1/../n",
            "artifact:o/r/1/a/b",
            "file:/etc/passwd",
            "x",
        ] {
            assert!(problem("prompts_artifact", handover).contains("prompts_artifact"), "{handover}");
        }
    }

    #[test]
    fn an_event_without_inputs_is_no_dispatch() {
        let failure = DispatchInputs::from_event(&json!({"ref": "main"})).unwrap_err();
        insta::assert_snapshot!(failure, @"the event has no inputs: this run was not started by a dispatch");
    }

    #[test]
    fn prompts_do_not_print() {
        let handover = HandOver::Inline("c2VjcmV0IHByb21wdA==".to_owned());
        assert_eq!(format!("{handover:?}"), "inline:(20 characters)");
    }
}
