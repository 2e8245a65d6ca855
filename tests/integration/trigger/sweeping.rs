//! What was left out is fired again, and nothing twice.

#[test]
fn nothing_yet() {}
