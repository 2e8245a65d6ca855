//! Batch archives: deterministic to write, checked to read.
