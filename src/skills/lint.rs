//! Checks whether the scoring of a library's skills works as intended: for `skills lint`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::config::Skill;
use crate::model::{Failure, FieldPath, Ratio, SkillName, printable};
use crate::scoring::fields::{self, Checks, Doubt, DoubtKind, Proposal};

/// The findings about one skill.
#[derive(Debug, Serialize)]
pub struct SkillLint {
    /// The skill.
    pub skill: SkillName,
    /// Fields whose default is doubtful.
    pub doubts: Vec<FieldDoubt>,
    /// The model that grades prose. Its verdicts are not checked here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grader: Option<String>,
    /// The score of the expected answers; should be 1.
    pub expected: Ratio,
    /// The same, reordered.
    pub permuted: Ratio,
    /// The same, reworded.
    pub reworded: Ratio,
    /// A `scoring.yaml` that resolves the doubts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal: Option<String>,
    /// Its path.
    pub path: PathBuf,
}

/// A field whose default is doubtful.
#[derive(Debug, Serialize)]
pub struct FieldDoubt {
    /// Its path.
    pub path: String,
    /// The reason.
    pub reason: &'static str,
}

impl SkillLint {
    /// Whether correct answers score less than 100 %.
    pub fn is_unsound(&self) -> bool {
        [self.expected, self.permuted, self.reworded].iter().any(|share| *share != Ratio::WHOLE)
    }

    /// The text for a terminal.
    pub fn render(&self) -> String {
        let verdict = if self.is_unsound() { "unsound" } else { "sound" };
        let mut out = format!(
            "{}: {verdict}; expected answer {}, permuted {}, reworded {}\n",
            self.skill, self.expected, self.permuted, self.reworded
        );
        if let Some(grader) = &self.grader {
            let _ =
                writeln!(out, "  `{}` grades prose; its verdicts are not checked here", printable(grader));
        }
        for doubt in &self.doubts {
            let _ = writeln!(out, "  {}: {}", printable(&doubt.path), doubt.reason);
        }
        out
    }
}

/// Reads and checks skills of a library: the given ones, or all.
pub fn lint(library: &Path, named: &[SkillName]) -> Result<Vec<SkillLint>, Failure> {
    let names = if named.is_empty() { all(library)? } else { named.to_vec() };
    names.iter().map(|name| lint_skill(library, name)).collect()
}

fn all(library: &Path) -> Result<Vec<SkillName>, Failure> {
    let folder = library.join("components");
    let cannot = |error| Failure::config(format!("cannot read `{}`: {error}", folder.display()));
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name().to_str().and_then(|name| name.parse::<SkillName>().ok());
        names.extend(name.filter(|_| entry.path().join("prompt.md").is_file()));
    }
    names.sort_unstable();
    if names.is_empty() {
        return Err(Failure::config(format!("no skill in `{}`", folder.display())).hint(
            "skills are the folders of `components` with a `prompt.md`; `--library` selects another library",
        ));
    }
    Ok(names)
}

fn lint_skill(library: &Path, name: &SkillName) -> Result<SkillLint, Failure> {
    let skill = Skill::read_with(library, name, None)?;
    let (doubts, Checks { expected, permuted, reworded }) = fields::lint(&skill);
    // A rule cannot name every key that JSON allows.
    let named: Vec<&Doubt> = doubts.iter().filter(|doubt| doubt.path.parse::<FieldPath>().is_ok()).collect();
    Ok(SkillLint {
        skill: name.clone(),
        grader: skill.rules.grader().map(|grader| grader.model.clone()),
        expected,
        permuted,
        reworded,
        proposal: (!named.is_empty()).then(|| proposal(&named)),
        path: library.join("components").join(name.as_str()).join("evals/scoring.yaml"),
        doubts: doubts
            .into_iter()
            .map(|doubt| FieldDoubt { reason: reason(&doubt), path: doubt.path })
            .collect(),
    })
}

fn reason(doubt: &Doubt) -> &'static str {
    match doubt.kind {
        DoubtKind::Prose => "prose: compared by shared words and facts, not by meaning",
        DoubtKind::UnkeyedList => "list of objects without a key: items are matched by what agrees best",
        DoubtKind::MixedTypes => "values of several types",
    }
}

/// The rules of the current defaults, for the author to change.
fn proposal(doubts: &[&Doubt]) -> String {
    let mut out = String::from(
        "# Proposed by `run-evals skills lint`; see docs/scoring.md for what each rule means.\n",
    );
    // A JSON string is a YAML string.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut section = |key: &str, line: &dyn Fn(&Doubt) -> Option<String>| {
        let lines: Vec<String> = doubts.iter().filter_map(|doubt| line(doubt)).collect();
        if !lines.is_empty() {
            let _ = writeln!(out, "{key}:\n  {}", lines.join("\n  "));
        }
    };
    section("overlap", &|doubt| {
        (doubt.proposal == Proposal::Overlap).then(|| format!("{}: 0.4", quoted(&doubt.path)))
    });
    section("key", &|doubt| match &doubt.proposal {
        Proposal::Key(field) => Some(format!("{}: [{}]", quoted(&doubt.path), quoted(field))),
        _ => None,
    });
    section("set", &|doubt| (doubt.proposal == Proposal::Set).then(|| format!("- {}", quoted(&doubt.path))));
    section("types", &|doubt| match doubt.proposal {
        Proposal::Type(kind) => Some(format!("{}: {kind}", quoted(&doubt.path))),
        _ => None,
    });
    out
}
