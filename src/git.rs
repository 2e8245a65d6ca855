//! The git command line, wrapped.
