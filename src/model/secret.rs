//! Secrets that never print.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};

const MASK: &str = "***";

/// A key or token. `Debug` and `Display` print `***`.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Trims the value: secrets pasted into CI often end with white space.
    pub fn new(value: &str) -> Self {
        Self(SecretString::from(value.trim().to_owned()))
    }

    /// The value, for the one header that needs it.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_print() {
        let secret = Secret::new("sk-fake-0001\n");
        assert_eq!(format!("{secret:?} {secret}"), "*** ***");
        assert_eq!(secret.expose(), "sk-fake-0001");
    }
}
