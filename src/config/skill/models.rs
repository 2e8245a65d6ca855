//! `.evaluator/models.yaml`: the models that skills are evaluated with.
//!
//! The file is in the skill repository, so it may set model parameters but no addresses or keys: these would let anyone with
//! write access send the operator's key elsewhere.

use std::time::Duration;

use crate::config::{Document, Invalid, Node, Problems, Source, did_you_mean, parse_duration};
use crate::model::{ModelParams, StructuredOutput};

/// The models, in the author's order.
#[derive(Debug, Clone, PartialEq)]
pub struct Models {
    /// At least one.
    pub models: Vec<ModelSettings>,
}

/// A model and its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSettings {
    /// The name that the server knows.
    pub id: String,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// The most tokens of an answer.
    pub max_tokens: Option<u64>,
    /// The seed to send to the server.
    pub seed: Option<i64>,
    /// How the answer's format is requested.
    pub structured_output: Option<StructuredOutput>,
    /// How long one call may take.
    pub timeout: Option<Duration>,
}

const KEYS: [&str; 7] =
    ["id", "temperature", "max_tokens", "seed", "structured_output", "timeout", "timeout_s"];
/// Keys that set an address or credentials.
const REFUSED: [&str; 10] = [
    "base_url",
    "url",
    "endpoint",
    "api_base",
    "host",
    "api_key",
    "api_key_env",
    "token",
    "headers",
    "authorization",
];
const MOST_MODELS: usize = 100;
const MOST_TOKENS: u64 = 10_000_000;
const LONGEST: Duration = Duration::from_hours(24);

impl Models {
    /// The path of the file in the skill library.
    pub const PATH: &str = ".evaluator/models.yaml";

    /// Reads the file; messages call it `shown_as`.
    pub fn read(text: &str, shown_as: &std::path::Path) -> Result<Self, Invalid> {
        let source = Source::decode(shown_as, text.as_bytes().to_vec())?;
        let document = Document::parse(source.path, source.text)?;
        let mut problems = Problems::default();
        let models = read(&document.root, &mut problems);
        problems.finish()?;
        Ok(Self { models })
    }
}

impl ModelSettings {
    /// The settings that change answers, as recorded in an entry.
    pub fn params(&self, structured_output: StructuredOutput) -> ModelParams {
        ModelParams {
            temperature: self.temperature,
            max_tokens: self.max_tokens,
            seed: self.seed,
            structured_output,
        }
    }
}

fn read(root: &Node, problems: &mut Problems) -> Vec<ModelSettings> {
    let mut models: Vec<ModelSettings> = Vec::new();
    let Some(mut fields) = root.fields("the file", problems) else { return models };
    let list = fields.get("models");
    for key in fields.unknown() {
        unknown(key, &["models"], "the file", problems);
    }
    let Some(list) = list else {
        problems.error_with_hint(&root.span, "`models` is missing", "write `models:` and below it `- id: …`");
        return models;
    };
    let Some(items) = list.items() else {
        problems.error(&list.span, format!("`models`: expected a list, found {}", list.kind()));
        return models;
    };
    if items.is_empty() {
        problems.error_with_hint(&list.span, "`models` is empty", "write `- id: …` below it");
    }
    if items.len() > MOST_MODELS {
        problems.error(&items[MOST_MODELS].span, format!("more than {MOST_MODELS} models"));
        return models;
    }
    for item in items {
        let Some(model) = read_model(item, problems) else { continue };
        let same = |known: &ModelSettings| ModelSettings { timeout: None, ..known.clone() };
        if models.iter().any(|known| same(known) == same(&model)) {
            let message = format!("the model `{}` is listed twice with the same settings", model.id);
            problems.error(&item.span, message);
        }
        models.push(model);
    }
    models
}

fn read_model(node: &Node, problems: &mut Problems) -> Option<ModelSettings> {
    let mut fields = node.fields("a model", problems)?;
    let id = read_id(&mut fields, "id", problems);
    let (temperature, max_tokens, seed) = read_sampling(&mut fields, problems);
    let structured_output = read_structured(&mut fields, problems);
    let timeout = read_timeout(&mut fields, problems);
    for key in fields.unknown() {
        unknown(key, &KEYS, "a model", problems);
    }
    Some(ModelSettings { id: id?, temperature, max_tokens, seed, structured_output, timeout })
}

/// Temperature, output limit and seed.
pub(super) fn read_sampling(
    fields: &mut crate::config::Fields<'_>,
    problems: &mut Problems,
) -> (Option<f64>, Option<u64>, Option<i64>) {
    let temperature = fields.number("temperature", problems);
    if let (Some(wrong), Some(node)) =
        (temperature.filter(|number| !(0.0..=2.0).contains(number)), fields.get("temperature"))
    {
        problems.error(&node.span, format!("`temperature`: expected a number from 0 to 2, found {wrong}"));
    }
    let max_tokens = fields.count("max_tokens", problems);
    if let (Some(wrong), Some(node)) =
        (max_tokens.filter(|count| !(1..=MOST_TOKENS).contains(count)), fields.get("max_tokens"))
    {
        problems.error(&node.span, format!("`max_tokens`: expected 1 to {MOST_TOKENS}, found {wrong}"));
    }
    (temperature, max_tokens, fields.integer("seed", problems))
}

pub(super) fn read_id(
    fields: &mut crate::config::Fields<'_>,
    key: &str,
    problems: &mut Problems,
) -> Option<String> {
    let Some(node) = fields.get(key) else {
        problems.error_with_hint(
            &fields.node.span,
            format!("`{key}` is missing"),
            format!("`{key}` is the name that the server knows the model by"),
        );
        return None;
    };
    let id = fields.string(key, problems)?;
    let legal = (1..=200).contains(&id.len()) && !id.contains(|c: char| c.is_whitespace() || c.is_control());
    if !legal {
        problems.error(&node.span, format!("`{key}`: expected 1 to 200 characters without white space"));
        return None;
    }
    Some(id.to_owned())
}

fn read_structured(
    fields: &mut crate::config::Fields<'_>,
    problems: &mut Problems,
) -> Option<StructuredOutput> {
    let node = fields.get("structured_output")?;
    let found =
        node.as_str().and_then(|word| StructuredOutput::ALL.into_iter().find(|kind| kind.as_str() == word));
    if found.is_none() {
        let words = StructuredOutput::ALL.map(|kind| format!("`{}`", kind.as_str())).join(", ");
        problems.error(&node.span, format!("`structured_output`: expected one of {words}"));
    }
    found
}

fn read_timeout(fields: &mut crate::config::Fields<'_>, problems: &mut Problems) -> Option<Duration> {
    let (text, seconds) = (fields.get("timeout"), fields.get("timeout_s"));
    let (node, duration) = match (text, seconds) {
        (Some(_), Some(node)) => {
            problems.error(&node.span, "`timeout_s` and `timeout` exclude each other");
            return None;
        }
        (None, None) => return None,
        (Some(node), None) => match node.as_str().map(parse_duration) {
            Some(Ok(duration)) => (node, duration),
            Some(Err(message)) => {
                problems.error(&node.span, format!("`timeout`: {message}"));
                return None;
            }
            None => {
                problems.error(&node.span, "`timeout`: expected a duration such as `90s` or `10m`");
                return None;
            }
        },
        (None, Some(node)) => {
            let Some(Ok(duration)) = node.as_f64().map(Duration::try_from_secs_f64) else {
                problems.error(&node.span, "`timeout_s`: expected a number of seconds");
                return None;
            };
            (node, duration)
        }
    };
    if duration.is_zero() || duration > LONGEST {
        problems.error(&node.span, "expected a timeout above 0 and at most 24 hours");
        return None;
    }
    Some(duration)
}

pub(super) fn unknown(key: &crate::config::Key, legal: &[&str], what: &str, problems: &mut Problems) {
    if REFUSED.contains(&key.text.to_ascii_lowercase().as_str()) {
        let message = format!("`{}` is not allowed here", key.text);
        let hint = "only the operator's `targets.yaml` sets addresses and keys: \
                    otherwise anyone who can write to this file could send the key anywhere";
        problems.error_with_hint(&key.span, message, hint);
        return;
    }
    let words = legal.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let message = format!("unknown key `{}` in {what}; legal are {words}", key.text);
    match did_you_mean(&key.text, legal.iter().copied()) {
        Some(word) => problems.error_with_hint(&key.span, message, format!("did you mean `{word}`?")),
        None => problems.error(&key.span, message),
    }
}
