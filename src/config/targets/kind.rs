//! The provider kinds: ours, and those that only AgentV runs.

/// A provider that this program can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A model behind an API.
    Vendor(Vendor),
    /// No network at all.
    Mock,
    /// A runner repository.
    GithubActions,
}

/// Whose API it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vendor {
    OpenAi,
    OpenAiCompatible,
    OpenRouter,
    Azure,
    Anthropic,
    Gemini,
}

/// The words of our kinds that messages list.
pub(super) const OURS: [&str; 8] =
    ["openai", "anthropic", "gemini", "azure", "openai-compatible", "openrouter", "mock", "github-actions"];

/// Every word that names a kind of ours, AgentV's aliases included.
const WORDS: [(&str, Kind); 11] = [
    ("openai", Kind::Vendor(Vendor::OpenAi)),
    ("anthropic", Kind::Vendor(Vendor::Anthropic)),
    ("gemini", Kind::Vendor(Vendor::Gemini)),
    ("google", Kind::Vendor(Vendor::Gemini)),
    ("google-gemini", Kind::Vendor(Vendor::Gemini)),
    ("azure", Kind::Vendor(Vendor::Azure)),
    ("azure-openai", Kind::Vendor(Vendor::Azure)),
    ("openai-compatible", Kind::Vendor(Vendor::OpenAiCompatible)),
    ("openrouter", Kind::Vendor(Vendor::OpenRouter)),
    ("mock", Kind::Mock),
    ("github-actions", Kind::GithubActions),
];

/// The words that AgentV knows and we do not run.
pub(super) const ONLY_AGENTV: [&str; 21] = [
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

impl Kind {
    /// The kind that a word names, in any case, AgentV's aliases included.
    pub(super) fn of(word: &str) -> Option<Self> {
        WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, kind)| *kind)
    }

    /// All words that name it.
    pub(super) fn words(self) -> impl Iterator<Item = &'static str> {
        WORDS.into_iter().filter(move |(_, kind)| *kind == self).map(|(word, _)| word)
    }

    /// The word that messages use.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Vendor(Vendor::OpenAi) => "openai",
            Self::Vendor(Vendor::OpenAiCompatible) => "openai-compatible",
            Self::Vendor(Vendor::OpenRouter) => "openrouter",
            Self::Vendor(Vendor::Azure) => "azure",
            Self::Vendor(Vendor::Anthropic) => "anthropic",
            Self::Vendor(Vendor::Gemini) => "gemini",
            Self::Mock => "mock",
            Self::GithubActions => "github-actions",
        }
    }
}

impl Vendor {
    /// The variable that usually holds the key, where the vendor demands one.
    pub(super) fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::OpenRouter => Some("OPENROUTER_API_KEY"),
            Self::Azure => Some("AZURE_OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::OpenAiCompatible => None,
        }
    }

    /// Where the vendor is reached unless the file says otherwise.
    pub(super) fn base_url(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("https://api.openai.com/v1"),
            Self::OpenRouter => Some("https://openrouter.ai/api/v1"),
            Self::Anthropic => Some("https://api.anthropic.com"),
            Self::Gemini => Some("https://generativelanguage.googleapis.com"),
            Self::OpenAiCompatible | Self::Azure => None,
        }
    }
}

/// Whether AgentV knows this kind and we do not run it.
pub(super) fn only_agentv(word: &str) -> bool {
    ONLY_AGENTV.contains(&word.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_word_is_a_kind_and_names_itself() {
        for word in OURS {
            assert_eq!(Kind::of(word).map(Kind::word), Some(word));
            assert!(!only_agentv(word));
        }
        for word in ONLY_AGENTV {
            assert_eq!(Kind::of(word), None, "{word}");
        }
        for (word, kind) in WORDS {
            assert_eq!(Kind::of(&word.to_uppercase()), Some(kind));
            assert!(
                kind.words().next() == Some(kind.word()),
                "the first word is the one of messages: {word}"
            );
        }
    }
}
