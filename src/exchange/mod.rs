//! Where a batch and its results lie between dispatcher and runner.
