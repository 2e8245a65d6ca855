//! How a command ends: the exit codes, and the error that carries one.

use std::fmt;

/// The exit codes, the same for every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Ok = 0,
    /// A failure that is neither invalid input nor an incomplete result.
    Failure = 1,
    /// Invalid command line.
    Usage = 2,
    /// Invalid configuration or input file.
    Config = 3,
    /// Finished, but below the threshold or worse than the baseline.
    BelowThreshold = 4,
    /// Finished, but some requests have no response.
    Incomplete = 5,
    /// Another evaluation is running.
    Busy = 6,
}

impl Exit {
    /// The exit with this code; unknown codes are `Failure`.
    pub fn from_code(code: u8) -> Self {
        let all = [Self::Ok, Self::Usage, Self::Config, Self::BelowThreshold, Self::Incomplete, Self::Busy];
        all.into_iter().find(|exit| *exit as u8 == code).unwrap_or(Self::Failure)
    }

    /// The more severe one.
    pub fn or_worse(self, other: Self) -> Self {
        if other.severity() > self.severity() { other } else { self }
    }

    fn severity(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::BelowThreshold => 1,
            Self::Incomplete => 2,
            Self::Busy => 3,
            Self::Failure | Self::Usage | Self::Config => 4,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error for the user: message, hint and exit code.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    /// Invalid input or configuration (exit 3).
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Exit::Config, message)
    }

    /// Adds the hint: how to fix it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// How to fix it, if there is a hint.
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
