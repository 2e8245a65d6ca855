//! From the base URL that a user wrote to the URL that is called.
//!
//! Users give bases with or without a version, with or without a trailing slash, and even whole endpoints.

use reqwest::Url;

use crate::model::{Failure, Provider};

/// Where a target's calls go.
#[derive(Debug, Clone)]
pub(super) enum Address {
    /// Always to this URL.
    Fixed(Url),
    /// To this URL with `/{model}:generateContent` after it.
    Gemini(Url),
    /// To this URL with `/{deployment}/chat/completions` and the query after it.
    AzureDeployment(Url),
}

/// The characters beside letters and digits that a model's name may have where it stands in a URL.
const MODEL_PUNCTUATION: [char; 3] = ['.', '-', '_'];

impl Address {
    /// OpenAI, and what stands before it: `/v1` unless the base ends with it, as in AgentV.
    pub(super) fn openai(base: &str) -> Result<Self, Failure> {
        Self::chat_completions(base, |path| !path.ends_with("/v1"))
    }

    /// The servers that speak like OpenAI: a bare host gets `/v1`, any other path is the user's word.
    pub(super) fn openai_compatible(base: &str) -> Result<Self, Failure> {
        Self::chat_completions(base, str::is_empty)
    }

    fn chat_completions(base: &str, lacks_version: impl FnOnce(&str) -> bool) -> Result<Self, Failure> {
        let mut url = parse(base)?;
        let path = without_suffixes(url.path(), &["/chat/completions"]);
        let version = if lacks_version(path) { "/v1" } else { "" };
        url.set_path(&format!("{path}{version}/chat/completions"));
        Ok(Self::Fixed(url))
    }

    /// Anthropic: the version is part of the endpoint.
    pub(super) fn anthropic(base: &str) -> Result<Self, Failure> {
        let mut url = parse(base)?;
        let path = without_suffixes(url.path(), &["/messages", "/v1"]);
        url.set_path(&format!("{path}/v1/messages"));
        Ok(Self::Fixed(url))
    }

    /// Gemini: `/v1beta` unless the base ends with a version.
    pub(super) fn gemini(base: &str) -> Result<Self, Failure> {
        let mut url = parse(base)?;
        let path = without_suffixes(url.path(), &["/models"]);
        let last = path.rsplit('/').next().unwrap_or_default();
        let versioned =
            last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let version = if versioned { "" } else { "/v1beta" };
        url.set_path(&format!("{path}{version}/models"));
        Ok(Self::Gemini(url))
    }

    /// Azure: with a dated API version the deployment stands in the URL, without one the v1 surface is called.
    pub(super) fn azure(base: &str, api_version: Option<&str>) -> Result<Self, Failure> {
        let mut url = parse(base)?;
        let path = without_suffixes(url.path(), &["/chat/completions"]);
        // Whatever stands behind `/openai` is ours to write: portals show the whole endpoint of one deployment.
        let resource = path.split_once("/openai/").map_or(path, |(before, _)| before);
        let resource = resource.strip_suffix("/openai").unwrap_or(resource).to_owned();
        match api_version {
            None | Some("v1") => {
                url.set_query(None);
                url.set_path(&format!("{resource}/openai/v1/chat/completions"));
                Ok(Self::Fixed(url))
            }
            Some(version) if is_dated(version) => {
                url.set_query(Some(&format!("api-version={version}")));
                url.set_path(&format!("{resource}/openai/deployments"));
                Ok(Self::AzureDeployment(url))
            }
            Some(version) => Err(Failure::config(format!("invalid Azure API version `{version}`"))
                .hint("a date such as `2024-10-21` or `2025-04-01-preview`, or none for the v1 surface")),
        }
    }

    /// The URL for a call of this model; an error says what is wrong with the model's name.
    pub(super) fn of(&self, model: &str) -> Result<Url, String> {
        match self {
            Self::Fixed(url) => Ok(url.clone()),
            Self::Gemini(url) => {
                let mut url = url.clone();
                let tuned = model.strip_prefix("tunedModels/");
                let name = tuned.or_else(|| model.strip_prefix("models/")).unwrap_or(model);
                check_name(name)?;
                let version = url.path().strip_suffix("/models").unwrap_or_default();
                let collection = if tuned.is_some() { "tunedModels" } else { "models" };
                let path = format!("{version}/{collection}/{name}:generateContent");
                url.set_path(&path);
                Ok(url)
            }
            Self::AzureDeployment(url) => {
                check_name(model)?;
                let mut url = url.clone();
                let deployments = url.path().to_owned();
                url.set_path(&format!("{deployments}/{model}/chat/completions"));
                Ok(url)
            }
        }
    }
}

/// Where the chat completions of a target are, for who passes calls on as they are.
pub fn chat_completions_url(provider: &Provider) -> Result<Url, Failure> {
    let address = match provider {
        Provider::OpenAi(endpoint) => Address::openai(&endpoint.base_url)?,
        Provider::OpenAiCompatible(endpoint) => Address::openai_compatible(&endpoint.base_url)?,
        _ => return Err(Failure::config("this provider does not speak OpenAI's chat completions")),
    };
    address.of("").map_err(Failure::config)
}

/// The URL without what may be secret in it: the query.
pub(super) fn describe(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    shown.to_string()
}

fn parse(base: &str) -> Result<Url, Failure> {
    const HINT: &str = "such as `https://api.example.com/v1`; the key belongs in `api_key`";
    // The text itself is not repeated: what was pasted into the wrong field may be a key.
    let mut url = Url::parse(base.trim())
        .map_err(|error| Failure::config(format!("`base_url` is not a URL: {error}")).hint(HINT))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(Failure::config("`base_url` is not an `http` or `https` URL").hint(HINT));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Failure::config("`base_url` contains a user name or password").hint(HINT));
    }
    url.set_fragment(None);
    Ok(url)
}

/// The path without trailing slashes and these endings, each once and in this order.
fn without_suffixes<'a>(path: &'a str, suffixes: &[&str]) -> &'a str {
    let mut path = path.trim_end_matches('/');
    for suffix in suffixes {
        path = path.strip_suffix(suffix).unwrap_or(path).trim_end_matches('/');
    }
    path
}

fn is_dated(version: &str) -> bool {
    version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

/// A request may bring its own model name: it must not be able to choose another path.
fn check_name(name: &str) -> Result<(), String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || MODEL_PUNCTUATION.contains(&c);
    if !name.is_empty() && name.chars().all(legal) && !name.chars().all(|c| c == '.') {
        Ok(())
    } else {
        Err(format!("invalid model `{name}`: letters, digits, `.`, `-` and `_`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(address: Result<Address, Failure>) -> String {
        address.unwrap().of("m").unwrap().to_string()
    }

    #[test]
    fn openai_bases_get_one_version() {
        for (base, url) in [
            ("https://api.openai.com", "https://api.openai.com/v1/chat/completions"),
            ("https://api.openai.com/", "https://api.openai.com/v1/chat/completions"),
            ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
            (" https://api.openai.com/v1// ", "https://api.openai.com/v1/chat/completions"),
            ("https://api.openai.com/v1/chat/completions", "https://api.openai.com/v1/chat/completions"),
            ("https://api.openai.com/v1/chat/completions/", "https://api.openai.com/v1/chat/completions"),
            ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1/chat/completions"),
            ("http://localhost:11434?team=a", "http://localhost:11434/v1/chat/completions?team=a"),
        ] {
            assert_eq!(fixed(Address::openai(base)), url, "{base}");
            assert_eq!(fixed(Address::openai_compatible(base)), url, "{base}");
        }
    }

    #[test]
    fn a_path_without_a_version_is_the_word_of_compatible_servers_alone() {
        for base in ["http://host/proxy", "http://host/proxy/", "http://host/proxy/chat/completions"] {
            assert_eq!(fixed(Address::openai(base)), "http://host/proxy/v1/chat/completions", "{base}");
            assert_eq!(
                fixed(Address::openai_compatible(base)),
                "http://host/proxy/chat/completions",
                "{base}"
            );
        }
    }

    #[test]
    fn anthropic_bases_get_one_version() {
        for base in [
            "https://api.anthropic.com",
            "https://api.anthropic.com/v1/",
            "https://api.anthropic.com/v1/messages",
        ] {
            assert_eq!(fixed(Address::anthropic(base)), "https://api.anthropic.com/v1/messages", "{base}");
        }
        assert_eq!(
            fixed(Address::anthropic("https://gateway.example/v1/team/anthropic")),
            "https://gateway.example/v1/team/anthropic/v1/messages"
        );
    }

    #[test]
    fn gemini_bases_get_one_version() {
        let google = "https://generativelanguage.googleapis.com";
        for (path, expected) in [
            ("", "/v1beta/models/m:generateContent"),
            ("/v1beta", "/v1beta/models/m:generateContent"),
            ("/v1beta/models/", "/v1beta/models/m:generateContent"),
            ("/v1", "/v1/models/m:generateContent"),
            ("/studio", "/studio/v1beta/models/m:generateContent"),
        ] {
            assert_eq!(fixed(Address::gemini(&format!("{google}{path}"))), format!("{google}{expected}"));
        }
        let address = Address::gemini(google).unwrap();
        let path = |model| address.of(model).unwrap().path().to_owned();
        assert_eq!(path("models/gemini-3-pro"), "/v1beta/models/gemini-3-pro:generateContent");
        assert_eq!(path("tunedModels/mine"), "/v1beta/tunedModels/mine:generateContent");
    }

    #[test]
    fn azure_bases_are_resources() {
        for base in [
            "https://r.openai.azure.com",
            "https://r.openai.azure.com/openai",
            "https://r.openai.azure.com/openai/v1/",
            "https://r.openai.azure.com/openai/deployments/x/chat/completions?api-version=2024-10-21",
        ] {
            assert_eq!(
                fixed(Address::azure(base, None)),
                "https://r.openai.azure.com/openai/v1/chat/completions",
                "{base}"
            );
            assert_eq!(
                fixed(Address::azure(base, Some("2025-04-01-preview"))),
                "https://r.openai.azure.com/openai/deployments/m/chat/completions?api-version=2025-04-01-preview",
                "{base}"
            );
        }
        insta::assert_snapshot!(
            Address::azure("https://r.openai.azure.com", Some("latest&x=1")).unwrap_err(),
            @"invalid Azure API version `latest&x=1`"
        );
    }

    #[test]
    fn a_model_cannot_choose_the_path() {
        let address = Address::gemini("https://generativelanguage.googleapis.com").unwrap();
        for evil in ["..", "a/../../b", "a:countTokens?", "a?key=b", "a#b", "", "models/..", "a%2e"] {
            assert!(address.of(evil).is_err(), "{evil}");
        }
        insta::assert_snapshot!(address.of("a/b").unwrap_err(), @"invalid model `a/b`: letters, digits, `.`, `-` and `_`");
    }

    #[test]
    fn bases_that_cannot_be_called() {
        let error = |base| Address::openai(base).unwrap_err().to_string();
        insta::assert_snapshot!(error("sk-pasted-into-the-wrong-field"), @"`base_url` is not a URL: relative URL without a base");
        insta::assert_snapshot!(error("file:///etc/passwd"), @"`base_url` is not an `http` or `https` URL");
        insta::assert_snapshot!(error("https://me:secret@host/v1"), @"`base_url` contains a user name or password");
    }

    #[test]
    fn shown_urls_have_no_query() {
        let url = Url::parse("https://host/a/b?key=secret#x").unwrap();
        assert_eq!(describe(&url), "https://host/a/b");
    }
}
