//! The primary rate limit: who has how many requests left until when.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::wire::TokenKind;
use crate::world::Token;

const HOUR: i64 = 3600;

/// The windows of all who asked.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    windows: BTreeMap<String, Window>,
}

/// What somebody has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// In an hour.
    pub(crate) limit: u64,
    /// Of these.
    pub(crate) used: u64,
    /// When the hour is over, in seconds.
    pub(crate) reset: i64,
}

impl Window {
    /// What is left.
    pub(crate) fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

impl Limits {
    /// The window of somebody; `cost` requests are taken from it.
    pub(crate) fn take(&mut self, who: &str, limit: u64, cost: u64) -> Window {
        let now = Timestamp::now().as_second();
        let fresh = Window { limit, used: 0, reset: now + HOUR };
        let window = self.windows.entry(who.to_owned()).or_insert(fresh);
        if window.reset <= now {
            *window = fresh;
        }
        window.used += cost;
        *window
    }

    /// Leaves nothing to somebody for so long.
    pub(crate) fn use_up(&mut self, who: &str, limit: u64, seconds: u64) {
        let reset = Timestamp::now().as_second() + i64::try_from(seconds).unwrap_or(HOUR);
        self.windows.insert(who.to_owned(), Window { limit, used: limit, reset });
    }
}

/// Whose window a token uses, and how large it is.
pub(crate) fn bucket(token: Option<&Token>) -> (String, u64) {
    match token {
        None => ("anonymous".to_owned(), 60),
        Some(token) if token.kind == TokenKind::Job => {
            (format!("job of {}", token.grants.keys().next().map_or("", String::as_str)), 1000)
        }
        Some(token) => (format!("user {}", token.login), 5000),
    }
}
