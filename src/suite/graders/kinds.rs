//! The table of grader kinds. Each family lists its own kinds next to their readers.

use super::entry::GraderEntry;
use super::{code, composite, fields, limits, llm, simple, trajectory};
use crate::model::Grader;
use crate::suite::loader::Loader;

/// A grader kind, by the `type` of an assertion.
pub(super) struct GraderReader {
    /// Its name.
    pub(super) name: &'static str,
    /// Reads an assertion of this kind.
    pub(super) read: fn(GraderEntry<'_>, &mut Loader) -> Option<Grader>,
}

/// All kinds by family, in the order of messages.
const FAMILIES: [&[GraderReader]; 7] = [
    simple::KINDS,
    fields::KINDS,
    limits::KINDS,
    trajectory::KINDS,
    llm::KINDS,
    code::KINDS,
    composite::KINDS,
];

/// Kinds that check an agent's actions.
const OF_AGENTS: [&str; 2] = ["skill-trigger", "inline-assert"];

/// Kinds that AgentV no longer supports.
const REPLACED: [&str; 2] = ["code-judge", "llm-judge"];

/// The old name of `rubrics`, which messages do not list.
const RUBRIC: GraderReader = GraderReader { name: "rubric", read: llm::read_rubrics };

/// The kind with this name.
pub(super) fn find(name: &str) -> Option<&'static GraderReader> {
    FAMILIES.into_iter().flatten().chain([&RUBRIC]).find(|kind| kind.name == name)
}

/// The names of all kinds.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.into_iter().flatten().map(|kind| kind.name)
}

/// Whether a kind checks an agent's actions, which only `agentv eval` supports.
pub(super) fn is_of_agents(name: &str) -> bool {
    OF_AGENTS.contains(&name)
}

/// Whether AgentV itself has or had this kind; any other is defined in `.agentv`.
pub fn is_built_in(name: &str) -> bool {
    find(name).is_some() || is_of_agents(name) || REPLACED.contains(&name)
}
