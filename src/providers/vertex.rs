//! Google Cloud's Vertex AI: Gemini by `generateContent`, Claude by `rawPredict`.

use reqwest::Url;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::attachments::Attachments;
use super::base_url::{Address, parse, without_suffixes};
use super::wire::{BodyContent, DecodeError, Wire};
use super::{Refusal, anthropic, gemini};
use crate::model::{Endpoint, Failure, Params, Request};

/// Its wire.
pub(super) const WIRE: Wire = Wire {
    key_header: ("authorization", "Bearer "),
    version_header: None,
    // The formats that both kinds of models support.
    images: &["image/png", "image/jpeg", "image/webp"],
    most_output_tokens: anthropic::DEFAULT_MAX_TOKENS,
    is_chat_completions: false,
    address,
    encode,
    decode,
};

/// The version of Anthropic's API on this platform.
const ANTHROPIC_VERSION: &str = "vertex-2023-10-16";

fn is_claude(model: &str) -> bool {
    model.starts_with("claude-")
}

fn address(endpoint: &Endpoint) -> Result<Address, Failure> {
    let mut url = parse(&endpoint.base_url)?;
    let path = without_suffixes(url.path(), &["/v1"]).to_owned();
    let project = endpoint.project.as_deref().unwrap_or_default();
    let region = endpoint.region.as_deref().unwrap_or("global");
    url.set_path(&format!("{path}/v1/projects/{project}/locations/{region}/publishers"));
    Ok(Address::ByModel(url, of_model))
}

fn of_model(publishers: &Url, model: &str) -> Result<Url, String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@');
    if model.is_empty() || !model.chars().all(legal) || model.chars().all(|c| c == '.') {
        return Err(format!("invalid model `{model}`: letters, digits, `.`, `-`, `_` and `@`"));
    }
    let (publisher, method) =
        if is_claude(model) { ("anthropic", "rawPredict") } else { ("google", "generateContent") };
    let mut url = publishers.clone();
    url.set_path(&format!("{}/{publisher}/models/{model}:{method}", publishers.path()));
    Ok(url)
}

fn encode(
    request: &Request,
    params: &Params,
    model: &str,
    files: Attachments<'_>,
) -> Result<Vec<u8>, Refusal> {
    if is_claude(model) {
        anthropic::encode_for(request, params, anthropic::Surface::Versioned(ANTHROPIC_VERSION), files)
    } else {
        gemini::encode(request, params, files)
    }
}

/// The differences between the two.
#[derive(Deserialize)]
struct Shape {
    content: Option<IgnoredAny>,
    candidates: Option<IgnoredAny>,
}

fn decode(body: &[u8]) -> Result<BodyContent, DecodeError> {
    match serde_json::from_slice(body) {
        Ok(Shape { content: Some(_), candidates: None }) => anthropic::decode(body),
        _ => gemini::decode(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Api;
    use crate::providers::tests::endpoint;

    #[test]
    fn publishers_follow_from_the_model() {
        let endpoint = Endpoint {
            region: Some("europe-west4".to_owned()),
            project: Some("my-project".to_owned()),
            ..endpoint(Api::Vertex, "https://europe-west4-aiplatform.googleapis.com/v1/")
        };
        let address = address(&endpoint).unwrap();
        let path = |model: &str| address.of(model).map(|url| url.path().to_owned());
        let base = "/v1/projects/my-project/locations/europe-west4/publishers";
        assert_eq!(
            path("gemini-3.5-flash").unwrap(),
            format!("{base}/google/models/gemini-3.5-flash:generateContent")
        );
        assert_eq!(
            path("claude-opus-4-5@20251101").unwrap(),
            format!("{base}/anthropic/models/claude-opus-4-5@20251101:rawPredict")
        );
        for evil in ["", "..", "a/b", "a:b", "a?b", "a%2e"] {
            assert!(path(evil).is_err(), "{evil}");
        }
    }
}
