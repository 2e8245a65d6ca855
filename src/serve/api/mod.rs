//! The endpoints, one in a file.

mod health;

pub(super) use health::health;
