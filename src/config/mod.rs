//! Text files that people write → model, with positions.
//!
//! Every file (`source`) is read into a tree whose nodes know their position (`yaml`, `node`), so that all problems of all files
//! are reported together, each with its source line (`diagnostic`). `env` is the only source of environment values, `interpolate`
//! puts them into strings, `merge` resolves `<<`, and `roots` are the directories where references are looked up.
//! `targets` reads `targets.yaml`, `jsonl` one line of a JSONL file, `skill` reads skills and the models that they are
//! evaluated with, `policy` reads what a runner repository allows, `keyless` is what its vendors must be configured with,
//! `workflow` reads dispatch inputs and the runner job of a workflow file.

mod diagnostic;
mod env;
#[cfg(test)]
mod growth;
mod interpolate;
mod jsonl;
pub mod keyless;
mod merge;
mod node;
mod policy;
mod roots;
mod skill;
mod source;
mod targets;
mod workflow;
mod yaml;
mod yaml_hints;

pub use diagnostic::{Invalid, Problems};
pub use env::Env;
pub use interpolate::{Reference, each_reference, interpolate, interpolate_tree, references, typed};
pub use jsonl::parse_line;
pub use node::{Fields, Key, Node, NodeValue, did_you_mean, listed, unknown_hint};
pub use policy::Policy;
pub use roots::{Roots, git_root};
pub use skill::{
    Expected, Layout, LibrarySettings, ModelSettings, Models, OutputFormat, ReadData, ReadRefusal, Skill,
    SkillCase, SkillError, skill_version,
};
pub use source::{Source, Span, shown};
pub use targets::{Inspection, RunBy, TargetsFile, Variable, parse_duration, targets_schema};
pub use workflow::{RunnerJob, WorkflowInputs};
pub use yaml::Document;

pub use crate::util::path::normalized;
