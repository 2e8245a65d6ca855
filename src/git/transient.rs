//! Which git failures to retry.
//!
//! Git reports network errors in the words of curl, the TLS library, HTTP/2 and its own protocol, and every
//! version has others. So this module lists the permanent failures: credentials, URL, repository and local
//! disk. Every other failure of a remote command is transient.

use super::command::GitError;
use super::remote::Remote;
use crate::model::{Exit, Failure};
use crate::util::backoff::{self, Attempts};

/// Remote commands; the last two fetch missing objects of a partial clone.
const REMOTE_COMMANDS: [&str; 5] = ["fetch", "push", "ls-remote", "ls-tree", "cat-file"];

/// What git prints before an HTTP status.
const STATUS: &str = "returned error: ";

/// The token is rejected.
const AUTHENTICATION: [&str; 5] = [
    "returned error: 401",
    "Authentication failed",
    "could not read Username",
    "could not read Password",
    "terminal prompts disabled",
];

/// Messages of a permanent 403. GitHub's rate limits also respond 403, without such a message.
const FORBIDDEN: [&str; 6] = [
    "remote: Permission to ",
    "access to repository not granted",
    "Resource not accessible",
    "archived so it is read-only",
    "SAML SSO",
    "Repository access blocked",
];

/// The server is not trusted.
const CERTIFICATE: [&str; 4] =
    ["SSL certificate", "certificate verif", "certificate problem", "unable to get local issuer"];

/// The URL is wrong.
const ADDRESS: [&str; 3] = ["not allowed", "Unsupported protocol", "is this a git repository?"];

/// The repository does not exist.
const NOT_FOUND: [&str; 4] =
    ["Repository not found", "' not found", "does not exist", "does not appear to be a git repository"];

/// A problem of this machine or of the command.
const LOCAL: [&str; 16] = [
    "No space left on device",
    "Disk quota exceeded",
    "Permission denied",
    "Operation not permitted",
    "Read-only file system",
    "not a git repository",
    "unable to create",
    "unable to write",
    "cannot lock ref",
    "unable to open object pack",
    "Out of memory",
    "out of memory",
    "usage: git",
    "unknown option",
    "invalid refspec",
    "Not a valid object name",
];

/// Rejections of a push whose outcome the server does not know or could not report.
const UNREPORTED: [&str; 5] = [
    "[remote failure]",
    "failed to report status",
    "(Internal Server Error)",
    "(failure)",
    "(unpacker error)",
];

/// Retries a remote command on transient failures. The last error gets a hint.
pub fn retry<T>(
    remote: &Remote,
    attempts: Attempts,
    command: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    retry_transient(attempts, command).map_err(|error| remote.explain(error))
}

/// Retries a remote command a few times on transient failures.
pub(super) fn retry_briefly<T>(command: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    retry_transient(backoff::CLONE.attempts(), command)
}

fn retry_transient<T>(
    mut attempts: Attempts,
    mut command: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    loop {
        match command() {
            Err(error) if GitError::is_transient(&error) && attempts.again() => {}
            result => return result,
        }
    }
}

impl GitError {
    /// Whether a retry may succeed.
    pub fn is_transient(error: &anyhow::Error) -> bool {
        error.downcast_ref::<Self>().is_some_and(Self::is_passing)
    }

    /// Whether a retry may succeed.
    pub fn is_passing(&self) -> bool {
        if !REMOTE_COMMANDS.contains(&self.subcommand) {
            return false;
        }
        match self.http_status() {
            // A rate limit, unless the message says otherwise.
            Some(403) => !self.says(&FORBIDDEN),
            Some(408 | 429) => true,
            Some(status) => status >= 500,
            None => {
                let permanent = [&AUTHENTICATION[..], &CERTIFICATE, &ADDRESS, &NOT_FOUND, &LOCAL];
                !permanent.iter().any(|texts| self.says(texts))
            }
        }
    }

    /// HTTP status of a failed response.
    fn http_status(&self) -> Option<u16> {
        let (_, rest) = self.stderr.rsplit_once(STATUS)?;
        rest.get(..3)?.parse().ok()
    }

    fn says(&self, texts: &[&str]) -> bool {
        texts.iter().any(|text| self.stderr.contains(text))
    }
}

/// Whether the rejection of a push leaves its outcome open.
pub(super) fn is_unreported(rejection: &str) -> bool {
    UNREPORTED.iter().any(|text| rejection.contains(text))
}

impl Remote {
    /// Why a command on this repository failed, with a hint if one is known.
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let error = match error.downcast::<GitError>() {
            Ok(error) => error,
            Err(other) => return other,
        };
        let url = self.url();
        let failure = if error.says(&AUTHENTICATION) {
            Failure::new(Exit::Failure, format!("`{url}` rejected the token for git"))
                .hint("it may have expired or been revoked; run `gh auth status`, or create a new one")
        } else if error.http_status() == Some(403) && error.is_passing() {
            Failure::new(Exit::Failure, format!("`{url}` returned 403 to git without a reason")).hint(
                "GitHub rate-limits git: wait a few minutes and try again; if it persists, check that a proxy lets \
                 git through and that the token may read and write the repository's contents",
            )
        } else if error.http_status() == Some(403) {
            Failure::new(Exit::Failure, format!("the token lacks permission for git at `{url}`")).hint(
                "it needs `Contents: read and write` there (fine-grained token or App), the scope `repo` (classic token), \
                 or `permissions: contents: write` (GITHUB_TOKEN, its own repository only)",
            )
        } else if error.says(&NOT_FOUND) || error.http_status() == Some(404) {
            Failure::new(
                Exit::Failure,
                format!("no repository at `{url}`, or not accessible with this token"),
            )
            .hint("check its name, and that the token may read it (`Contents: read`)")
        } else if error.http_status().is_some_and(|status| (300..400).contains(&status)) {
            Failure::new(Exit::Failure, format!("`{url}` has moved"))
                .hint("use the repository's current name")
        } else if error.says(&CERTIFICATE) {
            Failure::new(Exit::Failure, format!("git does not trust the certificate of `{url}`")).hint(
                "for a private CA, set the variable `SSL_CERT_FILE`; in a step with `mode: run`, set `RUN_EVALS_CA` in `env` of each job",
            )
        } else {
            return anyhow::Error::new(error).context(format!("cannot reach `{url}`"));
        };
        failure.into()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn error(subcommand: &'static str, stderr: &str) -> GitError {
        let status = Command::new("false").status().unwrap();
        GitError::new(subcommand, status, stderr.as_bytes())
    }

    #[test]
    fn network_errors_are_transient_in_any_wording() {
        for text in [
            "fatal: unable to access 'https://h/o/r.git/': Empty reply from server",
            "fatal: unable to access 'https://h/o/r.git/': gnutls_handshake() failed: The TLS connection was non-properly terminated.",
            "fatal: unable to access 'https://h/o/r.git/': OpenSSL SSL_read: Connection reset by peer, errno 104",
            "fatal: unable to access 'https://h/o/r.git/': TLS connect error: error:0A000126:SSL routines::unexpected eof while reading",
            "fatal: unable to access 'https://h/o/r.git/': GnuTLS recv error (-54): Error in the pull function.",
            "error: RPC failed; curl 92 HTTP/2 stream 0 was not closed cleanly: CANCEL (err 8)",
            "error: RPC failed; curl 16 Error in the HTTP2 framing layer\nfatal: expected flush after ref listing",
            "error: RPC failed; curl 56 Recv failure\nfatal: the remote end hung up unexpectedly",
            "error: 3 bytes of body are still expected\nfetch-pack: unexpected disconnect while reading sideband packet\nfatal: early EOF",
            "fatal: unable to access 'https://h/o/r.git/': The requested URL returned error: 502",
            "fatal: unable to access 'https://h/o/r.git/': The requested URL returned error: 429",
            "fatal: unable to access 'https://h/o/r.git/': The requested URL returned error: 408",
            "fatal: unable to access 'https://h/o/r.git/': The requested URL returned error: 403",
            "fatal: unable to access 'https://h/o/r.git/': Could not resolve host: h",
            "fatal: protocol error: bad line length character: <htm",
            "a line that no version of git writes today",
        ] {
            assert!(error("fetch", text).is_passing(), "{text}");
            assert!(!error("update-ref", text).is_passing(), "a command on this machine: {text}");
        }
    }

    #[test]
    fn permanent_errors_are_not_retried() {
        for text in [
            "remote: Permission to o/r.git denied to me.\nfatal: unable to access 'u': The requested URL returned error: 403",
            "remote: Write access to repository not granted.\nfatal: unable to access 'u': The requested URL returned error: 403",
            "remote: This repository was archived so it is read-only.\nfatal: unable to access 'u': The requested URL returned error: 403",
            "remote: Invalid username or token.\nfatal: Authentication failed for 'https://h/o/r.git/'",
            "fatal: could not read Username for 'https://h': terminal prompts disabled",
            "remote: Repository not found.\nfatal: repository 'https://h/o/r.git/' not found",
            "fatal: unable to access 'u': The requested URL returned error: 301",
            "fatal: unable to access 'u': The requested URL returned error: 410",
            "fatal: unable to access 'u': SSL certificate problem: self-signed certificate",
            "fatal: unable to access 'u': server certificate verification failed. CAfile: none CRLfile: none",
            "fatal: transport 'file' not allowed",
            "fatal: write error: No space left on device",
            "fatal: not a git repository: '/x'",
        ] {
            assert!(!error("fetch", text).is_passing(), "{text}");
        }
    }

    #[test]
    fn a_403_without_a_reason_is_not_reported_as_a_missing_permission() {
        let remote = Remote::new("https://h/o/r.git", None);
        let told = |text: &str| {
            let failure = remote.explain(error("fetch", text).into()).downcast::<Failure>().unwrap();
            format!("{failure}\nhint: {}", failure.hint_text().unwrap())
        };
        let bare = "fatal: unable to access 'u': The requested URL returned error: 403";
        insta::assert_snapshot!(told(bare), @"
        `https://h/o/r.git` returned 403 to git without a reason
        hint: GitHub rate-limits git: wait a few minutes and try again; if it persists, check that a proxy lets git through and that the token may read and write the repository's contents
        ");
        insta::assert_snapshot!(told(&format!("remote: Permission to o/r.git denied to me.\n{bare}")), @"
        the token lacks permission for git at `https://h/o/r.git`
        hint: it needs `Contents: read and write` there (fine-grained token or App), the scope `repo` (classic token), or `permissions: contents: write` (GITHUB_TOKEN, its own repository only)
        ");
    }

    #[test]
    fn a_push_without_a_report_was_not_rejected() {
        assert!(is_unreported(
            "!\trefs/heads/a:refs/heads/a\t[remote failure] (remote failed to report status)"
        ));
        assert!(is_unreported("!\trefs/heads/a:refs/heads/a\t[remote rejected] (Internal Server Error)"));
        assert!(!is_unreported(
            "!\trefs/heads/a:refs/heads/a\t[remote rejected] (push declined due to repository rule violations)"
        ));
    }
}
