//! The findings about targets, as text and as JSON.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use crate::config::{Inspection, RunBy, Variable};
use crate::model::{Finding, Level, printable};

/// The width of the labels before a finding.
const WIDTH: usize = 11;

/// Findings about all targets of a file.
#[derive(Debug, Serialize)]
pub struct Report {
    pub file: String,
    pub targets: Vec<TargetReport>,
}

/// Findings about one target.
#[derive(Debug, Serialize)]
pub struct TargetReport {
    name: String,
    status: Status,
    provider: Option<String>,
    chain: Vec<String>,
    variables: Vec<Variable>,
    findings: Vec<Finding>,
    #[serde(skip)]
    shown_chain: String,
}

/// Whether a target is usable; the worst comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It can.
    Fine,
    /// Only by `agentv eval`.
    Agentv,
    /// The checks could not run.
    Unknown,
    /// It cannot be used.
    Unusable,
}

impl TargetReport {
    pub fn new(inspection: Inspection) -> Self {
        let Inspection {
            name, chain, shown_chain, provider, variables, mut findings, agentv, run_by, ..
        } = inspection;
        findings.extend(agentv);
        let has = |level| findings.iter().any(|finding| finding.level == level);
        let status = if has(Level::Error) {
            Status::Unusable
        } else if has(Level::Unknown) {
            Status::Unknown
        } else if matches!(run_by, RunBy::Agentv) {
            Status::Agentv
        } else {
            Status::Fine
        };
        Self { name, status, provider, chain, variables, findings, shown_chain }
    }
}

impl Report {
    /// The worst of all.
    pub fn worst(&self) -> Status {
        self.targets.iter().map(|target| target.status).max().unwrap_or(Status::Fine)
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for target in &self.targets {
            writeln!(f, "{target}")?;
        }
        let count = |status| self.targets.iter().filter(|target| target.status == status).count();
        let (all, file) = (self.targets.len(), printable(&self.file));
        write!(
            f,
            "{all} target{} of `{file}`: {} fine",
            if all == 1 { "" } else { "s" },
            count(Status::Fine)
        )?;
        for (status, words) in [
            (Status::Agentv, "only for `agentv eval`"),
            (Status::Unknown, "could not be checked"),
            (Status::Unusable, "cannot be used"),
        ] {
            if count(status) > 0 {
                write!(f, ", {} {words}", count(status))?;
            }
        }
        writeln!(f)
    }
}

impl Display for TargetReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", printable(&self.shown_chain))?;
        if let Some(provider) = &self.provider {
            write!(f, " ({})", printable(provider))?;
        }
        writeln!(f)?;
        if !self.variables.is_empty() {
            let shown: Vec<String> = self.variables.iter().map(|variable| self.variable(variable)).collect();
            labeled(f, "variables", &shown.join(", "))?;
        }
        for finding in &self.findings {
            labeled(f, word(finding.level), &finding.text)?;
            if let Some(hint) = &finding.hint {
                labeled(f, "", &format!("hint: {hint}"))?;
            }
        }
        if self.findings.is_empty() {
            labeled(f, word(Level::Ok), "nothing is missing")?;
        }
        Ok(())
    }
}

impl TargetReport {
    fn variable(&self, variable: &Variable) -> String {
        let state = match (variable.set, variable.has_default, self.status) {
            (true, ..) => "set",
            (false, true, _) => "not set (has a default)",
            // Some keys are optional, and some are AgentV's.
            (false, false, Status::Fine) => "not set (not needed by run-evals)",
            (false, false, _) => "not set",
        };
        format!("`{}` {state}", variable.name)
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Ok => "ok",
        Level::Note => "note",
        Level::Warning => "warning",
        Level::Unknown => "unknown",
        Level::Error => "error",
    }
}

/// A label, and a text next to it that may have several lines.
fn labeled(f: &mut Formatter<'_>, word: &str, text: &str) -> fmt::Result {
    for (number, line) in text.lines().enumerate() {
        let word = if number == 0 { word } else { "" };
        writeln!(f, "{}", format!("  {word:WIDTH$}{line}").trim_end())?;
    }
    Ok(())
}
