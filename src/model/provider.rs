//! Providers: the table of kinds, and how a target reaches one.

use std::path::PathBuf;
use std::time::Duration;

use super::Auth;

/// An API that run-evals speaks. The file of the same name in `providers` implements it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// OpenAI chat completions.
    OpenAi,
    /// Chat completions of any other server: vLLM, Ollama, OpenRouter, LiteLLM, MindRouter.
    OpenAiCompatible,
    /// Azure OpenAI.
    Azure,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini `generateContent`.
    Gemini,
    /// Amazon Bedrock's Converse.
    Bedrock,
    /// Google Cloud's Vertex AI: Gemini, and Claude by `rawPredict`.
    Vertex,
}

/// What serves the requests of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// A model behind an API.
    Api(Api),
    /// A deterministic mock without network.
    Mock,
    /// A runner repository.
    GithubActions,
}

/// A value of `provider` in a target.
#[derive(Debug, PartialEq, Eq)]
pub struct ProviderKind {
    /// Name in messages.
    pub name: &'static str,
    /// AgentV's other names for it.
    pub aliases: &'static [&'static str],
    pub backend: Backend,
    /// Environment variable that usually holds the API key. Without one, the key is optional.
    pub key_variable: Option<&'static str>,
    /// Default base URL.
    pub base_url: Option<&'static str>,
    /// Default API version.
    pub api_version: Option<&'static str>,
}

/// A kind with names only.
const fn kind(name: &'static str, aliases: &'static [&'static str], backend: Backend) -> ProviderKind {
    ProviderKind { name, aliases, backend, key_variable: None, base_url: None, api_version: None }
}

/// All kinds, in the order in which messages list them.
pub static PROVIDERS: [ProviderKind; 10] = [
    ProviderKind {
        key_variable: Some("OPENAI_API_KEY"),
        base_url: Some("https://api.openai.com/v1"),
        ..kind("openai", &[], Backend::Api(Api::OpenAi))
    },
    ProviderKind {
        key_variable: Some("ANTHROPIC_API_KEY"),
        base_url: Some("https://api.anthropic.com"),
        api_version: Some("2023-06-01"),
        ..kind("anthropic", &[], Backend::Api(Api::Anthropic))
    },
    ProviderKind {
        key_variable: Some("GEMINI_API_KEY"),
        base_url: Some("https://generativelanguage.googleapis.com"),
        ..kind("gemini", &["google", "google-gemini"], Backend::Api(Api::Gemini))
    },
    ProviderKind {
        key_variable: Some("AZURE_OPENAI_API_KEY"),
        ..kind("azure", &["azure-openai"], Backend::Api(Api::Azure))
    },
    kind("openai-compatible", &[], Backend::Api(Api::OpenAiCompatible)),
    ProviderKind {
        key_variable: Some("OPENROUTER_API_KEY"),
        base_url: Some("https://openrouter.ai/api/v1"),
        ..kind("openrouter", &[], Backend::Api(Api::OpenAiCompatible))
    },
    ProviderKind {
        key_variable: Some("AWS_BEARER_TOKEN_BEDROCK"),
        ..kind("bedrock", &["aws-bedrock"], Backend::Api(Api::Bedrock))
    },
    ProviderKind {
        key_variable: Some("GOOGLE_ACCESS_TOKEN"),
        ..kind("vertex", &["vertex-ai"], Backend::Api(Api::Vertex))
    },
    kind("mock", &[], Backend::Mock),
    kind("github-actions", &[], Backend::GithubActions),
];

/// AgentV providers that run-evals does not support.
pub const ONLY_AGENTV: [&str; 21] = [
    "agentv",
    "cc-mirror",
    "claude",
    "claude-cli",
    "claude-code",
    "claude-sdk",
    "cli",
    "codex",
    "codex-cli",
    "copilot",
    "copilot-cli",
    "copilot-log",
    "copilot-sdk",
    "copilot_sdk",
    "pi",
    "pi-cli",
    "pi-coding-agent",
    "replay",
    "transcript",
    "vscode",
    "vscode-insiders",
];

impl ProviderKind {
    /// The kind with this name or alias, case-insensitive.
    pub fn find(name: &str) -> Option<&'static Self> {
        PROVIDERS.iter().find(|kind| kind.names().any(|known| known.eq_ignore_ascii_case(name)))
    }

    /// Name, then aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    pub fn api(&self) -> Option<Api> {
        if let Backend::Api(api) = self.backend { Some(api) } else { None }
    }
}

/// The provider of a target, with everything needed to call it.
#[derive(Debug, Clone)]
pub enum Provider {
    /// A model behind an API.
    Api(Endpoint),
    /// A deterministic mock without network.
    Mock(MockSettings),
}

impl Provider {
    /// The endpoint; `None` for the mock.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        if let Self::Api(endpoint) = self { Some(endpoint) } else { None }
    }
}

/// URL and credentials of an API.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub api: Api,
    /// As the user wrote it, without a trailing slash. The provider adds the version, if missing, and the
    /// path.
    pub base_url: String,
    /// API version, if the API has one. For Azure, a date; without it, the v1 API is used.
    pub api_version: Option<String>,
    pub auth: Auth,
    /// Region, for the APIs of a cloud.
    pub region: Option<String>,
    /// Project, for Vertex AI.
    pub project: Option<String>,
    /// Certificates of private CAs in PEM format, checked; trusted besides the system's.
    pub ca_pem: Vec<u8>,
}

/// How the mock provider responds.
#[derive(Debug, Clone)]
pub struct MockSettings {
    pub reply: MockReply,
    /// Duration of each call.
    pub latency: Duration,
    /// Share of calls, 0 to 1, that fail with status 500.
    pub error_rate: f64,
    /// Share of calls, 0 to 1, that fail with status 429 and `retry_after`.
    pub rate_limit_rate: f64,
    /// `Retry-After` of a 429.
    pub retry_after: Duration,
    /// Seed for choosing the calls that fail.
    pub seed: u64,
}

/// Text of the mock's responses.
#[derive(Debug, Clone)]
pub enum MockReply {
    /// The last user message.
    Echo,
    /// A text with `{{ input }}`, `{{ id }}` and `{{ test_id }}` filled in.
    Template(String),
    /// A JSONL file of `{"id", "response"}` or `{"id", "status", "error"}` lines.
    Script(PathBuf),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_names_one_kind() {
        for kind in &PROVIDERS {
            for name in kind.names() {
                assert_eq!(ProviderKind::find(&name.to_uppercase()), Some(kind), "{name}");
                assert!(!ONLY_AGENTV.contains(&name), "{name}");
            }
        }
    }
}
