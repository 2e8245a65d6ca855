//! The errors of an evaluation, for the client that requested it.

use std::fmt;

use crate::model;
use crate::model::{Exit, printable_lines};

/// Why a checkout failed.
#[derive(Debug)]
pub struct CheckoutError {
    /// The kind of problem.
    pub problem: CheckoutProblem,
    failure: model::Failure,
}

/// The kinds of problem before the first call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckoutProblem {
    /// The commit has no such skill (404).
    UnknownSkill,
    /// The default branch has no such commit (422).
    UnknownSha,
    /// The commit is known, but is not part of the default branch (422).
    NotAncestor,
    /// The skill has no case that can run (422).
    NothingToRun,
    /// The remote could not be reached or does not let us in, or the clone could not be written (503).
    Pull,
    /// The clone has commits that the remote does not have, or the remote's history was rewritten (503).
    Diverged,
    /// The clone or the checkout has changes that are not committed (503).
    Dirty,
    /// The commit or the default branch cannot be evaluated (a failed job).
    Invalid,
}

impl CheckoutError {
    /// A problem with a message.
    pub(super) fn new(problem: CheckoutProblem, message: impl Into<String>) -> Self {
        let exit = match problem {
            CheckoutProblem::Pull | CheckoutProblem::Diverged => Exit::Failure,
            _ => Exit::Config,
        };
        Self { problem, failure: model::Failure::new(exit, message) }
    }

    /// A problem in a file, with its source line.
    pub(super) fn invalid(failure: model::Failure) -> Self {
        Self { problem: CheckoutProblem::Invalid, failure }
    }

    /// Any other error, reported as this problem. A full disk is never the commit's fault.
    pub(super) fn of(problem: CheckoutProblem, error: anyhow::Error) -> Self {
        match error.downcast::<model::Failure>() {
            Ok(failure) => Self { problem, failure },
            Err(error) if is_full(&format!("{error:#}")) => Self::new(CheckoutProblem::Pull, told(&error)),
            Err(error) => Self::new(problem, told(&error)),
        }
    }

    /// Adds a hint.
    #[must_use]
    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { failure: self.failure.hint(hint), ..self }
    }
}

impl fmt::Display for CheckoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_whole(&self.failure, f)
    }
}

impl std::error::Error for CheckoutError {}

impl From<CheckoutError> for model::Failure {
    fn from(error: CheckoutError) -> Self {
        error.failure
    }
}

/// Why an evaluation that was checked out has no result.
#[derive(Debug)]
pub struct Failure {
    failure: model::Failure,
    stopped: bool,
}

impl Failure {
    /// It was stopped: all responses are kept, and the same id resumes it.
    pub(super) fn stopped(message: impl Into<String>) -> Self {
        Self { failure: model::Failure::new(Exit::Incomplete, message), stopped: true }
    }

    /// Whether it was stopped, and can be resumed with the same id.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_whole(&self.failure, f)
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for model::Failure {
    fn from(failure: Failure) -> Self {
        failure.failure
    }
}

impl From<model::Failure> for Failure {
    fn from(failure: model::Failure) -> Self {
        Self { failure, stopped: false }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        match error.downcast::<model::Failure>() {
            Ok(failure) => failure.into(),
            Err(error) => model::Failure::new(Exit::Failure, told(&error)).into(),
        }
    }
}

/// The message and the hint.
fn write_whole(failure: &model::Failure, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{failure}")?;
    match failure.hint_text() {
        Some(hint) => write!(f, "\nhint: {hint}"),
        None => Ok(()),
    }
}

/// An error with its causes, one per line; a full disk is reported first.
fn told(error: &anyhow::Error) -> String {
    let text = printable_lines(&format!("{error:#}"));
    if is_full(&text) { format!("the disk is full: {text}") } else { text }
}

fn is_full(text: &str) -> bool {
    ["No space left on device", "Disk quota exceeded"].iter().any(|words| text.contains(words))
}
