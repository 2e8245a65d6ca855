//! Library errors in messages.

use std::error::Error;

/// The innermost error. The outer ones only say that a request failed.
pub fn innermost(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
