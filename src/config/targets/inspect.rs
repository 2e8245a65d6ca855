//! Checks every target without using it: where it leads, which variables it needs, what is wrong.

use super::TargetsFile;
use super::command;
use super::entry::TargetEntry;
use super::resolve::Path;
use crate::config::{Env, Node, NodeValue, Problems, interpolate, references};
use crate::model::{Backend, Failure, Finding, Level, ProviderKind, Target};

/// What is known about a target without the network.
#[derive(Debug)]
pub struct Inspection {
    /// Its name.
    pub name: String,
    /// The names from it to the target with a provider; only its own name if it is one.
    pub chain: Vec<String>,
    /// The chain for messages: `default → gpt`.
    pub shown_chain: String,
    /// Its provider, if the file or a known word names it.
    pub provider: Option<String>,
    /// The environment variables that it refers to.
    pub variables: Vec<Variable>,
    /// The findings about it.
    pub findings: Vec<Finding>,
    /// The findings about the `command` by which AgentV reaches it.
    pub agentv: Vec<Finding>,
    /// The words of that command, if it is a plain call of this program.
    pub call: Option<Vec<String>>,
    /// Who can run it.
    pub run_by: RunBy,
}

/// An environment variable that a target refers to; its value is never exposed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Whether it has a value.
    pub set: bool,
    /// Whether the target works without it.
    pub has_default: bool,
}

/// Who can run a target.
#[derive(Debug)]
pub enum RunBy {
    /// This program.
    Us(Target),
    /// `agentv eval` alone.
    Agentv,
    /// Nothing, until its errors are fixed.
    Nobody,
}

impl TargetsFile {
    /// Follows and reads one target, recording all problems instead of stopping at the first.
    pub fn inspect(&self, name: &str, env: &Env) -> Result<Inspection, Failure> {
        let (path, followed) = self.follow(name, env)?;
        let mut inspection = Inspection {
            name: name.to_owned(),
            chain: path.entries.iter().map(|entry| entry.name.clone()).collect(),
            shown_chain: path.shown.clone(),
            provider: None,
            variables: variables(&path, env),
            findings: Vec::new(),
            agentv: Vec::new(),
            call: None,
            run_by: RunBy::Nobody,
        };
        match followed {
            Ok(()) => self.inspect_end(&path, env, &mut inspection),
            Err(invalid) => inspection.findings.extend(invalid.findings()),
        }
        inspection.findings.extend(self.dangling(&path, env));
        Ok(inspection)
    }

    fn inspect_end(&self, path: &Path<'_>, env: &Env, inspection: &mut Inspection) {
        let entry = path.end();
        let word = entry.get("provider").and_then(Node::as_str).unwrap_or_default();
        let literal = !word.contains("${{");
        let resolved = interpolate(word, env, |_| {});
        let resolved = resolved.trim();
        let kind = ProviderKind::find(resolved);
        // A value from the environment is shown only if it is a known word.
        inspection.provider = match kind {
            Some(kind) => Some(kind.name.to_owned()),
            None => (!word.is_empty()).then(|| word.trim().to_owned()),
        };
        if kind.is_none() && entry.is_for_agentv(resolved) {
            inspection.run_by = RunBy::Agentv;
            let which = if literal { format!("`{}`", word.trim()) } else { "this provider".to_owned() };
            inspection.findings.push(Finding::new(Level::Note, format!("only `agentv eval` runs {which}")));
            return;
        }
        let mut problems = Problems::default();
        let target = entry.read(self.scope(path, env), &mut problems);
        let failed = problems.has_errors();
        inspection.findings.extend(problems.findings());
        if let (Ok(target), false) = (target, failed) {
            inspection.run_by = RunBy::Us(target);
        }
        if kind.is_some_and(|kind| kind.backend == Backend::GithubActions) {
            let checked = command::check(entry, env, &self.aliases(entry, env), self.names());
            (inspection.agentv, inspection.call) = (checked.findings, checked.call);
        }
    }

    /// The names that lead to a target, its own first.
    fn aliases(&self, end: &TargetEntry, env: &Env) -> Vec<String> {
        let mut names = vec![end.name.clone()];
        for entry in &self.entries {
            let leads_there = self.follow(&entry.name, env).is_ok_and(|(path, followed)| {
                followed.is_ok() && path.end().name == end.name && entry.name != end.name
            });
            if leads_there {
                names.push(entry.name.clone());
            }
        }
        names
    }

    /// Other targets that AgentV would not find, including those of a link.
    fn dangling(&self, path: &Path<'_>, env: &Env) -> Vec<Finding> {
        let mut problems = Problems::default();
        for entry in &path.entries {
            for key in ["grader_target", "judge_target", "fallback_targets"] {
                let Some(value) = entry.get(key) else { continue };
                for node in value.items().unwrap_or_else(|| std::slice::from_ref(value)) {
                    let Some(text) = node.as_str() else { continue };
                    let wanted = interpolate(text, env, |_| {});
                    if wanted.trim().is_empty() || self.entry(wanted.trim()).is_some() {
                        continue;
                    }
                    let hint = Some(self.listed());
                    problems.warning(
                        &node.span,
                        format!(
                            "`{key}` of `{}` names no target of this file: `{}`",
                            entry.name,
                            text.trim()
                        ),
                        hint,
                    );
                }
            }
        }
        problems.findings()
    }
}

/// Every variable on the way, in file order, each once.
fn variables(path: &Path<'_>, env: &Env) -> Vec<Variable> {
    let mut found: Vec<Variable> = Vec::new();
    for entry in &path.entries {
        each_text(&entry.node, &mut |text| {
            for reference in references(text) {
                let has_default = reference.default.is_some();
                match found.iter_mut().find(|known| known.name == reference.name) {
                    // A default in one place does not help the other places.
                    Some(known) => known.has_default &= has_default,
                    None => found.push(Variable {
                        name: reference.name.to_owned(),
                        set: env.get(reference.name).is_some(),
                        has_default,
                    }),
                }
            }
        });
    }
    found
}

fn each_text(node: &Node, each: &mut impl FnMut(&str)) {
    match &node.value {
        NodeValue::String(text) => each(text),
        NodeValue::List(items) => items.iter().for_each(|item| each_text(item, each)),
        NodeValue::Map(entries) => entries.iter().for_each(|(_, value)| each_text(value, each)),
        _ => {}
    }
}
