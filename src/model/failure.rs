//! How a command ends: the exit codes and the error that carries one.

use std::fmt;

/// The exit codes, the same for every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Ok = 0,
    /// Something failed that is neither the user's input nor an incomplete result.
    Failure = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A configuration or input file is invalid.
    Config = 3,
    /// Finished, but below the threshold or worse than the baseline.
    BelowThreshold = 4,
    /// Finished, but incomplete: some requests have no answer.
    Incomplete = 5,
    /// Busy: another evaluation is running.
    Busy = 6,
}

impl Exit {
    /// The exit with this code; a failure where there is none.
    pub fn from_code(code: u8) -> Self {
        let all = [Self::Ok, Self::Usage, Self::Config, Self::BelowThreshold, Self::Incomplete, Self::Busy];
        all.into_iter().find(|exit| *exit as u8 == code).unwrap_or(Self::Failure)
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error for the user: what is wrong, how to mend it, and the exit code it means.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// A failure with any exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    /// The input or configuration is invalid (exit 3).
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Exit::Config, message)
    }

    /// Adds the line that tells the way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The exit code that this failure means.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// The way out, if there is one to tell.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
