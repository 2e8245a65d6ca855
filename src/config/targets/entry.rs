//! One entry of the file: a link to another target, or a target with a provider.

use std::path::Path;

use super::keys::{LINK, of_kind};
use super::settings::{Scope, Settings, UnknownValue};
use super::values::Legal;
use super::{remote, runner};
use crate::config::{Node, Problems, Span, did_you_mean};
use crate::model::{Backend, ONLY_AGENTV, PROVIDERS, ProviderKind, Target};

/// A target as written in the file.
#[derive(Debug)]
pub(super) struct TargetEntry {
    pub(super) name: String,
    pub(super) name_span: Span,
    pub(super) node: Node,
    /// The value of `use_target`.
    pub(super) link: Option<Node>,
}

impl TargetEntry {
    /// Reads an entry and records every problem with its shape.
    pub(super) fn check(number: usize, node: &Node, dir: &Path, problems: &mut Problems) -> Option<Self> {
        let mut fields = node.fields(&format!("target {number}"), problems)?;
        let unnamed = format!("#{number}");
        let name = match fields.get("name") {
            None => {
                let message = format!("target `{unnamed}`: `name` is missing");
                problems.error_with_hint(&node.span, message, "add `name:`, the name that `--target` takes");
                None
            }
            Some(name) => match name.as_str() {
                Some(text) if is_name(text) => Some((text.to_owned(), name.span.clone())),
                _ => {
                    let message = "`name`: expected text on one line without `${{ … }}`".to_owned();
                    problems.error(&name.span, message);
                    None
                }
            },
        };
        let (name, name_span) = name.unwrap_or((unnamed, node.span.clone()));
        let link = fields.get("use_target").cloned();
        let entry = Self { name, name_span, node: node.clone(), link };
        let scope = Scope { target: &entry.name, chain: "", dir, files: None, env: None, warned: false };
        // Its value needs the environment; here only the recorded problems count.
        let _ = if entry.link.is_some() {
            entry.check_link(scope, problems)
        } else {
            entry.read(scope, problems).map(drop)
        };
        Some(entry)
    }

    /// Whether its settings could be checked without the environment.
    pub(super) fn was_checked(&self) -> bool {
        self.get("provider").and_then(Node::as_str).is_some_and(|text| !text.contains("${{"))
    }

    /// Whether only AgentV supports this provider: any word with a `command` is one.
    pub(super) fn is_for_agentv(&self, word: &str) -> bool {
        ONLY_AGENTV.contains(&word.to_ascii_lowercase().as_str())
            || !word.is_empty() && self.get("command").is_some_and(|node| !node.is_null())
    }

    /// The raw value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        let entries = self.node.entries().unwrap_or_default();
        entries.iter().find(|(known, _)| known.text == key).map(|(_, node)| node)
    }

    /// Reads the settings of a target with a provider.
    pub(super) fn read(&self, scope: Scope<'_>, problems: &mut Problems) -> Result<Target, UnknownValue> {
        let mut settings = self.settings(scope, problems)?;
        let Some(provider) = settings.get("provider")? else {
            let message = format!("target `{}`: neither `provider` nor `use_target`", self.name);
            return Err(settings.error(
                &self.name_span,
                message,
                format!("add `provider:`, one of {}", ours()),
            ));
        };
        let word = provider.text().unwrap_or_default().trim();
        let Some(kind) = ProviderKind::find(word) else {
            return Err(match (self.is_for_agentv(word), scope.env) {
                // The file is AgentV's, too.
                (true, None) => UnknownValue,
                (true, Some(_)) => settings.error(
                    &provider.node.span,
                    format!("target `{}`: only `agentv eval` runs this provider", self.name),
                    format!("choose a target whose provider is one of {}", ours()),
                ),
                (false, _) => {
                    let legal = Legal::from(format!("one of {}", ours()));
                    let near =
                        did_you_mean(&word.to_ascii_lowercase(), PROVIDERS.iter().map(|kind| kind.name))
                            .filter(|_| provider.variable.is_none());
                    let legal = match near {
                        Some(near) => legal.hint(format!("did you mean `{near}`?")),
                        None => legal,
                    };
                    settings.wrong("provider", &provider, legal)
                }
            });
        };
        settings.expect(of_kind(kind));
        let target = match kind.backend {
            Backend::Api(_) | Backend::Mock => {
                runner::read(kind, &mut settings).map(|target| Target::Runner(target.into()))
            }
            Backend::GithubActions => remote::read(&mut settings).map(|target| Target::Remote(target.into())),
        };
        common(&mut settings);
        if kind.backend == Backend::GithubActions {
            // AgentV's; a runner has its own.
            let _ = (settings.positive("workers"), runner::retry(&mut settings));
        }
        settings.finish(&format!("for provider `{}`", kind.name));
        target
    }

    fn check_link(&self, scope: Scope<'_>, problems: &mut Problems) -> Result<(), UnknownValue> {
        let mut settings = self.settings(scope, problems)?;
        settings.expect(LINK);
        let link = settings.text("use_target");
        common(&mut settings);
        let _ = (settings.positive("workers"), runner::retry(&mut settings));
        settings.finish("beside `use_target`");
        link.map(drop)
    }

    fn settings<'a, 'p>(
        &'a self,
        scope: Scope<'a>,
        problems: &'p mut Problems,
    ) -> Result<Settings<'a, 'p>, UnknownValue> {
        let fields = self.node.fields("target", problems).ok_or(UnknownValue)?;
        Ok(Settings::new(fields, &self.name_span, scope, problems))
    }
}

/// Checks the keys that AgentV allows in every target.
fn common(settings: &mut Settings<'_, '_>) {
    let _ = (
        settings.flag("provider_batching"),
        settings.flag("subagent_mode_allowed"),
        settings.strings("fallback_targets"),
    );
    let grader = settings.spelled("grader_target");
    let _ = settings.text(grader);
}

fn is_name(text: &str) -> bool {
    !text.trim().is_empty()
        && text.trim() == text
        && !text.contains(char::is_control)
        && !text.contains("${{")
}

fn ours() -> String {
    PROVIDERS.iter().map(|kind| format!("`{}`", kind.name)).collect::<Vec<_>>().join(", ")
}
