//! The integration tests: everything through the binary.
