//! The settings of one target: values that may contain `${{ NAME }}`.
//!
//! The same reader runs twice. At load it has no environment: it skips references and checks everything else. At resolution
//! it has one, and applies the same checks to the resolved values. Values from the environment are never shown: any of them
//! may be a secret.

use std::collections::BTreeMap;
use std::path::Path;

use super::keys::{KeyGroup, UNKNOWN};
use super::shape::Shape;
use super::values::Legal;
use crate::config::yaml::plain;
use crate::config::{
    Env, Fields, Node, NodeValue, Problems, Reference, Span, interpolate, references, unknown_hint,
};
use crate::util::secrets::is_secret_name;

/// The longest string of the file that a message repeats.
const LONGEST_SHOWN: usize = 40;

/// The value is unknown: its reference needs the environment, or an error was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnknownValue;

/// A setting that may be absent.
pub(super) type OptionalValue<T> = Result<Option<T>, UnknownValue>;

/// The context in which settings are read.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    /// The target's name.
    pub(super) target: &'a str,
    /// The `use_target` links that led to it, or empty.
    pub(super) chain: &'a str,
    /// The directory of the file.
    pub(super) dir: &'a Path,
    /// The files that it names, if they are not on this disk.
    pub(super) files: Option<&'a BTreeMap<String, Vec<u8>>>,
    /// Without it, only the shape is checked.
    pub(super) env: Option<&'a Env>,
    /// Whether the warnings about the file's own text were given before.
    pub(super) warned: bool,
}

/// A value with its references resolved.
pub(super) struct Setting<'a> {
    pub(super) node: &'a Node,
    pub(super) value: NodeValue,
    /// The variable that it comes from.
    pub(super) variable: Option<String>,
}

/// Reads the settings of one mapping, whose legal keys a table lists.
pub(super) struct Settings<'a, 'p> {
    pub(super) scope: Scope<'a>,
    fields: Fields<'a>,
    /// The prefix of keys in messages, such as `price.`.
    path: &'static str,
    /// Where a missing key is reported.
    home: &'a Span,
    group: KeyGroup,
    /// The keys that an unset variable omits.
    optional: Vec<&'static str>,
    problems: &'p mut Problems,
}

impl<'a, 'p> Settings<'a, 'p> {
    pub(super) fn new(
        fields: Fields<'a>,
        home: &'a Span,
        scope: Scope<'a>,
        problems: &'p mut Problems,
    ) -> Self {
        Self { scope, fields, path: "", home, group: UNKNOWN, optional: Vec::new(), problems }
    }

    /// Sets which keys are legal.
    pub(super) fn expect(&mut self, group: KeyGroup) {
        self.group = group;
    }

    /// The shape of a key.
    pub(super) fn shape(&self, key: &str) -> Option<Shape> {
        self.group.get(key).map(|key| key.shape)
    }

    /// The raw value of a key, where the key is legal.
    pub(super) fn node(&mut self, key: &'static str) -> Option<&'a Node> {
        self.group.get(key).and_then(|key| self.fields.get(key.name))
    }

    /// The value of a key.
    pub(super) fn get(&mut self, key: &'static str) -> OptionalValue<Setting<'a>> {
        match self.node(key) {
            Some(node) => self.resolve(key, node),
            None => Ok(None),
        }
    }

    /// A mapping inside this one.
    pub(super) fn nested<T>(
        &mut self,
        key: &'static str,
        path: &'static str,
        group: KeyGroup,
        read: impl FnOnce(&mut Settings<'a, '_>) -> Result<T, UnknownValue>,
    ) -> OptionalValue<T> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let fields = node.fields(&format!("`{key}`"), self.problems).ok_or(UnknownValue)?;
        let mut inner = Settings::new(fields, &node.span, self.scope, self.problems);
        inner.path = path;
        inner.expect(group);
        let value = read(&mut inner);
        inner.finish(&format!("in `{key}`"));
        value.map(Some)
    }

    /// The spelling that the file uses; the first one if it uses none.
    pub(super) fn spelled(&mut self, key: &'static str) -> &'static str {
        let keys = self.group.spellings(key);
        let used: Vec<(&'static str, &Node)> =
            keys.iter().filter_map(|key| Some((*key, self.node(key)?))).collect();
        if let [(first, _), (second, node), ..] = used[..] {
            let message = format!("`{second}` and `{first}` mean the same");
            self.problems.error_with_hint(&node.span, message, "keep one of them");
        }
        used.first().map_or(key, |(key, _)| *key)
    }

    /// Treats a key that is one whole reference to an unset variable as absent, as AgentV does.
    pub(super) fn optional(&mut self, key: &'static str) {
        self.optional.push(key);
    }

    /// The value; records an error if its key is missing.
    pub(super) fn required<T>(
        &mut self,
        key: &str,
        read: OptionalValue<T>,
        hint: &str,
    ) -> Result<T, UnknownValue> {
        read?.ok_or_else(|| {
            let message = format!("target `{}`: `{}{key}` is missing", self.scope.target, self.path);
            self.problems.error_with_hint(self.home, message, hint);
            UnknownValue
        })
    }

    /// Records an error.
    pub(super) fn error(
        &mut self,
        span: &Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> UnknownValue {
        self.problems.error_with_hint(span, message, hint);
        UnknownValue
    }

    /// Records a warning once: at load about the file's own text, at resolution about resolved values.
    pub(super) fn warning(
        &mut self,
        span: &Span,
        from_environment: bool,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        if from_environment || !self.scope.warned {
            self.problems.warning(span, message, Some(hint.into()));
        }
    }

    /// Records that a value is not legal.
    pub(super) fn wrong(
        &mut self,
        key: &str,
        setting: &Setting<'_>,
        legal: impl Into<Legal>,
    ) -> UnknownValue {
        let Legal { expected, hint } = legal.into();
        let message = format!("`{}{key}`: expected {expected}, found {}", self.path, setting.describe());
        match hint {
            Some(hint) => self.problems.error_with_hint(&setting.node.span, message, hint),
            None => self.problems.error(&setting.node.span, message),
        }
        UnknownValue
    }

    /// Records that a variable has no value.
    pub(super) fn unset(&mut self, span: &Span, key: &str, name: &str) {
        let Scope { target, chain, .. } = self.scope;
        let by = if chain.is_empty() { String::new() } else { format!(" ({chain})") };
        let path = self.path;
        let message = format!(
            "target `{target}`{by}: `{path}{key}` needs the environment variable `{name}`, which is not set"
        );
        let process = self.scope.env.map(Env::process);
        let hint = match process.filter(|env| env.get("GITHUB_ACTIONS") == Some("true")) {
            Some(env) if is_secret_name(name) => {
                let repo = env.get("GITHUB_REPOSITORY").unwrap_or("OWNER/REPO");
                // Only the runner repository's template uses the environment.
                let is_runner = env.get("GITHUB_EVENT_NAME") == Some("workflow_dispatch");
                let environment = if is_runner { " --env run-evals" } else { "" };
                format!(
                    "`gh secret set {name}{environment} -R {repo}`, and in the `env:` of the workflow's step: \
                     `{name}: ${{{{ secrets.{name} }}}}`; a workflow that calls `runner.yml` passes it by name in `secrets:`"
                )
            }
            Some(_) => format!("set it in the `env:` of the workflow's step: `{name}: …`"),
            None => format!(
                "`export {name}=…`, put it into `.env`, or pass it in the `env:` of the workflow's step"
            ),
        };
        self.problems.error_with_hint(span, message, hint);
    }

    /// Records the unknown keys; `place` says where they are.
    pub(super) fn finish(mut self, place: &str) {
        let legal: Vec<&str> = self.group.names().collect();
        for key in &legal {
            self.fields.get(key);
        }
        for key in self.fields.unknown() {
            let snake = snake_case(&key.text);
            let hint = if snake != key.text && legal.contains(&snake.as_str()) {
                format!("keys are in snake case: `{snake}`")
            } else {
                unknown_hint(&snake, &legal, place)
            };
            let message = format!("unknown key `{}` {place}", key.text);
            self.problems.error_with_hint(&key.span, message, hint);
        }
    }

    /// A value with its references replaced; an empty default means that the setting is absent.
    pub(super) fn resolve(&mut self, key: &str, node: &'a Node) -> OptionalValue<Setting<'a>> {
        let literal = || Setting { node, value: node.value.clone(), variable: None };
        let Some(text) = node.as_str().filter(|text| text.contains("${{")) else {
            return Ok(Some(literal()));
        };
        let names: Vec<&str> = references(text).map(|reference| reference.name).collect();
        if text.matches("${{").count() > names.len() {
            let message = format!("`{}{key}`: a reference that names no variable", self.path);
            let hint = "write `${{ NAME }}` or `${{ NAME:-default }}`; `NAME` is an environment variable, and a \
                        workflow passes a secret to it in the step's `env:`";
            return Err(self.error(&node.span, message, hint));
        }
        let Some(env) = self.scope.env else { return Err(UnknownValue) };
        // Every other setting ends up in an address, a message or the inputs of a workflow.
        if !is_secret_name(key)
            && let Some(name) = names.iter().find(|name| env.is_secret(name))
        {
            let message =
                format!("`{}{key}`: `{name}` holds a key, and only `api_key` may refer to one", self.path);
            let hint = "write the value itself, or refer to a variable without a key, token or password in its name and its value";
            return Err(self.error(&node.span, message, hint));
        }
        let mut unset = Vec::new();
        let value = interpolate(text, env, |name| unset.push(name.to_owned()));
        if unset.is_empty() {
            let variable = names.first().map(|name| (*name).to_owned());
            let given = !value.trim().is_empty();
            return Ok(given.then_some(Setting { node, value: NodeValue::String(value), variable }));
        }
        if self.optional.contains(&key) && Reference::whole(text).is_some() {
            return Ok(None);
        }
        for name in unset {
            self.unset(&node.span, key, &name);
        }
        Err(UnknownValue)
    }
}

impl Setting<'_> {
    /// The text, where it is text.
    pub(super) fn text(&self) -> Option<&str> {
        if let NodeValue::String(text) = &self.value { Some(text) } else { None }
    }

    /// The value, for messages.
    fn describe(&self) -> String {
        if let Some(variable) = &self.variable {
            return format!("something else in the variable `{variable}`");
        }
        match &self.value {
            NodeValue::Int(number) => format!("the number {number}"),
            NodeValue::Float(number) => format!("the number {number}"),
            NodeValue::Bool(flag) => format!("`{flag}`"),
            // An `@` may belong to credentials in a URL.
            NodeValue::String(text)
                if text.chars().count() <= LONGEST_SHOWN
                    && !text.contains(|c: char| c.is_control() || c == '@') =>
            {
                // In quotes it is text, even if it looks like a number.
                let quoted = !matches!(plain(text), NodeValue::String(_));
                if quoted { format!("the string `{text}`") } else { format!("`{text}`") }
            }
            _ => self.node.kind().to_owned(),
        }
    }
}

/// `maxConcurrency` → `max_concurrency`.
fn snake_case(key: &str) -> String {
    let mut out = String::new();
    for c in key.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out.replace('-', "_")
}
