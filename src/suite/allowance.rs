//! Limits the text of a suite: a short suite can repeat a long value, or its input, many times.

/// The most bytes inserted for variables.
const FILLED: usize = 64 << 20;
/// The most bytes of all messages.
const MESSAGES: usize = 1 << 30;

/// The remaining bytes of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    filled: usize,
    messages: usize,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { filled: FILLED, messages: MESSAGES }
    }
}

/// The limit that was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// The error message.
    pub message: &'static str,
    /// The hint.
    pub hint: &'static str,
}

impl Allowance {
    /// Counts the bytes of an inserted value.
    pub(super) fn fill(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.filled = self.filled.checked_sub(bytes).ok_or(TooLarge {
            message: "the values of `vars` fill in more than 64 MiB of text",
            hint: "use shorter values, or use them less often",
        })?;
        Ok(())
    }

    /// Counts the bytes of a message.
    pub(super) fn message(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.messages = self.messages.checked_sub(bytes).ok_or(TooLarge {
            message: "the messages of the suite have more than 1 GiB of text",
            hint: "split the suite, or attach long texts as files, which are sent once",
        })?;
        Ok(())
    }
}
