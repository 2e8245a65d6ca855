//! The keys that all graders share, and their common errors.

use serde_json::{Map, Value};

use super::{kinds, listed};
use crate::config::{Fields, Node, Span, did_you_mean};
use crate::model::{Grader, GraderKind};
use crate::suite::loader::{Loader, key_span};
use crate::suite::vars;

/// The keys of every grader.
const COMMON: [&str; 7] = ["name", "type", "weight", "required", "min_score", "negate", "preprocessors"];

/// A grader whose common keys were read.
pub(super) struct GraderEntry<'n> {
    pub(super) fields: Fields<'n>,
    /// Its kind, with hyphens.
    pub(super) word: String,
    name: Option<String>,
    weight: f64,
    required: bool,
    min_score: Option<f64>,
    negate: bool,
}

impl<'n> GraderEntry<'n> {
    /// Reads the common keys.
    pub(super) fn read(node: &'n Node, is_member: bool, loader: &mut Loader) -> Option<Self> {
        if node.entries().is_none() {
            loader.problems.error_with_hint(
                &node.span,
                format!("an assertion is a mapping or a text, found {}", node.kind()),
                "for example `{type: contains, value: Paris}`, or a sentence that a model checks",
            );
            return None;
        }
        let before = loader.problems.error_count();
        let mut fields = node.fields("assertion", &mut loader.problems)?;
        let name = fields.string("name", &mut loader.problems).map(ToOwned::to_owned);
        if name.as_ref().is_some_and(|name| name.trim().is_empty()) {
            loader.problems.error(key_span(node, "name"), "`name`: it is empty");
        }
        let word = read_type(&mut fields, is_member, loader);
        if is_member && name.is_none() {
            let message = "a grader in a `composite` without a `name`, which AgentV skips";
            loader.problems.error_with_hint(&node.span, message, "add one: weights refer to members by name");
        }
        if is_member {
            let unread: Vec<&str> = ["weight", "required", "min_score", "negate"]
                .into_iter()
                .filter(|key| fields.get(key).is_some())
                .collect();
            for key in unread {
                let message = format!("`{key}` is not read in a `composite`");
                let hint = "its `aggregator` says what each member counts".to_owned();
                loader.warn_once(key_span(node, key), message, Some(hint));
            }
        }
        let (required, of_required) = read_required(&mut fields, loader);
        let min_score = above_zero(&mut fields, "min_score", loader).or(of_required);
        if min_score.is_some() && !required && !is_member {
            let message = "`min_score` without `required` changes nothing".to_owned();
            let hint = "add `required: true`: a score below it then fails the whole test".to_owned();
            loader.warn_once(key_span(node, "min_score"), message, Some(hint));
        }
        let negate = fields.boolean("negate", &mut loader.problems).unwrap_or_default();
        let weight = not_negative(&mut fields, "weight", loader).unwrap_or(1.0);
        fields.get("preprocessors");
        if loader.problems.error_count() > before {
            return None;
        }
        let weight = if is_member { 1.0 } else { weight };
        let (required, negate) = (required && !is_member, negate && !is_member);
        Some(Self { fields, word: word?, name, weight, required, min_score, negate })
    }

    /// The grader. `default_name` is AgentV's default.
    pub(super) fn grader(self, default_name: String, kind: GraderKind) -> Grader {
        let Self { name, weight, required, min_score, negate, .. } = self;
        Grader { name: name.unwrap_or(default_name), weight, required, min_score, negate, kind }
    }

    /// The same, after checking that it has no unknown keys.
    pub(super) fn closed(
        self,
        keys: &[&str],
        default_name: String,
        kind: GraderKind,
        loader: &mut Loader,
    ) -> Grader {
        let legal: Vec<&str> =
            COMMON.into_iter().filter(|key| *key != "preprocessors").chain(keys.iter().copied()).collect();
        loader.warn_unknown(&self.fields, &format!("a `{}` grader", self.word), &legal);
        self.grader(default_name, kind)
    }

    /// The keys that are neither common nor read, as JSON.
    pub(super) fn other_keys(&self) -> impl Iterator<Item = (&'n str, &'n Node)> {
        let entries = self.fields.node.entries().unwrap_or_default();
        entries
            .iter()
            .map(|(key, value)| (key.text.as_str(), value))
            .filter(|(key, value)| !COMMON.contains(key) && !value.is_null())
    }

    /// The configuration for a command of the suite: keys that are not `own`, and `config`.
    pub(super) fn command_config(&mut self, own: &[&str]) -> Map<String, Value> {
        let mut config: Map<String, Value> = self
            .other_keys()
            .filter(|(key, _)| !own.contains(key))
            .map(|(key, value)| (key.to_owned(), vars::json(value)))
            .collect();
        if let Some(Value::Object(more)) = self.fields.get("config").map(vars::json) {
            config.extend(more);
        }
        config
    }

    /// Records that something is missing or wrong.
    pub(super) fn error(&self, key: &str, message: &str, hint: &str, loader: &mut Loader) {
        let message = format!("`{}`: {message}", self.word);
        loader.problems.error_with_hint(key_span(self.fields.node, key), message, hint);
    }

    /// The position of its type.
    pub(super) fn type_span(&self) -> &'n Span {
        let node = self.fields.node;
        let entries = node.entries().unwrap_or_default();
        let found = entries.iter().find(|(key, _)| key.text == "type");
        found.map_or(&node.span, |(_, value)| &value.span)
    }

    /// A grader that this version does not have: an error, or `None` if these are ignored.
    pub(super) fn unknown(self, loader: &mut Loader) -> Option<Grader> {
        let span = self.type_span();
        let near = did_you_mean(&self.word, kinds::names());
        let is_agents = kinds::is_of_agents(&self.word);
        let message = format!("unknown grader `{}`", self.word);
        if loader.grader_options.ignore_unknown {
            loader.warn_once(span, format!("{message}: it does not count"), None);
            let kind = GraderKind::Unknown(self.word.clone());
            let name = self.word.clone();
            return Some(self.grader(name, kind));
        }
        let ignore = "`--ignore-unknown-graders` skips it";
        let hint = match near {
            Some(near) if !is_agents => format!("did you mean `{near}`? {ignore}"),
            _ if is_agents => {
                format!("it checks an agent's actions, which only `agentv eval` supports; {ignore}")
            }
            _ => format!("the kinds are {}; {ignore}", listed(kinds::names())),
        };
        loader.problems.error_with_hint(span, message, hint);
        None
    }
}

fn read_type(fields: &mut Fields, is_member: bool, loader: &mut Loader) -> Option<String> {
    let Some(node) = fields.get("type") else {
        let hint = format!("add `type:`, one of {}", listed(kinds::names()));
        loader.problems.error_with_hint(&fields.node.span, "an assertion without a `type`", hint);
        return None;
    };
    let Some(text) = node.as_str() else {
        loader.problems.error(&node.span, format!("`type`: expected a word, found {}", node.kind()));
        return None;
    };
    let word = text.replace('_', "-");
    if is_member && word != text {
        let message = format!("AgentV skips `{text}` in a `composite`");
        loader.problems.error_with_hint(&node.span, message, format!("write `{word}`"));
        return None;
    }
    if let Some(kind) = word.strip_suffix("-judge").filter(|kind| matches!(*kind, "code" | "llm")) {
        let message = format!("`{text}` is no longer supported, so AgentV skips it");
        loader.problems.error_with_hint(&node.span, message, format!("write `{kind}-grader`"));
        return None;
    }
    Some(word)
}

fn read_required(fields: &mut Fields, loader: &mut Loader) -> (bool, Option<f64>) {
    let Some(node) = fields.get("required") else { return (false, None) };
    match node.as_f64() {
        Some(number) if number > 0.0 && number <= 1.0 => (true, Some(number)),
        Some(number) => {
            let message =
                format!("`required`: expected `true`, or a score above 0 and up to 1, found {number}");
            loader.problems.error(&node.span, message);
            (false, None)
        }
        None => (fields.boolean("required", &mut loader.problems).unwrap_or_default(), None),
    }
}

/// A score above 0 and up to 1.
pub(super) fn above_zero(fields: &mut Fields, key: &str, loader: &mut Loader) -> Option<f64> {
    let number = fields.number(key, &mut loader.problems)?;
    if number > 0.0 && number <= 1.0 {
        return Some(number);
    }
    let span = &fields.get(key)?.span;
    loader.problems.error(span, format!("`{key}`: expected a score above 0 and up to 1, found {number}"));
    None
}

/// Larger weights and limits are mistakes, and their sums would overflow.
const LARGEST: f64 = 1e12;

/// A number that is 0 or more.
pub(super) fn not_negative(fields: &mut Fields, key: &str, loader: &mut Loader) -> Option<f64> {
    let number = fields.number(key, &mut loader.problems)?;
    if (0.0..=LARGEST).contains(&number) {
        return Some(number);
    }
    let span = &fields.get(key)?.span;
    loader.problems.error(span, format!("`{key}`: expected a number from 0 to {LARGEST:e}, found {number}"));
    None
}
