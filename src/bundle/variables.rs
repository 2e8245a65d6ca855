//! Environment variables: which a bundle refers to, which are written into it, and which must never be.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::compiler::Compiler;
use crate::config::{Env, Node, NodeValue, Problems, Reference, Span, each_reference, references, typed};
use crate::util::secrets::is_secret_value;

/// Shorter values are common words.
const SHORTEST_SECRET: usize = 8;

/// Which variables to write into a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Capture {
    /// None: they stay references.
    #[default]
    Nothing,
    /// All that do not look like secrets.
    Harmless,
    /// These, even if they look like secrets.
    Named(Vec<String>),
}

/// A variable in the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Where the bundle refers to it, or did before its value was written.
    pub used: BTreeSet<String>,
    /// Its state.
    pub state: State,
    /// Its value, if it was captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The files and targets that it chose when the bundle was made.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub chose: BTreeSet<String>,
}

/// The state of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It must be set where the bundle runs.
    Reference,
    /// Its value is in the bundle.
    Captured,
    /// It was to be captured but looks like a secret: it must be set where the bundle runs.
    Redacted,
    /// It was resolved when the bundle was made.
    Resolved,
}

/// A value that must not be in a bundle.
#[derive(Debug)]
pub(super) struct Forbidden {
    pub(super) name: String,
    pub(super) value: Vec<u8>,
}

impl Compiler<'_> {
    /// Captures the chosen variables in the trees, and lists all variables.
    pub(super) fn variables(&mut self, trees: &mut [(&str, &mut Node)], capture: &Capture) -> Vec<Variable> {
        let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (file, tree) in &*trees {
            uses(tree, &mut format!("{file}: "), &mut used);
        }
        for name in self.chosen.keys() {
            used.entry(name.clone()).or_default();
        }
        if let Capture::Named(names) = capture {
            for name in names.iter().filter(|name| !used.contains_key(*name)) {
                let at = trees[0].1.span.clone();
                self.warn(
                    &at,
                    format!("`--capture-env={name}`: the suite does not refer to it"),
                    "leave it out",
                );
            }
        }
        let mut variables = Vec::new();
        for (name, used) in used {
            let chose = self.chosen.remove(&name).unwrap_or_default();
            let value = self.env.get(&name).map(ToOwned::to_owned);
            let wanted = match capture {
                Capture::Nothing => false,
                Capture::Harmless => true,
                Capture::Named(names) => names.contains(&name),
            };
            let secret = *capture == Capture::Harmless
                && value.as_deref().is_some_and(|value| is_secret(&name, value, self.env));
            let (state, value) = match value {
                Some(_) if wanted && secret => (State::Redacted, None),
                Some(value) if wanted && !used.is_empty() => (State::Captured, Some(value)),
                _ if used.is_empty() => (State::Resolved, None),
                _ => (State::Reference, None),
            };
            variables.push(Variable { name, used, state, value, chose });
        }
        let captured: BTreeMap<&str, &str> = variables
            .iter()
            .filter_map(|variable| Some((variable.name.as_str(), variable.value.as_deref()?)))
            .collect();
        for (file, tree) in trees {
            // AgentV converts values to numbers and booleans only in a suite.
            fill(tree, &captured, *file != super::TARGETS);
        }
        variables
    }
}

/// The values that must not be in a bundle, except those captured by name.
pub(super) fn forbidden(env: &Env, capture: &Capture, variables: &[Variable]) -> Vec<Forbidden> {
    let allowed = |name: &str| match capture {
        Capture::Named(names) => names.iter().any(|known| known == name),
        _ => false,
    };
    let mut found = Vec::new();
    for name in env.names() {
        let Some(value) = env.get(name).filter(|value| value.len() >= SHORTEST_SECRET) else { continue };
        let referred = variables.iter().any(|variable| variable.name == name);
        let secret = env.is_secret(name) || referred && is_secret(name, value, env);
        if secret && !allowed(name) {
            found.push(Forbidden { name: name.to_owned(), value: value.as_bytes().to_vec() });
        }
    }
    found
}

/// Records every forbidden value in a text.
pub(super) fn check_text(
    text: &str,
    file: &str,
    forbidden: &[Forbidden],
    at: &Span,
    problems: &mut Problems,
) {
    for secret in forbidden {
        if memchr::memmem::find(text.as_bytes(), &secret.value).is_some() {
            let (message, hint) = leak(file, &secret.name);
            problems.error_with_hint(at, message, hint);
        }
    }
}

/// The message about a secret in a file.
pub(super) fn leak(file: &str, name: &str) -> (String, String) {
    (
        format!("`{file}` contains the value of `{name}`, which looks like a secret"),
        format!("write `${{{{ {name} }}}}` there; `--capture-env={name}` allows it in the bundle"),
    )
}

/// Whether a variable looks like a secret, by its name or its value.
fn is_secret(name: &str, value: &str, env: &Env) -> bool {
    env.is_secret(name) || is_secret_value(value)
}

/// Where a tree has references; items of a list are not distinguished.
fn uses(node: &Node, way: &mut String, used: &mut BTreeMap<String, BTreeSet<String>>) {
    let length = way.len();
    match &node.value {
        NodeValue::String(_) => each_reference(node, &mut |_, name| {
            let way = way.trim_end_matches(": ").to_owned();
            used.entry(name.to_owned()).or_default().insert(way);
        }),
        NodeValue::List(items) => {
            way.push_str("[]");
            for item in items {
                uses(item, way, used);
            }
        }
        NodeValue::Map(entries) => {
            for (key, value) in entries {
                if !way.ends_with(' ') {
                    way.push('.');
                }
                way.push_str(&key.text);
                uses(value, way, used);
                way.truncate(length);
            }
        }
        _ => {}
    }
    way.truncate(length);
}

/// Replaces references by values.
fn fill(node: &mut Node, values: &BTreeMap<&str, &str>, types: bool) {
    match &mut node.value {
        NodeValue::String(text) if text.contains("${{") => {
            let mut out = String::new();
            let mut copied = 0;
            for reference in references(text) {
                let Some(value) = values.get(reference.name) else { continue };
                out.push_str(&text[copied..reference.start]);
                out.push_str(value);
                copied = reference.end;
            }
            if copied > 0 {
                let is_whole = Reference::whole(text).is_some();
                out.push_str(&text[copied..]);
                node.value = if is_whole && types { typed(out) } else { NodeValue::String(out) };
            }
        }
        NodeValue::List(items) => items.iter_mut().for_each(|item| fill(item, values, types)),
        NodeValue::Map(entries) => entries.iter_mut().for_each(|(_, value)| fill(value, values, types)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognized_by_name_or_format() {
        let env = Env::default();
        for (name, value) in [
            ("MY_KEY", "x"),
            ("GITHUB_TOKEN_2", "x"),
            ("X", "sk-proj-0123456789abcdef"),
            ("X", "https://me:word@host/x"),
            ("X", "aB3aB3aB3aB3aB3aB3aB3aB3aB3aB3aB3"),
            ("X", "-----BEGIN PRIVATE KEY-----"),
        ] {
            assert!(is_secret(name, value, &env), "{name}={value}");
        }
        for (name, value) in [
            ("MODEL", "gpt-6-luna"),
            ("SHA", "0123456789abcdef0123456789abcdef01234567"),
            ("URL", "https://host/x"),
        ] {
            assert!(!is_secret(name, value, &env), "{name}={value}");
        }
    }
}
