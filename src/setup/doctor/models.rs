//! Announced shutdowns of models, from the provider's model list.

use crate::model::{Api, Finding, Level, RunnerTarget, printable};
use crate::providers::list_models;

/// Whether a check may send the key there: to the provider itself or to this machine. Any other address comes from a file that may
/// be untrusted, and gets a key only in a run that the user starts.
fn is_trusted(base_url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(base_url) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    is_here || url.scheme() == "https" && host == "api.openai.com"
}

/// The date on which the target's model shuts down, if its provider announces one.
pub async fn shutdown(target: &RunnerTarget) -> Option<Finding> {
    let endpoint = target.provider.endpoint().filter(|endpoint| endpoint.api == Api::OpenAi)?;
    let model = target.params.model.as_deref().filter(|_| is_trusted(&endpoint.base_url))?;
    let listed = match list_models(target).await {
        Ok(models) => models?,
        Err(failure) => return Some(Finding::failure(Level::Unknown, &failure)),
    };
    let list = "`curl -H \"Authorization: Bearer $OPENAI_API_KEY\" https://api.openai.com/v1/models` lists the models";
    let Some(found) = listed.iter().find(|known| known.id == model) else {
        let text = format!("the provider does not list the model `{}` for this key", printable(model));
        return Some(Finding::new(Level::Warning, text).hint(list));
    };
    let date = found.shutdown_date()?;
    let text = format!("the provider shuts `{}` down on {}", printable(model), printable(&date));
    Some(Finding::new(Level::Warning, text).hint(list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_sends_keys_to_the_provider_and_to_this_machine_only() {
        for address in ["https://api.openai.com/v1", "http://127.0.0.1:8000/v1", "http://[::1]:8000"] {
            assert!(is_trusted(address), "{address}");
        }
        for address in
            ["http://api.openai.com", "https://api.openai.com.evil.example", "https://evil.example", "x"]
        {
            assert!(!is_trusted(address), "{address}");
        }
    }
}
