//! Hints for failed requests to the service.

/// If the service does not respond.
pub(super) const UNREACHABLE: &str = "check the address, the network and the proxy variables; a certificate of your own CA is trusted with `--ca-file` or the \
                           variable `RUN_EVALS_SERVE_CA`";

/// The hint for an error status.
pub(super) fn hint(status: u16) -> Option<&'static str> {
    Some(match status {
        401 => {
            "the service rejected this token: set `RUN_EVALS_SERVE_TOKEN` to the one the service was started with"
        }
        403 => "the service accepts only certain addresses: add this machine's to its list",
        404 => {
            "the default branch of the library does not have this component, or this is not the service's address"
        }
        200..=299 | 400 | 413 => "the address may not belong to `run-evals serve` of this version",
        429 => "too many attempts with a wrong token: wait, and fix the token",
        503 => "the service could not update its clones: see its log",
        500.. => "the service or its proxy failed: see its log",
        300..=399 => "redirects are not followed: use the service's own address",
        _ => return None,
    })
}

/// The hint for a missing response.
pub(super) fn silence(sent: bool) -> &'static str {
    if sent { "the service may have started it anyway: check its list of jobs" } else { UNREACHABLE }
}
