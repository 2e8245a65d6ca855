//! The environment of this process.

use std::collections::HashMap;
use std::fmt;

/// Variables of this process only, without `.env` files or anything else from a checkout. Credentials
/// (GitHub tokens, App keys, service tokens) and GitHub's URL come from here alone.
#[derive(Clone, Default)]
pub struct ProcessEnv(HashMap<String, String>);

impl ProcessEnv {
    /// Reads the environment, without names and values that are not UTF-8.
    pub fn read() -> Self {
        let utf8 = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(utf8).collect())
    }

    pub(crate) fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// The value of a variable; empty counts as unset.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Whether a variable is set, even if empty.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

// Most values are secrets.
impl fmt::Debug for ProcessEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessEnv({} values)", self.0.len())
    }
}
