//! Turns the base URL that a user wrote into the URL to call.
//!
//! Users write bases with or without a version, with or without a trailing slash, and even whole endpoints.

use reqwest::Url;

use super::wire::wire;
use crate::model::{Failure, Provider};

/// The URL of a target's calls.
#[derive(Debug, Clone)]
pub(super) enum Address {
    /// Always this URL.
    Fixed(Url),
    /// A URL that depends on the model; the error explains an illegal model name.
    ByModel(Url, fn(&Url, &str) -> Result<Url, String>),
}

/// The characters besides letters and digits that a model name in a URL may have.
const MODEL_PUNCTUATION: [char; 3] = ['.', '-', '_'];

impl Address {
    /// The URL for a call of this model; the error explains an illegal model name.
    pub(super) fn of(&self, model: &str) -> Result<Url, String> {
        match self {
            Self::Fixed(url) => Ok(url.clone()),
            Self::ByModel(url, of) => of(url, model),
        }
    }
}

/// The URL of a target's chat completions, for callers that forward requests unchanged.
pub fn chat_completions_url(provider: &Provider) -> Result<Url, Failure> {
    let chat = provider.endpoint().map(|endpoint| (endpoint, wire(endpoint)));
    match chat.filter(|(_, wire)| wire.is_chat_completions) {
        Some((endpoint, wire)) => (wire.address)(endpoint)?.of("").map_err(Failure::config),
        None => Err(Failure::config("this provider does not support OpenAI's chat completions")),
    }
}

/// The URL without the query, which may contain secrets.
pub(super) fn describe(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_fragment(None);
    shown.to_string()
}

/// Parses a base URL.
pub(super) fn parse(base: &str) -> Result<Url, Failure> {
    const HINT: &str = "such as `https://api.example.com/v1`; the key belongs in `api_key`";
    // Do not repeat the text: it may be a key pasted into the wrong field.
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
pub(super) fn without_suffixes<'a>(path: &'a str, suffixes: &[&str]) -> &'a str {
    let mut path = path.trim_end_matches('/');
    for suffix in suffixes {
        path = path.strip_suffix(suffix).unwrap_or(path).trim_end_matches('/');
    }
    path
}

/// A request may name its own model, which must not be able to change the path.
pub(super) fn check_name(name: &str) -> Result<(), String> {
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

    #[test]
    fn bases_that_cannot_be_called() {
        let error = |base| parse(base).unwrap_err().to_string();
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
