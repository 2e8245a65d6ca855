//! The default author of commits.

/// The name.
pub(super) const NAME: &str = "run-evals";

/// The address. GitHub attributes a commit to the account that has verified its address, and `NAME@users.noreply.github.com` is the
/// address of the account or App called NAME. No mail server can exist below `.invalid` (RFC 2606), so no account can claim this one.
pub(super) const ADDRESS: &str = "run-evals@run-evals.invalid";

/// Both, as git writes them.
pub(super) const IDENTITY: &str = "run-evals <run-evals@run-evals.invalid>";

#[test]
fn identity_is_name_and_address() {
    assert_eq!(IDENTITY, format!("{NAME} <{ADDRESS}>"));
}
