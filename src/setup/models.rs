//! The example models of `init runner`, one per provider.

use crate::model::{Backend, Exit, Failure, Price, ProviderKind, printable};

/// The user's choice of model.
#[derive(Debug, Clone, Default)]
pub struct ModelChoice {
    pub model: Option<String>,
    pub base_url: Option<String>,
    /// US dollars per million tokens of input and output.
    pub price: Option<(f64, f64)>,
}

/// A model for a new runner repository.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Model {
    /// Name of its target.
    pub target: String,
    /// The provider's name for it.
    pub model: Option<String>,
    pub base_url: Option<String>,
    pub price: Price,
    /// A note about the price.
    pub note: Option<&'static str>,
}

/// Cheap current models with their list prices in US dollars per million tokens, as of November 2026.
const EXAMPLES: [Example; 5] = [
    Example { provider: "openai", target: "gpt", model: "gpt-6-luna", input: 0.10, output: 0.50, note: None },
    Example {
        provider: "anthropic",
        target: "claude",
        model: "claude-haiku-5-5",
        input: 0.10,
        output: 0.50,
        note: Some("prompts above 100,000 tokens cost five times as much"),
    },
    Example {
        provider: "gemini",
        target: "gemini",
        model: "gemini-3.5-flash-lite",
        input: 0.30,
        output: 2.50,
        note: None,
    },
    Example {
        provider: "bedrock",
        target: "nova",
        model: "us.amazon.nova-lite-v1:0",
        input: 0.06,
        output: 0.24,
        note: None,
    },
    Example {
        provider: "vertex",
        target: "gemini-vertex",
        model: "gemini-3.5-flash-lite",
        input: 0.30,
        output: 2.50,
        note: None,
    },
];

/// Clouds, whose URLs depend on a region or a project.
const CLOUDS: [&str; 2] = ["bedrock", "vertex"];

/// Whether `init runner` can set up a provider with a stored key. Others also need a region or a project.
pub fn is_supported(provider: &ProviderKind) -> bool {
    provider.backend != Backend::GithubActions && !CLOUDS.contains(&provider.name)
}

struct Example {
    provider: &'static str,
    target: &'static str,
    model: &'static str,
    input: f64,
    output: f64,
    note: Option<&'static str>,
}

/// The model for a provider: the example, or the user's choice, which also needs a price.
pub(super) fn example(provider: &ProviderKind, choice: &ModelChoice) -> Result<Model, Failure> {
    let ModelChoice { model, base_url, price } = choice.clone();
    let usage = |message: String, hint: String| Err(Failure::new(Exit::Usage, message).hint(hint));
    let known = EXAMPLES.iter().find(|example| example.provider == provider.name);
    let is_mock = provider.name == "mock";
    let has_address = base_url.is_some() || provider.base_url.is_some() || CLOUDS.contains(&provider.name);
    if !has_address && !is_mock {
        let hint = "add `--base-url https://…`: the URL of the server or the resource".to_owned();
        return usage(format!("`--provider {}` needs the API's URL", provider.name), hint);
    }
    let chosen = model.as_deref().or(known.map(|example| example.model));
    if chosen.is_none() && !is_mock {
        let hint = "add `--model NAME`, as the provider spells it".to_owned();
        return usage(format!("`--provider {}` needs a model", provider.name), hint);
    }
    let listed = known.filter(|example| chosen == Some(example.model));
    let listed_price =
        listed.map(|example| (example.input, example.output)).or(is_mock.then_some((0.0, 0.0)));
    let Some((input, output)) = price.or(listed_price) else {
        let name = printable(chosen.unwrap_or_default());
        let hint = "add `--price INPUT:OUTPUT` in US dollars per million tokens, such as `--price 0.10:0.50`"
            .to_owned();
        return usage(format!("the price of `{name}` is unknown, and the runner's budget needs it"), hint);
    };
    Ok(Model {
        target: known.map_or(provider.name, |example| example.target).to_owned(),
        model: chosen.map(ToOwned::to_owned),
        base_url: base_url.filter(|_| !is_mock),
        price: Price { input_per_mtok: input, output_per_mtok: output, cached_input_per_mtok: None },
        note: listed.and_then(|example| example.note).filter(|_| price.is_none()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(provider: &str, model: Option<&str>, base_url: Option<&str>) -> String {
        let kind = ProviderKind::find(provider).unwrap();
        let owned = |text: Option<&str>| text.map(ToOwned::to_owned);
        let choice = ModelChoice { model: owned(model), base_url: owned(base_url), price: None };
        match example(kind, &choice) {
            Ok(model) => format!("{model:?}"),
            Err(failure) => format!("{failure}; {}", failure.hint_text().unwrap()),
        }
    }

    #[test]
    fn every_provider_has_an_example_or_says_what_it_needs() {
        for known in &EXAMPLES {
            assert!(message(known.provider, None, None).contains(known.model));
        }
        insta::assert_snapshot!(message("openrouter", None, None), @"`--provider openrouter` needs a model; add `--model NAME`, as the provider spells it");
        insta::assert_snapshot!(message("azure", None, None), @"`--provider azure` needs the API's URL; add `--base-url https://…`: the URL of the server or the resource");
        insta::assert_snapshot!(message("openai", Some("gpt-6-sol"), None), @"the price of `gpt-6-sol` is unknown, and the runner's budget needs it; add `--price INPUT:OUTPUT` in US dollars per million tokens, such as `--price 0.10:0.50`");
        assert!(message("mock", None, None).starts_with("Model"));
    }
}
