//! The table of target keys: shape, meaning, and which kinds of providers have them. The reader, the JSON Schema and
//! `docs/targets.md` are all generated from it.

use super::shape::Shape;
use crate::model::{Api, Backend, ProviderKind};

/// A key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// Its name in the schema, if kinds of providers give it different meanings.
    pub(super) id: &'static str,
    pub(super) shape: Shape,
    pub(super) about: &'static str,
}

/// The keys of one kind of target.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyGroup {
    pub(super) parts: [&'static [Key]; 5],
    /// Required keys, each in one of its spellings.
    pub(super) needs: &'static [&'static [&'static str]],
    /// Keys that exclude each other.
    pub(super) excluding: &'static [&'static [&'static str]],
}

impl KeyGroup {
    pub(super) fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.parts.into_iter().flatten()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys().map(|key| key.name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }

    /// All spellings of a key, if it has several.
    pub(super) fn spellings(&self, name: &'static str) -> &'static [&'static str] {
        self.excluding.iter().copied().find(|spellings| spellings[0] == name).unwrap_or_default()
    }
}

pub(super) const fn key(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, id: name, shape, about }
}

pub(super) const fn called(id: &'static str, name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, id, shape, about }
}

const SHARE: Shape = Shape::Number(0.0, Some(1.0));
const POSITIVE: Shape = Shape::Whole(Some(1), Some(u32::MAX as i64));
const DELAY: Shape = Shape::Whole(Some(0), Some(u32::MAX as i64));
pub(super) const URL: Shape = Shape::Form(
    r"^\s*[hH][tT][tT][pP][sS]?://[^?#]+$",
    "A URL such as `https://api.example.com/v1`, without `?` and `#`.",
);
const AZURE_URL: Shape = Shape::Form(
    r"^\s*([hH][tT][tT][pP][sS]?://[^?#]+|[A-Za-z0-9.-]+/*\s*)$",
    "The URL or the name of an Azure resource.",
);

/// A duration of 1 ms or more, and of 1 s or more.
const MOMENT: Shape = Shape::Duration(1);
const SECOND: Shape = Shape::Duration(1000);

const NAME: Key = key("name", Shape::Name, "The name that `--target` and suites take.");
const PROVIDER: Key = key("provider", Shape::Provider, "The kind of API that the target calls.");

/// Keys that every target may have, also a link.
const COMMON: [Key; 11] = [
    key("provider_batching", Shape::Flag, "AgentV's: whether it calls the target once for all test cases."),
    key("subagent_mode_allowed", Shape::Flag, "AgentV's: whether the target may be run as a subagent."),
    key("fallback_targets", Shape::Strings, "AgentV's: the targets that it tries when this one fails."),
    key("grader_target", Shape::Text, "The target that grades the answers of this one."),
    key("judge_target", Shape::Text, "AgentV's older word for `grader_target`."),
    key("workers", POSITIVE, "AgentV's word for `max_concurrency`."),
    key(
        "max_retries",
        Shape::Whole(Some(0), Some(1000)),
        "How often a failed call is retried; default 5. Rate limits do not count.",
    ),
    key("retry_initial_delay_ms", DELAY, "The delay before the first retry, in milliseconds; default 500."),
    key(
        "retry_max_delay_ms",
        DELAY,
        "The maximum delay before a retry, and the maximum `Retry-After` that is honored, in milliseconds; default 120000.",
    ),
    key(
        "retry_backoff_factor",
        Shape::Number(1.0, None),
        "The factor between successive retry delays; default 2.",
    ),
    key("retry_status_codes", Shape::Wholes, "AgentV's; without effect in run-evals."),
];

/// The first keys of every target with a provider.
const HEAD: [Key; 2] = [NAME, PROVIDER];

/// Keys of everything that is called from here.
const RUNNER: [Key; 17] = [
    key("temperature", Shape::Number(0.0, Some(2.0)), "The sampling temperature, 0 to 2."),
    key("top_p", SHARE, "The nucleus-sampling threshold, 0 to 1."),
    key("stop", Shape::Strings, "Stop sequences."),
    key(
        "max_tokens",
        Shape::Whole(Some(1), None),
        "The maximum length of the answer, in tokens; default of `anthropic`: 16384.",
    ),
    key("max_output_tokens", Shape::Whole(Some(1), None), "AgentV's word for `max_tokens`."),
    key(
        "reasoning_effort",
        Shape::Text,
        "How long a reasoning model thinks, for example `low`; the provider defines the values.",
    ),
    key(
        "response_format",
        Shape::ResponseFormat,
        "The form of the answer: text, a JSON object, or a JSON schema.",
    ),
    key("max_concurrency", POSITIVE, "Calls in flight at once, in each job of a workflow run; default 16."),
    key("requests_per_minute", POSITIVE, "The maximum number of calls per minute."),
    key("tokens_per_minute", POSITIVE, "The maximum number of tokens per minute."),
    key("timeout", MOMENT, "The time limit of each call; default 10m."),
    key("timeout_seconds", Shape::Above0(Some(86400.0)), "AgentV's word for `timeout`, in seconds."),
    key("price", Shape::Mapping("price"), "The price per million tokens, in US dollars."),
    key(
        "budget_usd",
        Shape::Above0(None),
        "The spending limit of a batch, in US dollars; needs `price`. Without `max_tokens`, 4,096 output tokens are assumed for each call.",
    ),
    key("dedupe", Shape::Flag, "Whether identical requests are called once; default `false`."),
    key("keep_raw", Shape::Flag, "Whether each row keeps the provider's whole response; default `false`."),
    key(
        "allow_models",
        Shape::Strings,
        "The models that a request's `model` may choose besides the target's own.",
    ),
];

const MODEL: Key = key("model", Shape::Text, "The provider's name of the model.");
const DEPLOYMENT: Key =
    key("deployment", Shape::Text, "The name of the deployment, AgentV's word for `model`.");
const DEPLOYMENT_NAME: Key = key("deployment_name", Shape::Text, "The same as `deployment`.");
const VARIANT: Key = key("variant", Shape::Text, "AgentV's older word for `model`.");
const SEED: Key =
    key("seed", Shape::Whole(None, None), "Makes answers repeatable, if the provider supports it.");
const BASE_URL: Key = key("base_url", URL, "The URL of the API, without the path of the call.");
const ENDPOINT: Key = key("endpoint", URL, "AgentV's word for `base_url`.");
const API_KEY: Key =
    key("api_key", Shape::ApiKey, "The variable that holds the key, as `${{ NAME }}`; never the key itself.");
const API_FORMAT: Key =
    key("api_format", Shape::Word(&["chat", "responses"]), "AgentV's; run-evals always uses `chat`.");

const CA_FILE: Key = key(
    "ca_file",
    Shape::Text,
    "A PEM file with the certificates of a private CA, relative to this file; trusted besides the system's. A runner on GitHub reads it from the default branch.",
);

/// The keys of an API without special ones.
const STANDARD: [Key; 9] =
    [MODEL, DEPLOYMENT, DEPLOYMENT_NAME, VARIANT, BASE_URL, ENDPOINT, API_KEY, CA_FILE, SEED];
const OPENAI: [Key; 2] = [API_FORMAT, auth("auth-openai")];
const COMPATIBLE: [Key; 10] = [
    MODEL,
    DEPLOYMENT,
    DEPLOYMENT_NAME,
    VARIANT,
    BASE_URL,
    ENDPOINT,
    called(
        "api_key-optional",
        "api_key",
        Shape::AnyKey,
        "The variable that holds the key, as `${{ NAME }}`, if the server wants one.",
    ),
    CA_FILE,
    SEED,
    API_FORMAT,
];
const ANTHROPIC: [Key; 3] = [
    auth("auth-anthropic"),
    called(
        "api_version-anthropic",
        "api_version",
        Shape::Text,
        "The `anthropic-version` header; default 2023-06-01.",
    ),
    key(
        "thinking_budget",
        Shape::Any,
        "AgentV's; without effect in run-evals, which has `reasoning_effort`.",
    ),
];
const AZURE: [Key; 14] = [
    auth("auth-azure"),
    called("model-azure", "model", Shape::Text, "The name of the deployment, or what it deploys."),
    DEPLOYMENT,
    DEPLOYMENT_NAME,
    SEED,
    called("base_url-azure", "base_url", AZURE_URL, "The URL of the Azure resource, or its name."),
    called("endpoint-azure", "endpoint", AZURE_URL, "AgentV's word for `base_url`."),
    key("resource", AZURE_URL, "The same as `base_url`."),
    key("resource_name", AZURE_URL, "The same as `base_url`."),
    API_KEY,
    CA_FILE,
    API_FORMAT,
    key("api_version", AZURE_VERSION, "A date, or `v1` for the surface that needs none; default v1."),
    key("version", AZURE_VERSION, "AgentV's word for `api_version`."),
];
const AZURE_VERSION: Shape = Shape::Form(
    r"^\s*([0-9]{4}-[0-9]{2}-[0-9]{2}(-preview)?|v1)\s*$",
    "A date such as `2024-10-21`, or `v1`.",
);

const BEDROCK: [Key; 11] = [
    called("model-bedrock", "model", Shape::Text, "The id of a model or inference profile, or its ARN."),
    BASE_URL,
    ENDPOINT,
    key("region", REGION, "The AWS region."),
    called(
        "api_key-bedrock",
        "api_key",
        Shape::ApiKey,
        "The variable that holds a Bedrock API key, as `${{ NAME }}`.",
    ),
    key("access_key_id", Shape::ApiKey, "The variable that holds the access key ID, as `${{ NAME }}`."),
    key("secret_access_key", Shape::ApiKey, "The variable that holds the secret access key."),
    key(
        "session_token",
        Shape::ApiKey,
        "The variable that holds the session token of temporary credentials.",
    ),
    auth("auth-bedrock"),
    CA_FILE,
    VARIANT,
];
const VERTEX: [Key; 10] = [
    called(
        "model-vertex",
        "model",
        Shape::Text,
        "The model's name; `claude-…` is served by Anthropic's models.",
    ),
    BASE_URL,
    ENDPOINT,
    key("project", PROJECT, "The Google Cloud project."),
    called("region-vertex", "region", REGION, "The Google Cloud region; default `global`."),
    called(
        "api_key-vertex",
        "api_key",
        Shape::ApiKey,
        "The variable that holds an OAuth access token, as `${{ NAME }}`; it expires after an hour.",
    ),
    auth("auth-vertex"),
    CA_FILE,
    SEED,
    VARIANT,
];
const REGION: Shape = Shape::Form(r"^\s*[a-z0-9-]+\s*$", "A region such as `us-east-1`.");
const PROJECT: Shape =
    Shape::Form(r"^\s*([a-z0-9.-]+:)?[a-z0-9-]+\s*$", "The id or the number of a project.");

const fn auth(id: &'static str) -> Key {
    called(
        id,
        "auth",
        Shape::Mapping(id),
        "Instead of a key: exchanges the identity of the GitHub Actions job for a short-lived token; see docs/keyless.md.",
    )
}

const MOCK: [Key; 14] = [
    MODEL,
    DEPLOYMENT,
    DEPLOYMENT_NAME,
    VARIANT,
    key("mode", Shape::Word(&["echo"]), "Answers with the last user message; the default."),
    key(
        "response",
        Shape::Verbatim,
        "The answer, with `{{ input }}`, `{{ id }}` and `{{ test_id }}` filled in.",
    ),
    key("template", Shape::Verbatim, "The same as `response`."),
    key(
        "script",
        Shape::Text,
        "A JSONL file of `{\"id\", \"response\", \"tool_calls\"}` or `{\"id\", \"status\", \"error\"}` lines, relative to this file.",
    ),
    key("latency", Shape::Duration(0), "How long each call takes; default 0s."),
    key("error_rate", SHARE, "The share of calls, 0 to 1, that fail with status 500."),
    key("rate_limit_rate", SHARE, "The share of calls, 0 to 1, that fail with status 429."),
    key("retry_after", Shape::Duration(0), "The `Retry-After` of a 429; default 1s."),
    called("seed-mock", "seed", Shape::Whole(Some(0), None), "Chooses which calls fail; default 0."),
    key("trace", Shape::Any, "AgentV's; without effect in run-evals."),
];

const REMOTE: [Key; 9] = [
    key(
        "repo",
        Shape::Form(
            r"^\s*[A-Za-z0-9_][A-Za-z0-9_-]{0,38}/(?!\.\.?\s*$)(?!.*\.git\s*$)[A-Za-z0-9._-]{1,100}\s*$",
            "A repository as `owner/name`.",
        ),
        "The runner repository, which holds the keys, as `owner/name`.",
    ),
    key(
        "workflow",
        Shape::Form(
            r"^\s*[^\s/\\?#%]([^/\\?#%]*[^/\\?#%])?\.ya?ml\s*$",
            "The file name of a workflow, such as `run-evals.yml`.",
        ),
        "The file name of the workflow in `.github/workflows` of that repository.",
    ),
    key("ref", Shape::Text, "The branch or tag whose workflow runs; default: the default branch."),
    key("target", Shape::Text, "Which of the runner's own targets to use; default `default`."),
    key(
        "results_branch",
        Shape::Text,
        "The beginning of the branches with results; default `eval-results`. Not beside `results_artifact: true`.",
    ),
    key(
        "results_artifact",
        Shape::Flag,
        "Whether results are artifacts, which leave no trace in the repository; default `false`.",
    ),
    key("poll_interval", SECOND, "How often the workflow run is polled, 1s or more; default: adaptive."),
    called(
        "timeout-run",
        "timeout",
        SECOND,
        "How long to wait for the workflow run, 1s or more; default 30m.",
    ),
    key("shards", Shape::Shards, "How many jobs share a batch, 1 to 256; default `auto`."),
];

/// The keys that AgentV reads of a `github-actions` target, to run the adapter as a command.
const AGENTV: [Key; 8] = [
    key(
        "command",
        Shape::Verbatim,
        "The command that `agentv eval` runs: `run-evals adapter` by its absolute path, with `{PROMPT_FILE}` and `{OUTPUT_FILE}`.",
    ),
    called(
        "timeout_seconds-agentv",
        "timeout_seconds",
        Shape::Above0(None),
        "How long AgentV waits for `command`.",
    ),
    key("cwd", Shape::Text, "Where AgentV runs `command`, relative to the suite."),
    key("verbose", Shape::Flag, "AgentV's: whether it logs the command."),
    key("keep_temp_files", Shape::Flag, "AgentV's: whether prompt and answer files stay."),
    key("healthcheck", Shape::Any, "AgentV's: its check before the first test case."),
    key("files_format", Shape::Verbatim, "AgentV's: how each of `{FILES}` is written."),
    key("attachments_format", Shape::Verbatim, "AgentV's: the same as `files_format`."),
];

const LINKING: [Key; 2] = [NAME, key("use_target", Shape::Text, "The target that this name refers to.")];

const PRICES: [Key; 3] = [
    key("input_per_mtok", Shape::Number(0.0, None), "For a million input tokens."),
    key("output_per_mtok", Shape::Number(0.0, None), "For a million output tokens."),
    key(
        "cached_input_per_mtok",
        Shape::Number(0.0, None),
        "For a million cached input tokens; default: as input.",
    ),
];

const GRADERS: &[&str] = &["grader_target", "judge_target"];
const TOKENS: &[&str] = &["max_tokens", "max_output_tokens"];
const TIMEOUTS: &[&str] = &["timeout", "timeout_seconds"];
const MODELS: &[&str] = &["model", "deployment", "deployment_name", "variant"];
const URLS: &[&str] = &["base_url", "endpoint"];
const AZURE_URLS: &[&str] = &["base_url", "endpoint", "resource", "resource_name"];

/// A target before its provider is known.
pub(super) const UNKNOWN: KeyGroup =
    KeyGroup { parts: [&HEAD, &[], &[], &[], &[]], needs: &[], excluding: &[] };

/// A name for another target.
pub(super) const LINK: KeyGroup =
    KeyGroup { parts: [&LINKING, &COMMON, &[], &[], &[]], needs: &[&["use_target"]], excluding: &[GRADERS] };

/// The mapping `price`.
pub(super) const PRICE: KeyGroup = KeyGroup {
    parts: [&PRICES, &[], &[], &[], &[]],
    needs: &[&["input_per_mtok"], &["output_per_mtok"]],
    excluding: &[],
};

/// The keys of a kind of provider.
pub(super) fn of_kind(kind: &ProviderKind) -> KeyGroup {
    const SPELLED: &[&[&str]] = &[GRADERS, TOKENS, TIMEOUTS, MODELS, URLS];
    const MOCK_SPELLED: &[&[&str]] =
        &[GRADERS, TOKENS, TIMEOUTS, MODELS, &["mode", "response", "template", "script"]];
    const AZURE_SPELLED: &[&[&str]] = &[
        GRADERS,
        TOKENS,
        TIMEOUTS,
        &["deployment", "deployment_name"],
        AZURE_URLS,
        &["api_version", "version"],
        &["api_key", "auth"],
    ];
    const KEYLESS: &[&str] = &["api_key", "auth"];
    const KEYLESS_SPELLED: &[&[&str]] = &[GRADERS, TOKENS, TIMEOUTS, MODELS, URLS, KEYLESS];
    const AWS_SPELLED: &[&[&str]] = &[
        GRADERS,
        TOKENS,
        TIMEOUTS,
        MODELS,
        URLS,
        &["api_key", "access_key_id", "auth"],
        &["api_key", "secret_access_key", "auth"],
    ];
    const KEYED: &[&[&str]] = &[&["api_key"]];
    const KEYED_OR_KEYLESS: &[&[&str]] = &[KEYLESS];
    let (own, more, needs, excluding): (&'static [Key], &'static [Key], _, _) = match kind.backend {
        Backend::Api(Api::OpenAi) => (&STANDARD, &OPENAI, KEYED_OR_KEYLESS, KEYLESS_SPELLED),
        Backend::Api(Api::Anthropic) => (&STANDARD, &ANTHROPIC, KEYED_OR_KEYLESS, KEYLESS_SPELLED),
        Backend::Api(Api::Azure) => (&AZURE, &[], &[KEYLESS, AZURE_URLS] as &[&[&str]], AZURE_SPELLED),
        Backend::Api(Api::Bedrock) => {
            (&BEDROCK, &[], &[&["api_key", "access_key_id", "auth"], &["region"]], AWS_SPELLED)
        }
        Backend::Api(Api::Vertex) => (&VERTEX, &[], &[KEYLESS, &["project"]], KEYLESS_SPELLED),
        Backend::Api(_) if kind.base_url.is_none() => (&COMPATIBLE, &[], &[URLS] as &[&[&str]], SPELLED),
        Backend::Api(_) => (&STANDARD, &[], KEYED, SPELLED),
        Backend::Mock => (&MOCK, &[], &[] as &[&[&str]], MOCK_SPELLED),
        Backend::GithubActions => {
            let needs: &[&[&str]] = &[&["repo"], &["workflow"]];
            return KeyGroup { parts: [&HEAD, &REMOTE, &AGENTV, &COMMON, &[]], needs, excluding: &[GRADERS] };
        }
    };
    KeyGroup { parts: [&HEAD, own, more, &RUNNER, &COMMON], needs, excluding }
}
