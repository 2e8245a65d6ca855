//! What can be told without a repository.
