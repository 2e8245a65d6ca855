//! Azure OpenAI: OpenAI's chat completions at another address.

use reqwest::Url;

use super::base_url::{Address, check_name, parse, without_suffixes};
use super::openai::{Dialect, OPENAI, encode};
use super::wire::Wire;
use crate::model::{Endpoint, Failure};

/// The v1 surface.
const V1: Wire = Wire { key_header: ("api-key", ""), is_chat_completions: false, address, ..OPENAI };

/// With a dated API version, the deployment is part of the URL.
const DEPLOYMENT: Wire = Wire {
    encode: |request, params, model, files| encode(request, params, model, files, Dialect::AzureDeployment),
    ..V1
};

/// The surface of an endpoint.
pub(super) fn wire(endpoint: &Endpoint) -> &'static Wire {
    if version(endpoint).is_some() { &DEPLOYMENT } else { &V1 }
}

fn version(endpoint: &Endpoint) -> Option<&str> {
    endpoint.api_version.as_deref().filter(|version| *version != "v1")
}

fn address(endpoint: &Endpoint) -> Result<Address, Failure> {
    let mut url = parse(&endpoint.base_url)?;
    let path = without_suffixes(url.path(), &["/chat/completions"]);
    // Portals show the whole endpoint of one deployment: replace what follows `/openai`.
    let resource = path.split_once("/openai/").map_or(path, |(before, _)| before);
    let resource = resource.strip_suffix("/openai").unwrap_or(resource).to_owned();
    match version(endpoint) {
        None => {
            url.set_query(None);
            url.set_path(&format!("{resource}/openai/v1/chat/completions"));
            Ok(Address::Fixed(url))
        }
        Some(version) if is_dated(version) => {
            url.set_query(Some(&format!("api-version={version}")));
            url.set_path(&format!("{resource}/openai/deployments"));
            Ok(Address::ByModel(url, of_deployment))
        }
        Some(version) => Err(Failure::config(format!("invalid Azure API version `{version}`"))
            .hint("a date such as `2024-10-21` or `2025-04-01-preview`, or none for the v1 surface")),
    }
}

fn of_deployment(deployments: &Url, name: &str) -> Result<Url, String> {
    check_name(name)?;
    let mut url = deployments.clone();
    url.set_path(&format!("{}/{name}/chat/completions", deployments.path()));
    Ok(url)
}

fn is_dated(version: &str) -> bool {
    version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Api;
    use crate::providers::tests::endpoint;

    fn called(base_url: &str, version: Option<&str>) -> Result<String, Failure> {
        let api_version = version.map(str::to_owned);
        let address = address(&Endpoint { api_version, ..endpoint(Api::Azure, base_url) })?;
        Ok(address.of("m").unwrap().to_string())
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
                called(base, None).unwrap(),
                "https://r.openai.azure.com/openai/v1/chat/completions",
                "{base}"
            );
            assert_eq!(
                called(base, Some("2025-04-01-preview")).unwrap(),
                "https://r.openai.azure.com/openai/deployments/m/chat/completions?api-version=2025-04-01-preview",
                "{base}"
            );
        }
        insta::assert_snapshot!(
            called("https://r.openai.azure.com", Some("latest&x=1")).unwrap_err(),
            @"invalid Azure API version `latest&x=1`"
        );
    }
}
