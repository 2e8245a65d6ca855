//! The primary rate limit: how many requests each caller has left, and until when.

use std::collections::BTreeMap;

use crate::wire::TokenKind;
use crate::world::Token;

const HOUR: i64 = 3600;

/// The windows of all callers.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    windows: BTreeMap<String, Window>,
}

/// The remaining requests of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Requests per hour.
    pub(crate) limit: u64,
    /// Used requests.
    pub(crate) used: u64,
    /// When the hour ends, in seconds.
    pub(crate) reset: i64,
}

impl Window {
    /// The remaining requests.
    pub(crate) fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

impl Limits {
    /// The window of a caller; takes `cost` requests from it.
    pub(crate) fn take(&mut self, who: &str, limit: u64, cost: u64) -> Window {
        let now = crate::world::now().as_second();
        let fresh = Window { limit, used: 0, reset: now + HOUR };
        let window = self.windows.entry(who.to_owned()).or_insert(fresh);
        if window.reset <= now {
            *window = fresh;
        }
        window.used += cost;
        *window
    }

    /// Exhausts the limit of a caller for this long.
    pub(crate) fn use_up(&mut self, who: &str, limit: u64, seconds: u64) {
        let reset = crate::world::now().as_second() + i64::try_from(seconds).unwrap_or(HOUR);
        self.windows.insert(who.to_owned(), Window { limit, used: limit, reset });
    }
}

/// Whose window a token uses, and its size.
pub(crate) fn bucket(token: Option<&Token>) -> (String, u64) {
    match token {
        None => ("anonymous".to_owned(), 60),
        Some(token) if token.kind == TokenKind::Job => {
            (format!("job of {}", token.grants.keys().next().map_or("", String::as_str)), 1000)
        }
        Some(token) => (format!("user {}", token.login), 5000),
    }
}
