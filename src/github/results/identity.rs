//! The workflow run and job of a runtime token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

/// The service's ids of a run and a job; not the numbers of the REST API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) run: String,
    pub(super) job: String,
}

impl Identity {
    /// Reads the token's claims. The service verifies the token.
    pub(super) fn of_token(token: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Claims {
            scp: String,
        }
        let payload = token.split('.').nth(1)?;
        let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
        let Claims { scp } = serde_json::from_slice(&payload).ok()?;
        scp.split(' ').find_map(|scope| match *scope.split(':').collect::<Vec<_>>() {
            ["Actions.Results", run, job] if !run.is_empty() && !job.is_empty() => {
                Some(Self { run: run.to_owned(), job: job.to_owned() })
            }
            _ => None,
        })
    }

    /// GitHub's ids are UUIDs. `act` and servers with the first protocol version use numbers.
    pub(super) fn is_numeric(&self) -> bool {
        self.run.bytes().all(|byte| byte.is_ascii_digit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn the_scope_names_run_and_job() {
        let identity = |claims: &str| Identity::of_token(&token(claims)).map(|ids| (ids.run, ids.job));
        let found = identity(r#"{"scp":"Actions.GenericRead:1 Actions.Results:a-1:b-2 Other:x:y"}"#);
        assert_eq!(found, Some(("a-1".to_owned(), "b-2".to_owned())));
        assert_eq!(identity(r#"{"scp":"Actions.Results:a-1"}"#), None);
        assert_eq!(identity(r#"{"scp":"Actions.Results:a:b:c"}"#), None);
        assert_eq!(identity("{}"), None);
        assert_eq!(Identity::of_token("no token"), None);
    }
}
