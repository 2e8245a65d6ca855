//! How much text a suite may become: a short one can repeat a long value, or the input of the suite, many times.

/// The most bytes that variables fill in.
const FILLED: usize = 64 << 20;
/// The most bytes of all messages.
const MESSAGES: usize = 1 << 30;

/// What is left of both.
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

/// Why there is no more text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// What is wrong.
    pub message: &'static str,
    /// What to do.
    pub hint: &'static str,
}

impl Allowance {
    /// Takes the bytes of a value that is filled in.
    pub(super) fn fill(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.filled = self.filled.checked_sub(bytes).ok_or(TooLarge {
            message: "the values of `vars` fill in more than 64 MiB of text",
            hint: "use shorter values, or use them less often",
        })?;
        Ok(())
    }

    /// Takes the bytes of a message.
    pub(super) fn message(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.messages = self.messages.checked_sub(bytes).ok_or(TooLarge {
            message: "the messages of the suite have more than 1 GiB of text",
            hint: "split the suite, or attach long texts as files, which are sent once",
        })?;
        Ok(())
    }
}
