//! The dispatcher role: plan a batch, collect its responses.
