//! The AgentV version of a suite, and what its keys mean.

use super::agentv4::AGENTV_4;
use crate::config::{Key, Node, Problems};

/// The content of a key, whatever its spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Values that refer to no file, command or target.
    Data,
    /// The id of a test.
    Id,
    /// The tests of a suite.
    Tests,
    /// The variables of a test.
    Vars,
    /// Messages and their attached files.
    Input,
    /// Paths of attached files.
    InputFiles,
    /// The expected answer.
    Expected,
    /// A list of assertions.
    Assertions,
    /// Commands that convert files to text.
    Preprocessors,
    /// An agent's workspace.
    Workspace,
    /// The turns of a conversation.
    Turns,
    /// How tests are run.
    Execution,
    /// The name of a target.
    Target,
    /// A list of targets.
    Targets,
    /// The path of a cache.
    Cache,
}

/// The keys of a suite in one AgentV version.
#[derive(Debug)]
pub struct Dialect {
    /// The keys of a suite.
    pub suite: Keys,
    /// The keys of a test.
    pub test: Keys,
    /// The keys of the `execution` of a suite.
    pub execution: Keys,
    /// The keys that the `execution` of a test has.
    pub test_execution: Keys,
    /// The keys of a suite that are read from the YAML file next to a `.jsonl` suite.
    pub beside_lines: &'static [&'static str],
}

/// The keys of a mapping.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    /// The keys that messages suggest.
    pub(super) current: &'static [(&'static str, Part)],
    /// Other keys that AgentV accepts.
    pub(super) old: &'static [(&'static str, Part)],
}

impl Keys {
    /// The names of the current keys.
    pub fn current(self) -> Vec<&'static str> {
        self.current.iter().map(|(name, _)| *name).collect()
    }

    /// The content of a key; `None` if it is unknown.
    pub fn part(self, name: &str) -> Option<Part> {
        self.current.iter().chain(self.old).find(|(known, _)| *known == name).map(|(_, part)| *part)
    }

    /// The names of a part, the current one first.
    pub fn names(self, part: Part) -> impl Iterator<Item = &'static str> {
        self.current.iter().chain(self.old).filter(move |(_, known)| *known == part).map(|(name, _)| *name)
    }

    /// The value of a part; a key without a value counts as absent.
    pub fn get(self, node: &Node, part: Part) -> Option<&Node> {
        let entries = node.entries()?;
        let value = |name| entries.iter().find(|(key, value)| key.text == name && !value.is_null());
        self.names(part).find_map(value).map(|(_, value)| value)
    }
}

/// How to write a suite.
const EMPTY: &str =
    "a suite has `tests`, each with `id`, `input` and `assertions`; `run-evals init` writes an example";

/// Keys of a suite that AgentV 5 has and AgentV 4 does not; promptfoo has the first three, too.
const VERSION_5: [&str; 9] = [
    "prompts",
    "providers",
    "scenarios",
    "default_test",
    "evaluate_options",
    "environment",
    "extensions",
    "derived_metrics",
    "nunjucks_filters",
];

/// `defaults` is also a common name for YAML anchors; AgentV 5's contains one of these keys.
const DEFAULTS_5: [&str; 2] = ["provider", "grader"];

/// Keys of a suite that AgentV 5 rejects.
const VERSION_4: [&str; 7] =
    ["input", "execution", "assertions", "workspace", "preprocessors", "eval_cases", "evalcases"];

/// Keys that only promptfoo has; AgentV 5 uses snake case.
const PROMPTFOO: [&str; 7] = [
    "defaultTest",
    "evaluateOptions",
    "outputPath",
    "commandLineOptions",
    "derivedMetrics",
    "nunjucksFilters",
    "redteam",
];

/// The dialect of a suite; `None` and an error if it is not a mapping or not supported.
pub(super) fn of(root: &Node, problems: &mut Problems) -> Option<&'static Dialect> {
    if root.is_null() {
        problems.error_with_hint(&root.span, "the suite is empty", EMPTY);
        return None;
    }
    root.fields("suite", problems)?;
    let Some((key, format)) = foreign(root) else { return Some(&AGENTV_4) };
    problems.error_with_hint(
        &key.span,
        format!("this is {format} (`{}`), and run-evals supports suites of AgentV 4", key.text),
        "write `input` and `assertions` in each test, and set the model in targets.yaml: `run-evals init` writes an example",
    );
    None
}

/// The format of a file that is not an AgentV 4 suite, and the key that shows it.
fn foreign(root: &Node) -> Option<(&Key, &'static str)> {
    let entries = root.entries().filter(|entries| !has_one_of(entries, &VERSION_4))?;
    let find =
        |names: &[&str]| entries.iter().map(|(key, _)| key).find(|key| names.contains(&key.text.as_str()));
    let is_new = |(key, value): &&(Key, Node)| match key.text.as_str() {
        "defaults" => value.entries().is_some_and(|keys| has_one_of(keys, &DEFAULTS_5)),
        name => VERSION_5.contains(&name),
    };
    let name = root.span.source.path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let [prompts, providers, scenarios, only_5 @ ..] = VERSION_5;
    let shared = [prompts, providers, scenarios];
    if let Some(key) = find(&PROMPTFOO) {
        return Some((key, "a promptfoo config"));
    }
    let key = entries.iter().find(is_new).map(|(key, _)| key)?;
    let is_shared = find(&shared).is_some() && find(&only_5).is_none() && key.text != "defaults";
    let format = if !is_shared {
        "a suite of AgentV 5"
    } else if name.starts_with("promptfoo") {
        "a promptfoo config"
    } else {
        "a promptfoo config or a suite of AgentV 5"
    };
    Some((key, format))
}

fn has_one_of(entries: &[(Key, Node)], names: &[&str]) -> bool {
    entries.iter().any(|(key, _)| names.contains(&key.text.as_str()))
}
