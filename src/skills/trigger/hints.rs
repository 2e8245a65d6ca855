//! The way out, where the service does not do what it should.

/// Where nobody answers.
pub(super) const UNREACHABLE: &str = "check the address, the network and the proxy variables; a certificate of your own CA is trusted with `--ca-file` or the \
                           variable `RUN_EVALS_SERVE_CA`";

/// The way out of a refusal.
pub(super) fn hint(status: u16) -> Option<&'static str> {
    Some(match status {
        401 => {
            "the service does not know this token: set `RUN_EVALS_SERVE_TOKEN` to the one the service was started with"
        }
        403 => "the service takes requests from certain addresses only: add that of this machine to its list",
        404 => {
            "the default branch of the library has no such component, or the address is not that of the service"
        }
        200..=299 | 400 | 413 => "the address may not be that of a `run-evals serve` of this version",
        429 => "too many attempts with a wrong token: wait, and correct it",
        503 => "the service could not bring its clones up to date: its log says why",
        500.. => "the service, or the proxy before it, has trouble: its log says why",
        300..=399 => "redirects are not followed: name the address that the service itself has",
        _ => return None,
    })
}

/// The way out of silence.
pub(super) fn silence(sent: bool) -> &'static str {
    if sent { "the service may have begun all the same: its list of jobs says so" } else { UNREACHABLE }
}
