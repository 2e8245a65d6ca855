//! The GitHub tokens of this process, so that a message that repeats one can be redacted where it is made.
//!
//! Git and GitHub's API are called in many places, and a proxy may repeat the credentials of a request in its
//! answer. Every token is registered when it is first used.

use std::sync::{PoisonError, RwLock};

use super::redact::Redactor;
use crate::model::Secret;

static TOKENS: RwLock<Vec<(String, Redactor)>> = RwLock::new(Vec::new());

/// Registers a token for [`redact_tokens`].
pub fn register_token(token: &Secret) {
    let is_known = |tokens: &[(String, Redactor)]| tokens.iter().any(|(known, _)| known == token.expose());
    if is_known(&TOKENS.read().unwrap_or_else(PoisonError::into_inner)) {
        return;
    }
    let mut tokens = TOKENS.write().unwrap_or_else(PoisonError::into_inner);
    if !is_known(&tokens) {
        tokens.push((token.expose().to_owned(), Redactor::new([token])));
    }
}

/// Replaces every registered token. Call it before a text is truncated.
pub fn redact_tokens(text: String) -> String {
    let tokens = TOKENS.read().unwrap_or_else(PoisonError::into_inner);
    tokens.iter().fold(text, |text, (_, redactor)| redactor.redact(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_tokens_are_redacted() {
        let token = Secret::new("ghp_registered0123456789");
        register_token(&token);
        register_token(&token);
        assert_eq!(redact_tokens("token ghp_registered0123456789.".to_owned()), "token ***.");
    }
}
