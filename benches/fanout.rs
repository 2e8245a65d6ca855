//! How fast the runner fans out.

fn main() {}
