//! From a name to its target: `use_target` links, then the environment.

use super::TargetsFile;
use super::entry::TargetEntry;
use super::settings::Scope;
use crate::config::{Env, Invalid, Node, Problems, did_you_mean, interpolate, listed};
use crate::model::{Failure, Target};

/// The number of links that AgentV follows.
const MOST_LINKS: usize = 10;

/// The way from a name to a target with a provider.
pub(super) struct Path<'f> {
    pub(super) entries: Vec<&'f TargetEntry>,
    /// The way in messages: `default → ${{ X }} = gpt`.
    pub(super) shown: String,
}

impl<'f> Path<'f> {
    /// The last entry.
    pub(super) fn end(&self) -> &'f TargetEntry {
        self.entries[self.entries.len() - 1]
    }

    /// The links, empty if there are none.
    pub(super) fn chain(&self) -> &str {
        if self.entries.len() > 1 { self.shown.as_str() } else { "" }
    }
}

impl TargetsFile {
    /// Follows `use_target` from a name to a target with a provider, then resolves that target's references. A reference may be
    /// part of a value (`https://${{ HOST }}/v1`), which AgentV would not replace.
    pub fn resolve(&self, name: &str, env: &Env) -> Result<Target, Failure> {
        let (path, followed) = self.follow(name, env)?;
        followed?;
        let mut problems = Problems::default();
        let target = path.end().read(self.scope(&path, env), &mut problems);
        for warning in problems.finish()? {
            tracing::warn!("{warning}");
        }
        Ok(target.expect("with an environment, what is unknown was noted as an error"))
    }

    /// The grader target that a target names, at the end of its own `use_target` chain.
    pub fn grader_of(&self, name: &str, env: &Env) -> Result<Option<String>, Failure> {
        let (path, ended) = self.follow(name, env)?;
        ended?;
        let entry = path.end();
        let grader = entry.get("grader_target").or_else(|| entry.get("judge_target")).and_then(Node::as_str);
        Ok(grader.map(|text| interpolate(text.trim(), env, |_| ())).filter(|name| !name.is_empty()))
    }

    /// The target behind a name, as far as it is known without its keys.
    pub fn resolve_without_keys(&self, name: &str, env: &Env) -> Option<Target> {
        let mut env = env.clone();
        env.set_where_unset(self.secret_names(), "unset");
        env.assume_job();
        self.resolve(name, &env).ok()
    }

    /// Whether a target has `auth`, so that it needs no stored key.
    pub fn is_keyless(&self, name: &str) -> bool {
        self.follow(name, &Env::default()).is_ok_and(|(path, _)| {
            let entries = path.end().node.entries().unwrap_or_default();
            entries.iter().any(|(key, _)| key.text == "auth")
        })
    }

    /// The scope in which the settings of the last entry are read.
    pub(super) fn scope<'a>(&'a self, path: &'a Path<'a>, env: &'a Env) -> Scope<'a> {
        let entry = path.end();
        let chain = path.chain();
        let (dir, files) = (&self.dir, self.files.as_ref());
        Scope { target: &entry.name, chain, dir, files, env: Some(env), warned: entry.was_checked() }
    }

    /// The way from a name, as far as it leads, and why it stops there.
    pub(super) fn follow(&self, name: &str, env: &Env) -> Result<(Path<'_>, Result<(), Invalid>), Failure> {
        let Some(first) = self.entry(name) else {
            let hint = match did_you_mean(name, self.names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if self.entries.is_empty() => self.listed(),
                None => format!("`--target` chooses one; {}", self.listed()),
            };
            return Err(
                Failure::config(format!("no target `{name}` in `{}`", self.shown_as.display())).hint(hint)
            );
        };
        let mut path = Path { entries: vec![first], shown: first.name.clone() };
        let followed = self.walk(&mut path, env);
        Ok((path, followed))
    }

    fn walk<'f>(&'f self, path: &mut Path<'f>, env: &Env) -> Result<(), Invalid> {
        let mut entry = path.end();
        while let Some(link) = &entry.link {
            let text = link.as_str().unwrap_or_default().trim();
            let mut unset = None;
            let wanted = interpolate(text, env, |name| unset = Some(name.to_owned()));
            let shown = format!("{} → {text}", path.shown);
            path.shown.clone_from(&shown);
            if let Some(variable) = unset {
                let message = format!("`use_target` does not resolve: {shown} (unset)");
                let hint = format!("set `{variable}` to the name of a target; {}", self.listed());
                return Err(invalid(link, message, hint));
            }
            // Show the name only if it is in the file: a variable may hold anything.
            let Some(next) = self.entry(wanted.trim()) else {
                let near = did_you_mean(text, self.names()).filter(|_| !text.contains("${{"));
                let hint = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => self.listed(),
                };
                return Err(invalid(
                    link,
                    format!("`use_target` does not resolve: {shown} (no such target)"),
                    hint,
                ));
            };
            path.shown = if text.contains("${{") { format!("{shown} = {}", next.name) } else { shown };
            if path.entries.iter().any(|seen| seen.name == next.name) {
                let message = format!("`use_target` is circular: {}", path.shown);
                return Err(invalid(link, message, "give one of these targets a `provider` instead"));
            }
            if path.entries.len() > MOST_LINKS {
                let message =
                    format!("`use_target` is nested more than {MOST_LINKS} levels deep: {}", path.shown);
                return Err(invalid(link, message, "let the first name its target directly"));
            }
            path.entries.push(next);
            entry = next;
        }
        Ok(())
    }

    pub(super) fn entry(&self, name: &str) -> Option<&TargetEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    pub(super) fn listed(&self) -> String {
        if self.entries.is_empty() {
            "the file has no targets".to_owned()
        } else {
            format!("its targets: {}", listed(self.names()))
        }
    }
}

fn invalid(node: &Node, message: impl Into<String>, hint: impl Into<String>) -> Invalid {
    let mut problems = Problems::default();
    problems.error_with_hint(&node.span, message, hint);
    problems.check(()).expect_err("an error was noted")
}
