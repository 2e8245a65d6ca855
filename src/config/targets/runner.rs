//! Targets that the runner calls directly: a provider's model, or the mock.

use std::time::Duration;

use super::endpoint;
use super::keys::PRICE;
use super::settings::{OptionalValue, Settings, UnknownValue};
use super::values::Legal;
use crate::config::{NodeValue, interpolate_tree};
use crate::model::{
    Api, Limits, MockReply, MockSettings, Params, Price, Provider, ProviderKind, ResponseFormat, RetryPolicy,
    RunnerTarget,
};

const DEFAULT_CONCURRENCY: u32 = 16;
/// Long enough for the longest answer of a reasoning model.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(10);

/// Reads the settings of a target that is called from here.
pub(super) fn read(
    kind: &ProviderKind,
    settings: &mut Settings<'_, '_>,
) -> Result<RunnerTarget, UnknownValue> {
    let model = model(kind, settings);
    let provider = match kind.api() {
        Some(api) => endpoint::read(kind, api, settings).map(Provider::Api),
        None => mock(settings).map(Provider::Mock),
    };
    let params = params(kind, settings);
    let limits = limits(settings);
    let retry = retry(settings);
    let timeout = timeout(settings);
    let price = settings.nested("price", "price.", PRICE, price);
    let has_price = settings.node("price").is_some();
    let dedupe = settings.flag("dedupe");
    let keep_raw = settings.flag("keep_raw");
    let allow_models = settings.strings("allow_models");
    let budget_usd = settings.number("budget_usd");
    if let Some(node) = settings.node("budget_usd").filter(|_| !has_price) {
        settings.error(
            &node.span,
            "`budget_usd` without `price`: the cost cannot be computed",
            "add `price: { input_per_mtok: …, output_per_mtok: … }`, in US dollars for a million tokens",
        );
    }
    Ok(RunnerTarget {
        name: settings.scope.target.to_owned(),
        provider: provider?,
        params: Params { model: model?, ..params? },
        limits: limits?,
        retry: retry?,
        timeout: timeout?.unwrap_or(DEFAULT_TIMEOUT),
        price: price?,
        dedupe: dedupe?.unwrap_or(false),
        keep_raw: keep_raw?.unwrap_or(false),
        budget_usd: budget_usd?,
        allow_models: allow_models?.unwrap_or_default(),
    })
}

/// AgentV's common settings that limit and retry calls; links have them too.
pub(super) fn retry(settings: &mut Settings<'_, '_>) -> Result<RetryPolicy, UnknownValue> {
    let max_retries = settings.whole("max_retries");
    let initial = settings.whole("retry_initial_delay_ms");
    let longest = settings.whole("retry_max_delay_ms");
    let factor = settings.number("retry_backoff_factor");
    if let Some(node) = settings.node("retry_status_codes") {
        settings.warning(
            &node.span,
            false,
            "`retry_status_codes` has no effect: which errors are retried is not configurable",
            "408, 409, 424, 429, 5xx but 501, and broken connections are retried",
        );
    }
    let defaults = RetryPolicy::default();
    let millis = |number: Option<i64>, default| {
        number.map_or(default, |number| Duration::from_millis(number.unsigned_abs()))
    };
    Ok(RetryPolicy {
        max_retries: max_retries?
            .and_then(|number| u32::try_from(number).ok())
            .unwrap_or(defaults.max_retries),
        initial_delay: millis(initial?, defaults.initial_delay),
        max_delay: millis(longest?, defaults.max_delay),
        backoff_factor: factor?.unwrap_or(defaults.backoff_factor),
    })
}

/// The model's name; AgentV has several keys for it.
fn model(kind: &ProviderKind, settings: &mut Settings<'_, '_>) -> OptionalValue<String> {
    if kind.api() == Some(Api::Azure) {
        // A deployment has its own name, so `model` next to it only says what it deploys.
        let key = settings.spelled("deployment");
        let deployment = settings.text(key);
        let model = settings.text("model");
        return match deployment? {
            Some(name) => Ok(Some(name)),
            None => required_model(settings, model, "add `model:`, the name of the deployment"),
        };
    }
    let key = settings.spelled("model");
    let model = settings.text(key);
    if kind.api().is_none() {
        return model;
    }
    required_model(settings, model, "add `model:`, the provider's name of the model")
}

/// AgentV has default models, so a file may lack one: that is an error only when the target is used.
fn required_model(
    settings: &mut Settings<'_, '_>,
    model: OptionalValue<String>,
    hint: &str,
) -> OptionalValue<String> {
    if settings.scope.env.is_none() {
        return model;
    }
    settings.required("model", model, hint).map(Some)
}

fn mock(settings: &mut Settings<'_, '_>) -> Result<MockSettings, UnknownValue> {
    let reply = mock_reply(settings);
    let latency = settings.duration("latency");
    let error_rate = settings.number("error_rate");
    let rate_limit_rate = settings.number("rate_limit_rate");
    let retry_after = settings.duration("retry_after");
    let seed = settings.whole("seed");
    Ok(MockSettings {
        reply: reply?,
        latency: latency?.unwrap_or_default(),
        error_rate: error_rate?.unwrap_or(0.0),
        rate_limit_rate: rate_limit_rate?.unwrap_or(0.0),
        retry_after: retry_after?.unwrap_or(Duration::from_secs(1)),
        seed: seed?.map_or(0, i64::unsigned_abs),
    })
}

fn mock_reply(settings: &mut Settings<'_, '_>) -> Result<MockReply, UnknownValue> {
    const WAYS: [&str; 4] = ["mode", "response", "template", "script"];
    let given: Vec<_> = WAYS.iter().filter_map(|key| Some((*key, settings.node(key)?))).collect();
    if let [(first, _), (second, node), ..] = given[..] {
        return Err(settings.error(
            &node.span,
            format!("`{second}` and `{first}` exclude each other"),
            "keep one of `mode: echo`, `response`, `template` and `script`",
        ));
    }
    let mode = settings.parsed("mode", |text| match text {
        "echo" => Ok(MockReply::Echo),
        _ => Err(Legal::from("`echo`").hint("for a fixed answer use `response`, for many of them `script`")),
    });
    let response = settings.verbatim("response");
    let template = settings.verbatim("template");
    let script = settings.text("script");
    let text = response?.or(template?).map(MockReply::Template);
    let script = script?.map(|path| MockReply::Script(settings.scope.dir.join(path)));
    Ok(mode?.or(text).or(script).unwrap_or(MockReply::Echo))
}

fn params(kind: &ProviderKind, settings: &mut Settings<'_, '_>) -> Result<Params, UnknownValue> {
    let temperature = settings.number("temperature");
    let top_p = settings.number("top_p");
    // The mock's seed chooses its failures and is read there.
    let seed = if kind.api().is_none() { Ok(None) } else { settings.whole("seed") };
    let stop = settings.strings("stop");
    let key = settings.spelled("max_tokens");
    let max_tokens = settings.whole(key);
    let reasoning_effort = settings.text("reasoning_effort");
    let response_format = response_format(settings);
    if let Some(node) = settings.node("thinking_budget") {
        settings.warning(
            &node.span,
            false,
            "`thinking_budget` has no effect here: only AgentV reads it",
            "use `reasoning_effort`",
        );
    }
    if let Ok(Some(format)) = settings.get("api_format")
        && !matches!(&format.value, NodeValue::String(word) if word == "chat")
    {
        settings.warning(
            &format.node.span,
            format.variable.is_some(),
            "`api_format` has no effect here: calls are always chat completions",
            "write `api_format: chat`, or leave it to AgentV",
        );
    }
    Ok(Params {
        model: None,
        temperature: temperature?,
        top_p: top_p?,
        seed: seed?,
        stop: stop?.unwrap_or_default(),
        max_tokens: max_tokens?.map(i64::unsigned_abs),
        reasoning_effort: reasoning_effort?,
        response_format: response_format?,
    })
}

fn response_format(settings: &mut Settings<'_, '_>) -> OptionalValue<ResponseFormat> {
    let Some(node) = settings.node("response_format") else { return Ok(None) };
    let has_references = node.to_json().to_string().contains("${{");
    let mut tree = node.clone();
    let mut unset = Vec::new();
    match settings.scope.env {
        Some(env) => {
            interpolate_tree(&mut tree, env, &mut |at, name| unset.push((at.span.clone(), name.to_owned())));
        }
        None if has_references => return Err(UnknownValue),
        None => {}
    }
    if !unset.is_empty() {
        for (span, name) in unset {
            settings.unset(&span, "response_format", &name);
        }
        return Err(UnknownValue);
    }
    let wrong = |settings: &mut Settings<'_, '_>, message: String| {
        let hint = "for example `{ type: json_object }`, or `{ type: json_schema, json_schema: { name: …, schema: … } }`";
        settings.error(&node.span, format!("`response_format`: {message}"), hint)
    };
    let format: ResponseFormat = match serde_json::from_value(tree.to_json()) {
        Ok(format) => format,
        // The error may repeat a value, and a value from the environment may be a secret.
        Err(_) if has_references => {
            return Err(wrong(settings, "its variables do not give a valid one".to_owned()));
        }
        Err(error) => return Err(wrong(settings, error.to_string())),
    };
    if let ResponseFormat::JsonSchema { json_schema } = &format {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if !(1..=64).contains(&json_schema.name.len()) || !json_schema.name.chars().all(legal) {
            return Err(wrong(
                settings,
                "expected a name of 1 to 64 letters, digits, `_` and `-`".to_owned(),
            ));
        }
    }
    Ok(Some(format))
}

fn limits(settings: &mut Settings<'_, '_>) -> Result<Limits, UnknownValue> {
    let max_concurrency = settings.positive("max_concurrency");
    let workers = settings.positive("workers");
    let requests_per_minute = settings.positive("requests_per_minute");
    let tokens_per_minute = settings.positive("tokens_per_minute");
    let default = std::num::NonZeroU32::MIN.saturating_add(DEFAULT_CONCURRENCY - 1);
    Ok(Limits {
        max_concurrency: max_concurrency?.or(workers?).unwrap_or(default),
        requests_per_minute: requests_per_minute?,
        tokens_per_minute: tokens_per_minute?,
    })
}

fn timeout(settings: &mut Settings<'_, '_>) -> OptionalValue<Duration> {
    let key = settings.spelled("timeout");
    let timeout = settings.duration("timeout");
    let seconds = settings.number("timeout_seconds");
    if key == "timeout" { timeout } else { Ok(seconds?.map(Duration::from_secs_f64)) }
}

fn price(settings: &mut Settings<'_, '_>) -> Result<Price, UnknownValue> {
    let input = settings.number("input_per_mtok");
    let output = settings.number("output_per_mtok");
    let cached = settings.number("cached_input_per_mtok");
    let hint = "US dollars for a million tokens";
    let input = settings.required("input_per_mtok", input, hint);
    let output = settings.required("output_per_mtok", output, hint);
    Ok(Price { input_per_mtok: input?, output_per_mtok: output?, cached_input_per_mtok: cached? })
}
